# SPDX-License-Identifier: Apache-2.0
"""A runner that runs nothing: a public test double at the seam.

It writes the events of steps that each succeed after a second, with outputs that the test provides, or
fails on request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

from strata.devices.device import Device
from strata.errors import RunError
from strata.model.inputs import InputFile
from strata.model.step import Step
from strata.model.trial import ANY_NAME
from strata.plan.model import Plan, sha256_hex
from strata.runners.base import (
    BINDINGS_NAME,
    CONSOLE_NAME,
    EVENTS_NAME,
    MACHINE_NAME,
    Cancelled,
    Identity,
    Progress,
    Task,
)
from strata.units import NS_PER_S

Behaviour = Literal["succeed", "fail", "die", "stall", "wait"]
"""Succeed; fail in the last step; end without output; be ended by a watchdog; wait until cancelled."""

Output = tuple[str, Mapping[str, str]]
"""A step's standard output, and its collected files by name."""

_IDENTITY: Final = Identity("1" * 64, "2" * 64, "3" * 64)


@dataclass
class FakeRunner:
    """Writes the events of an agent."""

    output: Callable[[Plan, Step], Output] = lambda plan, step: ("", {})  # the output of a plan's step
    # What each trial does, by id; other trials succeed.
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    # How many of a trial's first attempts are disturbed, by id.
    disturbed: dict[str, int] = field(default_factory=dict)
    identity: Identity = _IDENTITY
    settings: Mapping[str, Any] = field(default_factory=dict)  # the runner's `setting`
    begun: list[str] = field(default_factory=list)  # the ids of the trials carried out, in order
    # Set when a trial waits for its cancellation.
    waiting: threading.Event = field(default_factory=threading.Event)

    name = "fake"
    time_domain: ClassVar[Literal["virtual", "wall"]] = "virtual"

    def __reduce__(self) -> tuple[Any, ...]:
        """A worker's own begins anew."""
        known = (self.output, self.behaviours, self.disturbed, self.identity, self.settings)
        return type(self), known

    def identity_of(self, plan: Plan) -> Identity:
        if plan.kernel.is_default:
            return self.identity
        return replace(self.identity, kernel_sha256=sha256_hex(str(plan.kernel).encode()))

    def setting(self, plan: Plan, devices: Mapping[str, Device]) -> Mapping[str, Any]:
        return self.settings

    def unmet(self, plan: Plan) -> str | None:
        return None

    def provide(self, plan: Plan, files: Iterable[InputFile]) -> None:
        """A fake reads nothing."""

    def check(self, plans: list[Plan]) -> None:
        """Everything can be faked."""

    def settle(self, cancel: threading.Event) -> None:
        """Nothing disturbs it: its time is its own."""

    def run(self, task: Task) -> None:
        """Write the trial's events, as its behaviour asks for."""
        trial = task.plan.trial.id
        self.begun.append(trial)
        behaviour = self.behaviours.get(trial, "succeed")
        (task.folder / BINDINGS_NAME).write_text("{}")
        (task.folder / CONSOLE_NAME).write_text("")
        task.report(Progress(task.plan.steps[0].title, task.plan.steps[0].phase, NS_PER_S))
        if behaviour == "wait":
            self.waiting.set()
            task.cancel.wait()
        if task.cancel.is_set():
            raise Cancelled
        lines = _events(task.plan, self.output, failing=behaviour == "fail")
        kept = lines[:3] if behaviour in {"die", "stall"} else lines
        (task.folder / EVENTS_NAME).write_text("".join(json.dumps(line) + "\n" for line in kept))
        if trial in self.disturbed:
            text = json.dumps(_seen(disturbed=self.begun.count(trial) <= self.disturbed[trial]))
            (task.folder / MACHINE_NAME).write_text(text)
        if behaviour == "stall":
            raise RunError("virtual time has stood still", place=trial, remedy="this is a fake")
        if behaviour == "die":
            raise RunError("the lab ended before its agent was done", place=trial)


def _seen(*, disturbed: bool) -> dict[str, Any]:
    """A host's ``machine.json``, as far as results need it."""
    used = {"neighbour": 0.98} if disturbed else {}
    found = ["other processes used 0.98 of 2 CPUs (more than 0.10): neighbour 0.98"] if disturbed else []
    return {"window": {"others": used, "cpus": 2, "steal_share": 0.0}, "disks": {}, "disturbances": found}


def _events(plan: Plan, output: Callable[[Plan, Step], Output], *, failing: bool) -> list[dict[str, Any]]:
    """The events of a plan whose last step may fail."""
    written: list[dict[str, Any]] = []
    now_ns = NS_PER_S

    def add(kind: str, **fields: Any) -> None:
        head = {"seq": len(written), "monotonic_ns": now_ns, "realtime_ns": now_ns, "type": kind}
        written.append({**head, **fields})

    add(
        "agent_start",
        event_version=1,
        agent_version="fake",
        plan_sha256=sha256_hex(plan.to_json()),
        trial=ANY_NAME,
        runner="fake",
        kernel={"release": "0", "version": "0", "machine": "none"},
    )
    last = plan.steps[-1]
    for step in plan.steps:
        failed = failing and step is last
        text, files = output(plan, step)
        add("step_start", step=step.id, phase=step.phase, argv=list(step.argv))
        now_ns += NS_PER_S
        if text:
            add("output", step=step.id, stream="stdout", text=text)
        usage = {"max_rss_bytes": 0, "user_ns": 0, "system_ns": 0, "output_truncated": False}
        add(
            "step_end",
            step=step.id,
            outcome="failed" if failed else "ok",
            exit_code=int(failed),
            signal=None,
            expected=list(step.expect_exit),
            duration_ns=NS_PER_S,
            **usage,
            error=None,
        )
        for name, content in files.items():
            add("file", step=step.id, name=name, text=content, last=True)
    outcome = "failed" if failing else "ok"
    add("agent_end", outcome=outcome, failed_step=last.id if failing else None, reason=None)
    return written
