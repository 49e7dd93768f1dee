# SPDX-License-Identifier: Apache-2.0
"""What varying a study found, as blocks: the sensitivity of an answer, and what-if of a claim's verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from strata.reading.claims import Claim
from strata.report.claims import TONES, level_text
from strata.report.document import Block, Heading, Paragraph, Section
from strata.report.spans import Tone
from strata.report.table import Cell, Column, Table, columns
from strata.results.findings import BreakEven, Compared, Finding, Outcome, Tried, Variation
from strata.units import format_duration, times
from strata.words import counted, listed

_NAME_WIDTH: Final = 30  # in a terminal
_OUTCOMES: Final[dict[Outcome, str]] = {
    "flips": "changes",
    "stays": "stays",
    "cannot say": "unknown",
}
_COMPARED_MAX: Final = 3  # in a row


def sensitivity_sentences(found: Finding) -> list[str]:
    """The break-even points, the nearest first, and the quantities that do not change the answer."""
    said = [_point_words(point, found.leaders) for point in found.points if point.outcome == "flips"]
    said += _staying(found, "other " if said else "")
    unknown = sorted({point.quantity for point in found.points if point.outcome == "cannot say"})
    if unknown:
        names = listed(unknown if len(unknown) <= 4 else [*unknown[:3], f"{len(unknown) - 3} more"])
        said.append(f"Not tried to the end, or not possible: {names}.")
    return said


def _staying(found: Finding, other: str) -> Iterator[str]:
    """The quantities at whose ends the answer stays, and the nearest of them to a change."""
    moving = {point.quantity for point in found.points if point.outcome != "stays"}
    stays = [point for point in found.points if point.quantity not in moving]
    ends = [(point, near) for point in stays if (near := point.nearest)]
    if ends:
        names = counted(len({point.quantity for point in stays}), f"{other}quantity", f"{other}quantities")
        point, near = min(ends, key=lambda pair: pair[1].ratio)
        [compared] = near.compared
        yield (
            f"{names} tried to the ends of their ranges: the answer stays. The nearest to a change is "
            f"{point.quantity} at {point.shown(near.value)}, where {compared.stack} takes "
            f"{times(near.ratio)} as long as {compared.against}."
        )


def _point_words(point: BreakEven, leaders: Sequence[str]) -> str:
    """One point in a sentence: ``ext4 stays best unless a flush takes less than …``."""
    stays = f"{listed(leaders, 'or')} stay{'s' if len(leaders) == 1 else ''} best"
    side = "above" if point.is_above else "below"
    name = point.words if point.kind != "disk" else f"{point.words} ({point.quantity})"
    said = {"published": "published range", "estimated": "estimated range", "chosen": "tried from"}
    ends = f"{said[point.known]} {point.shown(point.low)} to {point.shown(point.high)}"
    assumed = f"{point.shown(point.stated)} assumed, {ends}"
    assert point.at is not None
    assert point.between is not None
    first, last = (point.shown(end) for end in sorted(point.between))
    is_weight = point.kind == "weight"
    between = "" if is_weight or first == last else f"found between {first} and {last}, "
    unsure = "" if point.is_shown or is_weight else ", though no interval shows it to be better"
    leads = "is best" if point.is_shown else "leads"
    return (
        f"{stays} unless {name} is {side} {point.shown(point.at)} ({between}{assumed}): "
        f"then {point.rival} {leads}{unsure}."
    )


def sensitivity_table(found: Finding) -> Table:
    """A row for each quantity and direction."""
    rows: list[tuple[Any, ...]] = []
    for point in found.points:
        last, nearest = point.tried[-1] if point.tried else None, point.nearest
        rows.append(
            (
                point.quantity,
                point.shown(point.stated),
                point.shown(point.end),
                _OUTCOMES[point.outcome],
                "" if point.at is None else point.shown(point.at),
                nearest.compared[0].stack if nearest else "",
                times(nearest.ratio) if nearest else "",
                last.seeds if last else None,
            )
        )
    heads = columns(
        *(("stated", "figure"), ("tried to", "figure"), "answer", ("at", "figure")),
        *(("rival", "stack"), ("its time", "figure"), ("seeds", "count")),
    )
    note = "the nearest first; the rival's weighted mean time over the leader's"
    return Table((Column("quantity", width=_NAME_WIDTH), *heads), rows, "Break-even points", note)


def sensitivity(title: str, found: Finding) -> Iterator[Block]:
    leads = "leads" if len(found.leaders) == 1 else "lead"
    yield Heading(title, note=f"{listed(found.leaders, 'or')} {leads} ({found.conclusion})")
    yield from map(Paragraph, sensitivity_sentences(found))
    yield sensitivity_table(found)


def what_if_sentence(found: Finding) -> str:
    """Which variation flips the verdict: ``reversed → reproduced with precondition = steady``."""
    before, tried = found.as_measured.verdict, [each for each in found.tried[1:] if each.verdict]
    rest = len(found.tried) - 1 - len(tried)
    untried = f"; {counted(rest, 'variation')} not tried or refused" if rest else ""
    if found.flipping:
        return f"{before} → reproduced with {listed([each.name for each in found.flipping], 'or')}{untried}"
    if not tried:
        return f"{before or 'no verdict'}{untried}"
    others = [f"{each.verdict} with {each.name}" for each in found.changing]
    but = f" ({listed(others)})" if others else ""
    one = "the one variation tried does not reproduce it"
    none = one if len(tried) == 1 else f"none of {len(tried)} variations reproduces it"
    return f"{before}, and {none}{but}{untried}"


def what_if_table(found: Finding) -> Table:
    rows = [
        (
            Cell(each.name, tone="strong", remark=each.why),
            Cell(each.verdict or "–", tone=_tone(each.verdict)),
            Cell(_found(each), remark=each.note if each.verdict else ""),
            each.seeds or None,
        )
        for each in found.tried
    ]
    return Table(columns("variation", "verdict", "found", ("seeds", "count")), rows)


def _tone(verdict: str) -> Tone:
    return next((tone for name, tone in TONES.items() if name == verdict), "dim")


def _found(outcome: Tried) -> str:
    if not outcome.verdict:
        return outcome.note
    compared = outcome.compared[:_COMPARED_MAX]
    shown = [
        level_text(each.level, (each.low, each.high), each.unit, is_ratio=each.against is not None) or "–"
        for each in compared
    ]
    more = len(outcome.compared) - len(shown)
    return ", ".join([*shown, *([f"and {more} more"] if more else [])])


def what_if(claim: Claim, found: Finding) -> Iterator[Block]:
    sides = [
        f"{each.stack} against {each.against}" if each.against else each.stack
        for each in found.as_measured.compared[:_COMPARED_MAX]
    ]
    yield Heading(claim.id, note=claim.claim)
    yield Paragraph(f"{what_if_sentence(found)}.")
    if sides:
        yield Paragraph(f"Compared: {', '.join(dict.fromkeys(sides))}.", "remark")
    yield what_if_table(found)


def proposed(claim: Claim, wanted: Sequence[tuple[Variation, str]]) -> Iterator[Block]:
    """The variations of a study without results; with each, why it is tried, or why it is refused."""
    rows = [
        (
            Cell(variation.name, tone="strong"),
            Cell(f"refused: {why}" if why else variation.why, tone="bad" if why else ""),
        )
        for variation, why in wanted
    ]
    yield Heading(claim.id, note=claim.claim)
    yield Table(columns("variation", "why"), rows)


def rebuilds(every: Iterable[Finding]) -> Iterator[Section]:
    """How long a lost disk takes to rebuild at its full size."""
    if blocks := [block for found in every for block in _rebuild(found)]:
        yield Section("rebuild", "Time to rebuild a lost disk", blocks)


def _rebuild(found: Finding) -> Iterator[Block]:
    """A row for each stack and load: the rebuilds of the parts, and the time for the whole disk."""
    yield Heading(found.subject)
    cells = dict.fromkeys((each.stack, each.workload) for tried in found.tried for each in tried.compared)
    rows = []
    for cell in cells:
        own = [
            next((each for each in tried.compared if (each.stack, each.workload) == cell), None)
            for tried in found.tried
        ]
        rows.append((*cell, *(_lasts(each) for each in own)))
    names = [f"{each.name}, {each.verdict or each.note}" for each in found.tried]
    heads = columns(("stack", "stack"), "load", *((name, "figure") for name in names))
    note = "mean and 95 % interval over plausible drives; of an estimate also over places of data and seeks"
    yield Table(heads, rows, note=note)
    yield from (Paragraph(f"{each.name}: {each.note}.", "remark") for each in found.tried if each.note)


def _lasts(each: Compared | None) -> str:
    if each is None or each.level is None:
        return "–"
    ends = (each.low, each.high)
    within = f" ({format_duration(ends[0])} to {format_duration(ends[1])})" if ends[0] and ends[1] else ""
    return f"{format_duration(each.level)}{within}"
