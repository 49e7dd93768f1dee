# SPDX-License-Identifier: Apache-2.0
"""The knee of a search: the metric over the rate, from the trials that the search made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strata.model.find import Find
from strata.model.metric import name_title
from strata.report.palette import stack_colours
from strata.report.svg import Drawing
from strata.report.table import Column, Table, columns
from strata.report.xy import Axis, Line, xy_chart
from strata.results.search import Probe, Search
from strata.statistics.study import StudyResults
from strata.units import format_share


def searches_of(results: StudyResults, workload: str) -> dict[str, list[tuple[int, Search]]]:
    """The searches under a workload with their seeds, by stack, in the study's order."""
    found: dict[str, list[tuple[int, Search]]] = {}
    for stack in results.stacks:
        mine = [(key.seed, each) for key, each in results.searches.items() if key.cell == (stack, workload)]
        if mine:
            found[stack] = sorted(mine, key=lambda each: each[0])
    return found


def knee(results: StudyResults, workload: str) -> tuple[str, str, Drawing, Table] | None:
    """A title, a caption, the curve and its numbers; None for a workload without a search."""
    found = searches_of(results, workload)
    probes = {stack: _drawable(each) for stack, each in found.items()}
    probes = {stack: each for stack, each in probes.items() if each}
    if not probes:
        return None
    find = next(iter(found.values()))[0][1].find
    title = f"{name_title(find.metric)} over the rate"
    caption = (
        f"Each dot is a trial at one rate; the line joins those of the first seed. The dashed line is the "
        f"target, {find.limit_words}. Both scales are logarithmic."
    )
    first = {stack: [each for each in found[stack][0][1].probes if each.value] for stack in probes}
    drawing = _drawn(probes, first, find, title)
    return title, caption, drawing, search_table(results, workload)


def search_table(results: StudyResults, workload: str) -> Table:
    """By stack: the rates that kept the target and missed it, over its searches."""
    found = searches_of(results, workload)
    rows: list[tuple[Any, ...]] = []
    for stack, each in found.items():
        ended = [one for _, one in each if one.is_ended]
        kept = [one.kept.rate for one in ended if one.kept is not None]
        missed = [one.missed.rate for one in ended if one.missed is not None]
        trials = sum(len(one.probes) for _, one in each)
        rows.append((stack, len(ended), trials, _between(kept) or "none", _between(missed) or "none"))
    heads = columns(("searches", "count"), ("trials", "count"), ("kept up to", "figure"))
    find = next(iter(found.values()))[0][1].find if found else None
    note = f"{find.target}; found within {format_share(find.within)}" if find else ""
    return Table((Column("stack", "stack"), *heads, *columns(("missed from", "figure"))), rows, "Rates", note)


def _between(rates: Sequence[int]) -> str:
    if not rates:
        return ""
    low, high = min(rates), max(rates)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _drawable(searches: Sequence[tuple[int, Search]]) -> list[Probe]:
    return [probe for _, search in searches for probe in search.probes if probe.value]


def _drawn(
    probes: Mapping[str, Sequence[Probe]], first: Mapping[str, Sequence[Probe]], find: Find, title: str
) -> Drawing:
    lines = [
        Line(stack, _points(first[stack]), dots=_points(probes[stack]), level=_last(probes[stack]))
        for stack in probes
    ]
    x, y = Axis("asked per second", "log"), Axis(kind="log", unit=find.unit)
    return xy_chart(lines, x, y, title, stack_colours(list(probes)), limit=find.limit)


def _points(probes: Sequence[Probe]) -> list[tuple[float, float]]:
    return sorted((float(probe.rate), probe.value or 0.0) for probe in probes)


def _last(probes: Sequence[Probe]) -> float | None:
    return max(probes, key=lambda probe: probe.rate).value
