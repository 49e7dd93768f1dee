# SPDX-License-Identifier: Apache-2.0
"""An advice in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from strata.advice.model import Advice, Conclusion, Settling
from strata.advice.uses import Use
from strata.report.advice_rows import (
    EVIDENCE_HEADINGS,
    RANKING_HEADINGS,
    coverage_rows,
    evidence_blocks,
    ranking_rows,
)
from strata.report.advice_text import ability, decision, headline, recommendation
from strata.words import listed

_STYLES: Final[dict[Conclusion, str]] = {
    "clear": "bold green",
    "even": "bold yellow",
    "undecided": "bold yellow",
}
_VERDICTS: Final = {"worse": "red", "better": "green", "leads": "bold green"}
# Names and what was measured are read from the left, figures from the right.
_LEFT: Final = frozenset({"stack", "verdict", "weight", "metric", "measured by"})


def advices_view(advices: Sequence[Advice], *, evidence: bool) -> RenderableType:
    """The advice on several uses; those of which nothing can be said are one line.

    Args:
        advices: The advice on each use.
        evidence: Everything of each use.
    """
    whole = evidence or len(advices) == 1
    shown = [each for each in advices if whole or each.standings]
    parts = [_whole(each) if evidence else _decision(each) for each in shown]
    if silent := [each.use.title for each in advices if each not in shown]:
        missing = f"Too little was measured to say anything of {listed(silent)}."
        parts.append(Text(f"{missing} `--use NAME` says what is missing."))
    elif shown and not evidence:
        parts.append(Text("`--evidence` shows every figure, every warning, and what to measure next.", "dim"))
    return Group(*parts)


def _heading(advice: Advice) -> Text:
    style = _STYLES.get(advice.conclusion, "bold")
    return Text.assemble((advice.use.title, "bold"), "  ", (headline(advice), style))


def _decision(advice: Advice) -> RenderableType:
    """The decision alone; where there is none, the first thing that would settle it."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for heading, text in decision(advice):
        table.add_row(Text(heading, "dim"), Text(text))
    next_one = [] if advice.leaders else [*_settling(advice.settling[:1])]
    return Group(_heading(advice), _indented(table), *next_one, Text())


def _whole(advice: Advice) -> RenderableType:
    """Also every metric behind the ranking, every warning, and all that would settle more."""
    parts: list[RenderableType] = [_heading(advice), Padding(Text(recommendation(advice)), (0, 0, 0, 2))]
    if advice.leaders:
        parts.append(_indented(_table(RANKING_HEADINGS, ranking_rows(advice))))
    for heading, rows in evidence_blocks(advice) if advice.leaders else ():
        parts += [Text(f"  {heading}", style="bold"), _indented(_table(EVIDENCE_HEADINGS, rows))]
    parts += [
        Padding(Text.assemble(("Weights", "bold"), f": {advice.use.source}"), (0, 0, 0, 2)),
        _indented(_table(("weight", "share", "measured by"), coverage_rows(advice))),
    ]
    if advice.warnings:
        parts += [Text("  Warnings", style="bold"), *_warnings(advice)]
    if advice.settling:
        parts += [Text("  What would settle more", style="bold"), *_settling(advice.settling)]
    return Group(*parts, Text())


LEGEND: Final = (
    "to the leader: a metric's ratio, or the weighted geometric mean of all; below 1 is worse, whatever the "
    "metric · verdict: of the zone of ±3 % · leads in: share of the bootstrap's resamples of the seeds"
)


def uses_view(uses: Sequence[Use]) -> RenderableType:
    """The uses with their weights and needs."""
    parts: list[RenderableType] = []
    for use in uses:
        parts += [
            Text.assemble((use.name, "bold"), "  ", use.title),
            Padding(Text(use.about), (0, 0, 0, 2)),
        ]
        total = use.total
        rows = [(each.name, f"{each.weight / total * 100:.0f} %", each.why) for each in use.weights]
        parts.append(_indented(_table(("weight", "share", "measured by"), rows, headed=False)))
        needs = [(ability(each.capability), each.level, each.why) for each in use.needs]
        if needs:
            parts.append(_indented(_table(("weight", "verdict", "measured by"), needs, headed=False)))
        parts += [Padding(Text(f"Weights: {use.source}", style="dim"), (0, 0, 0, 2)), Text()]
    return Group(*parts)


def _warnings(advice: Advice) -> Iterator[RenderableType]:
    for each in advice.warnings:
        place = (f"{each.stack}.{each.workload} ", "bold")
        yield Padding(Text.assemble(place, f"{each.text}; {each.remedy}"), (0, 0, 0, 2))


def _settling(settling: Iterable[Settling]) -> Iterator[RenderableType]:
    for each in settling:
        yield Padding(Text(each.text), (0, 0, 0, 2))
        for text in (each.toml.rstrip(), "\n".join(each.commands)):
            if text:
                yield Padding(Text(text, style="cyan"), (0, 0, 0, 6))


def _indented(table: Table) -> RenderableType:
    return Padding(table, (0, 0, 0, 2))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, headed: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, show_header=headed, header_style="dim", padding=(0, 2, 0, 0))
    for heading in headings:
        justify = "left" if heading in _LEFT else "right"
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell, style=_VERDICTS.get(cell, "")) for cell in row))
    return table
