# SPDX-License-Identifier: Apache-2.0
"""The knee of a search: the metric over the rate, from the trials that the search made."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from strata.model.metric import name_title
from strata.report.palette import stack_colours
from strata.report.svg import Drawing
from strata.report.table import Table, columns
from strata.report.xy import Axis, Line, xy_chart
from strata.results.search import Search
from strata.statistics.study import StudyResults
from strata.units import format_share


def searches_of(results: StudyResults, workload: str) -> dict[str, list[Search]]:
    """The searches under a workload by stack, each stack's by seed."""
    found: dict[str, list[Search]] = {}
    for stack in results.stacks:
        mine = {key.seed: search for key, search in results.searches.items() if key.cell == (stack, workload)}
        if mine:
            found[stack] = [mine[seed] for seed in sorted(mine)]
    return found


def knee(results: StudyResults, workload: str) -> tuple[str, str, Drawing, Table] | None:
    """A title, a caption, the curve and its numbers; None for a workload without a search."""
    found = searches_of(results, workload)
    lines = [line for stack, searches in found.items() if (line := _line(stack, searches)) is not None]
    if not lines:
        return None
    find = next(iter(found.values()))[0].find
    title = f"{name_title(find.metric)} over the rate"
    caption = (
        f"Each dot is a trial at one rate; the line joins those of the first seed. The dashed line is the "
        f"target, {find.limit_words}. Both scales are logarithmic."
    )
    x, y = Axis("asked per second", "log"), Axis(kind="log", unit=find.unit)
    colours = stack_colours([line.name for line in lines])
    drawing = xy_chart(lines, x, y, title, colours, limit=find.limit)
    return title, caption, drawing, search_table(results, workload)


def _line(stack: str, searches: Sequence[Search]) -> Line | None:
    """The first seed's trials joined, and all seeds' as dots; None without a value."""
    first, *_ = every = [
        sorted((float(probe.rate), probe.value) for probe in search.probes if probe.value)
        for search in searches
    ]
    dots = sorted(chain(*every))
    return Line(stack, first, dots=dots, level=dots[-1][1]) if dots else None


def search_table(results: StudyResults, workload: str) -> Table:
    """By stack: the rates that met the target and missed it, over its searches."""
    rows: list[tuple[Any, ...]] = []
    note = ""
    for stack, searches in searches_of(results, workload).items():
        ended = [search for search in searches if search.is_ended]
        met = [search.kept.rate for search in ended if search.kept is not None]
        missed = [search.missed.rate for search in ended if search.missed is not None]
        trials = sum(len(search.probes) for search in searches)
        rows.append((stack, len(ended), trials, _between(met), _between(missed)))
        find = searches[0].find
        note = f"{find.target}; found within {format_share(find.within)}"
    heads = columns(
        *(("stack", "stack"), ("searches", "count"), ("trials", "count")),
        *(("target met up to", "figure"), ("missed from", "figure")),
    )
    return Table(heads, rows, "Rates", note)


def _between(rates: Sequence[int]) -> str:
    if not rates:
        return "no rate"
    low, high = min(rates), max(rates)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
