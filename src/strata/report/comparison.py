# SPDX-License-Identifier: Apache-2.0
"""Two sets of results against each other, as blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from strata.model.metric import metric_title
from strata.report.document import WRITTEN, Block, Bullets, Group, Heading, Medium, Paragraph
from strata.report.spans import TONES, Tone
from strata.report.table import Cell, Column, Table, columns
from strata.report.wording import heading
from strata.results.differences import Difference
from strata.statistics.comparison import Comparison
from strata.statistics.pair import Overall, Pair, Row
from strata.statistics.pairing import Side
from strata.statistics.survival_pair import SurvivalRow
from strata.statistics.survival_pair import Verdict as SurvivalVerdict
from strata.units import format_share, percent, significant
from strata.words import grouped, listed

_SURVIVED: Final[dict[SurvivalVerdict, Tone]] = {
    "worse": "worse",
    "better": "better",
    "equal": "",
    "not judged": "dim",
}
_SURVIVAL: Final = "What failures did"
_COUNTS: Final = "Counts per operation that differ"
_TERMINAL: Final[frozenset[Medium]] = frozenset({"terminal"})
_WIDTH_WITH_VALUES: Final = 100  # from this width on, the values stand beside their ratio
_DIFFERENCES_MAX: Final = 12
_NAME_WIDTH: Final = 20
_ENDS: Final = Column("95 % interval", "figure", tone="dim")
# How many packages, or steps, are named before they are counted.
_SINGLE_MAX: Final = 5


def verdict_sentence(pair: Pair) -> str:
    counts = Counter(row.comparison.verdict for row in pair.rows)
    found = [f"{counts[verdict]} {verdict}" for verdict in TONES if counts[verdict]]
    zone = f"the practical zone is ±{format_share(pair.zone)}"
    if not found:
        return "No metric can be compared."
    single = len(pair.rows) == len({id(row.cell) for row in pair.rows})
    of = "cell" if len(pair.rows) == 1 else "cells" if single else "metrics of cells"
    return f"Of {len(pair.rows)} {of}: {', '.join(found)}; {zone}."


def likeness_sentence(pair: Pair) -> str | None:
    """The number of trials that are identical in both; None when none is."""
    same, numbers = pair.count("identical"), pair.count("the same numbers")
    trials = f"{pair.trials} pairs of trials" if pair.trials != 1 else "one pair of trials"
    if not pair.trials:
        return "The two share no seed, so that nothing is paired."
    if same == pair.trials:
        return f"The results of all {trials} are identical byte for byte: their records have the same hashes."
    if same + numbers == pair.trials:
        return f"Every number is the same in all {trials}; only what they were asked or ran on differs."
    if same + numbers:
        return f"Of {trials}, {same + numbers} yielded the same in every number."
    return None


def doubt_sentence(pair: Pair) -> str | None:
    """Why cells are doubtful or have no rank; None if none is."""
    whys: dict[str, list[str]] = {}
    for row in pair.rows:
        said = {"not ranked": row.comparison.unranked, "doubtful": row.comparison.doubt}
        if why := said.get(row.comparison.verdict):
            whys.setdefault(f"{row.comparison.verdict} ({why})", []).append(row.cell.title)
    found = (f"{listed(list(dict.fromkeys(titles)))}: {why}" for why, titles in whys.items())
    return "; ".join(found) + "." if whys else None


def difference_groups(pair: Pair) -> Iterator[tuple[str, str, str]]:
    """Name, first and second value of each difference.

    Many packages are one line; so are many steps, where stacks or workloads differ, from which they follow.
    """
    declared = any(each.area in {"stacks", "workloads"} for each in pair.differences)
    for area, group in groupby(pair.differences, attrgetter("area")):
        found = list(group)
        if area == "packages" and len(found) > _SINGLE_MAX:
            names = ", ".join(each.name for each in found[:_SINGLE_MAX])
            yield area, f"{len(found)} differ", f"{names}, …"
        elif area == "plans" and len(found) > _SINGLE_MAX and declared:
            yield area, f"{len(found)} differ", "by what stacks and workloads declare; --json has them all"
        else:
            for each in found:
                first, second = ("–" if value is None else value for value in (each.first, each.second))
                yield difference_name(each), first, second


def difference_name(difference: Difference) -> str:
    if difference.area in {"versions", "lab", "plans"}:
        return difference.name
    single = {"packages": "package", "devices": "device", "stacks": "stack", "workloads": "workload"}
    return f"{single.get(difference.area, difference.area)} {difference.name}"


def ratio_text(comparison: Comparison) -> str:
    """The gain with three digits behind the point; exactly 1 is distinguished from rounded values."""
    ratio, interval = comparison.gain, comparison.gain_interval
    if ratio == 1 and (interval is None or interval.low == interval.high == 1):
        return "exactly 1"
    return f"{ratio:.3f}" if ratio < 9.9995 else significant(ratio, 3)


def interval_text(comparison: Comparison) -> str:
    """The interval of the gain; empty without one, or with a width of zero."""
    interval = comparison.gain_interval
    if interval is None or ratio_text(comparison) == "exactly 1":
        return ""
    return f"{interval.low:.3f} to {interval.high:.3f}"


def seeds_text(row: Row) -> str:
    """How many seeds were paired, and of how many where one set has more."""
    n, most = row.comparison.ratio.n, max(len(row.cell.first), len(row.cell.second))
    if not row.comparison.ratio.paired:
        return f"{len(row.cell.first)}, {len(row.cell.second)} unpaired"
    return str(n) if n == most else f"{n} of {most}"


_NAMES: Final[dict[str, Any]] = {
    "workload": lambda row: row.cell.workload_title,
    "stack": lambda row: row.cell.stack_title,
    "metric": lambda row: heading(row.comparison.kind),
    "all": lambda row: f"{row.cell.title}, {metric_title(row.comparison.kind)}",
}


def _rows_table(rows: Sequence[Row], names: Sequence[Column], *, with_values: bool = False) -> Table:
    made: list[tuple[Any, ...]] = []
    for row in rows:
        named = [_NAMES[each.name](row) for each in names]
        values = [Cell(value, row.comparison.kind.unit) for value in (row.first, row.second) if with_values]
        made.append((*named, *values, *_ratio_cells(row.comparison), seeds_text(row)))
    levels = columns(("A", "1"), ("B", "1")) if with_values else ()
    heads = (Column("times as good", "figure"), _ENDS, *columns("verdict", ("n", "figure")))
    return Table((*names, *levels, *heads), made)


def _ratio_cells(comparison: Comparison) -> tuple[Any, ...]:
    verdict = Cell(comparison.verdict, tone=TONES[comparison.verdict])
    return ratio_text(comparison), interval_text(comparison), verdict


def _overall_table(overall: Sequence[Overall]) -> Table:
    rows = [(each.workload or "in all", *_ratio_cells(each.comparison), each.cells) for each in overall]
    heads = (Column("geometric mean of cells", width=_NAME_WIDTH), Column("times as good", "figure"), _ENDS)
    return Table((*heads, Column("verdict"), Column("cells", "count")), rows)


def _survival_table(found: Sequence[SurvivalRow]) -> Table:
    """The damage by failures in A and in B; –: the failure was not tried there, or its damage is unknown."""
    rows = [(*astuple(each)[:-1], Cell(each.verdict, tone=_SURVIVED[each.verdict])) for each in found]
    return Table(columns("", "stack", "workload", "A", "B", "verdict"), rows, _SURVIVAL)


def _counts_table(pair: Pair, rows: Sequence[Row]) -> Table:
    """The counts per operation that differ and are in no row, the largest difference first."""
    shown = {(id(row.cell), row.comparison.kind.name) for row in rows}
    found = [each for each in pair.changes if each.is_count and (id(each.cell), each.kind.name) not in shown]
    made = [
        (
            *(each.cell.workload_title, each.cell.stack_title, metric_title(each.kind)),
            *(Cell(level, each.kind.unit) for level in (each.first, each.second)),
            "" if each.ratio is None else percent(each.ratio - 1, signed=True),
        )
        for each in found[:_DIFFERENCES_MAX]
    ]
    heads = columns("workload", "stack", "count", ("A", "1"), ("B", "1"), ("change", "figure"))
    left = len(found) - len(made)
    return Table(heads, made, _COUNTS, f"and {left} more: --json has them all" if left else "")


def pair_blocks(
    pair: Pair, rows: Sequence[Row], *, width: int = _WIDTH_WITH_VALUES, sorted_anew: bool = False
) -> list[Block]:
    """The answer, the ratios, the differences, and the cells that could not be compared.

    In a terminal of ``width``, rows in another order than the study's (``sorted_anew``) stand in one table.
    """
    names = [Column(each, name=each) for each in ("workload", "stack", "metric")]
    sentences = filter(None, (verdict_sentence(pair), doubt_sentence(pair), likeness_sentence(pair)))
    legend = (
        "times as good: geometric mean over trials of the same seed; above 1 B is better, whatever the "
        f"metric. A is the baseline: worse means that B is worse by more than {format_share(pair.zone)}."
    )
    absent: list[Block] = [Bullets([f"{each.what}: {each.why}" for each in pair.absent])]
    return [
        Group([Heading(f"{pair.second.name} against {pair.first.name}", 1)], where=WRITTEN),
        Group([_sides(pair)], where=_TERMINAL),
        *(Paragraph(sentence, "lead") for sentence in sentences),
        Group(_by_workload(rows, width, sorted_anew=sorted_anew), where=_TERMINAL),
        Group([_rows_table(rows, names)], where=WRITTEN),
        *([_overall_table(pair.overall)] if pair.overall else []),
        _counts_table(pair, rows),
        _survival_table(pair.survival),
        *_differences(pair),
        *([Heading("Not compared"), *absent] if pair.absent else []),
        Paragraph(legend, "key"),
    ]


def _by_workload(rows: Sequence[Row], width: int, *, sorted_anew: bool) -> Iterator[Block]:
    """A table for each workload and metric."""
    groups = grouped(((row.cell.workload, row.comparison.kind.name), row) for row in rows)
    with_values = width >= _WIDTH_WITH_VALUES
    if sorted_anew:
        yield _rows_table(rows, [Column("", name="all", width=_NAME_WIDTH)], with_values=with_values)
        return
    for group in groups.values():
        name = Column(heading(group[0].comparison.kind), name="stack", width=_NAME_WIDTH)
        yield Heading(group[0].cell.workload_title)
        yield _rows_table(group, [name], with_values=with_values)


def _sides(pair: Pair) -> Table:
    rows = [
        (Cell(letter, tone="strong"), side.name, Cell(_when(side), tone="dim"))
        for letter, side in (("A", pair.first), ("B", pair.second))
    ]
    return Table(columns("", "", ""), rows, is_headed=False)


def _when(side: Side) -> str:
    snapshot = side.results.snapshot
    days = sorted({record.real_time.started_at[:10] for record in side.results.records})
    period = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    return ", ".join(part for part in (snapshot.name, snapshot.runner, period) if part)


def _differences(pair: Pair) -> Iterator[Block]:
    found = list(difference_groups(pair))
    if not found:
        yield Paragraph("No version, setting, option or plan differs between A and B.")
        return
    left = len(found) - _DIFFERENCES_MAX
    note = f"and {left} more: --json has them all" if left > 0 else ""
    yield Table(columns("", "A", "B"), found[:_DIFFERENCES_MAX], "What differs", note)
