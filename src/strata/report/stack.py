# SPDX-License-Identifier: Apache-2.0
"""A stack drawn as its levels, from the workload down to the disks: as text, SVG, JSON and on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from markupsafe import Markup
from rich.text import Text
from rich.tree import Tree

from strata.diagnostics.names import disk_of
from strata.errors import ResultError
from strata.model.describe import declared
from strata.model.layer import Interface
from strata.model.stack import PLACE, Stack
from strata.model.study import Study
from strata.model.study_record import StackRecord
from strata.plan.commands import build_commands
from strata.report import svg as drawn
from strata.report.document import (
    PAGES,
    WRITTEN,
    Block,
    Code,
    Drawn,
    Fold,
    Group,
    Heading,
    Paragraph,
    Section,
)
from strata.report.palette import GRID, INK, MUTED, PAPER, STACKS, Colour
from strata.report.report import Report
from strata.report.spans import StackName
from strata.report.stack_facts import SOURCES, facts_of, facts_table
from strata.results.declared import declared_study
from strata.results.record import StudySnapshot
from strata.rules.redundancy import single_points
from strata.units import describe_size, format_size

_KINDS: Final[dict[Interface, str]] = {"block": "block device", "filesystem": "filesystem", "pool": "pool"}
_COLOURS: Final[dict[Interface, Colour]] = {"block": STACKS[0], "filesystem": STACKS[2], "pool": STACKS[4]}
_OWN: Final = "each tenant has of its own (sizes: for one alone)"
_SHARED: Final = "shared by all tenants"


@dataclass(frozen=True)
class DrawnDisk:
    """A disk of a stack; ``key`` is the key of the layer that names it, empty for disks at the bottom."""

    name: str
    model: str = ""
    capacity_bytes: int = 0
    key: str = ""

    @property
    def title(self) -> str:
        return f"{self.model}, {format_size(self.capacity_bytes)}" if self.model else ""


@dataclass(frozen=True)
class DrawnLevel:
    name: str
    keys: Mapping[str, str]  # as declared
    provides: Interface | Literal[""] = ""  # empty where only the title of the stack is known
    capacity_bytes: int = 0
    chunk_bytes: int | None = None  # of its stripes, if its content is striped
    data_chunks: int | None = None
    alignment: Mapping[str, str] = field(default_factory=dict)  # options that align it to the stripes below
    disks: tuple[DrawnDisk, ...] = ()  # that its keys name
    for_each_tenant: bool = False

    @property
    def declared(self) -> str:
        return " · ".join(_pairs(self.keys))

    @property
    def size(self) -> str:
        return f"{_KINDS[self.provides]}, {format_size(self.capacity_bytes)}" if self.provides else ""

    @property
    def stripes(self) -> str:
        """How its content is striped; empty if it is not."""
        if self.chunk_bytes is None or self.data_chunks is None:
            return ""
        chunk = describe_size(self.chunk_bytes)
        return f"stripes of {self.data_chunks} × {chunk}" if self.data_chunks > 1 else f"chunks of {chunk}"

    @property
    def notes(self) -> list[str]:
        disks = (f"{disk.key}: {disk.name} ({format_size(disk.capacity_bytes)})" for disk in self.disks)
        return [each for each in (self.size, self.stripes, *_pairs(self.alignment), *disks) if each]


def _pairs(options: Mapping[str, str]) -> list[str]:
    return [f"{key} {value}" for key, value in options.items()]


@dataclass(frozen=True)
class StackDrawing:
    """A stack: its levels from the top down, and the disks at the bottom."""

    name: str
    levels: tuple[DrawnLevel, ...]
    disks: tuple[DrawnDisk, ...]
    single_points: tuple[str, ...] = ()
    """A sentence on each disk whose loss takes what others hold."""
    filesystems: tuple[StackDrawing, ...] = ()
    """The stack's further filesystems."""
    commands: tuple[str, ...] = ()
    """The commands that build it on a real machine."""


def draw(study: Study, stack: str) -> StackDrawing:
    found = study.stacks[stack]
    further = (
        _draw(study, part, f"{name} at {part.mount.removeprefix(PLACE)}")
        for name, part in found.filesystems.items()
    )
    points = tuple(single_points(found, study.capacities_bytes))
    drawn = replace(_draw(study, found, stack), single_points=points, filesystems=tuple(further))
    return replace(drawn, commands=tuple(build_commands(study, stack)))


def _draw(study: Study, found: Stack, title: str) -> StackDrawing:
    offers = found.offers(study.capacities_bytes)
    capacities = found.capacities(study.capacities_bytes)

    def disk(name: str, key: str = "") -> DrawnDisk:
        return DrawnDisk(name, study.devices[disk_of(name)].device.name, capacities[name], key)

    levels = []
    for index, (name, layer) in enumerate(zip(found.layer_names, found.layers, strict=True)):
        provided = offers[index + 1]
        striped = provided.geometry
        level = DrawnLevel(
            name,
            dict(declared(layer)),
            "" if layer.beside else provided.kind,
            sum(provided.capacities_bytes),
            striped.chunk_bytes if striped else None,
            striped.data_chunks if striped else None,
            dict(layer.alignment(offers[index])),
            tuple(disk(each, key) for key, names in layer.named_devices().items() for each in names),
            for_each_tenant=index >= len(found.common),
        )
        levels.append(level)
    disks = tuple(disk(name) for name in found.devices)
    if found.own:  # what stands beside the layers is drawn with the stack's own
        levels = [level for level in levels if level.provides]
    return StackDrawing(title, tuple(reversed(levels)), disks)


def study_of(snapshot: StudySnapshot) -> Study | None:
    """The study of a copy; None if files that it needs are not there any more."""
    try:
        return declared_study(snapshot, has_inputs=False)
    except ResultError:
        return None


def stacks(report: Report) -> Iterator[Section]:
    """The stacks' levels as pictures, what the stacks give and cost, and the commands that build them."""
    snapshot, study = report.results.snapshot, report.study
    drawings = stack_views(snapshot, study)
    blocks: list[Block] = [Group([_card(each) for each in drawings], "stacks", where=PAGES)]
    if study is not None:
        blocks += [
            facts_table(facts_of(study, report.capabilities)),
            Paragraph(f"Sources: {'; '.join(SOURCES)}.", "key"),
            Group([*_commands(drawings)], where=frozenset({"markdown"})),
        ]
    note = "from what the workload sees down to the disks"
    yield Section("stacks", "The stacks", blocks, note, where=WRITTEN)


_BUILT: Final = "As measured; they destroy the disks' content, and Strata does not run them there."


def _commands(drawings: Sequence[StackDrawing]) -> Iterator[Block]:
    yield Heading("The commands that build the stacks on a real machine")
    yield Paragraph(_BUILT)
    for drawing in drawings:
        yield Heading(drawing.name, 4)
        yield Code("\n".join(drawing.commands), "sh")


def _card(drawing: StackDrawing) -> Group:
    levels = Markup("").join(map(_level_html, drawing.levels))
    names = Markup("").join(
        Markup('<li title="{}">{}</li>').format(disk.title, disk.name) for disk in drawing.disks
    )
    titles = "; ".join(dict.fromkeys(filter(None, (disk.title for disk in drawing.disks))))
    small = Markup("<small>{}</small>").format(titles) if titles else ""
    disks = Markup('<li class="disks"><ul>{}</ul>{}</li>\n').format(names, small) if names else ""
    blocks: list[Block] = [
        Heading(StackName(drawing.name)),
        Drawn(Markup('<ol class="layers">\n{}{}</ol>\n').format(levels, disks)),
        *(Paragraph(f"{sentence}.", "key") for sentence in drawing.single_points),
    ]
    if drawing.commands:
        code = Code("\n".join(drawing.commands), "sh")
        blocks.append(Fold("The commands that build it on a real machine", [Paragraph(_BUILT, "key"), code]))
    return Group(blocks, stack=drawing.name)


def _level_html(level: DrawnLevel) -> Markup:
    return Markup('<li class="level {}{}"><b>{}</b>{}{}</li>\n').format(
        level.provides,
        " own" if level.for_each_tenant else "",
        level.name,
        Markup(" <span>{}</span>").format(level.declared) if level.keys else "",
        Markup("<small>{}</small>").format(" · ".join(level.notes)) if level.notes else "",
    )


def stack_views(snapshot: StudySnapshot, study: Study | None) -> list[StackDrawing]:
    """The stacks of a study, without sizes where the study could not be read."""
    if study is not None:
        return [draw(study, name) for name in study.stacks]
    return [_of_record(snapshot, name, stack) for name, stack in snapshot.stacks.items()]


def _of_record(snapshot: StudySnapshot, name: str, stack: StackRecord) -> StackDrawing:
    levels = [DrawnLevel(layer.layer, layer.stated) for layer in reversed(stack.layers)]
    used = [(each, snapshot.devices[disk_of(each)]) for each in stack.devices]
    disks = [DrawnDisk(each, device.model, device.capacity_bytes) for each, device in used]
    return StackDrawing(name, tuple(levels), tuple(disks))


def text_tree(drawing: StackDrawing) -> Tree:
    """The levels as a tree in a terminal; the disks are its leaves."""
    root = at = Tree(Text(drawing.name, "bold"), guide_style="dim")
    is_divided = False
    for level in drawing.levels:
        if level.for_each_tenant != is_divided:
            at = at.add(Text(_OWN if level.for_each_tenant else _SHARED, "italic"))
            is_divided = level.for_each_tenant
        line = Text.assemble((level.name, "cyan"), *(f"  {each}" for each in _pairs(level.keys)))
        aligned = f"aligned: {', '.join(_pairs(level.alignment))}" if level.alignment else ""
        for note, style in ((level.size, "dim"), (level.stripes, "green"), (aligned, "green")):
            line.append(f"  {note}" if note else "", style)
        at = at.add(line)
        for disk in level.disks:
            at.add(_disk_line(disk))
    for disk in drawing.disks:
        at.add(_disk_line(disk))
    for each in drawing.filesystems:
        root.add(text_tree(each))
    for sentence in drawing.single_points:
        root.add(Text(sentence, "yellow"))
    return root


def _disk_line(disk: DrawnDisk) -> Text:
    key = f"{disk.key}: " if disk.key else ""
    return Text.assemble(key, (disk.name, "yellow"), (f"  {disk.title}", "dim"))


# Sizes of the drawing, in pixels.
_WIDTH: Final = 640
_LEVEL: Final = 56
_GAP: Final = 10
_DISK: Final = 44
_CHARACTER: Final = 7
_BORDER: Final = 26


def svg(drawing: StackDrawing) -> str:
    """The levels as boxes, the uppermost first, for articles; light or dark as the reader's system."""
    parts: list[str] = []
    top, is_own = 44, False
    for level in drawing.levels:
        if is_own and not level.for_each_tenant:
            rule = f"M0 {top - _GAP // 2 + 3}H{_WIDTH}"
            parts.append(drawn.tag("path", d=rule, stroke=MUTED.light, stroke_dasharray="6 4"))
            parts.append(drawn.text(0, top + 11, f"{_SHARED}:"))
            top += _BORDER
        is_own = level.for_each_tenant
        parts.append(_box(level, top))
        top += _LEVEL + _GAP
    count = max(1, len(drawing.disks))
    width = (_WIDTH - _GAP * (count - 1)) / count
    parts += [_disk_box(disk, index * (width + _GAP), top, width) for index, disk in enumerate(drawing.disks)]
    bottom = top + (_DISK if drawing.disks else 0)
    is_divided = len({level.for_each_tenant for level in drawing.levels}) > 1
    heading = f"{_OWN}:" if is_divided else "workloads run on the uppermost level"
    models = ", ".join(dict.fromkeys(disk.model for disk in drawing.disks))
    heads = [
        drawn.text(0, 13, drawing.name, size=15, bold=True, fill=INK.light),
        drawn.text(0, 31, heading),
        drawn.text(0, bottom + 12, models),
    ]
    shifted = drawn.tag("g", "".join(heads + parts), transform="translate(1 1)")
    title = drawn.tag("title", drawn.escape(f"The stack {drawing.name}"))
    colours = (INK, MUTED, GRID, PAPER, *_COLOURS.values())
    return drawn.document([title, shifted], width=_WIDTH + 2, height=bottom + 22, colours=colours)


def _box(level: DrawnLevel, top: float) -> str:
    colour = _COLOURS[level.provides] if level.provides else MUTED
    name = drawn.tag("tspan", drawn.escape(level.name), font_weight=600, fill=INK.light)
    keys = drawn.tag("tspan", drawn.escape(_fitting(level.declared, len(level.name))), dx=10)
    return (
        _frame(0, top, _WIDTH, _LEVEL, 6)
        + drawn.tag("rect", x=0, y=top, width=6, height=_LEVEL, rx=3, fill=colour.light)
        + drawn.tag("text", name + keys, x=18, y=top + 23, fill=MUTED.light)
        + drawn.text(18, top + 39, _fitting(" · ".join(level.notes), 0))
    )


def _disk_box(disk: DrawnDisk, left: float, top: float, width: float) -> str:
    middle, size = left + width / 2, format_size(disk.capacity_bytes)
    title = drawn.tag("title", drawn.escape(f"{disk.name}: {disk.title}"))
    name = drawn.text(middle, top + 14, disk.name, anchor="middle", bold=True, fill=INK.light)
    return drawn.tag(
        "g",
        title
        + _frame(left, top, width, _DISK, 4)
        + name
        + drawn.text(middle, top + 31, size, anchor="middle"),
    )


def _frame(x: float, y: float, width: float, height: float, radius: float) -> str:
    fill, stroke = PAPER.light, GRID.light
    return drawn.tag("rect", x=x, y=y, width=width, height=height, rx=radius, fill=fill, stroke=stroke)


def _fitting(text: str, taken: int) -> str:
    """The text, shortened to fit into a box beside ``taken`` characters."""
    limit = (_WIDTH - 40) // _CHARACTER - taken
    return text if len(text) <= limit else text[: limit - 1] + "…"
