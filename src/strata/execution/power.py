# SPDX-License-Identifier: Apache-2.0
"""A power cut: a trial up to the cut, then another boot on the same disk images that recovers and checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from strata.errors import RunError
from strata.lab.boot import Power
from strata.lab.disk_image import DiskImage, PowerCut, PowerCutDamage
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.plan.recovery import compile_recovery, with_cut_after
from strata.results.events import Events, read_events
from strata.runners.base import CONSOLE_NAME, EVENTS_NAME, PLAN_NAME, Progress, Task
from strata.runners.lab import LabRunner
from strata.spec.device import Device
from strata.spec.study import Study
from strata.units import format_duration

Verdict = Literal["sound", "damaged", "not mountable", "kernel panicked", "unknown"]
Phase = Literal["run", "recover"]

_PANIC: Final = "Kernel panic"
_SAID_LINES: Final = 12


@dataclass(frozen=True)
class CutResult:
    """The outcome of a power cut."""

    trial: str  # the trial's id
    step: str  # the step that the cut interrupted; empty during boot
    losses: tuple[PowerCutDamage, ...]  # the lost writes of each disk, under the study's names of the disks
    # ``sound``: mounted, and the filesystem's checker found nothing; the content of files, such as a
    # database, is not checked. ``kernel panicked``: in the next boot, on these images. ``unknown``: another
    # step of the recovery failed.
    verdict: Verdict
    said: tuple[str, ...]  # the last lines of the failed step, or of the kernel; empty for ``sound``

    def describe(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)


def cut_and_recover(
    runner: LabRunner,
    study: Study,
    stack: str,
    workload: str,
    *,
    cut: PowerCut,
    after_step: str | None,
    folder: Path,
    report: Callable[[Phase, Progress], None] = lambda phase, progress: None,
) -> CutResult:
    """Run a trial until its power is cut, then recover and check its disks.

    The trial is of the study's first seed. With ``after_step`` the power is cut when that step ends, not at
    the instant in ``cut``. Both boots write into ``folder``.

    Raises PlanError if the trial has no step ``after_step``, RunError if the trial ended before its power was
    cut, and LabError if a lab could not be started.
    """
    seed = study.seeds[0]
    study = replace(study, phases="fixed", prepare="each")  # the instant of the cut counts from the boot
    plan = compile_trial(study, stack, workload, seed)
    if after_step is not None:
        plan = with_cut_after(plan, after_step)
    runner.provide(plan, study.inputs.values())
    devices = study.of(stack).drawn_devices(stack, seed)
    # A declared fault lasts until its boot ends.
    sound = {name: replace(device, faults=()) for name, device in devices.items()}
    images = [DiskImage(folder) for _ in plan.devices]
    try:
        first = _begin(folder / "cut", plan, devices, partial(report, "run"))
        losses = runner.boot(first, Power(images, cut))
        events = read_events(first.folder / EVENTS_NAME)
        if losses is None:
            raise _ended_early(plan, events)
        recovery = compile_recovery(study, stack, seed)
        second = _begin(folder / "recovery", recovery, sound, partial(report, "recover"))
        verdict, said = _recover(runner, second, Power(images))
    finally:
        for image in images:
            image.close()
    running = [step for step, run in events.steps.items() if run.ending is None]
    named = zip(losses, plan.devices, strict=True)  # the study's names of the disks, not the lab kernel's
    losses = [replace(loss, disk=device.name) for loss, device in named]
    return CutResult(plan.trial.id, running[-1] if running else "", tuple(losses), verdict, said)


def _begin(
    folder: Path, plan: Plan, devices: Mapping[str, Device], report: Callable[[Progress], None]
) -> Task:
    """A boot's task, in a new folder."""
    folder.mkdir()
    (folder / PLAN_NAME).write_bytes(plan.to_json())
    return Task(plan, devices, folder, trace=False, cpu=max(os.sched_getaffinity(0)), report=report)


def _ended_early(plan: Plan, events: Events) -> RunError:
    failed = events.end.failed_step if events.end is not None else None
    why = f", because its step {failed} failed" if failed else ""
    return RunError(
        f"the trial ended after {format_duration(events.last_ns)}{why}; its power was not cut",
        place=plan.trial.id,
        remedy="it fails without a cut, too: strata run shows why" if failed else "cut it earlier",
    )


def _recover(runner: LabRunner, task: Task, power: Power) -> tuple[Verdict, tuple[str, ...]]:
    """Boot on the images that the cut left, and judge them."""
    try:
        runner.boot(task, power)
    except RunError:
        # A kernel that panics on a disk's content is a finding about the stack, not an error of Strata.
        console = (task.folder / CONSOLE_NAME).read_text(errors="replace")
        before, found, panic = console.partition(_PANIC)
        if not found:
            raise
        return "kernel panicked", _last_lines(before + _PANIC + panic.partition("\n")[0])
    return _judge(task.plan, read_events(task.folder / EVENTS_NAME))


def _last_lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.splitlines() if line.strip())[-_SAID_LINES:]


def _judge(plan: Plan, events: Events) -> tuple[Verdict, tuple[str, ...]]:
    assert events.end is not None, "a boot that was not cut ends with its agent's last word"
    step = events.end.failed_step
    if events.end.outcome == "ok" or step is None:
        return ("sound", ()) if events.end.outcome == "ok" else ("unknown", (events.end.reason or "",))
    text = events.output(step) + events.output(step, "stderr")
    lines = _last_lines(text)
    purpose = next((each.purpose for each in plan.steps if each.id == step), None)
    verdicts: dict[str, Verdict] = {"recover": "not mountable", "check": "damaged"}
    return verdicts.get(purpose.what if purpose else "", "unknown"), lines
