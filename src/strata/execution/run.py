# SPDX-License-Identifier: Apache-2.0
"""Running a study: trials over CPUs, each written before the next begins, until done or stopped."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from strata.errors import RunError
from strata.execution.agenda import (
    RETRIES,
    Agenda,
    PlannedTrial,
    chosen_trials,
    discard_unfinished,
    disturbance_of,
)
from strata.execution.display import Display
from strata.execution.finalise import finalise
from strata.execution.precision import Rounds, Unconverged, with_all_seeds
from strata.execution.prepared import carry_out
from strata.files import refused
from strata.lab.limits import provide_descriptors
from strata.model.step import MEMORY_BYTES
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.model.workload import loads_of
from strata.printable import in_json
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.base import PLAN_NAME, Cancelled, Runner, Task

# The most of the host's memory that a lab takes beside its machine's own.
LAB_OVERHEAD_BYTES: Final = 276 << 20
_BLOCK_BYTES: Final = 4096
_ENTRY_BYTES: Final = 11  # of a block in the modelled disk's index (kernel/disk/blocks.h)
_NUMBERS: Final = re.compile(r"[\da-f]*\d[\da-f.]*")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Stop:
    """Whether the run is to end early, and the signal that asked for it."""

    event: threading.Event = field(default_factory=threading.Event)
    signal_number: int | None = None


@dataclass(frozen=True)
class Summary:
    kept: tuple[TrialKey, ...]  # trials that had their result before
    valid: tuple[TrialKey, ...]  # trials measured by this run
    invalid: dict[TrialKey, tuple[str, ...]]  # each failed trial with the reasons
    unrun: tuple[TrialKey, ...]  # trials that an early end left over
    skipped: Mapping[CellKey, str]  # cells that cannot be run here, with the reason
    signal_number: int | None  # the signal that ended it early; None when it came to its end
    duration_s: float  # real seconds
    # The seeds added for a precision, by workload, also by earlier runs.
    added_seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # Cells less precise than the study asks, with the half-width of the log-ratio.
    not_converged: Mapping[CellKey, float] = field(default_factory=dict)
    # Cells whose further seeds are not run, with the failure that two trials had.
    given_up: Mapping[CellKey, str] = field(default_factory=dict)
    # Of a study that prepares once: trials that prepared their disks, and trials that found them prepared.
    prepared: int = 0
    found_prepared: int = 0

    @property
    @in_json
    def exit_code(self) -> int:
        """For the command line: interrupted, something failed, or all well."""
        if self.signal_number is not None:
            return 128 + self.signal_number
        return RunError.exit_code if self.invalid else 0


def run_study(
    study: Study,
    results: Path,  # the folder for the results; created, or continued
    runner: Runner,
    display: Display,
    *,
    jobs: int | None = None,  # trials at once; by default one per CPU in the lab, one on a host
    only: str | None = None,  # a glob over trial ids; None for all. With a glob no seeds are added.
    fresh: bool = False,  # run also trials that have a valid result
    retries: int = RETRIES,  # the most times that a disturbed trial is measured again
    command: str = "",  # the command that reproduces the results, for the report
    unconverged: Unconverged | None = None,  # finds cells that are not precise enough; none: no more seeds
) -> Summary:
    """Run the trials without a valid result, and further seeds where a study asks for a precision.

    A trial that fails is recorded as invalid, and the others go on; after two equal failures of a cell its
    further seeds are left to the next run. SIGINT, SIGTERM and SIGHUP (but not under ``nohup``) end the run
    early: finished trials are kept, running ones leave nothing behind.

    Raises ResultError if the results folder cannot be used or written, LabError if no lab can be started,
    ToolError if a program or a privilege is missing, or too few files may be open, and RunError if no trial
    matches `only`.
    """
    started_s, folder = time.monotonic(), ResultsFolder(results)
    chosen = chosen_trials(with_all_seeds(study), only)  # before a folder is made, in case of an error
    rounds = Rounds(folder, runner, unconverged, chosen, only, fresh, retries, command)
    with folder.lock():
        agenda = rounds.first(study)
        if not any(trial in chosen for trial in agenda.snapshot.trials) and not agenda.skipped:
            chosen_trials(agenda.study, only)  # refuses a seed that could have been added, but was not
        for trial in agenda.snapshot.trials:
            discard_unfinished(folder, trial)
        with stopped_by_signals() as stop:
            crew = _Crew(folder, runner, display, stop, retries)
            agenda = _carry_on(agenda, rounds, crew, jobs)
        return Summary(
            kept=agenda.kept,
            valid=tuple(crew.valid),
            invalid=crew.invalid,
            unrun=tuple(each.key for each in agenda.to_run if each.key not in crew.done),
            skipped=agenda.skipped,
            signal_number=stop.signal_number,
            duration_s=time.monotonic() - started_s,
            added_seeds=agenda.study.added_seeds,
            not_converged=rounds.conclude(agenda, crew.given_up),
            given_up=crew.given_up,
            prepared=crew.prepared,
            found_prepared=crew.found_prepared,
        )


def _carry_on(agenda: Agenda, rounds: Rounds, crew: _Crew, jobs: int | None) -> Agenda:
    """Carry out rounds until all is precise enough or the run is to end; returns the last one."""
    while True:
        rounds.runner.check([each.plan for each in agenda.to_run])
        cpus = worker_cpus(rounds.runner, jobs, lab_bytes(agenda.study))
        disks = max((len(each.plan.devices) for each in agenda.to_run), default=0)
        provide_descriptors(len(cpus), disks)
        crew.work(agenda, cpus[: max(1, len(agenda.to_run))])
        following = None if crew.stop.event.is_set() else rounds.next(agenda, crew.done)
        if following is None:
            return agenda
        agenda = following
        for reason in rounds.added:
            crew.display.say(reason)


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


class _Crew:
    """The workers of one run, each a thread that carries out one trial after the other."""

    def __init__(
        self, folder: ResultsFolder, runner: Runner, display: Display, stop: Stop, retries: int
    ) -> None:
        self._folder = folder
        self._runner = runner
        self._retries = retries
        self.display = display
        self.stop = stop
        self._waiting: deque[PlannedTrial] = deque()
        self._lock = threading.Lock()
        self._fatal: BaseException | None = None
        self.valid: list[TrialKey] = []
        self.invalid: dict[TrialKey, tuple[str, ...]] = {}
        self.given_up: dict[CellKey, str] = {}
        self.prepared = self.found_prepared = 0
        self._failures: set[tuple[CellKey, str]] = set()

    @property
    def done(self) -> set[TrialKey]:
        """The trials that it has carried out."""
        return {*self.valid, *self.invalid}

    def work(self, agenda: Agenda, cpus: list[int | None]) -> None:
        """Work until the agenda is done or the run is to end.

        Raises StrataError if the run cannot go on, such as when results cannot be written.
        """
        self._waiting = deque(each for each in agenda.to_run if each.key.cell not in self.given_up)
        trials = [each.plan.trial for each in self._waiting]
        self.display.begin(trials, len(agenda.kept) + len(self.done), len(cpus))
        # A lab ends with the thread that started it, so each thread waits for its own labs.
        threads = [
            threading.Thread(target=self._worker, args=(agenda, cpu), name=f"worker-{cpu}") for cpu in cpus
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)  # in pieces, so that signals are handled between them
        except BaseException:
            self.stop.event.set()
            raise
        finally:
            for thread in threads:
                thread.join()
            self.display.end()
        if self._fatal is not None:
            raise self._fatal

    def _worker(self, agenda: Agenda, cpu: int | None) -> None:
        try:
            while (trial := self._next()) is not None:
                self._carry_out(agenda, trial, cpu)
        except Cancelled:
            pass
        except OSError as error:
            self._end_for(refused(error, "go on", kind=RunError))
        except BaseException as error:  # raised again in the main thread
            self._end_for(error)

    def _end_for(self, error: BaseException) -> None:
        self._fatal = self._fatal or error
        self.stop.event.set()

    def _next(self) -> PlannedTrial | None:
        with self._lock:
            if self.stop.event.is_set() or not self._waiting:
                return None
            return self._waiting.popleft()

    def _carry_out(self, agenda: Agenda, planned: PlannedTrial, cpu: int | None) -> None:
        """Measure a trial, and again while it is disturbed: at once, so that its block stays together."""
        trial, of = planned.plan.trial, self._retries + 1
        record = self._attempt(agenda.study, planned, cpu)
        for number in range(agenda.disturbed.get(planned.key, 0) + 2, of + 1):
            why = disturbance_of(record)
            if why is None:
                break
            self.display.abandoned(trial)
            self.display.say(f"{trial.id} was disturbed: {why}; measured again ({number} of at most {of})")
            self._runner.settle(self.stop.event)
            if self.stop.event.is_set():
                return  # the same command continues with it
            record = self._attempt(agenda.study, planned, cpu)
        self._count(planned, record)

    def _attempt(self, study: Study, planned: PlannedTrial, cpu: int | None) -> ResultRecord:
        """One attempt at a trial, and its result; if the run is to end, nothing is left of it."""
        trial = planned.plan.trial
        attempt = self._folder.new_attempt(planned.key)
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
                self._count_prepared(carry_out(self._runner, task, logs))
            except RunError as error:  # of this trial alone; other errors concern the whole run
                problem = error
            return finalise(
                attempt,
                planned,
                study,
                self._runner,
                started_at=started_at,
                duration_s=time.monotonic() - started_s,
                problem=problem,
            )
        except BaseException:
            self.display.abandoned(trial)
            discard_unfinished(self._folder, planned.key)
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
                self._waiting = deque(each for each in self._waiting if each.key.cell != cell)
                self.display.given_up(cell, reason)
            self._failures.add(failure)
