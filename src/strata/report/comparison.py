# SPDX-License-Identifier: Apache-2.0
"""Two sets of results against each other: in words, as tables in a terminal and in Markdown, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from strata.model.metric import metric_title
from strata.report.spans import Tone, escaped
from strata.report.table import Cell, Column, Table, columns, markdown, terminal
from strata.report.wording import heading
from strata.results.differences import Difference
from strata.statistics.comparison import Comparison, Verdict
from strata.statistics.pair import Overall, Pair, Row
from strata.statistics.pairing import Side
from strata.statistics.survival_pair import SurvivalRow
from strata.statistics.survival_pair import Verdict as SurvivalVerdict
from strata.units import format_share, percent, significant
from strata.words import listed

_TONES: Final[dict[Verdict, Tone]] = {
    "worse": "worse",
    "better": "better",
    "equal": "",
    "undecided": "doubt",
    "marginal": "doubt",
    "doubtful": "doubt",
    "too few seeds": "doubt",
    "not ranked": "doubt",
}
_SURVIVED: Final[dict[SurvivalVerdict, Tone]] = {
    "worse": "worse",
    "better": "better",
    "equal": "",
    "not judged": "dim",
}
_SURVIVAL: Final = "What failures did"
_COUNTS: Final = "Counts per operation that differ"
_WIDTH_WITH_VALUES: Final = 100  # from this width on, the values stand beside their ratio
_DIFFERENCES_MAX: Final = 12
_NAME_WIDTH: Final = 20
_ENDS: Final = Column("95 % interval", "figure", tone="dim")
# How many packages, or steps, are named before they are counted.
_SINGLE_MAX: Final = 5


def verdict_sentence(pair: Pair) -> str:
    counts = Counter(row.comparison.verdict for row in pair.rows)
    found = [f"{counts[verdict]} {verdict}" for verdict in _TONES if counts[verdict]]
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
                yield _named(each), first, second


def _named(difference: Difference) -> str:
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
    verdict = Cell(comparison.verdict, tone=_TONES[comparison.verdict])
    return ratio_text(comparison), interval_text(comparison), verdict


def _overall_table(overall: Sequence[Overall], title: str) -> Table:
    rows = [(each.workload or "in all", *_ratio_cells(each.comparison), each.cells) for each in overall]
    heads = (Column(title, width=_NAME_WIDTH), Column("times as good", "figure"), _ENDS)
    return Table((*heads, Column("verdict"), Column("cells", "count")), rows)


def _survival_table(found: Sequence[SurvivalRow]) -> Table:
    """The damage by failures in A and in B; –: the failure was not tried there, or its damage is unknown."""
    rows = [(*astuple(each)[:-1], Cell(each.verdict, tone=_SURVIVED[each.verdict])) for each in found]
    return Table(columns("", "stack", "workload", "A", "B", "verdict"), rows, _SURVIVAL)


def _counts_table(pair: Pair, rows: Sequence[Row], most: int | None) -> Table:
    """The counts per operation that differ and are in no row, the largest difference first."""
    shown = {(id(row.cell), row.comparison.kind.name) for row in rows}
    found = [each for each in pair.changes if each.is_count and (id(each.cell), each.kind.name) not in shown]
    made = [
        (
            *(each.cell.workload_title, each.cell.stack_title, metric_title(each.kind)),
            *(Cell(level, each.kind.unit) for level in (each.first, each.second)),
            "" if each.ratio is None else percent(each.ratio - 1, signed=True),
        )
        for each in found[:most]
    ]
    heads = columns("workload", "stack", "count", ("A", "1"), ("B", "1"), ("change", "figure"))
    left = len(found) - len(made)
    return Table(heads, made, _COUNTS, f"and {left} more: --json has them all" if left else "")


def pair_view(pair: Pair, rows: Sequence[Row], *, width: int, sorted_anew: bool = False) -> RenderableType:
    """For a terminal; rows in another order than the study's (``sorted_anew``) stand in one table."""
    parts: list[RenderableType] = [_sides(pair), Text()]
    for sentence in (verdict_sentence(pair), doubt_sentence(pair), likeness_sentence(pair)):
        if sentence is not None:
            parts.append(Text(sentence, style="bold"))
    parts += [Text(), *_differences(pair), Text()]
    with_values = width >= _WIDTH_WITH_VALUES
    if sorted_anew:
        name = Column("", name="all", width=_NAME_WIDTH)
        parts += [terminal(_rows_table(rows, [name], with_values=with_values)), Text()]
    for group in [] if sorted_anew else _by_workload(rows):
        name = Column(heading(group[0].comparison.kind), name="stack", width=_NAME_WIDTH)
        parts.append(Text(group[0].cell.workload_title, style="bold cyan"))
        parts += [terminal(_rows_table(group, [name], with_values=with_values)), Text()]
    if pair.overall:
        parts += [terminal(_overall_table(pair.overall, "geometric mean of cells")), Text()]
    if (counts := _counts_table(pair, rows, _DIFFERENCES_MAX)).rows:
        parts += [terminal(counts), Text()]
    if pair.survival:
        parts += [terminal(_survival_table(pair.survival)), Text()]
    if pair.absent:
        parts.append(Text("Not compared", style="bold cyan"))
        parts += [Text.assemble(f"  {each.what}", (f": {each.why}", "yellow")) for each in pair.absent]
        parts.append(Text())
    legend = (
        "times as good: geometric mean over trials of the same seed; above 1 B is better, whatever the "
        "metric.\n"
        f"A is the baseline: worse means that B is worse by more than {format_share(pair.zone)}."
    )
    return Group(*parts, Text(legend, style="dim"))


def _sides(pair: Pair) -> RenderableType:
    rows = [
        (Cell(letter, tone="strong"), side.name, Cell(_when(side), tone="dim"))
        for letter, side in (("A", pair.first), ("B", pair.second))
    ]
    return terminal(Table(columns("", "", ""), rows, is_headed=False))


def _when(side: Side) -> str:
    snapshot = side.results.snapshot
    days = sorted({record.real_time.started_at[:10] for record in side.results.records})
    period = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    return ", ".join(part for part in (snapshot.name, snapshot.runner, period) if part)


def _differences(pair: Pair) -> Iterator[RenderableType]:
    found = list(difference_groups(pair))
    if not found:
        yield Text("No version, setting, option or plan differs between A and B.")
        return
    yield Text("What differs", style="bold cyan")
    arrow = Cell("→", tone="dim")
    rows = [(name, first, arrow, second) for name, first, second in found[:_DIFFERENCES_MAX]]
    yield terminal(Table(columns("", "A", "", "B"), rows, is_headed=False), indent=2)
    if len(found) > _DIFFERENCES_MAX:
        yield Text(f"  … and {len(found) - _DIFFERENCES_MAX} more: --json has them all", style="dim")


def _by_workload(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.workload, row.comparison.kind.name), []).append(row)
    return list(groups.values())


def pair_markdown(pair: Pair, rows: Sequence[Row]) -> str:
    """The answer, ratios, differences, and the cells that could not be compared, for a merge request."""
    names = [Column(each, name=each) for each in ("workload", "stack", "metric")]
    blocks = [f"# {escaped(pair.second.name)} against {escaped(pair.first.name)}"]
    sentences = (verdict_sentence(pair), doubt_sentence(pair), likeness_sentence(pair))
    blocks.append("\n".join(filter(None, sentences)))
    blocks.append(markdown(_rows_table(rows, names)))
    if pair.overall:
        blocks.append("Geometric means over cells, above 1 is better:")
        blocks.append(markdown(_overall_table(pair.overall, "workload")))
    if (counts := _counts_table(pair, rows, None)).rows:
        blocks += [f"## {_COUNTS}", markdown(replace(counts, title=""))]
    if pair.survival:
        blocks += [f"## {_SURVIVAL}", markdown(replace(_survival_table(pair.survival), title=""))]
    differences = markdown(Table(columns("", "A", "B"), list(difference_groups(pair))))
    blocks += ["## What differs", differences or "No version, setting, option or plan."]
    if pair.absent:
        absent = (f"- {escaped(each.what)}: {escaped(each.why)}" for each in pair.absent)
        blocks += ["## Not compared", "\n".join(absent)]
    return "\n\n".join(block.rstrip() for block in blocks if block) + "\n"
