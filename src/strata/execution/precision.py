# SPDX-License-Identifier: Apache-2.0
"""The rounds of a run: further probes of its searches, further seeds for cells that are not precise enough.

A study stops on precision, never on a difference.

Stopping as soon as a difference is clear finds differences that are not there. Stopping at a fixed width
costs less, but it does cost: it stops where the scatter happens to look small, so that fewer intervals hold
than they promise (docs/explanation/statistics.md, "Stopping", has how many). Seeds are added as whole blocks,
on every stack, and follow from the results alone: in the lab a study comes to the same seeds, however often
it is interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from strata.execution.agenda import (
    RETRIES,
    Agenda,
    PlannedTrial,
    disturbance_of,
    disturbed_attempts,
    fingerprint_of,
    is_chosen,
    plan_study,
    snapshot_of,
)
from strata.execution.search import with_more_probes
from strata.model.design import CONVERGED_SEEDS_MIN, further_seeds
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.results.search import searched
from strata.results.store import ResultsFolder
from strata.runners.base import Runner
from strata.units import format_share, percent

Unconverged = Callable[[ResultsFolder], Mapping[CellKey, float]]
"""The cells of a results folder that are not precise enough, with the half-width of the interval of their
log-ratio; infinite without one. `strata.statistics`, which lies above, computes them."""


def with_all_seeds(study: Study) -> Study:
    """The study with every seed that could be added to it."""
    if study.precision is None:
        return study
    following = _following(study)
    return replace(study, added_seeds=dict.fromkeys(study.workloads, following))


def with_more_seeds(study: Study, unsure: Collection[CellKey]) -> Study | None:
    """The study with another seed for each workload that has an unsure cell; None if none is added."""
    if study.precision is None:
        return None
    following = _following(study)
    added = dict(study.added_seeds)
    for workload in dict.fromkeys(workload for _, workload in unsure):
        count = len(added.get(workload, ()))
        added[workload] = following[: max(count + 1, CONVERGED_SEEDS_MIN - len(study.seeds))]
    grown = {workload: added[workload] for workload in study.workloads if added.get(workload)}
    return None if grown == dict(study.added_seeds) else replace(study, added_seeds=grown)


def _following(study: Study) -> tuple[int, ...]:
    return tuple(islice(further_seeds(study.seeds), max(0, study.seeds_max - len(study.seeds))))


def stated(widths: Mapping[CellKey, float]) -> dict[CellKey, float | None]:
    """Half-widths as JSON has them: None without an interval."""
    return {cell: None if math.isinf(width) else width for cell, width in widths.items()}


@dataclass
class Rounds:
    """The rounds of a run: the declared seeds, further probes of searches, further seeds for imprecise cells.

    For the options see `run_study`. ``added`` has the reasons for the last round, one for each workload.
    """

    folder: ResultsFolder
    runner: Runner
    unconverged: Unconverged | None
    chosen: Container[TrialKey]
    only: str | None = None
    fresh: bool = False
    retries: int = RETRIES
    command: str = ""
    added: list[str] = field(default_factory=list)
    _known: dict[TrialKey, PlannedTrial] = field(default_factory=dict)  # the compiled trials
    _kept: set[TrialKey] = field(default_factory=set)  # they had a valid result before this run
    _done: set[TrialKey] = field(default_factory=set)  # this run has carried them out
    _carried_out: set[TrialKey] = field(default_factory=set)

    def first(self, study: Study) -> Agenda:
        """The round that earlier runs have reached; the first one where everything is measured anew."""
        agenda = self._round(study)
        while not (self.fresh and self.only is None) and self._all_carried_out(agenda):
            following = self._following(agenda)
            if following is None:
                break
            agenda = following
        return agenda

    def next(self, agenda: Agenda, done: Collection[TrialKey]) -> Agenda | None:
        """The round after ``agenda``, given all trials that the run has carried out; None after the last."""
        self._done.update(done)
        return self._following(agenda, adds_seeds=self.only is None)

    def conclude(self, agenda: Agenda, given_up: Mapping[CellKey, str]) -> dict[CellKey, float]:
        """State in study.json the cells that were given up, and those less precise than the study asks.

        Returns the half-widths of the latter.
        """
        asked = agenda.study.precision is not None and self.unconverged is not None
        widths = dict(self.unconverged(self.folder)) if asked and self.unconverged else {}
        stating = {"not_converged": stated(widths), "given_up": dict(given_up)}
        ResultsFolder.create(self.folder.path, agenda.snapshot.model_copy(update=stating))
        return widths

    def _round(self, study: Study) -> Agenda:
        """Find the work of a round; study.json then states it. The results folder is locked."""
        planned, left_out = plan_study(study, self.runner, self.chosen, self._known)
        to_run, kept, disturbed = [], [], {}
        for each in planned:
            if each.key not in self.chosen or each.key in self._done:
                continue
            if not self.fresh and each.key not in self._kept:
                fingerprint = fingerprint_of(self.runner.identity_of(each.plan))
                record = self.folder.valid_result(each.key, each.spec_sha256, fingerprint)
                is_disturbed = record is not None and disturbance_of(record) is not None
                tried = disturbed_attempts(self.folder, each, fingerprint) if is_disturbed else 0
                if record is None or 0 < tried <= self.retries:
                    disturbed[each.key] = tried
                else:
                    self._kept.add(each.key)
            if each.key in self._kept:
                kept.append(each.key)
            else:
                to_run.append(each)
        snapshot = snapshot_of(study, planned, left_out, self.runner, self.command)
        ResultsFolder.create(self.folder.path, snapshot)
        skipped = {cell: why for cell, why in left_out.items() if is_chosen(study, cell, self.only)}
        return Agenda(study, snapshot, tuple(to_run), tuple(kept), skipped, disturbed)

    def _following(self, agenda: Agenda, *, adds_seeds: bool = True) -> Agenda | None:
        study = agenda.study
        self.added = []
        if (grown := with_more_probes(study, self.folder, self.chosen)) is not None:
            return self._round(grown)
        if study.precision is None or self.unconverged is None or not adds_seeds:
            return None
        unsure = self._unsure()
        grown = with_more_seeds(study, unsure)
        if grown is None:
            return None
        self.added = list(_reasons(study, grown, unsure))
        return self._round(grown)

    def _unsure(self) -> dict[CellKey, float]:
        """Cells that more seeds could make precise; where trials fail, seeds do not help."""
        assert self.unconverged is not None
        study = self.folder.study()
        unusable = [reading.trial for reading in self.folder.readings() if not reading.usable]
        failed = {(searched(study, trial) or (trial, 0))[0].cell for trial in unusable}
        return {cell: width for cell, width in self.unconverged(self.folder).items() if cell not in failed}

    def _all_carried_out(self, agenda: Agenda) -> bool:
        """Whether every trial has a result of this specification and this runner, valid or not."""
        for trial, sha256 in agenda.snapshot.trials.items():
            if trial in self._carried_out or trial in self._kept:
                continue
            record = self.folder.read_trial(trial, sha256).record
            fingerprint = fingerprint_of(self.runner.identity_of(self._known[trial].plan))
            if record is None or record.fingerprint != fingerprint:
                return False
            self._carried_out.add(trial)
        return True


def _reasons(study: Study, grown: Study, unsure: Mapping[CellKey, float]) -> Iterator[str]:
    """For each workload that gets more seeds: its present precision, and the seeds."""
    for workload in grown.added_seeds:
        new = grown.seeds_of(workload)[len(study.seeds_of(workload)) :]
        if new:
            widths = {stack: width for (stack, load), width in unsure.items() if load == workload}
            widest = max(widths, key=lambda stack: widths[stack])
            of = "no interval yet" if math.isinf(widths[widest]) else f"{widest}: ±{percent(widths[widest])}"
            seeds = ("seeds " if len(new) > 1 else "seed ") + ", ".join(map(str, new))
            yield f"{workload} is not within ±{format_share(study.precision or 0)} yet ({of}): {seeds} added"
