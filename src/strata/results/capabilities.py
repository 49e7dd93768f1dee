# SPDX-License-Identifier: Apache-2.0
"""capabilities.json: what the stacks of a study can do, as `strata capabilities` found out by doing it.

docs/reference/result-format.md describes it for readers of the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from strata.durable import explained, make_folder, write_durably
from strata.errors import ResultError
from strata.results.reading import not_valid, read_json
from strata.results.record import Fingerprint, Frozen, TimeDomain
from strata.results.store import ResultsFolder

CAPABILITIES_VERSION: Final = 1
CAPABILITIES_NAME: Final = "capabilities.json"
FINDINGS_NAME: Final = "capabilities"
"""The folder beside it where each cell is kept with what it was made of."""

_ANEW: Final = "remove the file and run `strata capabilities` again; the findings are kept beside it"

Verdict = Literal["yes", "no", "partial", "failed"]
"""``failed``: the probe did not come to a verdict, because something else went wrong."""


class Capability(Frozen):
    """One capability of one stack, as it was found.

    Attributes:
        note: What a reader should know of the verdict.
        duration_ns: Virtual time of the operation itself, without preparing and verifying.
        read_bytes: What the disks read meanwhile; ``write_bytes`` likewise.
        commands: The operation's command lines, with variables, that show it.
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
    """A row of the matrix: a probe's name in kebab case, its heading, and what it finds out."""

    name: str
    title: str
    question: str = ""


class Capabilities(Frozen):
    """The matrix of capabilities.

    Attributes:
        time_domain: Of the durations. Probes run in the lab, also for a study that is measured on a host.
        fingerprint: The lab that it was found in.
        probes: The rows, in their order.
        stacks: The columns in the study's order: each stack's title when it was probed.
        cells: A stack and a probe have at most one; not every pair has one.
    """

    capabilities_version: Literal[1] = CAPABILITIES_VERSION
    study: str
    time_domain: TimeDomain = "virtual"
    fingerprint: Fingerprint | None = None
    probes: tuple[ProbeTitle, ...]
    stacks: dict[str, str]
    cells: tuple[Capability, ...] = ()

    def of(self, stack: str, probe: str) -> Capability | None:
        """What was found of a stack; None if it was not probed."""
        return next((each for each in self.cells if (each.stack, each.probe) == (stack, probe)), None)

    def title(self, probe: str) -> str:
        """A probe's heading; its name if it has no row."""
        return next((each.title for each in self.probes if each.name == probe), probe)

    def limited_to(self, titles: Mapping[str, str]) -> Capabilities:
        """Without the stacks that are not there any more, or not as they were probed.

        Args:
            titles: The study's stacks by name, in its order.
        """
        stacks = {name: title for name, title in titles.items() if self.stacks.get(name) == title}
        cells = tuple(cell for cell in self.cells if cell.stack in stacks)
        return self.model_copy(update={"stacks": stacks, "cells": cells})


def read_capabilities(folder: ResultsFolder) -> Capabilities | None:
    """The capabilities of a results folder's stacks; None when none were probed.

    Stacks that the study has changed since they were probed are left out.

    Raises:
        ResultError: If the file is damaged or of another version.
    """
    found = _read(folder.path / CAPABILITIES_NAME)
    if found is None or not folder.study_path.is_file():
        return found
    found = found.limited_to({choice.name: choice.title for choice in folder.study().stacks})
    return found if found.cells else None


def write_capabilities(folder: ResultsFolder, found: Capabilities) -> Capabilities:
    """Keep what was found beside what was found before in the same lab of the same stacks.

    Returns:
        What the file holds now.

    Raises:
        ResultError: If it cannot be written, the folder holds another study, or the file that is there is
            damaged.
    """
    refuse_other_study(folder, found.study)
    path = folder.path / CAPABILITIES_NAME
    before = _read(path)
    if before is not None and (before.study, before.fingerprint) == (found.study, found.fingerprint):
        found = _joined(before, found)
    make_folder(folder.path)
    text = json.dumps(found.model_dump(mode="json"), indent=1, ensure_ascii=False)
    write_durably(path, text.encode() + b"\n")
    return found


def refuse_other_study(folder: ResultsFolder, study: str) -> None:
    """Refuse a folder of another study, before minutes are spent on probes.

    Raises:
        ResultError: If the folder holds another study, or what is written there could reach something else.
    """
    folder.refuse_unsafe()
    if folder.study_path.is_file() and (name := folder.study().name) != study:
        raise ResultError(
            f'the folder holds the study "{name}", not "{study}"',
            place=str(folder.path),
            remedy="choose another folder with --results",
        )


def _joined(before: Capabilities, found: Capabilities) -> Capabilities:
    """Both, the newer findings before the older; ``found`` says which stacks and probes there are."""
    cells = {(cell.stack, cell.probe): cell for cell in before.limited_to(found.stacks).cells}
    cells |= {(cell.stack, cell.probe): cell for cell in found.cells}
    ordered = [(stack, probe.name) for stack in found.stacks for probe in found.probes]
    return found.model_copy(update={"cells": tuple(cells[place] for place in ordered if place in cells)})


def _read(path: Path) -> Capabilities | None:
    with explained(path, "read the file"):
        if not path.exists():
            return None
    content = read_json(path, _ANEW)
    version = content.get("capabilities_version")
    if version != CAPABILITIES_VERSION:
        raise ResultError(
            f"{CAPABILITIES_NAME} is of version {version}, this Strata reads version {CAPABILITIES_VERSION}",
            place=str(path),
            remedy=f"use the Strata that wrote it, or {_ANEW}",
        )
    try:
        return Capabilities.model_validate_json(json.dumps(content))
    except (ValidationError, RecursionError) as error:
        raise not_valid(error, path, _ANEW) from error
