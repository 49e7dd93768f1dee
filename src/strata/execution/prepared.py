# SPDX-License-Identifier: Apache-2.0
"""A trial in two boots of the lab: the disks that the first leaves are made once, and kept in the cache.

What the first boot leaves is a function of its plan, the drives and the lab. The first trial that needs it
makes it, and others that need it meanwhile wait. Every trial, the first one included, then works on a copy.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from strata.errors import RunError
from strata.lab.boot import Power
from strata.lab.cache import Cache, Entry, Inputs, cache_root
from strata.lab.disk_image import DiskImage
from strata.lab.travel import LabPart, Made
from strata.model.layer import KernelLog
from strata.plan.aspects.restart import parts_of
from strata.plan.model import canonical_json, sha256_hex
from strata.results.events import read_events
from strata.results.failure_reasons import failure_reasons
from strata.runners.base import (
    CONSOLE_NAME,
    EVENTS_NAME,
    PLAN_NAME,
    PREPARED_NAME,
    Cancelled,
    HostError,
    Progress,
    Runner,
    Task,
)
from strata.runners.lab import LabRunner

KIND: Final = "prepared"
_SHARE: Final = 4  # prepared disks take at most a fourth of the space that is free without them
_POLL_S: Final = 0.2


@dataclass(frozen=True)
class PreparedDisks:
    """The disks that a trial began with, and whether it found them prepared."""

    made: Made
    found: bool


def carry_out(runner: Runner, task: Task, kernel_logs: Sequence[KernelLog]) -> PreparedDisks | None:
    """Carry out a trial as `Runner.run` does; one that prepares once in two boots.

    Returns its prepared disks; None for a trial that prepares in the boot that measures.

    Raises what `Runner.run` raises, and RunError if the first boot fails.
    """
    parts = parts_of(task.plan)
    if parts is None or not isinstance(runner, LabRunner):
        runner.run(task)
        return None
    first, second = parts
    cache = Cache(cache_root())
    entry, images, disks = _prepared(cache, runner, replace(task, plan=first), kernel_logs)
    with ExitStack() as opened:
        for image in images:
            opened.enter_context(image)
        _make_room(cache, entry)
        runner.boot(replace(task, plan=second), Power(images, earlier_ns=entry.manifest["virtual_ns"]))
    return disks


def _prepared(
    cache: Cache, runner: LabRunner, task: Task, kernel_logs: Sequence[KernelLog]
) -> tuple[Entry, list[DiskImage], PreparedDisks]:
    """The disks that the first boot leaves, and copies of them."""
    inputs = _inputs(runner, task)
    lock = f"{KIND}-{inputs.key}"
    try:
        while True:
            _wait_for(cache, lock, task)
            was_there = cache.find(KIND, inputs) is not None
            made = cache.build(KIND, inputs, partial(_make, runner, task, kernel_logs))
            with cache.locked(lock):
                if cache.find(KIND, inputs) is None:  # another program has just made room
                    continue
                cache.choose(made)
                shutil.copyfile(made.path / EVENTS_NAME, task.folder / PREPARED_NAME)
                part = LabPart(KIND, made.key, made.sha256)
                took_s = made.manifest.get("seconds", 0.0)  # not of an older Strata
                disks = PreparedDisks(Made(part, made.size_bytes, took_s), was_there)
                return made, _copies(made, len(task.plan.devices)), disks
    except OSError as error:
        raise HostError(
            f"the prepared disks cannot be kept: {error.strerror}",
            place=task.plan.trial.id,
            remedy="free some space in the lab's cache, or name another one with STRATA_CACHE",
        ) from error


def _inputs(runner: LabRunner, task: Task) -> Inputs:
    """All that the outcome of the first boot depends on."""
    lab = runner.identity_of(task.plan)
    setting = runner.setting(task.plan, task.devices)
    return Inputs(
        wanted={
            "plan": sha256_hex(task.plan.to_json()),
            "setting": sha256_hex(canonical_json(dict(setting))),
            "kernel": f"{lab.kernel_sha256}",
            "image": f"{lab.image_sha256}",
            "agent": f"{lab.agent_sha256}",
            "lab": f"{lab.setting_sha256}",
        },
        found={},
    )


def _wait_for(cache: Cache, lock: str, task: Task) -> None:
    while cache.is_locked(lock):
        if task.cancel.is_set():
            raise Cancelled
        task.report(Progress("wait for disks that another trial prepares", "prepare", 0))
        time.sleep(_POLL_S)


def _make(runner: LabRunner, task: Task, kernel_logs: Sequence[KernelLog], folder: Path) -> dict[str, Any]:
    """Build the stack and prepare the data in the first boot; returns the entry's manifest."""
    (folder / PLAN_NAME).write_bytes(task.plan.to_json())
    began_s = time.monotonic()
    with ExitStack() as opened:
        images = [
            opened.enter_context(DiskImage.at(folder / _image(index), new=True))
            for index in range(len(task.plan.devices))
        ]
        try:
            runner.boot(replace(task, folder=folder, trace=False), Power(images))
            events = read_events(folder / EVENTS_NAME)
            reasons = failure_reasons(task.plan, events, folder / CONSOLE_NAME, kernel_logs)
            if reasons:
                raise RunError(f"the disks could not be prepared: {reasons[0]}", place=task.plan.trial.id)
        except RunError:
            _keep_evidence(folder, task.folder)
            raise
        for path in folder.iterdir():  # it may hold the study's private inputs
            path.chmod(0o600)
        return {
            "virtual_ns": events.last_ns,
            "events_sha256": events.sha256,
            "seconds": time.monotonic() - began_s,
        }


def _keep_evidence(folder: Path, attempt: Path) -> None:
    """The attempt of a trial whose first boot failed has that boot's events."""
    for name in (EVENTS_NAME, CONSOLE_NAME):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, attempt / name)


def _image(index: int) -> str:
    return f"{index}.disk"


def _copies(made: Entry, count: int) -> list[DiskImage]:
    with ExitStack() as unless_done:
        copies = []
        for index in range(count):
            with DiskImage.at(made.path / _image(index)) as image:
                copies.append(unless_done.enter_context(image.copy()))
        unless_done.pop_all()
    return copies


def _make_room(cache: Cache, made: Entry) -> None:
    """Delete the prepared disks that were not used for the longest time, if they take too much."""
    entries = cache.entries(KIND)
    sizes = {entry.key: entry.size_bytes for entry in entries}
    taken = sum(sizes.values())
    most = (shutil.disk_usage(cache.root).free + taken) // _SHARE
    for entry in reversed(entries):
        if taken <= most:
            return
        if entry.key != made.key and not cache.is_locked(f"{KIND}-{entry.key}"):
            with suppress(OSError):  # another program does the same
                cache.remove(entry)
            taken -= sizes[entry.key]
