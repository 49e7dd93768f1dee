# SPDX-License-Identifier: Apache-2.0
"""The matrix of capabilities: stacks across, probes down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from strata.report.document import WRITTEN, Block, Bullets, Group, Section, folded
from strata.report.report import Report
from strata.report.spans import STYLES, StackName, Tone, said
from strata.report.table import Cell, Column, Table, terminal
from strata.results.capabilities import Capabilities, Capability, Verdict
from strata.units import format_duration, format_size

_TITLE_WIDTH: Final = 36
_WIDTH: Final = 18  # of a column in a terminal, in characters
TONES: Final[dict[Verdict, Tone]] = {"yes": "good", "no": "bad", "partial": "doubt", "failed": "unusual"}


def capabilities(report: Report) -> Iterator[Section]:
    """What the stacks can do, with the notes on what was tried."""
    found = report.capabilities
    if found is None or not found.cells:
        return
    blocks: list[Block] = [Group([capability_table(found)], "capabilities")]
    if notes := [
        said("{}, {}: {}", StackName(cell.stack), found.title(cell.probe), cell.note)
        for cell in found.cells
        if cell.note
    ]:
        blocks += folded("Notes on the capabilities", [Bullets(notes)])
    note = "tested in the lab; the times are virtual"
    yield Section("capabilities", "What the stacks can do", blocks, note, where=WRITTEN)


def capability_table(
    found: Capabilities,
    stacks: Sequence[str] | None = None,
    *,
    has_bytes: bool = False,
    has_questions: bool = True,
) -> Table:
    """A row per probe, if wanted with its question; a column per stack, if wanted with the moved bytes."""
    chosen = found.stacks if stacks is None else stacks
    rows = []
    for probe in found.probes:
        cells = [_cell(found.of(stack, probe.name), has_bytes=has_bytes) for stack in chosen]
        rows.append((Cell(probe.title, remark=probe.question if has_questions else ""), *cells))
    heads = (Column("capability"), *(Column(stack, is_stack=True, width=_WIDTH) for stack in chosen))
    return Table(heads, rows)


def _cell(cell: Capability | None, *, has_bytes: bool) -> Cell:
    if cell is None:
        return Cell(None)
    said = "?" if cell.verdict == "failed" and has_bytes else cell.verdict
    if cell.duration_ns is None or (has_bytes and (cell.verdict == "no" or not cell.commands)):
        return Cell(said, tone=TONES[cell.verdict])
    moved = f", {format_size((cell.read_bytes or 0) + (cell.write_bytes or 0))}" if has_bytes else ""
    return Cell(said, tone=TONES[cell.verdict], remark=f"{format_duration(cell.duration_ns)}{moved}")


def capability_views(found: Capabilities, stacks: Sequence[str], width: int) -> Iterator[RenderableType]:
    """The matrix in a terminal, divided into tables where not all stacks fit beside one another."""
    count = max(1, (width - _TITLE_WIDTH) // (_WIDTH + 2))
    for start in range(0, len(stacks), count):
        chosen = stacks[start : start + count]
        yield terminal(capability_table(found, chosen, has_bytes=True, has_questions=False))
        yield Text()


def capability_notes(found: Capabilities) -> Iterator[Text]:
    """Every cell's note, and the commands that show it."""
    for cell in found.cells:
        verdict = "?" if cell.verdict == "failed" else cell.verdict
        line = Text.assemble((f"{cell.stack}.{cell.probe} ", "bold"), (verdict, STYLES[TONES[cell.verdict]]))
        yield line.append(f"  {cell.note}" if cell.note else "", style="dim")
        for command in cell.commands:
            yield Text(f"    {command}", style="cyan")
