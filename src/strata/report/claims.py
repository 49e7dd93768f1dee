# SPDX-License-Identifier: Apache-2.0
"""Judged claims as blocks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from strata.model.metric import name_title
from strata.report.document import Block, Paragraph
from strata.report.spans import Amount, Times, Tone
from strata.report.table import Cell, Table, columns
from strata.report.wording import between, interval_ends
from strata.statistics.claims import ClaimFinding, Judgement, Verdict
from strata.statistics.interval import Interval
from strata.statistics.levels import LevelFinding
from strata.units import format_share, format_value, times
from strata.words import counted, listed

TONES: Final[Mapping[Verdict, Tone]] = {
    "reproduced": "better",
    "direction only": "good",
    "not reproduced": "bad",
    "reversed": "worse",
    "in another regime": "unusual",
    "open": "doubt",
    "undecided": "doubt",
    "not testable": "dim",
    "testable": "",
}
_LEGEND: Final = (
    "A claim needs all its comparisons; the table shows the one that decides its verdict. "
    "Ratios are of the metric, the first stack's to the second's, with 95 % intervals that hold together "
    "within a claim."
)


def counts_sentence(judged: Sequence[Judgement]) -> str:
    counts = Counter(each.verdict for each in judged)
    found = [f"{counts[verdict]} {verdict}" for verdict in TONES if counts[verdict]]
    before = Counter(each.unanchored for each in judged)
    said = listed([f"{before[verdict]} {verdict}" for verdict in TONES if before[verdict]])
    anchored = any(each.anchored for each in judged)
    was = f" By the study as it is: {said}." if anchored else ""
    return f"Of {counted(len(judged), 'claim')}: {listed(found)}.{was}"


def claims_table(judged: Sequence[Judgement]) -> Table:
    rows = []
    for judgement in judged:
        claim, verdict = (
            Cell(judgement.claim.id, tone="strong", remark=judgement.claim.claim),
            Cell(judgement.verdict, tone=TONES[judgement.verdict], remark=_count(judgement)),
        )
        if judgement.findings:
            finding = judgement.deciding[0]
            level = found_words(finding)
            why = judgement.why if judgement.anchored else finding.why if level else ""
            remark = ": ".join(filter(None, (_sides(finding), why)))
            found = Cell(level or finding.why, remark=remark)
            rows.append((claim, verdict, Cell(_expected(finding), remark=_measured(finding)), found))
        else:
            rows.append((claim, verdict, Cell(""), Cell(judgement.why)))
    heads = columns("claim", "verdict", "claimed", "found")
    return Table(heads, rows)


def _count(judgement: Judgement) -> str:
    """How many of its comparisons have the verdict, where there are several; of test beds none is counted."""
    total, deciding = len(judgement.findings), len(judgement.deciding)
    return f"{deciding} of {total}" if total > 1 and judgement.anchored is None else ""


def _measured(finding: ClaimFinding) -> str:
    each = finding.expectation
    workloads = dict.fromkeys((each.workload, each.other_workload))
    return f"{name_title(each.metric)}, {' against '.join(workloads)}"


def _sides(finding: ClaimFinding) -> str:
    return " against ".join(filter(None, dict.fromkeys((finding.stack, finding.against))))


def _expected(finding: ClaimFinding) -> str:
    """What the claim expects, such as ``0.75 to 0.79 ×``."""
    each = finding.expectation
    if each.value is not None:
        unit = finding.unit or "1"
        low, high = each.value
        return f"{format_value(low, unit)} at least" if math.isinf(high) else between(low, high, unit, "to")
    if each.ratio is not None:
        low, high = each.ratio
        if low == 0 or math.isinf(high):
            return f"{times(high)} at most" if low == 0 else f"{times(low)} at least"
        return f"{interval_ends(Interval(low, high))} ×"
    return f"{each.direction} within {format_share(each.within)}" if each.within else str(each.direction)


def found_words(finding: ClaimFinding) -> str:
    """The ratio or the value with its interval."""
    interval = finding.interval
    ends = (interval.low, interval.high) if interval else (None, None)
    unit = finding.unit or "1"
    return level_text(finding.level, ends, unit, is_ratio=finding.against is not None)


def level_text(
    level: float | None, ends: tuple[float | None, float | None], unit: str, *, is_ratio: bool
) -> str:
    """A ratio or a value with its interval: ``0.49 × (0.45 to 0.53)``; empty without one."""
    if level is None:
        return ""
    low, high = ends
    interval = Interval(low, high) if low is not None and high is not None else None
    return (Times(level, interval) if is_ratio else Amount(level, unit, interval)).text


def levels_table(found: Sequence[LevelFinding]) -> Table:
    rows = []
    for each in found:
        level, measured = each.level, each.measured
        off = "–" if each.off_by is None else times(each.off_by)
        shown = "–" if measured is None else format_value(measured, level.unit)
        tone: Tone = TONES["in another regime"] if each.is_met is False else ""
        rows.append(
            (
                Cell(each.stack, tone="strong", remark=f"{name_title(level.metric)}, {level.workload}"),
                Cell(each.published, remark=level.source),
                Cell(shown, remark=each.why),
                Cell(off, tone=tone),
                each.waited,
            )
        )
    heads = columns("stack", "published", "measured", ("off by", "figure"), "its window")
    factors = listed(sorted({f"{each.level.factor:g}" for each in found}))
    note = f"off by more than {factors}: in another regime; busy shares are of the measured window"
    return Table(heads, rows, "Published levels", note)


def claims(
    judged: Sequence[Judgement],
    question: str = "",
    reasons: Mapping[str, str] = {},
    levels: Sequence[LevelFinding] = (),
) -> list[Block]:
    """The claims; ``reasons`` has a sentence for claims whose verdict was explained, by their ids."""
    is_judged = any(finding.level is not None for each in judged for finding in each.findings)
    explained = [each.claim.id for each in judged if each.claim.id in reasons]
    return [
        *([Paragraph(question, "remark")] if question else []),
        Paragraph(counts_sentence(judged), "lead" if question else ""),
        claims_table(judged),
        *([levels_table(levels)] if levels else []),
        *(Paragraph(f"{name}: {reasons[name]}.") for name in explained),
        *([Paragraph(_LEGEND, "key")] if is_judged and question else []),
    ]
