# SPDX-License-Identifier: Apache-2.0
"""A power cut: a trial up to the cut, then another boot on the same disk images that recovers and checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final, Literal

from strata.devices.device import Device
from strata.errors import RunError
from strata.lab.boot import Power
from strata.lab.disk_image import DiskImage, PowerCut, PowerCutDamage
from strata.model.step import Step
from strata.model.study import Study
from strata.model.survival import CountsAcknowledged, Kept
from strata.model.trial import TrialKey
from strata.model.workload import Outputs, StepOutput
from strata.plan.aspects.interventions import LOSE_DISK
from strata.plan.aspects.power_cut import ACKNOWLEDGED, with_cut_after
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.plan.placement import placements_of
from strata.plan.recovery import compile_recovery
from strata.results.events import Events, read_events
from strata.runners.base import CONSOLE_NAME, EVENTS_NAME, PLAN_NAME, Progress, Task
from strata.runners.lab import LabRunner
from strata.units import format_duration
from strata.words import beginning_and_end

Verdict = Literal["sound", "damaged", "not mountable", "content damaged", "kernel panicked", "unknown"]
Phase = Literal["run", "recover"]

_PANIC: Final = "Kernel panic"
_SAID_LINES: Final = 12
_SAID_CHARACTERS: Final = 1000


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
    kept: Kept | None = None  # of what the load had acknowledged; None: nobody can say, or it is not reached
    recovery_ns: int | None = None  # until the content could be used again, without the checks; None: never

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
    folder: Path,
    after_step: str | None = None,
    in_window_ns: int | None = None,
    seed: int | None = None,
    cpu: int | None = None,
    cancel: Event | None = None,
    report: Callable[[Phase, Progress], None] = lambda phase, progress: None,
) -> CutResult:
    """Run a trial until its power is cut, then recover and check its disks.

    The trial is of the study's first seed, unless another is given. The power is cut when ``after_step``
    ends, ``in_window_ns`` after the beginning of the measured window, or else at the instant in ``cut``. Only
    in the measured window the load says what it had acknowledged. Both boots write into ``folder``.

    Raises PlanError if the trial has no step ``after_step``, RunError if the trial ended before its power was
    cut, and LabError if a lab could not be started.
    """
    seed = study.seeds[0] if seed is None else seed
    plan, study = cut_plan(study, stack, workload, seed, in_window_ns)
    if after_step is not None:
        plan = with_cut_after(plan, after_step)
    runner.provide(plan, study.inputs.values())
    devices = study.of(stack).drawn_devices(stack, seed)
    # A declared fault lasts until its boot ends.
    sound = {name: replace(device, faults=()) for name, device in devices.items()}
    begin = partial(
        _begin, cpu=max(os.sched_getaffinity(0)) if cpu is None else cpu, cancel=cancel or Event()
    )
    images = [DiskImage(folder) for _ in plan.devices]
    try:
        first = begin(folder / "cut", plan, devices, report=partial(report, "run"))
        losses = runner.boot(first, Power(images, cut))
        events = read_events(first.folder / EVENTS_NAME)
        if losses is None:
            raise _ended_early(plan, events)
        content = _Content(study, stack, workload, seed, _said(events, in_window_ns))
        lost = events.steps.get(LOSE_DISK)
        degraded = lost is not None and lost.ending is not None
        recovery = compile_recovery(study, stack, seed, content.steps(), degraded=degraded)
        second = begin(folder / "recovery", recovery, sound, report=partial(report, "recover"))
        verdict, said, after = _recover(runner, second, Power(images))
    finally:
        for image in images:
            image.close()
    running = [step for step, run in events.steps.items() if run.ending is None]
    named = zip(losses, plan.devices, strict=True)  # the study's names of the disks, not the lab kernel's
    losses = [replace(loss, disk=device.name) for loss, device in named]
    kept = None if verdict in ("unknown", "damaged") else content.kept(after)
    if kept is not None and kept.damage:
        verdict, said = "content damaged", (kept.damage,)
    took_ns = _recovery_ns(recovery, after) if after is not None and verdict == "sound" else None
    step = running[-1] if running else ""
    return CutResult(plan.trial.id, step, tuple(losses), verdict, said, kept, took_ns)


def cut_plan(
    study: Study, stack: str, workload: str, seed: int, in_window_ns: int | None
) -> tuple[Plan, Study]:
    """The plan of a trial whose power will be cut, and the study that it is of."""
    study = replace(study, phases="fixed", prepare="each")  # the instant of the cut counts from the boot
    return compile_trial(study, stack, workload, seed, cut_after_ns=in_window_ns), study


def _said(events: Events, in_window_ns: int | None) -> str | None:
    """The load's acknowledgements, as printed before the cut; None: they were not asked for."""
    run = events.steps.get(ACKNOWLEDGED)
    if in_window_ns is None or run is None:
        return None
    if run.ending is None or run.ending.exit_code != 0:
        raise RunError(
            "the load could not say what was acknowledged",
            place=f"step {ACKNOWLEDGED}",
            remedy=beginning_and_end(events.output(ACKNOWLEDGED, "stderr"), 200) or "it did not end",
        )
    return events.output(ACKNOWLEDGED)


@dataclass(frozen=True)
class _Content:
    """The content of a workload on a recovered stack."""

    study: Study
    stack: str
    workload: str
    seed: int
    said: str | None

    def steps(self) -> list[Step]:
        if self.said is None:
            return []
        study = self.study.of(self.stack)
        [placement] = placements_of(study, TrialKey(self.stack, self.workload, self.seed))[1]
        assert isinstance(placement.load, CountsAcknowledged), "it has said what is acknowledged"
        found = placement.of_load(placement.load.recovered(placement.context(), self.said))
        return [step.model_copy(update={"phase": "build"}) for step in found]

    def kept(self, events: Events | None) -> Kept | None:
        """The surviving operations; None for ``events``: the kernel panicked."""
        if self.said is None:
            return None
        runs = {} if events is None else events.steps
        ended = [name for name, run in runs.items() if run.ending is not None and run.ending.exit_code == 0]
        found = {name: StepOutput(events.output(name)) for name in ended if events is not None}
        load = self.study.load(self.stack, self.workload)
        return load.kept(self.said, Outputs(found)) if isinstance(load, CountsAcknowledged) else None


def _recovery_ns(plan: Plan, events: Events) -> int:
    """The time of the steps that bring the content up: layers, mount, server; no checks, no second mount."""
    ids = [step.id for step in plan.steps]
    down = next((index for index, step in enumerate(plan.steps) if step.takes_down), len(ids))
    again = [step.id for step in plan.steps[down:] if step.background]
    endings = (events.steps[name].ending for name in (*ids[:down], *again) if name in events.steps)
    return sum(ending.duration_ns for ending in endings if ending is not None)


def _begin(
    folder: Path,
    plan: Plan,
    devices: Mapping[str, Device],
    *,
    cpu: int,
    cancel: Event,
    report: Callable[[Progress], None],
) -> Task:
    """A boot's task, in a new folder."""
    folder.mkdir()
    (folder / PLAN_NAME).write_bytes(plan.to_json())
    return Task(plan, devices, folder, trace=False, cpu=cpu, cancel=cancel, report=report)


def _ended_early(plan: Plan, events: Events) -> RunError:
    failed = events.end.failed_step if events.end is not None else None
    why = f", because its step {failed} failed" if failed else ""
    return RunError(
        f"the trial ended after {format_duration(events.last_ns)}{why}; its power was not cut",
        place=plan.trial.id,
        remedy="it fails without a cut, too: strata run shows why" if failed else "cut it earlier",
    )


def _recover(runner: LabRunner, task: Task, power: Power) -> tuple[Verdict, tuple[str, ...], Events | None]:
    """Boot on the images that the cut left, and judge them."""
    try:
        runner.boot(task, power)
    except RunError:
        # A kernel that panics on a disk's content is a finding about the stack, not an error of Strata.
        console = (task.folder / CONSOLE_NAME).read_text(errors="replace")
        before, found, panic = console.partition(_PANIC)
        if not found:
            raise
        return "kernel panicked", _last_lines(before + _PANIC + panic.partition("\n")[0]), None
    events = read_events(task.folder / EVENTS_NAME)
    return *_judge(task.plan, events), events


def _last_lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.splitlines() if line.strip())[-_SAID_LINES:]


def _judge(plan: Plan, events: Events) -> tuple[Verdict, tuple[str, ...]]:
    assert events.end is not None, "a boot that was not cut ends with its agent's last word"
    step = events.end.failed_step
    if events.end.outcome == "ok" or step is None:
        return ("sound", ()) if events.end.outcome == "ok" else ("unknown", (events.end.reason or "",))
    text = events.output(step) + events.output(step, "stderr")
    lines = tuple(beginning_and_end(text, _SAID_CHARACTERS).splitlines())
    purpose = next((each.purpose for each in plan.steps if each.id == step), None)
    verdicts: dict[str, Verdict] = {
        "recover": "not mountable",
        "check": "damaged",
        "verify": "content damaged",
    }
    return verdicts.get(purpose.what if purpose else "", "unknown"), lines
