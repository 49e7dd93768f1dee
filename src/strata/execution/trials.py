# SPDX-License-Identifier: Apache-2.0
"""One pool of workers, and the trials that it carries out.

It says how many labs run at once, on which CPUs, and how a signal ends them. Each trial is written before the
next begins, until all are done or the run is to end.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from strata.errors import RunError
from strata.execution.display import Display
from strata.execution.finalise import finalise
from strata.execution.prepared import carry_out
from strata.execution.schedule import PlannedTrial, Schedule, disturbance_of
from strata.files import refused
from strata.model.step import MEMORY_BYTES
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.model.workload import loads_of
from strata.results.record import ResultRecord
from strata.results.records import Store
from strata.runners.base import PLAN_NAME, Cancelled, Runner, Task

# The most of the host's memory that a lab takes beside its machine's own.
LAB_OVERHEAD_BYTES: Final = 276 << 20
_BLOCK_BYTES: Final = 4096
_ENTRY_BYTES: Final = 11  # of a block in the modelled disk's index (kernel/disk/blocks.h)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Found = TypeVar("_Found")


@dataclass
class Stop:
    """Whether the run is to end early, and the signal that asked for it."""

    event: threading.Event = field(default_factory=threading.Event)
    signal_number: int | None = None


def over_cpus(
    calls: Sequence[Callable[[int | None], _Found]],
    cpus: Sequence[int | None],
    stop: Stop,
    finished: Callable[[_Found], None] = lambda found: None,
) -> list[_Found]:
    """Make calls, each on a free CPU of ``cpus``; the results are in the order of the calls.

    Raises the first error of a call, after the running ones have ended, and Cancelled once it is to stop.
    """
    free: SimpleQueue[int | None] = SimpleQueue()
    for cpu in cpus:
        free.put(cpu)

    def on_free_cpu(call: Callable[[int | None], _Found]) -> _Found:
        if stop.event.is_set():
            raise Cancelled
        cpu = free.get()
        try:
            return call(cpu)
        except BaseException:
            stop.event.set()
            raise
        finally:
            free.put(cpu)

    # A lab ends with the thread that started it, so each thread waits for its own labs.
    with ThreadPoolExecutor(max(1, len(cpus))) as pool:
        futures = [pool.submit(on_free_cpu, call) for call in calls]
        errors = []
        try:
            for future in as_completed(futures):
                if (error := future.exception()) is not None:
                    errors.append(error)
                else:
                    finished(future.result())
        except BaseException:
            stop.event.set()
            raise
    for error in sorted(errors, key=lambda each: isinstance(each, Cancelled)):
        raise error
    return [future.result() for future in futures]


def worker_cpus(
    runner: Runner, jobs: int | None, each_bytes: int = MEMORY_BYTES + LAB_OVERHEAD_BYTES
) -> list[int | None]:
    """The CPU of each worker: one each in the lab; any on a host, where a trial has the machine to itself.

    Without ``jobs`` there are as many as the CPUs and the memory allow, at ``each_bytes`` for a lab.
    """
    if runner.time_domain == "wall":
        return [None]
    cpus = sorted(os.sched_getaffinity(0))
    if jobs is None:
        jobs = lab_jobs(each_bytes, len(cpus))
    # Of several programs with one lab each, not every one takes the first CPU.
    first = os.getpid() if jobs < len(cpus) else 0
    return [cpus[(first + index) % len(cpus)] for index in range(jobs)]


def lab_bytes(study: Study) -> int:
    """The host's memory that a lab of this study takes, with the index of the largest data set's blocks."""
    data_bytes = max(
        (sum(load.data_bytes or 0 for load in loads_of(each)) for each in study.workloads.values()), default=0
    )
    return study.memory_bytes_max + LAB_OVERHEAD_BYTES + data_bytes // _BLOCK_BYTES * _ENTRY_BYTES


def lab_jobs(each_bytes: int, cpus: int) -> int:
    """The labs that CPUs and memory allow at once, at least one."""
    return max(1, min(cpus, memory_available_bytes() // each_bytes))


def memory_available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Turn the signals that end a program into a request to stop, while the context lasts."""
    stop = Stop()

    def ask(number: int, frame: object) -> None:
        stop.signal_number = stop.signal_number or number
        stop.event.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may handle signals; a caller in another thread handles them
        return
    before = {
        number: signal.signal(number, ask)
        for number in _SIGNALS
        # A program started by `nohup` outlives its terminal. (A shell without job control ignores SIGINT for
        # programs in the background; a user who sends it by hand wants the end.)
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_NUMBERS: Final = re.compile(r"[\da-f]*\d[\da-f.]*")


@dataclass
class TrialRun:
    """The trials of one run, and their outcomes.

    Attributes:
        retries: The most times that a disturbed trial is measured again.
        invalid: Each failed trial with the reasons.
        given_up: The cells whose further seeds are not run, with the failure that two trials had.
        prepared: Of a study that prepares once: the trials that prepared their disks.
    """

    store: Store
    runner: Runner
    display: Display
    stop: Stop
    retries: int
    valid: list[TrialKey] = field(default_factory=list)
    invalid: dict[TrialKey, tuple[str, ...]] = field(default_factory=dict)
    given_up: dict[CellKey, str] = field(default_factory=dict)
    prepared: int = 0
    found_prepared: int = 0
    _failures: set[tuple[CellKey, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def done(self) -> set[TrialKey]:
        """The trials that it has carried out."""
        return {*self.valid, *self.invalid}

    def work(self, schedule: Schedule, cpus: Sequence[int | None]) -> None:
        """Work until the schedule is done or the run is to end.

        Raises StrataError if the run cannot go on, such as when results cannot be written.
        """
        waiting = [planned for planned in schedule.to_run if planned.key.cell not in self.given_up]
        self.display.begin(
            [each.plan.trial for each in waiting], len(schedule.kept) + len(self.done), len(cpus)
        )
        try:
            with suppress(Cancelled):  # the same command continues
                over_cpus(
                    [partial(self._carry_out, schedule, planned) for planned in waiting], cpus, self.stop
                )
        except OSError as error:
            raise refused(error, "go on", kind=RunError) from error
        finally:
            self.display.end()

    def _carry_out(self, schedule: Schedule, planned: PlannedTrial, cpu: int | None) -> None:
        """Measure a trial, and again while it is disturbed: at once, so that its block stays together."""
        if planned.key.cell in self.given_up:
            return
        trial, of = planned.plan.trial, self.retries + 1
        record = self._attempt(schedule.study, planned, cpu)
        for number in range(schedule.disturbed.get(planned.key, 0) + 2, of + 1):
            why = disturbance_of(record)
            if why is None:
                break
            self.display.abandoned(trial)
            self.display.say(f"{trial.id} was disturbed: {why}; measured again ({number} of at most {of})")
            self.runner.settle(self.stop.event)
            if self.stop.event.is_set():
                return  # the same command continues with it
            record = self._attempt(schedule.study, planned, cpu)
        self._count(planned, record)

    def _attempt(self, study: Study, planned: PlannedTrial, cpu: int | None) -> ResultRecord:
        """One attempt at a trial, and its result; if the run is to end, nothing is left of it."""
        trial = planned.plan.trial
        attempt = self.store.begin(planned.spec_sha256)
        try:
            if any(file.private for file in study.inputs.values()):
                attempt.path.chmod(0o700)  # a program may have written an input's content to its output
            attempt.write(PLAN_NAME, planned.plan.to_json())
            self.display.started(trial)
            started_at, started_s = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
            task = Task(
                plan=planned.plan,
                devices=planned.devices,
                folder=attempt.path,
                trace=study.of(trial.stack).trace,
                cpu=cpu,
                report=lambda progress: self.display.progress(trial, progress),
                cancel=self.stop.event,
            )
            problem = None
            try:
                logs = [layer.kernel_log for layer in study.stacks[trial.stack].every_layer]
                self._count_prepared(carry_out(self.runner, task, logs))
            except RunError as error:  # of this trial alone; other errors concern the whole run
                problem = error
            record = finalise(
                attempt,
                planned,
                study,
                self.runner,
                started_at=started_at,
                duration_s=time.monotonic() - started_s,
                problem=problem,
            )
            self.store.put(attempt, record)
            return record
        except BaseException:
            self.display.abandoned(trial)
            self.store.discard_unfinished(planned.spec_sha256)
            raise

    def _count_prepared(self, was_there: bool | None) -> None:
        with self._lock:
            self.prepared += was_there is False
            self.found_prepared += was_there is True

    def _count(self, planned: PlannedTrial, record: ResultRecord) -> None:
        with self._lock:
            if record.validity.valid:
                self.valid.append(planned.key)
            else:
                self.invalid[planned.key] = record.validity.reasons
        self.display.finished(planned.plan.trial, record)
        if not record.validity.valid:
            self._count_failure(planned.key.cell, record.validity.reasons[0])

    def _count_failure(self, cell: CellKey, reason: str) -> None:
        """Give a cell up at its second equal failure; its times, process ids and the like may differ."""
        failure = (cell, _NUMBERS.sub("#", reason))
        with self._lock:
            if failure in self._failures:
                self.given_up[cell] = reason
                self.display.given_up(cell, reason)
            self._failures.add(failure)
