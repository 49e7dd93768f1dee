# SPDX-License-Identifier: Apache-2.0
"""Replaying the requests of a trial, or of another program's trace, on a modelled disk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from strata.devices.device import Device, find_device
from strata.devices.plausible import recorded_drive
from strata.errors import ResultError
from strata.explanation.replay import Replay, replay
from strata.explanation.source import Source, find_trials, read_source
from strata.lab.initrd import disk_seed
from strata.results.declared import declared_study
from strata.results.store import ResultsFolder
from strata.traces.requests import read_any
from strata.traces.table import Trace

SAME: Final = "same"
"""The device that stands for the trial's own."""


class Mode(StrEnum):
    """When requests arrive: at their recorded times, or as earlier ones complete."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True)
class Replayed:
    """The requests of one disk on another device, beside their recorded latencies if there are any."""

    disk: str
    device: str
    mode: Mode
    result: Replay
    has_latencies: bool


def replay_trace(words: Sequence[str], device: str, disk: str | None, mode: Mode, *, whole: bool) -> Replayed:
    """Replay a disk's requests on a device; ``same`` is the trial's own. Raises ResultError, StudyError.

    The words are ``RESULTS/TRIAL``, the folder and then the trial's id, or the file of a trace. The disk may
    be None if the trace has only one; ``whole``: latencies of all requests, not only of the window's.
    """
    trace, source = _read(words)
    name = _chosen(trace, disk)
    if mode is Mode.CLOSED and not trace.has_completions:
        cause = "the trace does not tell when requests were complete"
        raise ResultError(cause, place="--mode closed", remedy="replay it with --mode open")
    target = find_device(device, Path()) if device != SAME else _own_device(source, name)
    plan = source[1].plan if source else None
    sizes = {each.name: each.capacity_bytes for each in plan.devices} if plan else {}
    result = replay(
        trace.of_disk(name),
        target,
        capacity_bytes=sizes[name] if sizes.get(name, math.inf) <= target.capacity_bytes else None,
        mode=mode.value,
        seed=disk_seed(plan, name) if plan else 0,
        window_ns=source[1].window_ns if source and not whole else None,
    )
    return Replayed(name, target.name, mode, result, trace.has_completions)


def _read(words: Sequence[str]) -> tuple[Trace, tuple[ResultsFolder, Source] | None]:
    """The trace, and its trial unless it is a file alone."""
    if len(words) == 1 and (words[0].endswith(".parquet") or Path(words[0]).is_file()):
        return read_any(Path(words[0])), None
    named = find_trials(words)
    if len(named) > 1:
        raise ResultError(f"{len(named)} trials were named", place="strata trace", remedy="name one")
    source = read_source(*named[0])
    return source.trace(), (named[0][0], source)


def _own_device(source: tuple[ResultsFolder, Source] | None, disk: str) -> Device:
    if source is None:
        raise ResultError(
            "a table alone does not name its device", place="--on same", remedy="name the device"
        )
    device = declared_study(source[0].study(), has_inputs=False).devices[disk].device
    return recorded_drive(device, source[1].record.drives)


def _chosen(trace: Trace, disk: str | None) -> str:
    disks = trace.disks[1:]
    if disk is None and len(disks) == 1:
        return disks[0]
    if disk not in disks:
        raise ResultError(
            f'the trace has no disk "{disk}"' if disk else f"the trace has {len(disks)} disks",
            place="--disk",
            remedy=f"there are: {', '.join(disks)}",
        )
    return disk
