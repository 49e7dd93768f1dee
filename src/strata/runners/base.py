# SPDX-License-Identifier: Apache-2.0
"""The seam between trials and what carries them out: a plan and a folder in, events in the folder out.

A runner writes ``bindings.json``, and its agent ``events.jsonl``, into the attempt's folder; the lab adds
``console.log``. A runner depends neither on other trials nor on results or the purposes of steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from strata.devices.device import Device
from strata.errors import RunError
from strata.files import NotPlain, open_plain
from strata.model.inputs import InputFile
from strata.plan.model import Plan

PLAN_NAME: Final = "plan.json"
BINDINGS_NAME: Final = "bindings.json"
EVENTS_NAME: Final = "events.jsonl"
CONSOLE_NAME: Final = "console.log"
PREPARED_NAME: Final = "prepared.jsonl"
"""The events of the boot that prepared the disks, if it was another (``strata.plan.aspects.restart``)."""
MACHINE_NAME: Final = "machine.json"
"""The state of a real machine around the measured window (``strata.runners.watching``)."""
TRACE_NAME: Final = "trace.bin"
"""The driver's records (kernel/disk/trace.h), until the attempt is sealed."""
TRACE_COUNTS_NAME: Final = "trace.json"
"""``{"left_out": N}``: how many requests came when the trace was full."""

# For a trial's teardown after its time limit, in addition to its steps' own limits.
TEARDOWN_MARGIN_NS: Final = 60 * 10**9


class Cancelled(Exception):  # noqa: N818  not an error: the user asked for it
    """The user ended the whole run; the trial has no result."""


class HostError(RunError):
    """The machine failed, not the trial: its disk is full, for instance."""


@dataclass(frozen=True)
class Identity:
    """The kernel, image and programs of a runner, as results state them.

    A hash is None for a part of the user's own machine. ``setting_sha256`` covers further values that
    results depend on: the lab's command line, or the host machine.
    """

    kernel_sha256: str | None
    image_sha256: str | None
    agent_sha256: str | None
    packages: Mapping[str, str] = field(default_factory=dict)
    syscall_ns: int = 0
    yield_ns: int = 0
    clock_read_ns: int = 0
    reclaim_ns: int = 0
    setting_sha256: str | None = None


@dataclass(frozen=True)
class Progress:
    step: str  # the title of the current step; empty before the first
    phase: str
    trial_ns: int  # since the trial's start, in the runner's time domain


@dataclass(frozen=True)
class Task:
    plan: Plan
    devices: Mapping[str, Device]  # the models of the plan's devices, by name; only the lab reads them
    folder: Path  # the attempt's folder, which already holds plan.json
    trace: bool = True  # whether to trace the disks' requests; only the lab can
    cpu: int | None = None  # the CPU to keep to; None for any
    report: Callable[[Progress], None] = lambda progress: None  # called from time to time
    cancel: threading.Event = field(default_factory=threading.Event)  # set by the caller to end the trial


class Runner(Protocol):
    """Carries out trials. One runner serves several trials at once, from several threads."""

    @property
    def name(self) -> str:
        """``lab``, ``host`` or the like."""

    @property
    def time_domain(self) -> Literal["virtual", "wall"]:
        """The meaning of its times."""

    @property
    def identity(self) -> Identity:
        """The properties of the runner that every result states."""

    def identity_of(self, plan: Plan) -> Identity:
        """The same for one trial, whose kernel may be another one."""

    def setting(self, plan: Plan, devices: Mapping[str, Device]) -> Mapping[str, Any]:
        """Further values that results depend on, as JSON types; part of a trial's identity."""

    def unmet(self, plan: Plan) -> str | None:
        """Why this runner cannot carry out a plan, as a sentence; its trials are then skipped."""

    def provide(self, plan: Plan, files: Iterable[InputFile]) -> None:
        """Have the plan's input files ready in the form that its steps expect.

        Raises LabError if a file cannot be fetched or does not fit, StudyError if an archive of ``files`` is
        damaged.
        """

    def check(self, plans: list[Plan]) -> None:
        """Check before the first trial that all plans can run.

        Raises ToolError if a program or a privilege is missing.
        """

    def settle(self, cancel: threading.Event) -> None:
        """Wait, for a limited time, until a disturbance has passed or ``cancel`` is set."""

    def run(self, task: Task) -> None:
        """Carry out one trial. Its events say whether it failed.

        Raises Cancelled if the task was cancelled, LabError if the trial could not be started, and RunError
        if it was ended from outside, or the agent left no complete account.
        """


def teardown_limit_ns(plan: Plan) -> int:
    """The time that undoing all steps may take."""
    return TEARDOWN_MARGIN_NS + sum(
        (step.undo.time_limit_ns if step.undo else 0) + (step.stop_limit_ns if step.background else 0)
        for step in plan.steps
    )


class EventTail:
    """Follows the events of a running trial for its progress, without judging them."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self._path = path
        self._titles = {step.id: step.title for step in plan.steps}
        self._to_measure = {each.id for each in plan.steps if each.phase == "measure" and not each.background}
        self._offset = 0
        self._rest = b""
        self.step_id = ""
        self.title = "boot"
        self.phase = ""
        self.first_ns: int | None = None
        self.last_ns = 0
        self.ended = False
        self.measuring = False
        """Whether the measured window has begun and not all of its steps have ended."""

    def read(self) -> None:
        """Read what was written since the last call."""
        try:
            with os.fdopen(open_plain(self._path), "rb") as file:
                file.seek(self._offset)
                content = file.read()
        except (FileNotFoundError, NotPlain):
            return
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            if b'"output"' in line[:200] or b'"file"' in line[:200]:
                continue  # most of the file, and without progress
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # the reader of the whole file reports it

    def _take(self, event: dict[str, Any]) -> None:
        self.last_ns = int(event["monotonic_ns"])
        if self.first_ns is None:
            self.first_ns = self.last_ns
        match event["type"]:
            case "step_start":
                self.step_id, self.phase = event["step"], event["phase"]
                self.title = self._titles.get(self.step_id, self.step_id)
                self.measuring = self.measuring or self.step_id in self._to_measure
            case "step_end":
                self._to_measure.discard(event["step"])
                self.measuring = self.measuring and bool(self._to_measure)
            case "undo_start":
                self.step_id, self.phase, self.title = event["step"], "teardown", "tear down"
            case "agent_end":
                self.ended, self.title, self.measuring = True, "end", False


def ended_within(process: subprocess.Popen[Any], timeout_s: float) -> bool:
    """Wait for a process; whether it has ended."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
    return process.returncode is not None


def ending_with_strata(signal: str) -> tuple[str, ...]:
    """The words before a program's own that make it end by this signal when Strata does."""
    # The signal is sent when the parent ends, which may be before setpriv has asked for it: then the shell's
    # parent is another one, and the program does not begin.
    still_there = '[ "$PPID" = "$0" ] && exec "$@"'
    return ("setpriv", "--pdeathsig", signal, "sh", "-c", still_there, str(os.getpid()))


def tail_of(path: Path) -> str:
    """The last lines of a text file, for an error message."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    kept = [line.rstrip()[:240] for line in text.splitlines() if line.strip()]
    return "\n    ".join(kept[-8:])
