# SPDX-License-Identifier: Apache-2.0
"""Tipping points as sentences, as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from strata.report.table import Column, Table, columns, terminal
from strata.report.wording import picked
from strata.results.findings import BreakEven, Finding, Outcome
from strata.units import times
from strata.words import counted, listed, sentence_case

_NAME_WIDTH: Final = 30  # in a terminal
_OUTCOMES: Final[dict[Outcome, str]] = {
    "flips": "changes",
    "stays": "stays",
    "cannot say": "unknown",
}


def point_words(point: BreakEven, leaders: Sequence[str]) -> str:
    """One point in a sentence: ``ext4 stays best unless a flush takes less than …``."""
    stays = f"{listed(leaders, 'or')} stay{'s' if len(leaders) == 1 else ''} best"
    side = "above" if point.is_above else "below"
    name = point.words if point.kind != "disk" else f"{point.words} ({point.quantity})"
    assumed = f"{point.shown(point.stated)} assumed, {_range_words(point)}"
    if point.outcome == "stays":
        return f"{stays} with {name} {side} the assumed value: {assumed}."
    if point.outcome == "cannot say" or point.at is None or point.between is None:
        return f"Nobody can say for {name} {side} the assumed value: {point.note or assumed}."
    first, last = (point.shown(each) for each in sorted(point.between))
    between = "" if point.kind == "weight" or first == last else f"found between {first} and {last}, "
    unsure = "" if point.is_shown or point.kind == "weight" else ", though no interval shows it to be better"
    leads = "is best" if point.is_shown else "leads"
    return (
        f"{stays} unless {name} is {side} {point.shown(point.at)} ({between}{assumed}): "
        f"then {point.rival} {leads}{unsure}."
    )


def _range_words(point: BreakEven) -> str:
    said = {"published": "published range ", "estimated": "estimated range ", "chosen": "tried from "}
    return f"{said[point.known]}{point.shown(point.low)} to {point.shown(point.high)}"


def tipping_words(found: Finding) -> list[str]:
    """The tipping points, the nearest first, and what does not change the answer."""
    tips = [each for each in found.points if each.outcome == "flips"]
    said = [point_words(each, found.leaders) for each in tips]
    quantities = {each.quantity for each in found.points if each.outcome == "stays"}
    stays = quantities - {each.quantity for each in found.points if each.outcome != "stays"}
    if stays:
        other = "other " if tips else ""
        names = counted(len(stays), f"{other}quantity", f"{other}quantities")
        ends = [each for each in found.points if each.quantity in stays and each.tried]
        nearest, last = min(
            ((each, near) for each in ends if (near := each.nearest)), key=lambda pair: pair[1].ratio
        )
        [compared] = last.compared
        said.append(
            f"{names} tried to the ends of their ranges: the answer stays. The nearest to a change is "
            f"{nearest.quantity} at {nearest.shown(last.value)}, where {compared.stack} waits "
            f"{times(last.ratio)} as long as {compared.against}."
        )
    unknown = {each.quantity for each in found.points if each.outcome == "cannot say"}
    if unknown:
        shown = sorted(unknown)
        names = listed(shown if len(shown) <= 4 else [*shown[:3], f"{len(shown) - 3} more"])
        said.append(f"Not tried to the end, or not possible: {names}.")
    return said


def tipping_table(found: Finding) -> Table:
    """A row for each quantity and direction."""
    rows: list[tuple[Any, ...]] = []
    for each in found.points:
        ends = each.between
        at = "" if each.at is None else each.shown(each.at)
        last = each.tried[-1] if each.tried else None
        nearest = each.nearest
        rows.append(
            (
                each.quantity,
                each.shown(each.stated),
                each.shown(each.end),
                _OUTCOMES[each.outcome],
                at if ends else "",
                nearest.compared[0].stack if nearest else "",
                times(nearest.ratio) if nearest else "",
                last.seeds if last else None,
            )
        )
    heads = columns(
        *(("stated", "figure"), ("tried to", "figure"), "answer", ("at", "figure")),
        *(("rival", "stack"), ("waits", "figure"), ("seeds", "count")),
    )
    return Table(
        (Column("quantity", width=_NAME_WIDTH), *heads),
        rows,
        "Tipping points",
        "the nearest first; the rival's waiting over the leader's",
    )


def tipping_view(title: str, found: Finding) -> RenderableType:
    head = Text.assemble(
        (title, "bold"), f"  {listed(found.leaders, 'or')} {_leads(found)} ({found.conclusion})"
    )
    sentences = [Text(each) for each in tipping_words(found)]
    return Group(head, *sentences, Text(), terminal(tipping_table(found)))


def _leads(found: Finding) -> str:
    return "leads" if len(found.leaders) == 1 else "lead"


def tipping_plain(found: Finding) -> dict[str, Any]:
    return {
        "use": found.subject,
        **picked(found, "leaders", "whole"),
        "sentences": tipping_words(found),
        "points": [
            {
                **each.model_dump(mode="json"),
                **picked(each, "outcome", "note", "at", "between", "rival", "is_shown"),
                "sentence": sentence_case(point_words(each, found.leaders)),
            }
            for each in found.points
        ],
    }
