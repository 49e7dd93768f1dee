# SPDX-License-Identifier: Apache-2.0
"""Carrying out trials: each is written before the next begins, until all are done or the run is to end."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from strata.errors import RunError
from strata.execution.display import Display
from strata.execution.finalise import finalise
from strata.execution.pool import Stop, over_cpus
from strata.execution.prepared import carry_out
from strata.execution.schedule import PlannedTrial, Schedule, disturbance_of
from strata.files import refused
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.results.record import ResultRecord
from strata.results.records import Store
from strata.runners.base import PLAN_NAME, Cancelled, Runner, Task

_NUMBERS: Final = re.compile(r"[\da-f]*\d[\da-f.]*")


@dataclass
class TrialRun:
    """The trials of one run, and what came of those that were carried out.

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
