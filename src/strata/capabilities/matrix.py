# SPDX-License-Identifier: Apache-2.0
"""The matrix of capabilities: stacks across, probes down, in a terminal, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from strata.capabilities.probe import Probe
from strata.results.capabilities import Capability, Verdict
from strata.units import format_duration, format_size

_MARKS: Final[dict[Verdict, tuple[str, str]]] = {
    "yes": ("yes", "green"),
    "no": ("no", "red"),
    "partial": ("partial", "yellow"),
    "failed": ("?", "magenta"),
}

_TITLE: Final = 36
_COLUMN: Final = 20


def cost(cell: Capability) -> str:
    """The time and the bytes that an operation took; nothing where it was not run, or did nothing."""
    if cell.verdict == "no" or cell.duration_ns is None or not cell.commands:
        return ""
    moved = (cell.read_bytes or 0) + (cell.write_bytes or 0)
    return f"{format_duration(cell.duration_ns)}, {format_size(moved)}"


def terminal(
    cells: Sequence[Capability], probes: Sequence[type[Probe]], stacks: Sequence[str], width: int
) -> RenderableType:
    """A table with a row for each stack's probe, the verdicts in colour, and below it what was noted."""
    by_place = {(cell.stack, cell.probe): cell for cell in cells}
    parts: list[RenderableType] = []
    for chunk in _chunks(stacks, max(1, (width - _TITLE) // _COLUMN)):
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("", no_wrap=True)
        for stack in chunk:
            table.add_column(stack, overflow="fold", min_width=_COLUMN - 2)
        for probe in probes:
            row = [_cell_text(by_place[stack, probe.name]) for stack in chunk]
            table.add_row(Text(probe.title), *row)
        parts += [table, Text()]
    return Group(*parts)


def notes(cells: Sequence[Capability], *, commands: bool) -> Iterator[Text]:
    """Every cell's note, and the commands that show it."""
    for cell in cells:
        mark, style = _MARKS[cell.verdict]
        line = Text.assemble((f"{cell.stack}.{cell.probe} ", "bold"), (mark, style))
        yield line.append(f"  {cell.note}" if cell.note else "", style="dim")
        for command in cell.commands if commands else ():
            yield Text(f"    {command}", style="cyan")


def _cell_text(cell: Capability) -> Text:
    mark, style = _MARKS[cell.verdict]
    text = Text(mark, style=style)
    shown = cost(cell)
    return text.append(f"\n{shown}", style="dim") if shown else text


def _chunks(names: Sequence[str], width: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), width):
        yield names[start : start + width]


def markdown(cells: Sequence[Capability], probes: Sequence[type[Probe]], stacks: Sequence[str]) -> str:
    """The matrix for an article."""
    by_place = {(cell.stack, cell.probe): cell for cell in cells}
    lines = ["| | " + " | ".join(stacks) + " |", "|---|" + "---|" * len(stacks)]
    for probe in probes:
        shown = [_markdown_cell(by_place[stack, probe.name]) for stack in stacks]
        lines.append(f"| {probe.title} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def _markdown_cell(cell: Capability) -> str:
    spent = cost(cell)
    return _MARKS[cell.verdict][0] + (f" ({spent})" if spent else "")


def plain(cells: Sequence[Capability], probes: Sequence[type[Probe]]) -> dict[str, Any]:
    """Everything as JSON types."""
    return {
        "time_domain": "virtual",
        "probes": [
            {"name": probe.name, "title": probe.title, "question": probe.question} for probe in probes
        ],
        "cells": [cell.model_dump(mode="json") for cell in cells],
    }
