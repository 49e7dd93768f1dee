# SPDX-License-Identifier: Apache-2.0
"""An advice as blocks for every medium, and as JSON types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from strata.advice.model import Advice, Conclusion, Settling
from strata.advice.uses import Use
from strata.model.metric import metric_title
from strata.report.advice_text import ability, headline, lead, reasons
from strata.report.document import (
    WRITTEN,
    Block,
    Bullets,
    Code,
    Group,
    Heading,
    Item,
    Paragraph,
    Section,
    Terms,
    folded,
)
from strata.report.findings import sensitivity_sentences
from strata.report.report import Report
from strata.report.spans import Text, Tone, Toned, said
from strata.report.table import Cell, Column, Table, columns
from strata.report.wording import gain_cells
from strata.statistics.comparison import Comparison
from strata.units import percent
from strata.words import listed, sentence_case

_TONES_OF: Final[Mapping[Conclusion, Tone]] = {
    "clear": "best",
    "even": "doubt",
    "undecided": "doubt",
    "the means disagree": "doubt",
}
_TONES: Final[dict[str, Tone]] = {"worse": "worse", "better": "better"}
_STACK: Final = Column("stack", "stack")
_SCORE: Final = columns(("to the leader", "ratio"), ("95 % interval", "figure"), "verdict")
LEGEND: Final = (
    "time: the weighted arithmetic mean of all metrics' times, each relative to the baseline's; lower is "
    "better · to the leader: how many times as good, by that time or by a metric; geometric: by the "
    "geometric mean of the same times · verdict: of the zone of ±3 % · leads in: share of the bootstrap's "
    "resamples of the seeds"
)
_SILENT: Final = (
    "Too little was measured to say anything about {}. "
    "`strata advise RESULTS --use NAME` says what is missing."
)


def ranking(advice: Advice) -> Table:
    """A row per ranked stack, the least weighted mean time first; two verdicts where the means differ."""
    rows = []
    for standing in advice.standings:
        ratio, ends, verdict = _score(standing.score)
        geometric, its_ends, other = _score(standing.geometric)
        shown = verdict if other == verdict else Cell(f"{verdict.value} / {other.value}")
        figures = (standing.waiting, ratio, ends, shown, geometric, its_ends, standing.best_share)
        rows.append((standing.stack, *figures))
    heads = (
        *columns(("time", "ratio")),
        *_SCORE,
        *columns(("geometric", "ratio")),
        Column("its interval", "figure", is_detail=True),
        *columns(("leads in", "share")),
    )
    note = f"by the weighted mean time, on {advice.baseline} 1; to the leader: below 1 is worse"
    return Table((_STACK, *heads), rows, "Ranking", note)


def evidence(advice: Advice) -> Iterator[Table]:
    """A table for each part: a row per ranked stack."""
    compared = {
        (each.workload, each.kind.name, standing.stack): each
        for standing in advice.standings
        for each in standing.evidence
    }
    for part, measured in zip(advice.parts, advice.measured, strict=True):
        rows = []
        for standing in advice.standings:
            score = compared.get((part.workload, part.kind.name, standing.stack))
            against = _score(score) if score else ("", "", "")
            rows.append((standing.stack, measured[standing.stack].estimate, *against))
        title = f"{metric_title(part.kind)} in {part.workload}"
        title += f": {percent(part.share)} of the score, for {part.weight}"
        yield Table((_STACK, Column("measured", part.kind.unit), *_SCORE), rows, sentence_case(title))


def coverage(advice: Advice) -> Table:
    """A row per weight: its name, its share, the workloads measured for it."""
    rows = []
    for each in advice.coverage:
        lacking = f"no results: {', '.join(each.lacking)}" if each.lacking else "not measured"
        rows.append((each.weight.name, each.share, ", ".join(each.workloads) or lacking))
    return Table(columns("weight", ("share", "share"), "measured by"), rows, "Weights", advice.use.source)


def _score(score: Comparison | None) -> tuple[Any, ...]:
    if score is None:
        return ("", "", Cell("leads", tone="best"))
    return (*gain_cells(score), Cell(score.verdict, tone=_TONES.get(score.verdict, "")))


def is_said(advice: Advice) -> bool:
    """Whether it is shown in full: it chooses between stacks, or answers what the study asks."""
    return bool(advice.standings) or advice.use.is_asked


def advices(found: Sequence[Advice], *, in_full: bool = False) -> Iterator[Block]:
    """The advice on several uses; uses without enough evidence share a line."""
    shown = [advice for advice in found if in_full or len(found) == 1 or is_said(advice)]
    for advice in shown:
        yield from whole(advice) if in_full else decision(advice)
    if silent := [advice.use.title for advice in found if advice not in shown]:
        yield Paragraph(_SILENT.format(listed(silent)))
    elif not in_full:
        more = Paragraph(
            "`--evidence` shows every figure, every warning, and what to measure next.", "remark"
        )
        yield Group([more], where=frozenset({"terminal"}))


def answer_text(advice: Advice) -> Text:
    """The answer with which every view begins."""
    return Toned(lead(advice), _TONES_OF.get(advice.conclusion, "strong"))


def _heading(advice: Advice) -> Heading:
    if advice.use.is_asked:
        return Heading(answer_text(advice), 2)
    said_so = Toned(headline(advice), _TONES_OF.get(advice.conclusion, "strong"))
    return Heading(said("{}: {}", advice.use.title, said_so), 2)


def decision(advice: Advice) -> list[Block]:
    """The decision alone; where it is open, the first thing that would settle it."""
    is_settled = advice.conclusion == "clear" or advice.take_either
    blocks: list[Block] = [_heading(advice), Terms(list(reasons(advice)))]
    return blocks if is_settled else [*blocks, *settling(advice.settling[:1])]


def whole(advice: Advice) -> list[Block]:
    """The decision, every metric behind the ranking, every warning, and all that would settle more."""
    blocks: list[Block] = [_heading(advice), Terms(list(reasons(advice)))]
    if advice.leaders:
        blocks += [ranking(advice), *evidence(advice)]
    blocks.append(coverage(advice))
    if advice.warnings:
        warned = [
            Item(
                f"{each.stack}, {each.workload}: {each.text}",
                [Paragraph(f"{sentence_case(each.remedy)}.", "remark")],
            )
            for each in advice.warnings
        ]
        blocks += [Heading("Warnings"), Bullets(warned)]
    if advice.settling:
        blocks += [Heading("What would settle more"), *settling(advice.settling)]
    return blocks


def settling(steps: Sequence[Settling]) -> Iterator[Block]:
    """What would make the advice surer, with its addition to the study file and its commands."""
    items = []
    for step in steps:
        codes = [Code(step.toml, "toml"), Code("\n".join(step.commands), "sh")]
        items.append(Item(step.text, [code for code in codes if code.text]))
    if items:
        yield Bullets(items)


def advised(report: Report) -> Iterator[Section]:
    """Which stack for which use, with the reasons folded away in a page."""
    shown = [advice for advice in report.advice if is_said(advice)]
    if not shown:
        return
    uses = [
        Group([*_use(report, advice)], f"use is-{advice.conclusion.replace(' ', '-')}") for advice in shown
    ]
    blocks: list[Block] = [Group(uses, "uses")]
    if left := [advice.use.title for advice in report.advice if advice not in shown]:
        blocks.append(Paragraph(_SILENT.format(listed(left)), "key"))
    note = "by weights that `strata advise` shows and lets you change"
    yield Section("advice", "Which stack for which use", blocks, note, where=WRITTEN)


def _use(report: Report, advice: Advice) -> Iterator[Block]:
    yield Heading(advice.use.title, 3, Toned(headline(advice), _TONES_OF.get(advice.conclusion, "strong")))
    yield Paragraph(advice.use.about, "about")
    changes = report.sensitivity.get(advice.use.name)
    # What would change another answer, by other needs or weights, says nothing about this one.
    if changes is not None and {*changes.leaders} <= {*advice.leaders}:
        yield Paragraph("What would change this, the nearest first:", "about")
        yield Bullets(sensitivity_sentences(changes), "changes")
    reasoned: list[Block] = [Terms(list(reasons(advice)))]
    if advice.standings:
        reasoned.append(ranking(advice))
    if steps := [*settling(advice.settling)]:
        reasoned += [Heading("What would settle more", 4), *steps]
    yield from folded("Why, how sure, and what it gives up", reasoned)


def uses_blocks(uses: Sequence[Use]) -> Iterator[Block]:
    """Uses with their weights and needs."""
    for use in uses:
        yield Heading(use.name, note=use.title)
        yield Paragraph(use.about)
        weights = [(each.name, each.weight / use.total, each.why) for each in use.weights]
        needs = [(ability(each.capability), each.level, each.why) for each in use.needs]
        yield Table(columns("weight", ("share", "share"), "why"), weights, is_headed=False)
        yield Table(columns("capability", "level", "why"), needs, is_headed=False)
        yield Paragraph(f"Weights: {use.source}", "remark")
