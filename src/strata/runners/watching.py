# SPDX-License-Identifier: Apache-2.0
"""Follows a host trial's agent until it ends, and watches the machine during the measured window."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from strata.errors import RunError
from strata.files import explained
from strata.machine.disturbance import DisturbanceLimits, Own, Window, steal_share, window_between
from strata.machine.reading import MachineReading, Sampler, Ticks
from strata.machine.state import State, busy_remarks, state_of
from strata.runners.base import (
    BINDINGS_NAME,
    CONSOLE_NAME,
    EVENTS_NAME,
    MACHINE_NAME,
    Cancelled,
    EventTail,
    Progress,
    Task,
    ended_within,
    tail_of,
    teardown_limit_ns,
)
from strata.runners.block_devices import Connections
from strata.runners.conditioning import Conditioned
from strata.units import NS_PER_S, format_duration

MACHINE_VERSION: Final = 1
_POLL_S: Final = 0.1
# A cancelled trial tears down in order, but a user who pressed Ctrl-C will not wait for a slow unmount.
_CANCEL_LIMIT_S: Final = 30.0
_SECOND_S: Final = 1.0
# Most transient work, such as installing a package or rotating logs, is over by then. A judgement.
SETTLE_LIMIT_S: Final = 30.0


@dataclass
class Surroundings:
    """The machine around the trials of a host."""

    disk: str | None  # the kernel's name of the disk under the scratch folder, if known
    machine: Sampler = field(default_factory=Sampler)
    limits: DisturbanceLimits = field(default_factory=DisturbanceLimits)
    conditioned: Mapping[str, Conditioned] = field(default_factory=dict)  # the current trial's real drives
    _reported: bool = False

    def tell(self, say: Callable[[str], None]) -> None:
        """Report once how this machine differs from a quiet one; a second of load is measured."""
        if self._reported:
            return
        self._reported = True
        remarks = [*self._state().remarks(), *busy_remarks(self._second(), self.limits)]
        if remarks:
            say("This machine is not quiet; results may be noisier than necessary:")
        for remark in remarks:
            say(f"  {remark}")

    def settle(self, cancel: threading.Event) -> None:
        """Wait until nothing disturbs the machine, for half a minute at most."""
        until_s = time.monotonic() + SETTLE_LIMIT_S
        while time.monotonic() < until_s and not cancel.is_set():
            if not self._second(cancel).disturbances(self.limits):
                return

    def watch(self, task: Task, agent: int) -> WindowWatch:
        """Watch a trial's measured window; ``agent`` is its agent's pid."""
        bound = json.loads((task.folder / BINDINGS_NAME).read_text())["stat_names"].values()
        loops = [name for name in bound if name.startswith("loop")]
        own = Own(roots=(agent,), alone=(os.getpid(),), disk=self.disk if loops else None, loops=loops)
        path = task.folder / MACHINE_NAME
        return WindowWatch(self.machine, self.limits, own, self._state(bound), path, self.conditioned)

    def _state(self, disks: Sequence[str] = ()) -> State:
        return state_of(self.machine, list(dict.fromkeys([*disks, *filter(None, (self.disk,))])))

    def _second(self, cancel: threading.Event | None = None) -> Window:
        before = self.machine.reading()
        (cancel or threading.Event()).wait(_SECOND_S)
        return window_between(before, self.machine.reading(), Own(alone=(os.getpid(),), disk=self.disk))


@dataclass
class WindowWatch:
    """Reads the machine at both ends of a measured window and writes the difference to ``machine.json``."""

    machine: Sampler
    limits: DisturbanceLimits
    own: Own
    state: State
    path: Path
    conditioned: Mapping[str, Conditioned] = field(default_factory=dict)
    _before: MachineReading | None = None
    _ticks: Ticks | None = None
    _next_s: float = 0.0
    _steal_share_max: float = 0.0
    _done: bool = False

    def look(self, *, measuring: bool) -> None:
        """Note whether the trial is in its measured window now.

        Raises ResultError if the file cannot be written.
        """
        if self._done:
            return
        if self._before is None:
            if measuring:
                self._before = self.machine.reading()
                self._ticks, self._next_s = self._before.ticks, time.monotonic() + _SECOND_S
        elif not measuring:
            self._conclude(self._before)
        elif time.monotonic() >= self._next_s and self._ticks is not None:
            now = self.machine.ticks()  # no more: reading all processes and sensors would disturb, too
            self._steal_share_max = max(self._steal_share_max, steal_share(self._ticks, now))
            self._ticks, self._next_s = now, time.monotonic() + _SECOND_S

    def _conclude(self, before: MachineReading) -> None:
        self._done = True
        after = self.machine.reading()
        window = window_between(before, after, self.own, steal_share_max=self._steal_share_max)
        text = seen(self.state, window, self.limits, self.conditioned)
        with explained(self.path, "write the state of the machine"):
            self.path.write_text(text)


def seen(
    state: State, window: Window, limits: DisturbanceLimits, conditioned: Mapping[str, Conditioned]
) -> str:
    """The content of machine.json (docs/reference/result-format.md)."""
    plain = {
        "machine_version": MACHINE_VERSION,
        "state": asdict(state),
        "window": asdict(window),
        "limits": asdict(limits),
        "disks": {name: asdict(each) for name, each in conditioned.items()},
        "disturbances": window.disturbances(limits),
    }
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def follow(
    task: Task, process: subprocess.Popen[bytes], connections: Connections, watch: WindowWatch
) -> None:
    """Follow the agent until it ends.

    Raises Cancelled if the task was cancelled (the agent has then torn down or was killed), and RunError if
    the agent did not finish.
    """
    tail = EventTail(task.folder / EVENTS_NAME, task.plan)
    started_s = time.monotonic()
    limit_s = (task.plan.time_limit_ns + teardown_limit_ns(task.plan)) / NS_PER_S
    trial = task.plan.trial.id
    while not ended_within(process, _POLL_S):
        tail.read()
        watch.look(measuring=tail.measuring)
        connections.record()
        passed_s = time.monotonic() - started_s
        task.report(Progress(tail.title, tail.phase, int(passed_s * NS_PER_S)))
        if task.cancel.is_set():
            process.send_signal(signal.SIGTERM)
            ended_within(process, _CANCEL_LIMIT_S)
            raise Cancelled
        if passed_s > limit_s:
            raise RunError(
                f"the agent did not end within the time limit of {format_duration(task.plan.time_limit_ns)} "
                "and the time for its teardown",
                place=f"{trial}, step {tail.step_id}",
                remedy="see whether the disk under --scratch still answers",
            )
    tail.read()
    watch.look(measuring=tail.measuring)
    if not tail.ended:
        said, status = tail_of(task.folder / CONSOLE_NAME), process.returncode
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        raise RunError(
            f"the agent ended with {how} before it was done",
            place=f"{trial}, step {tail.step_id or 'none'}",
            remedy=f"it said last:\n    {said}" if said else "it said nothing",
        )
