# SPDX-License-Identifier: Apache-2.0
"""An advice in Markdown, for an article or a ticket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from strata.advice.model import Advice
from strata.report.advice_rows import (
    EVIDENCE_HEADINGS,
    RANKING_HEADINGS,
    coverage_rows,
    evidence_blocks,
    ranking_rows,
)
from strata.report.advice_text import recommendation
from strata.words import sentence_case


def markdown(advices: Sequence[Advice]) -> str:
    """The advice on every use, a section each."""
    return "\n".join(line for advice in advices for line in _section(advice))


def in_short(advices: Sequence[Advice]) -> Iterator[str]:
    """For a report: of each use that something can be said of, the recommendation and the ranking."""
    for advice in advices:
        if advice.standings:
            yield from (f"### {advice.use.title}", "", recommendation(advice), "")
            yield from _table(RANKING_HEADINGS, ranking_rows(advice))
    left = ", ".join(each.use.title for each in advices if not each.standings)
    if left:
        yield from (f"Too little was measured to say anything of: {left}.", "")


def _section(advice: Advice) -> Iterator[str]:
    yield from (f"## {advice.use.title}", "", recommendation(advice), "")
    if advice.leaders:
        yield from _table(RANKING_HEADINGS, ranking_rows(advice))
        for heading, rows in evidence_blocks(advice):
            yield from (f"**{sentence_case(heading)}**", "", *_table(EVIDENCE_HEADINGS, rows))
    yield from _table(("weight", "share", "measured by"), coverage_rows(advice))
    if advice.warnings:
        yield from ("Warnings:", "")
        for each in advice.warnings:
            yield f"- {each.stack}, {each.workload}: {each.text}; {each.remedy}"
        yield ""
    if advice.settling:
        yield from ("What would settle more:", "")
    for settling in advice.settling:
        yield f"- {settling.text}"
        for language, text in (("toml", settling.toml), ("sh", "\n".join(settling.commands))):
            if text:
                fenced = (f"```{language}", *text.rstrip().splitlines(), "```")
                yield from ("", *(f"  {line}".rstrip() for line in fenced))
        yield ""
    yield f"*Weights: {advice.use.source}.*"
    yield ""


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""
