# SPDX-License-Identifier: Apache-2.0
"""A stack drawn as its levels, from what the workload sees down to the disks: as text, SVG and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup
from rich.text import Text
from rich.tree import Tree

from strata.report.palette import GRID, INK, MUTED, PAPER, STACKS, Colour
from strata.report.templates import page_templates
from strata.spec.describe import declared
from strata.spec.interface import Interface, Provided
from strata.spec.study import Study
from strata.units import describe_size, format_size

_KINDS: Final[dict[Interface, str]] = {
    "block": "block device",
    "filesystem": "filesystem",
    "pool": "pool",
}
_COLOURS: Final[dict[Interface, Colour]] = {"block": STACKS[0], "filesystem": STACKS[2], "pool": STACKS[4]}


_OWN: Final = "each tenant has of its own (sizes: for one alone)"
_SHARED: Final = "shared by all tenants"


@dataclass(frozen=True)
class Disk:
    """A disk of a stack; ``key`` is the key of the layer that names it, empty for those at the bottom."""

    name: str
    model: str
    capacity_bytes: int
    key: str = ""


@dataclass(frozen=True)
class Level:
    """One layer of a stack.

    Attributes:
        name: The layer's name in its stack.
        keys: Its keys, as declared.
        provides: What it offers to the level above.
        alignment: The options by which it aligns itself to the stripes below.
        disks: Those that its keys name.
        for_each_tenant: Whether every tenant has its own.
    """

    name: str
    keys: tuple[tuple[str, str], ...]
    provides: Provided
    alignment: Mapping[str, str]
    disks: tuple[Disk, ...]
    for_each_tenant: bool = False

    @property
    def declared(self) -> str:
        """Its keys in one line."""
        return "  ".join(f"{key} {value}" for key, value in self.keys)

    @property
    def size(self) -> str:
        """What it gives, with its capacity."""
        return f"{_KINDS[self.provides.kind]}, {format_size(sum(self.provides.capacities_bytes))}"

    @property
    def stripes(self) -> str:
        """How what it gives is striped; empty if it is not."""
        found = self.provides.geometry
        if found is None:
            return ""
        chunk = describe_size(found.chunk_bytes)
        return f"stripes of {found.data_chunks} × {chunk}" if found.data_chunks > 1 else f"chunks of {chunk}"


@dataclass(frozen=True)
class Drawing:
    """A stack: its levels from the top down, and the disks at the bottom."""

    name: str
    levels: tuple[Level, ...]
    disks: tuple[Disk, ...]

    def plain(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "stack": self.name,
            "levels": [
                {
                    "name": level.name,
                    "keys": dict(level.keys),
                    "provides": level.provides.kind,
                    "capacity_bytes": sum(level.provides.capacities_bytes),
                    "chunk_bytes": level.provides.geometry.chunk_bytes if level.provides.geometry else None,
                    "data_chunks": level.provides.geometry.data_chunks if level.provides.geometry else None,
                    "alignment": dict(level.alignment),
                    "disks": [_plain_disk(disk) for disk in level.disks],
                    "for_each_tenant": level.for_each_tenant,
                }
                for level in self.levels
            ],
            "disks": [_plain_disk(disk) for disk in self.disks],
        }


def _plain_disk(disk: Disk) -> dict[str, Any]:
    plain = {"name": disk.name, "model": disk.model, "capacity_bytes": disk.capacity_bytes}
    return {**plain, "key": disk.key} if disk.key else plain


def draw(study: Study, stack: str) -> Drawing:
    """A stack of a study, as its layers say what they stand on and give."""
    found = study.stacks[stack]
    offers = found.offers(study.capacities_bytes)

    def disk(name: str, key: str = "") -> Disk:
        used = study.devices[name]
        return Disk(name, used.device.name, used.capacity_bytes, key)

    levels = [
        Level(
            name=name,
            keys=tuple(declared(layer)),
            provides=offers[index + 1],
            alignment=layer.alignment(offers[index]),
            disks=tuple(disk(each, key) for key, names in layer.named_devices().items() for each in names),
            for_each_tenant=index >= len(found.common),
        )
        for index, (name, layer) in enumerate(zip(found.layer_names, found.layers, strict=True))
    ]
    return Drawing(stack, tuple(reversed(levels)), tuple(disk(name) for name in found.devices))


def text_tree(drawing: Drawing) -> Tree:
    """The levels as a tree in a terminal; the disks are its leaves."""
    root = at = Tree(Text(drawing.name, "bold"), guide_style="dim")
    is_divided = False
    for level in drawing.levels:
        if level.for_each_tenant != is_divided:
            at = at.add(Text(_OWN if level.for_each_tenant else _SHARED, "italic"))
            is_divided = level.for_each_tenant
        line = Text.assemble((level.name, "cyan"), *(f"  {key} {value}" for key, value in level.keys))
        at = at.add(line.append(f"  {level.size}", "dim"))
        notes = [level.stripes] if level.stripes else []
        notes += ["aligned: " + ", ".join(f"{key} {value}" for key, value in level.alignment.items())][
            : len(level.alignment)
        ]
        for note in notes:
            line.append(f"  {note}", "green")
        for disk in level.disks:
            at.add(_disk_line(disk))
    for disk in drawing.disks:
        at.add(_disk_line(disk))
    return root


def _disk_line(disk: Disk) -> Text:
    key = f"{disk.key}: " if disk.key else ""
    return Text.assemble(
        key, (disk.name, "yellow"), (f"  {disk.model}, {format_size(disk.capacity_bytes)}", "dim")
    )


# Sizes of the drawing, in pixels.
_WIDTH: Final = 640
_LEVEL: Final = 56
_GAP: Final = 10
_DISK: Final = 44
_CHARACTER: Final = 7
_BORDER: Final = 26


def svg(drawing: Drawing) -> str:
    """The levels as boxes, the workload's at the top, for articles; it follows the reader's light or dark."""
    boxes: list[dict[str, object]] = []
    top, border = 44, None
    for level in drawing.levels:
        if boxes and boxes[-1]["own"] and not level.for_each_tenant:
            border = top - _GAP // 2
            top += _BORDER
        second = [level.size, level.stripes, *(f"{key} {value}" for key, value in level.alignment.items())]
        second += [f"{disk.key}: {disk.name} ({format_size(disk.capacity_bytes)})" for disk in level.disks]
        boxes.append(
            {
                "top": top,
                "name": level.name,
                "colour": _COLOURS[level.provides.kind],
                "declared": _fitting(level.declared, len(level.name)),
                "second": _fitting(" · ".join(filter(None, second)), 0),
                "own": level.for_each_tenant,
            }
        )
        top += _LEVEL + _GAP
    count = max(1, len(drawing.disks))
    width = (_WIDTH - _GAP * (count - 1)) / count
    disks = [
        {
            "left": round(index * (width + _GAP), 1),
            "name": disk.name,
            "size": format_size(disk.capacity_bytes),
            "title": f"{disk.name}: {disk.model}, {format_size(disk.capacity_bytes)}",
        }
        for index, disk in enumerate(drawing.disks)
    ]
    page = page_templates().get_template("stack.svg.j2")
    return page.render(
        drawing=drawing,
        boxes=boxes,
        border=border,
        heading=f"{_OWN}:" if border else "workloads run on the uppermost level",
        shared=f"{_SHARED}:",
        disks=disks,
        disk_width=round(width, 1),
        disks_top=top,
        sizes={"width": _WIDTH, "level": _LEVEL, "disk": _DISK, "height": top + (_DISK if disks else 0)},
        models=", ".join(dict.fromkeys(disk.model for disk in drawing.disks)),
        colours={"ink": INK, "muted": MUTED, "grid": GRID, "paper": PAPER},
        palette=[*_COLOURS.values()],
        space=Markup("&#160;"),
    )


def _fitting(text: str, taken: int) -> str:
    """What of a text fits into a box beside ``taken`` characters."""
    limit = (_WIDTH - 40) // _CHARACTER - taken
    return text if len(text) <= limit else text[: limit - 1] + "…"
