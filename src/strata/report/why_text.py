# SPDX-License-Identifier: Apache-2.0
"""Why a claim has its verdict: in a sentence, as a table and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from strata.reading.claims import Claim
from strata.report.claims import TONES, level_words
from strata.report.spans import Tone
from strata.report.table import Cell, Table, columns, terminal
from strata.report.wording import picked
from strata.results.findings import Compared, Finding, Tried, Variation
from strata.words import counted, listed

_COMPARED_MAX: Final = 3  # in a row


def why_sentence(found: Finding) -> str:
    """Which variation turns the verdict: ``reversed → reproduced with precondition = steady``."""
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


def why_table(found: Finding) -> Table:
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
    shown = [_level(each) for each in outcome.compared[:_COMPARED_MAX]]
    more = len(outcome.compared) - len(shown)
    return ", ".join([*shown, *([f"and {more} more"] if more else [])])


def _level(each: Compared) -> str:
    return level_words(each.level, (each.low, each.high), each.unit, is_ratio=each.against is not None) or "–"


def why_view(claim: Claim, found: Finding) -> RenderableType:
    sides = [
        f"{each.stack} against {each.against}" if each.against else each.stack
        for each in found.as_measured.compared[:_COMPARED_MAX]
    ]
    compared = f"Compared: {', '.join(dict.fromkeys(sides))}." if sides else ""
    return Group(
        Text.assemble((claim.id, "bold"), f"  {claim.claim}"),
        Text(f"{why_sentence(found)}."),
        Text(compared, style="dim"),
        Text(),
        terminal(why_table(found)),
    )


def why_plain(claim: Claim, found: Finding) -> dict[str, Any]:
    return {
        **picked(claim, "id", "claim", "source"),
        "sentence": why_sentence(found),
        "turned_by": [each.name for each in found.flipping],
        "whole": found.whole,
        "variations": [each.model_dump(mode="json") for each in found.tried],
    }


def proposed_view(claim: Claim, wanted: Sequence[tuple[Variation, str]]) -> RenderableType:
    """The variations of a study without results; of each why, or the reason of its refusal."""
    rows = [
        (
            Cell(each.name, tone="strong"),
            Cell(f"refused: {why}" if why else each.why, tone="bad" if why else ""),
        )
        for each, why in wanted
    ]
    title = Text.assemble((claim.id, "bold"), f"  {claim.claim}")
    return Group(title, Text(), terminal(Table(columns("variation", "why"), rows)))
