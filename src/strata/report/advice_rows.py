# SPDX-License-Identifier: Apache-2.0
"""An advice's tables as rows of text, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from strata.advice.model import Advice
from strata.report.wording import metric_title
from strata.statistics.comparison import Comparison
from strata.units import format_value, significant, times

RANKING_HEADINGS = ("stack", "to the leader", "95 % interval", "verdict", "leads in")
EVIDENCE_HEADINGS = ("stack", "measured", "to the leader", "95 % interval", "verdict")


def ranking_rows(advice: Advice) -> list[tuple[str, ...]]:
    """A row per ranked stack, best first; the columns are ``RANKING_HEADINGS``."""
    return [
        (
            each.stack,
            *(_score_cells(each.score) if each.score is not None else ("", "", "leads")),
            f"{each.best_share * 100:.0f} %" if each.best_share is not None else "–",
        )
        for each in advice.standings
    ]


def evidence_blocks(advice: Advice) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Of each part a heading and a row per ranked stack; the columns are ``EVIDENCE_HEADINGS``."""
    compared = {
        (each.workload, each.kind.name, standing.stack): each
        for standing in advice.standings
        for each in standing.evidence
    }
    for part, measured in zip(advice.parts, advice.measured, strict=True):
        rows: list[tuple[str, ...]] = []
        for standing in advice.standings:
            score = compared.get((part.workload, part.kind.name, standing.stack))
            value = format_value(measured[standing.stack].estimate, part.kind.unit)
            rows.append((standing.stack, value, *(_score_cells(score) if score else ("", "", ""))))
        title = f"{metric_title(part.kind)} in {part.workload}"
        yield f"{title}: {part.share * 100:.0f} % of the score, for {part.weight}", rows


def coverage_rows(advice: Advice) -> list[tuple[str, str, str]]:
    """A row per weight: its name, its share, what was measured for it."""
    return [
        (
            each.weight.name,
            f"{each.share * 100:.0f} %",
            ", ".join(each.workloads)
            or (f"no results: {', '.join(each.lacking)}" if each.lacking else "not measured"),
        )
        for each in advice.coverage
    ]


def _score_cells(score: Comparison) -> tuple[str, str, str]:
    interval = score.gain_interval
    shown = f"{significant(interval.low)} to {significant(interval.high)}" if interval is not None else "–"
    return times(score.gain), shown, score.verdict
