# SPDX-License-Identifier: Apache-2.0
"""A study's stacks for the page, level by level, from the copy of the study in the results folder."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from strata.errors import StrataError
from strata.plan.catalogue import catalogue
from strata.report.stack import Drawing, Level, draw
from strata.results.snapshot import Choice, StudySnapshot
from strata.spec.load import load_study
from strata.units import format_size


@dataclass(frozen=True)
class LevelView:
    """A layer as a box.

    Attributes:
        kind: What it gives: ``block``, ``filesystem`` or ``pool``; empty where it is not known.
        keys: Its keys, as declared.
        notes: What it gives, how that is striped, what it is aligned by.
        own: Whether each tenant has it of its own.
    """

    name: str
    kind: str
    keys: str
    notes: tuple[str, ...] = ()
    own: bool = False


@dataclass(frozen=True)
class StackView:
    """A stack's levels from the top down, and the disks at the bottom."""

    name: str
    levels: tuple[LevelView, ...]
    disks: tuple[tuple[str, str], ...]


def stack_views(study: StudySnapshot) -> list[StackView]:
    """The stacks of a study.

    Whether its file can still be read depends on what lies beside it; without it the stacks' titles tell
    less, but enough to draw them.
    """
    drawings = _drawings(study)
    return [
        _of_drawing(drawings[choice.name]) if choice.name in drawings else _of_title(choice)
        for choice in study.stacks
    ]


def _drawings(study: StudySnapshot) -> dict[str, Drawing]:
    if not study.text:
        return {}
    with tempfile.TemporaryDirectory(prefix="strata-report-") as folder:
        file = Path(folder) / "study.toml"
        file.write_text(study.text)
        try:
            read = load_study(file, catalogue())
            names = [choice.name for choice in study.stacks if choice.name in read.stacks]
            return {name: draw(read, name) for name in names}
        except StrataError:
            return {}


def _of_drawing(drawing: Drawing) -> StackView:
    disks = tuple((disk.name, f"{disk.model}, {format_size(disk.capacity_bytes)}") for disk in drawing.disks)
    return StackView(drawing.name, tuple(_level(level) for level in drawing.levels), disks)


def _level(level: Level) -> LevelView:
    notes = [level.size, *([level.stripes] if level.stripes else [])]
    notes += [f"{key} {value}" for key, value in level.alignment.items()]
    notes += [f"{disk.key}: {disk.name} ({format_size(disk.capacity_bytes)})" for disk in level.disks]
    keys = " · ".join(f"{key} {value}" for key, value in level.keys)
    return LevelView(level.name, level.provides.kind, keys, tuple(notes), level.for_each_tenant)


def _of_title(choice: Choice) -> StackView:
    """``md · level 10 / ext4 on 4 x wd-re4-500gb``: the layers from the bottom up, then the disks."""
    layers, _, disks = choice.title.partition(" on ")
    levels = []
    for words in reversed(layers.split(" / ")):
        name, _, keys = words.partition(" · ")
        levels.append(LevelView(name.strip(), "", keys))
    return StackView(choice.name, tuple(levels), ((disks, ""),) if disks else ())
