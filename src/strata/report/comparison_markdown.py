# SPDX-License-Identifier: Apache-2.0
"""Two sets of results against each other, as Markdown: for a merge request, an issue, an article."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from strata.report.comparison import (
    difference_groups,
    interval_text,
    likeness_sentence,
    ratio_text,
    seeds_text,
    verdict_sentence,
)
from strata.report.wording import metric_title
from strata.statistics.pair import Pair, Row


def pair_markdown(pair: Pair, rows: Sequence[Row]) -> str:
    """The answer, a table of ratios, what differs, and what could not be compared; it ends a line."""
    return "\n".join(_lines(pair, rows)) + "\n"


def _lines(pair: Pair, rows: Sequence[Row]) -> Iterator[str]:
    yield f"# {_cell(pair.second.name)} against {_cell(pair.first.name)}"
    yield ""
    yield verdict_sentence(pair)
    if (likeness := likeness_sentence(pair)) is not None:
        yield likeness
    yield ""
    yield from _table(
        ("workload", "stack", "metric", "B/A", "95 % interval", "verdict", "n"),
        (
            (
                row.cell.workload_title,
                row.cell.stack_title,
                metric_title(row.comparison.kind)
                + (" ↑" if row.comparison.kind.better == "higher" else " ↓"),
                ratio_text(row.comparison),
                interval_text(row.comparison),
                _verdict(row.comparison.verdict),
                seeds_text(row),
            )
            for row in rows
        ),
    )
    if pair.overall:
        yield from ("", "Geometric means over cells, above 1 is better:", "")
        yield from _table(
            ("workload", "times as good", "95 % interval", "verdict", "cells"),
            (
                (
                    each.workload or "in all",
                    ratio_text(each.comparison),
                    interval_text(each.comparison),
                    _verdict(each.comparison.verdict),
                    str(each.cells),
                )
                for each in pair.overall
            ),
        )
    yield from ("", "## What differs", "")
    if pair.differences:
        yield from _table(("", "A", "B"), difference_groups(pair))
    else:
        yield "No version, setting, option or plan."
    if pair.absent:
        yield from ("", "## Not compared", "")
        yield from (f"- {_cell(each.what)}: {_cell(each.why)}" for each in pair.absent)


def _verdict(verdict: str) -> str:
    return f"**{verdict}**" if verdict in {"worse", "better"} else verdict


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(' --- ' for _ in heads)}|"
    for row in rows:
        yield f"| {' | '.join(_cell(each) for each in row)} |"


def _cell(text: str) -> str:
    """Text that stays in its cell and means itself."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
