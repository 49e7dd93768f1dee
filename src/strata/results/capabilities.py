# SPDX-License-Identifier: Apache-2.0
"""capabilities.json: the abilities of a study's stacks, as `strata capabilities` found them by trial.

docs/reference/result-format.md describes it for readers of the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from strata.errors import ResultError
from strata.files import explained, make_folder, write_durably
from strata.results.reading import read_model
from strata.results.record import Fingerprint, Frozen, TimeDomain
from strata.results.store import ResultsFolder

CAPABILITIES_VERSION: Final = 1
CAPABILITIES_NAME: Final = "capabilities.json"
FINDINGS_NAME: Final = "capabilities"
"""The folder beside it that keeps each cell with its sources."""

_ANEW: Final = "remove the file and run `strata capabilities` again; the findings are kept beside it"

Verdict = Literal["yes", "no", "partial", "failed"]
"""``failed``: the probe came to no verdict, because something else went wrong."""


class Capability(Frozen):
    """One capability of one stack, as it was found.

    Attributes:
        note: A remark on the verdict.
        duration_ns: Virtual time of the operation itself, without preparing and verifying.
        read_bytes: Read by the disks during the operation; ``write_bytes`` written.
        commands: The operation's command lines, with variables.
    """

    stack: str
    probe: str
    verdict: Verdict
    note: str = ""
    duration_ns: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    commands: tuple[str, ...] = ()


class ProbeTitle(Frozen):
    """A row of the matrix."""

    name: str
    title: str
    question: str = ""


class Capabilities(Frozen):
    """The matrix of capabilities.

    Attributes:
        time_domain: Of the durations. Probes run in the lab, even for a study that is measured on a host.
        stacks: The columns in the study's order: each stack's title when it was probed.
        cells: At most one for each stack and probe.
    """

    capabilities_version: Literal[1] = CAPABILITIES_VERSION
    study: str
    time_domain: TimeDomain = "virtual"
    fingerprint: Fingerprint | None = None
    probes: tuple[ProbeTitle, ...]
    stacks: dict[str, str]
    cells: tuple[Capability, ...] = ()

    def of(self, stack: str, probe: str) -> Capability | None:
        return next((each for each in self.cells if (each.stack, each.probe) == (stack, probe)), None)

    def title(self, probe: str) -> str:
        """A probe's heading; its name if it has no row."""
        return next((each.title for each in self.probes if each.name == probe), probe)

    def limited_to(self, titles: Mapping[str, str]) -> Capabilities:
        """Without the stacks whose titles differ from ``titles``, by name: they were changed or removed."""
        stacks = {name: title for name, title in titles.items() if self.stacks.get(name) == title}
        cells = tuple(cell for cell in self.cells if cell.stack in stacks)
        return self.model_copy(update={"stacks": stacks, "cells": cells})


def read_capabilities(folder: ResultsFolder) -> Capabilities | None:
    """The capabilities of a results folder's stacks, without stacks changed since; None if none is left.

    Raises ResultError if the file is damaged or of another version.
    """
    found = _read(folder.path / CAPABILITIES_NAME)
    if found is None or not folder.study_path.is_file():
        return found
    found = found.limited_to({choice.name: choice.title for choice in folder.study().stacks})
    return found if found.cells else None


def write_capabilities(folder: ResultsFolder, found: Capabilities) -> Capabilities:
    """Add to the findings for the same stacks in the same lab, and return the file's new content.

    Raises ResultError if it cannot be written, the folder holds another study, or the present file is
    damaged.
    """
    refuse_other_study(folder, found.study)
    path = folder.path / CAPABILITIES_NAME
    before = _read(path)
    if before is not None and (before.study, before.fingerprint) == (found.study, found.fingerprint):
        cells = {(cell.stack, cell.probe): cell for cell in before.limited_to(found.stacks).cells}
        cells |= {(cell.stack, cell.probe): cell for cell in found.cells}
        ordered = [(stack, probe.name) for stack in found.stacks for probe in found.probes]
        found = found.model_copy(update={"cells": tuple(cells[at] for at in ordered if at in cells)})
    make_folder(folder.path)
    text = json.dumps(found.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_durably(path, text.encode() + b"\n")
    return found


def refuse_other_study(folder: ResultsFolder, study: str) -> None:
    """Refuse a folder of another study, or an unsafe one, before minutes are spent on probes."""
    folder.refuse_unsafe()
    if folder.study_path.is_file() and (name := folder.study().name) != study:
        cause = f'the folder holds the study "{name}", not "{study}"'
        raise ResultError(cause, place=str(folder.path), remedy="choose another folder with --results")


def _read(path: Path) -> Capabilities | None:
    with explained(path, "read the file"):
        if not path.exists():
            return None
    version = ("capabilities_version", CAPABILITIES_VERSION)
    older = f"use the Strata that wrote it, or {_ANEW}"
    return read_model(Capabilities, path, version, damaged=_ANEW, older=older)
