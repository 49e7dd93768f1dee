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
    PAGES,
    WRITTEN,
    Block,
    Bullets,
    Code,
    Fold,
    Group,
    Heading,
    Item,
    Paragraph,
    Section,
    Terms,
)
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
    """A row per ranked stack, the least weighted mean time first."""
    rows = [
        (each.stack, each.waiting, *_score(each.score), *_score(each.geometric), each.best_share)
        for each in advice.standings
    ]
    means = columns(
        (f"weighted mean time, {advice.baseline} = 1", "ratio"),
        *(("to the leader", "ratio"), ("95 % interval", "figure"), "verdict"),
        *(("geometric mean", "ratio"), ("its interval", "figure"), "its verdict"),
        ("leads in", "share"),
    )
    return Table((_STACK, *means), rows, "Ranking", "by the weighted mean time; below 1 is worse")


def _narrow_ranking(advice: Advice) -> Table:
    """The ranking in 80 columns, without the geometric mean's interval; two verdicts where they differ."""
    rows = []
    for stack, waiting, ratio, ends, verdict, geometric, _, other, share in ranking(advice).rows:
        shown = verdict if other == verdict else Cell(f"{verdict.value} / {other.value}")
        rows.append((stack, waiting, ratio, ends, shown, geometric, share))
    figures = columns(
        *(("time", "ratio"), ("to the leader", "ratio"), ("95 % interval", "figure"), "verdict"),
        *(("geometric", "ratio"), ("leads in", "share")),
    )
    return Table((_STACK, *figures), rows)


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
        blocks.append(Group([_narrow_ranking(advice)], where=frozenset({"terminal"})))
        blocks += [Group([ranking(advice)], where=WRITTEN), *evidence(advice)]
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


def advice_section(found: Sequence[Advice], changes: Mapping[str, Sequence[str]]) -> Iterator[Section]:
    """Of a report; ``changes`` has by use what would change the answer, in sentences."""
    shown = [advice for advice in found if is_said(advice)]
    blocks: list[Block] = [Group([Group(*_use(advice, changes)) for advice in shown], "uses")]
    if left := [advice.use.title for advice in found if advice not in shown]:
        blocks.append(Paragraph(_SILENT.format(listed(left)), "key"))
    note = "by weights that `strata advise` shows and lets you change"
    if found:
        yield Section("advice", "Which stack for which use", blocks, note)


def _use(advice: Advice, changes: Mapping[str, Sequence[str]]) -> tuple[list[Block], str]:
    blocks: list[Block] = [
        Heading(advice.use.title),
        Paragraph(sentence_case(headline(advice)), "lead"),
        Group([Paragraph(advice.use.about, "remark")], where=PAGES),
    ]
    if sentences := changes.get(advice.use.name):
        about = Paragraph("What would change this, the nearest first:", "remark")
        blocks += [about, Bullets(sentences, "tipping")]
    reasoned: list[Block] = [Terms(list(reasons(advice)))]
    if advice.standings:
        reasoned.append(ranking(advice))
    settled = list(settling(advice.settling))
    more: list[Block] = [*([Heading("What would settle more", 4)] if settled else []), *settled]
    blocks.append(Fold("Why, how sure, and what it gives up", [*reasoned, Group(more, where=PAGES)], WRITTEN))
    return blocks, f"use is-{advice.conclusion.replace(' ', '-')}"


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
