# SPDX-License-Identifier: Apache-2.0
"""One cut of the power: a trial up to it, then another boot on the same media that recovers and checks."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from strata.errors import RunError
from strata.lab.boot import Power
from strata.lab.medium import Loss, Medium, PowerCut
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.plan.recovery import compile_recovery, with_cut_after
from strata.results.events import Events, read_events
from strata.runners.base import EVENTS_NAME, PLAN_NAME, Task
from strata.runners.lab import LabRunner
from strata.spec.study import Study
from strata.units import format_duration

Verdict = Literal["sound", "damaged", "not mountable", "unknown"]


@dataclass(frozen=True)
class CutResult:
    """What became of a stack whose power was cut.

    Attributes:
        trial: The trial's id.
        step: The step that the cut came in; empty during boot.
        losses: What was lost of each disk's writes.
        verdict: ``sound``: mounted, and the filesystem's checker found nothing. ``unknown``: another step of
            the recovery failed.
        said: The last lines of what the step said that failed; empty for ``sound``.
    """

    trial: str
    step: str
    losses: tuple[Loss, ...]
    verdict: Verdict
    said: tuple[str, ...]

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
) -> CutResult:
    """Run a trial until its power is cut, then recover and check what is on its media.

    Args:
        runner: Boots the labs.
        study: The study.
        stack: One of its stacks.
        workload: One of its workloads; the trial is that of the study's first seed.
        cut: When the power is cut, and what survives.
        after_step: Instead: as soon as this step of the trial has ended.
        folder: Where both boots put what they write.

    Raises:
        PlanError: If the trial has no step ``after_step``.
        RunError: If the trial ended before its power was cut.
        LabError: If a lab could not be started.
    """
    seed = study.seeds[0]
    plan = compile_trial(study, stack, workload, seed)
    if after_step is not None:
        plan = with_cut_after(plan, after_step)
    devices = {used.name: used.device for used in study.stack_devices(stack)}
    # What a study lets go wrong with a disk ends with the boot that it was declared for.
    sound = {name: replace(device, faults=()) for name, device in devices.items()}
    cpu = max(os.sched_getaffinity(0))
    media = [Medium(folder) for _ in plan.devices]
    try:
        first = Task(plan, devices, _begin(folder / "cut", plan), trace=False, cpu=cpu)
        losses = runner.boot(first, Power(media, cut))
        events = read_events(first.folder / EVENTS_NAME)
        if losses is None:
            raise RunError(_ended_early(events), place=plan.trial.id, remedy="cut it earlier")
        recovery = compile_recovery(study, stack, seed)
        second = Task(recovery, sound, _begin(folder / "recovery", recovery), trace=False, cpu=cpu)
        runner.boot(second, Power(media))
        verdict, said = _judge(read_events(second.folder / EVENTS_NAME))
    finally:
        for medium in media:
            medium.close()
    running = [step for step, run in events.steps.items() if run.ending is None]
    return CutResult(plan.trial.id, running[-1] if running else "", tuple(losses), verdict, said)


def _begin(folder: Path, plan: Plan) -> Path:
    folder.mkdir()
    (folder / PLAN_NAME).write_bytes(plan.to_json())
    return folder


def _ended_early(events: Events) -> str:
    failed = events.end.failed_step if events.end is not None else None
    why = f", because its step {failed} failed" if failed else ""
    return f"the trial ended after {format_duration(events.last_ns)}{why}; its power was not cut"


def _judge(events: Events) -> tuple[Verdict, tuple[str, ...]]:
    assert events.end is not None, "a boot that was not cut ends with its agent's last word"
    step = events.end.failed_step
    if events.end.outcome == "ok" or step is None:
        return ("sound", ()) if events.end.outcome == "ok" else ("unknown", (events.end.reason or "",))
    text = events.output(step) + events.output(step, "stderr")
    lines = tuple(line for line in text.splitlines() if line.strip())[-12:]
    if step.endswith(("-recover", "-mount")):
        return "not mountable", lines
    return ("damaged" if step.endswith("-check") else "unknown"), lines
