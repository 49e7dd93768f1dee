# SPDX-License-Identifier: Apache-2.0
"""Running a study in rounds: its trials, further probes of its searches, further seeds for a precision.

The rounds follow from the results alone, so that an interrupted run goes on as if it had not been.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from strata.errors import RunError
from strata.execution.display import Display
from strata.execution.pool import Labs, LocalPool, MachineTally, Pool, lab_bytes, pool_of, stopped_by_signals
from strata.execution.schedule import (
    RETRIES,
    ChosenTrials,
    PlannedTrial,
    Schedule,
    Shard,
    chosen_trials,
    disturbance_of,
    disturbed_attempts,
    fingerprint_of,
    is_chosen,
    plan_study,
    snapshot_of,
)
from strata.execution.trials import TrialRun
from strata.experiment.strategies.find import more_probes
from strata.experiment.strategies.precision import more_seeds, with_all_seeds
from strata.lab.limits import provide_descriptors
from strata.model.find import find_of
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.printable import in_json
from strata.results.record import Fingerprint
from strata.results.store import CLUSTER_NAME, ResultsFolder
from strata.runners.base import Runner
from strata.statistics.study import gather


@dataclass(frozen=True)
class RunSummary:
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
    # The kept trials that the shared store had.
    from_store: int = 0
    # What each machine of a cluster did.
    machines: Mapping[str, MachineTally] = field(default_factory=dict)

    @property
    @in_json
    def exit_code(self) -> int:
        """For the command line: interrupted, something failed, or all well."""
        if self.signal_number is not None:
            return 128 + self.signal_number
        return RunError.exit_code if self.invalid else 0


def run_study(
    study: Study,
    results: Path | ResultsFolder,  # the folder for the results; created, or continued
    runner: Runner,
    display: Display,
    *,
    jobs: Labs = None,  # trials at once, or where; by default one per CPU in the lab, one on a host
    only: str | None = None,  # a glob over trial ids; None for all. With a glob no seeds are added.
    fresh: bool = False,  # run also trials that have a valid result
    retries: int = RETRIES,  # the most times that a disturbed trial is measured again
    command: str = "",  # the command that reproduces the results, for the report
    shard: Shard | None = None,  # this part of the trials alone; no seeds are added, either
) -> RunSummary:
    """Run the trials without a valid result, and further seeds where a study asks for a precision.

    A trial that fails is recorded as invalid, and the others go on; after two equal failures of a cell its
    further seeds are left to the next run. SIGINT, SIGTERM and SIGHUP (but not under ``nohup``) end the run
    early: finished trials are kept, running ones leave nothing behind.

    Raises ResultError if the results folder cannot be used or written, LabError if no lab can be started,
    ToolError if a program or a privilege is missing, or too few files may be open, and RunError if no trial
    matches `only`.
    """
    started_s = time.monotonic()
    folder = results if isinstance(results, ResultsFolder) else ResultsFolder(results)
    chosen = chosen_trials(with_all_seeds(study), only, shard)  # before a folder is made, in case of an error
    rounds = _Rounds(folder, runner, chosen, only, fresh, retries, command)
    with folder.lock():
        (folder.path / CLUSTER_NAME).unlink(missing_ok=True)  # a killed run's
        schedule = rounds.first(study)
        if not any(trial in chosen for trial in schedule.snapshot.trials) and not schedule.skipped:
            chosen_trials(schedule.study, only)  # refuses a seed that could have been added, but was not
        for identity in schedule.snapshot.trials.values():
            folder.store.discard_unfinished(identity)
        with stopped_by_signals() as stop:
            run = TrialRun(folder.store, display, stop, retries, fresh)
            pool = pool_of(jobs, runner, folder, display, lab_bytes(schedule.study))
            schedule = _run_rounds(schedule, rounds, run, pool)
        carried_out = run.done
        return RunSummary(
            kept=schedule.kept,
            valid=tuple(run.valid),
            invalid=run.invalid,
            unrun=tuple(each.key for each in schedule.to_run if each.key not in carried_out),
            skipped=schedule.skipped,
            signal_number=stop.signal_number,
            duration_s=time.monotonic() - started_s,
            added_seeds=schedule.study.added_seeds,
            not_converged=rounds.conclude(schedule, run.given_up),
            given_up=run.given_up,
            prepared=run.prepared,
            found_prepared=run.found_prepared,
            from_store=0 if (shared := folder.store.shared) is None else len(shared.found),
            machines=pool.machines,
        )


def _run_rounds(schedule: Schedule, rounds: _Rounds, run: TrialRun, pool: Pool) -> Schedule:
    """Carry out rounds until all is precise enough or the run is to end; returns the last one."""
    while True:
        plans = [each.plan for each in {each.key.cell: each for each in schedule.to_run}.values()]
        rounds.runner.check(plans)  # a cell's plans need the same
        if isinstance(pool, LocalPool):
            provide_descriptors(pool.labs, max((len(each.devices) for each in plans), default=0))
        run.work(schedule, pool)
        following = None if run.stop.event.is_set() else rounds.next(schedule, run.done)
        if following is None:
            return schedule
        schedule = following
        for reason in rounds.added:
            run.display.say(reason)


@dataclass
class _Rounds:
    """The rounds of a run: the declared seeds, further probes of searches, further seeds for imprecise cells.

    For the options see `run_study`. ``added`` has the reasons for the last round, one for each workload.
    """

    folder: ResultsFolder
    runner: Runner
    chosen: ChosenTrials
    only: str | None = None
    fresh: bool = False
    retries: int = RETRIES
    command: str = ""
    added: tuple[str, ...] = ()
    _known: dict[TrialKey, PlannedTrial] = field(default_factory=dict)  # the compiled trials
    _kept: set[TrialKey] = field(default_factory=set)  # they had a valid result before this run
    _done: set[TrialKey] = field(default_factory=set)  # this run has carried them out
    _carried_out: set[TrialKey] = field(default_factory=set)

    def first(self, study: Study) -> Schedule:
        """The round that earlier runs have reached; the first one where everything is measured anew."""
        schedule = self._round(study)
        while not (self.fresh and self.only is None) and self._all_carried_out(schedule):
            following = self._following(schedule)
            if following is None:
                break
            schedule = following
        return schedule

    def next(self, schedule: Schedule, done: Collection[TrialKey]) -> Schedule | None:
        """The round after ``schedule``, given the trials that were carried out; None after the last."""
        self._done.update(done)
        return self._following(schedule, adds_seeds=self.only is None and self.chosen.part is None)

    def conclude(self, schedule: Schedule, given_up: Mapping[CellKey, str]) -> dict[CellKey, float]:
        """State in study.json the cells that were given up, and those less precise than the study asks.

        Returns the half-widths of the latter.
        """
        asked = schedule.study.precision
        widths = {} if asked is None else gather(self.folder).unconverged(asked)
        stated = {cell: None if math.isinf(width) else width for cell, width in widths.items()}
        stating = {"not_converged": stated, "given_up": dict(given_up)}
        self.folder.write_study(schedule.snapshot.model_copy(update=stating))
        return widths

    def _round(self, study: Study) -> Schedule:
        """Find the work of a round; study.json then states it. The results folder is locked."""
        planned, left_out = plan_study(study, self.runner, self.chosen, self._known)
        snapshot = snapshot_of(study, planned, left_out, self.runner, self.command)
        self.folder.write_study(snapshot)  # before any record
        if not self.fresh:
            mine = [each for each in planned if each.key in self.chosen and each.key not in self._kept]
            self.folder.store.ask((each.spec_sha256, self._fingerprint(each)) for each in mine)
        to_run, kept, disturbed = [], [], {}
        for each in planned:
            if each.key not in self.chosen or each.key in self._done:
                continue
            if not self.fresh and each.key not in self._kept:
                disturbed[each.key] = self._tried(each)
            if each.key in self._kept:
                kept.append(each.key)
            else:
                to_run.append(each)
        skipped = {cell: why for cell, why in left_out.items() if is_chosen(study, cell, self.only)}
        return Schedule(study, snapshot, tuple(to_run), tuple(kept), skipped, disturbed)

    def _tried(self, planned: PlannedTrial) -> int:
        """How many attempts at a trial were disturbed; one that has its result is kept."""
        store, fingerprint = self.folder.store, self._fingerprint(planned)
        record = store.get(planned.spec_sha256, fingerprint)
        is_disturbed = record is not None and disturbance_of(record) is not None
        tried = disturbed_attempts(store, planned, fingerprint) if is_disturbed else 0
        if record is not None and not 0 < tried <= self.retries:
            self._kept.add(planned.key)
        return tried

    def _fingerprint(self, planned: PlannedTrial) -> Fingerprint:
        return fingerprint_of(self.runner.identity_of(planned.plan))

    def _following(self, schedule: Schedule, *, adds_seeds: bool = True) -> Schedule | None:
        study = schedule.study
        self.added = ()
        strategies = [more_probes] if any(map(find_of, study.workloads.values())) else []
        strategies += [more_seeds] if adds_seeds and study.precision is not None else []
        results = gather(self.folder) if strategies else None
        for strategy in strategies:
            assert results is not None
            if (growth := strategy(study, results, self.chosen)) is not None:
                study, self.added = growth
                return self._round(study)
        return None

    def _all_carried_out(self, schedule: Schedule) -> bool:
        """Whether every trial has a result of this specification and this runner, valid or not."""
        for trial, sha256 in schedule.snapshot.trials.items():
            if trial in self._carried_out or trial in self._kept:
                continue
            record = self.folder.read_trial(trial, sha256).record
            if record is None or record.fingerprint != self._fingerprint(self._known[trial]):
                return False
            self._carried_out.add(trial)
        return True
