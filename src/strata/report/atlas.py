# SPDX-License-Identifier: Apache-2.0
"""An answer from the atlas as blocks: the answer, who measured it, and how far it lies from the question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strata.advice.atlas import AtlasAnswer
from strata.report.advice_tables import answer_text, ranking
from strata.report.advice_text import reasons
from strata.report.comparison import difference_name
from strata.report.document import Block, Heading, Terms
from strata.report.spans import said
from strata.report.table import Table, columns
from strata.words import counted, listed

_DIFFERENCES_MAX: Final = 20
_HASH_DIGITS: Final = 12


def atlas_blocks(found: AtlasAnswer, kernel_sha256: str | None) -> Iterator[Block]:
    """The answer; ``kernel_sha256`` is the kernel of this machine's lab, None if it has none."""
    yield Heading(said("From the atlas, before anything is run: {}", answer_text(found.advice)), 2)
    terms = [each for each in reasons(found.advice) if each[0] not in {"Missing", "Gives up"}]
    yield Terms([*terms, ("Measured by", _origin(found, kernel_sha256)), ("Disks", _disks(found))])
    yield ranking(found.advice)
    left = len(found.differences) - _DIFFERENCES_MAX
    rows = [
        (difference_name(each), each.first or "–", each.second or "–")
        for each in found.differences[:_DIFFERENCES_MAX]
    ]
    note = f"and {left} more: --json has them all" if left > 0 else ""
    yield Table(
        columns("", "in the atlas", "asked"), rows, "What is asked otherwise than it was measured", note
    )


def _origin(found: AtlasAnswer, kernel_sha256: str | None) -> str:
    versions, theirs = found.origin.shared["versions"], found.origin.fingerprint.kernel_sha256 or ""
    own = {None: "this machine has no lab yet", theirs: "as this machine's lab"}
    differs = (
        own.get(kernel_sha256) or f"this machine's lab has another, {(kernel_sha256 or '')[:_HASH_DIGITS]}"
    )
    return (
        f"Strata {versions['strata']} on {found.origin.measured}, with Linux {versions['kernel']} (kernel "
        f"{theirs[:_HASH_DIGITS]}; {differs}). {found.measured} of the {counted(found.cells, 'cell')} that "
        f"count are there, {counted(len(found.advice.seeds), 'seed')} in common."
    )


def _disks(found: AtlasAnswer) -> str:
    asked = listed([f"{count} × {name}" for name, count in found.models.items()])
    stands = f"{found.disks} × {found.device.name}"
    text = "As asked." if stands == asked else f"{stands} where {asked} was asked for."
    lacking = f" Not in the atlas: {listed(found.lacking)}." if found.lacking else ""
    return text + lacking
