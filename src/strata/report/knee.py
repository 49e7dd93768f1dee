# SPDX-License-Identifier: Apache-2.0
"""The knee of a search: the metric over the rate, from the trials that the search made."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from strata.model.find import Find
from strata.model.metric_title import name_title
from strata.model.trial import TrialKey
from strata.report import svg
from strata.report.charts import WIDE_PX, names_px, tick_text
from strata.report.palette import MUTED, stack_colours
from strata.report.svg import Drawing
from strata.report.table import Column, Table, columns
from strata.results.search import Probe, Search
from strata.statistics.study import StudyResults
from strata.units import format_share, format_value

_LEFT_PX: Final = 72
_HEIGHT_PX: Final = 300
_NAME_PX: Final = 15


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


def searches_plain(results: StudyResults) -> list[dict[str, Any]]:
    """For JSON: every search with its probes."""
    return [
        {
            **_place(key),
            "metric": search.find.metric,
            "below_ns": search.find.below_ns,
            "at_most": search.find.at_most,
            "ended": search.is_ended,
            "rate_per_s": search.rate_per_s if search.is_ended else None,
            "kept_per_s": search.kept.rate if search.kept else None,
            "missed_per_s": search.missed.rate if search.missed else None,
            "probes": [
                {
                    "trial": each.record.trial.id,
                    "rate_per_s": each.rate,
                    "value_ns" if search.find.unit == "ns" else "value": each.value,
                    "reached_per_s": each.reached,
                    "kept": each.kept,
                }
                for each in search.probes
            ],
        }
        for key, search in results.searches.items()
    ]


def _place(key: TrialKey) -> dict[str, Any]:
    return {"stack": key.stack, "workload": key.workload, "seed": key.seed}


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
    every = [each for of_stack in probes.values() for each in of_stack]
    values = [each.value or 0.0 for each in every]
    rates = sorted({each.rate for each in every})
    right, bottom = names_px(probes, WIDE_PX), 12 + _HEIGHT_PX
    y_ticks = svg.log_ticks(min(*values, find.limit), max(*values, find.limit))
    shown = tick_text if find.unit == "ns" else svg.number
    x_ticks = svg.log_ticks(rates[0], rates[-1])
    x = svg.Logarithmic(x_ticks[0], x_ticks[-1], _LEFT_PX + 10, WIDE_PX - right - 10)
    y = svg.Logarithmic(y_ticks[0], y_ticks[-1], bottom, 12)
    parts = [
        svg.y_axis(y, {tick: shown(tick) for tick in y_ticks}, left=_LEFT_PX, right=WIDE_PX - right),
        svg.x_axis(
            x, {tick: svg.number(tick) for tick in x_ticks}, top=12, bottom=bottom, title="asked per second"
        ),
        svg.line(
            [(_LEFT_PX, y(find.limit)), (WIDE_PX - right, y(find.limit))], stroke=MUTED.light, dash="7 3"
        ),
    ]
    colours = stack_colours(list(probes))
    for stack, name_y in _names(probes, y):
        fill = colours[stack].light
        places = [(x(each.rate), y(each.value or 1.0)) for each in probes[stack]]
        joined = [(x(each.rate), y(each.value or 1.0)) for each in first[stack]]
        words = svg.shortened(stack, right - 14)
        name = svg.text(WIDE_PX - right + 10, name_y, words, size=svg.NAME_PX, bold=True, fill=fill)
        drawn = [svg.line(joined, stroke=fill), svg.dots(places, radius=3, fill=fill, opacity=0.7), name]
        parts.append(svg.of_stack(stack, *drawn))
    return Drawing(svg.finished(parts, width=WIDE_PX, height=bottom + 52), _words(probes, find.unit, title))


def _names(probes: Mapping[str, Sequence[Probe]], y: svg.Scale) -> Iterator[tuple[str, float]]:
    """The stacks with the heights of their names, the slowest at its highest rate first."""
    ends = {stack: y(max(each, key=lambda one: one.rate).value or 1.0) for stack, each in probes.items()}
    at = -_NAME_PX
    for stack in sorted(ends, key=lambda each: ends[each]):
        at = max(at + _NAME_PX, round(ends[stack]))
        yield stack, at


def _words(probes: Mapping[str, Sequence[Probe]], unit: str, title: str) -> str:
    found = []
    for stack, each in probes.items():
        by_rate: dict[int, list[float]] = {}
        for probe in each:
            by_rate.setdefault(probe.rate, []).append(probe.value or 0.0)
        middle = {rate: statistics.median(values) for rate, values in sorted(by_rate.items())}
        shown = (f"{rate:,} {format_value(value, unit)}" for rate, value in middle.items())
        found.append(f"{stack}: {', '.join(shown)}")
    return f"Line chart, {title}; {'; '.join(found)}"
