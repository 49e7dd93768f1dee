# SPDX-License-Identifier: Apache-2.0
"""The trials of one run: each is written before it counts as done, until all are or the run is to end."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from strata.errors import RunError
from strata.execution.display import Display
from strata.execution.finalise import finalise
from strata.execution.pool import Pool, Stop, Work, WorkSite
from strata.execution.prepared import PreparedDisks, carry_out
from strata.execution.schedule import PlannedTrial, Schedule, disturbance_of, fingerprint_of
from strata.files import refused
from strata.lab.travel import Made
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.plan.aspects.restart import first_boot_sha256
from strata.plan.model import Plan, Trial
from strata.results.record import ResultRecord, record_sha256
from strata.results.records import Attempt, Store
from strata.runners.base import PLAN_NAME, Cancelled, HostError, Task
from strata.seeds import derive_seed

_OF_DRAWN: Final = 100  # one of this many trials is measured on two machines


@dataclass(frozen=True)
class MeasuredTrial:
    """A trial's record, as it is kept.

    Attributes:
        prepared: Its prepared disks; None where it prepares in the boot that measures.
        files: The files of an attempt that is on another machine.
    """

    record: ResultRecord
    prepared: PreparedDisks | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialWork(Work[PlannedTrial, MeasuredTrial]):
    """Carries out trials of a study.

    Attributes:
        retries: The most times that a disturbed trial is measured again.
        disturbed: The number of disturbed attempts at each trial before.
        fresh: Whether a trial is measured that an earlier run has left finished on another machine.
    """

    study: Study
    retries: int
    disturbed: Mapping[TrialKey, int]
    fresh: bool = False

    def __call__(self, item: PlannedTrial, site: WorkSite) -> MeasuredTrial:
        """Measure a trial, and again while it is disturbed: at once, so that its block stays together."""
        trial, of = item.plan.trial, self.retries + 1
        if site.is_away and not self.fresh and (left := _left(item, site)) is not None:
            return left
        done = self._attempt(item, site)
        for number in range(self.disturbed.get(item.key, 0) + 2, of + 1):
            why = disturbance_of(done.record)
            if why is None:
                break
            site.display.abandoned(trial)
            site.display.say(f"{trial.id} was disturbed: {why}; measured again ({number} of at most {of})")
            site.runner.settle(site.cancel)
            if site.cancel.is_set():
                raise Cancelled  # the same command continues with it
            done = self._attempt(item, site)
        return done

    def lost(self, item: PlannedTrial, site: WorkSite, error: RunError) -> MeasuredTrial:
        return self._attempt(item, site, error)

    def is_failure(self, found: MeasuredTrial) -> bool:
        return not found.record.validity.valid

    def plans(self, item: PlannedTrial) -> tuple[Plan]:
        return (item.plan,)

    def identity(self, item: PlannedTrial) -> str:
        return item.spec_sha256

    def block(self, item: PlannedTrial) -> str | None:
        """The trials that share prepared disks."""
        return first_boot_sha256(item.plan)

    def beginning(self, found: MeasuredTrial) -> Made | None:
        return None if found.prepared is None else found.prepared.made

    def is_drawn(self, item: PlannedTrial) -> bool:
        return derive_seed(item.key.seed, "twice", item.spec_sha256) % _OF_DRAWN == 0

    def difference(self, first: MeasuredTrial, second: MeasuredTrial) -> str | None:
        files = first.files.keys() | second.files.keys()
        differing = sorted(name for name in files if first.files.get(name) != second.files.get(name))
        if not differing and record_sha256(first.record) != record_sha256(second.record):
            differing = ["result.json"]
        return differing[0] if differing else None

    def _attempt(
        self, planned: PlannedTrial, site: WorkSite, problem: RunError | None = None
    ) -> MeasuredTrial:
        """One attempt at a trial, and its result; if the run is to end, nothing is left of it.

        With a ``problem`` it is not carried out, and invalid.
        """
        trial, study, store = planned.plan.trial, self.study, site.folder.store
        attempt = store.begin(planned.spec_sha256)
        try:
            if any(file.private for file in study.inputs.values()):
                attempt.path.chmod(0o700)  # a program may have written an input's content to its output
            attempt.write(PLAN_NAME, planned.plan.to_json())
            site.display.started(trial)
            started_at, started_s = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
            task = Task(
                plan=planned.plan,
                devices=study.of(trial.stack).drawn_devices(trial.stack, trial.seed),
                folder=attempt.path,
                trace=study.of(trial.stack).trace,
                cpu=site.cpu,
                report=lambda progress: site.display.progress(trial, progress),
                cancel=site.cancel,
            )
            prepared = None
            try:
                logs = [layer.kernel_log for layer in study.stacks[trial.stack].every_layer]
                if problem is None:
                    prepared = carry_out(site.runner, task, logs)
            except RunError as error:  # of this trial alone; other errors concern the whole run
                if site.is_away and isinstance(error, HostError):
                    raise  # another machine can
                problem = error
            record = finalise(
                attempt,
                planned,
                study,
                site.runner,
                started_at=started_at,
                duration_s=time.monotonic() - started_s,
                problem=problem,
            )
            store.put(attempt, record)
            return MeasuredTrial(record, prepared, _content(attempt) if site.is_away else {})
        except BaseException:
            site.display.abandoned(trial)
            store.discard_unfinished(planned.spec_sha256)
            raise


def _left(planned: PlannedTrial, site: WorkSite) -> MeasuredTrial | None:
    """A finished trial that an earlier run has left on this machine."""
    store, fingerprint = site.folder.store, fingerprint_of(site.runner.identity_of(planned.plan))
    for attempt in reversed(store.attempts(planned.spec_sha256)):
        if attempt.complete:
            record = store.read(attempt, planned.spec_sha256).record
            if record.validity.valid and record.fingerprint == fingerprint:
                return MeasuredTrial(record, None, _content(attempt))
    return None


def _content(attempt: Attempt) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in attempt.path.iterdir() if path != attempt.result_path}


_NUMBERS: Final = re.compile(r"[\da-f]*\d[\da-f.]*")


@dataclass
class TrialRun:
    """The trials of one run, and their outcomes.

    Attributes:
        retries, fresh: See `TrialWork`.
        invalid: Each failed trial with the reasons.
        given_up: The cells whose further seeds are not run, with the failure that two trials had.
        prepared: Of a study that prepares once: the trials that prepared their disks.
    """

    store: Store
    display: Display
    stop: Stop
    retries: int
    fresh: bool = False
    valid: list[TrialKey] = field(default_factory=list)
    invalid: dict[TrialKey, tuple[str, ...]] = field(default_factory=dict)
    given_up: dict[CellKey, str] = field(default_factory=dict)
    prepared: int = 0
    found_prepared: int = 0
    _failures: set[tuple[CellKey, str]] = field(default_factory=set)

    @property
    def done(self) -> set[TrialKey]:
        """The trials that it has carried out."""
        return {*self.valid, *self.invalid}

    def work(self, schedule: Schedule, pool: Pool) -> None:
        """Work until the schedule is done or the run is to end.

        Raises StrataError if the run cannot go on, such as when results cannot be written.
        """
        waiting = [planned for planned in schedule.to_run if self._is_wanted(planned)]
        labs = min(pool.labs, max(1, len(waiting)))
        trials = [Trial.of(schedule.study.name, each.key) for each in waiting]
        self.display.begin(trials, len(schedule.kept) + len(self.done), labs)
        try:
            with suppress(Cancelled):  # the same command continues
                work = TrialWork(schedule.study, self.retries, schedule.disturbed, self.fresh)
                pool.run(work, waiting, self.stop, self._take, self._is_wanted)
        except OSError as error:
            raise refused(error, "go on", kind=RunError) from error
        finally:
            self.display.end()

    def _is_wanted(self, planned: PlannedTrial) -> bool:
        return planned.key.cell not in self.given_up

    def _take(self, planned: PlannedTrial, found: MeasuredTrial) -> None:
        record = found.record
        if found.files:
            attempt = self.store.begin(planned.spec_sha256)
            for name, content in found.files.items():
                (attempt.path / name).write_bytes(content)  # made durable when it is sealed
            self.store.put(attempt, record)
        if found.prepared is not None:
            self.prepared += not found.prepared.found
            self.found_prepared += found.prepared.found
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
        if failure in self._failures:
            self.given_up[cell] = reason
            self.display.given_up(cell, reason)
        self._failures.add(failure)
