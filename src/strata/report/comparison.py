# SPDX-License-Identifier: Apache-2.0
"""Two sets of results against each other: what is said of them in words, and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from strata.printable import plain
from strata.results.differences import Difference
from strata.statistics.comparison import Comparison, Verdict
from strata.statistics.interval import Interval
from strata.statistics.pair import Pair, Row
from strata.statistics.pairing import PairedCell, Side
from strata.units import format_share, significant

VERDICTS: Final[tuple[Verdict, ...]] = ("worse", "better", "equal", "undecided", "too few seeds")
# How many single packages are named before they are counted.
_PACKAGES_MAX: Final = 5


def verdict_sentence(pair: Pair) -> str:
    """How many cells are worse, better, equal."""
    counts = Counter(row.comparison.verdict for row in pair.rows)
    found = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]]
    zone = f"the practical zone is ±{format_share(pair.zone)}"
    if not found:
        return "No metric can be compared."
    single = len(pair.rows) == len({id(row.cell) for row in pair.rows})
    of = "cell" if len(pair.rows) == 1 else "cells" if single else "metrics of cells"
    return f"Of {len(pair.rows)} {of}: {', '.join(found)}; {zone}."


def likeness_sentence(pair: Pair) -> str | None:
    """What is the very same in both; None when nothing is."""
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


def difference_groups(pair: Pair) -> Iterator[tuple[str, str, str]]:
    """What differs: the name, what it was, what it is. Many packages are one line."""
    packages = [each for each in pair.differences if each.area == "packages"]
    for each in pair.differences:
        if each.area != "packages" or len(packages) <= _PACKAGES_MAX:
            yield (_named(each), *_values(each))
        elif each is packages[0]:
            named = ", ".join(each.name for each in packages[:_PACKAGES_MAX])
            yield ("packages", f"{len(packages)} differ", f"{named}, …")


def _named(difference: Difference) -> str:
    if difference.area in {"versions", "lab", "plans"}:
        return difference.name
    single = {"packages": "package", "devices": "device", "stacks": "stack", "workloads": "workload"}
    return f"{single.get(difference.area, difference.area)} {difference.name}"


def _values(difference: Difference) -> tuple[str, str]:
    first, second = difference.first, difference.second
    return "–" if first is None else first, "–" if second is None else second


def ratio_text(comparison: Comparison) -> str:
    """The ratio with three digits behind the point; exactly 1 is distinguished from what rounds to 1."""
    ratio, interval = comparison.ratio.ratio, comparison.ratio.interval
    if ratio == 1 and (interval is None or interval.low == interval.high == 1):
        return "exactly 1"
    return f"{ratio:.3f}" if ratio < 9.9995 else significant(ratio, 3)


def interval_text(comparison: Comparison) -> str:
    """The interval of the ratio; empty without one, or where it has no width."""
    interval = comparison.ratio.interval
    if interval is None or ratio_text(comparison) == "exactly 1":
        return ""
    return f"{interval.low:.3f} to {interval.high:.3f}"


def seeds_text(row: Row) -> str:
    """How many seeds were paired, and of how many where one set has more."""
    n, most = row.comparison.ratio.n, max(len(row.cell.first), len(row.cell.second))
    if not row.comparison.ratio.paired:
        return f"{len(row.cell.first)}, {len(row.cell.second)} unpaired"
    return str(n) if n == most else f"{n} of {most}"


def pair_plain(pair: Pair, rows: Sequence[Row]) -> dict[str, Any]:
    """Everything as JSON types, the rows as ordered."""
    return {
        "a": _side_plain(pair.first),
        "b": _side_plain(pair.second),
        "time_domain": pair.first.results.snapshot.time_domain,
        "zone": pair.zone,
        "verdicts": dict(Counter(row.comparison.verdict for row in rows)),
        "identical": pair.trials > 0 and pair.count("identical") == pair.trials,
        "pairs_of_trials": {
            "compared": pair.trials,
            "identical": pair.count("identical"),
            "same_numbers": pair.count("the same numbers"),
        },
        "comparisons": [{**_cell_plain(row.cell), **_comparison_plain(row)} for row in rows],
        "overall": [
            {"workload": each.workload, "cells": each.cells, **_gain_plain(each.comparison)}
            for each in pair.overall
        ],
        "absent": plain(pair.absent),
        "differences": plain(pair.differences),
    }


def _side_plain(side: Side) -> dict[str, Any]:
    snapshot = side.results.snapshot
    return {"results": side.name, "study": snapshot.name, "stack": side.stack, "runner": snapshot.runner}


def _cell_plain(cell: PairedCell) -> dict[str, Any]:
    return {
        "workload": cell.workload,
        "workload_b": cell.other_workload,
        "stack": cell.stack,
        "stack_b": cell.other_stack,
        "seeds": cell.seeds,
        "seeds_a": sorted(cell.first),
        "seeds_b": sorted(cell.second),
        "likeness": cell.likeness,
    }


def _comparison_plain(row: Row) -> dict[str, Any]:
    comparison, kind = row.comparison, row.comparison.kind
    return {
        "metric": kind.name,
        "unit": kind.unit,
        "better": kind.better,
        "headline": kind.headline,
        "a": row.first,
        "b": row.second,
        "ratio": comparison.ratio.ratio,
        **_ends("ratio", comparison.ratio.interval),
        "n": comparison.ratio.n,
        "paired": comparison.ratio.paired,
        "shift": comparison.ratio.shift,
        "p_value": comparison.p_value,
        "p_value_holm": comparison.p_value_holm,
        "verdict": comparison.verdict,
    }


def _gain_plain(comparison: Comparison) -> dict[str, Any]:
    ends = _ends("gain", comparison.gain_interval)
    return {"gain": comparison.gain, **ends, "n": comparison.ratio.n, "verdict": comparison.verdict}


def _ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {f"{name}_low": low, f"{name}_high": high}
