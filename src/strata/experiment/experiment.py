# SPDX-License-Identifier: Apache-2.0
"""Variations of a study, run beside its results within one budget of real time.

A strategy chooses the next variations by the outcomes so far, and judges what came of each. Everything that
is found is kept at once, so that an interrupted question, asked again, loses nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

from strata.errors import StrataError, StudyError
from strata.execution.display import Display
from strata.execution.forecast import Forecast
from strata.execution.pool import Labs, lab_bytes, labs_at_once, memory_available_bytes
from strata.execution.schedule import PlannedTrial, fingerprint_of, plan_study
from strata.experiment.quantities import with_values
from strata.experiment.run import run_study
from strata.model.kernel import find_kernel
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.results.findings import AS_MEASURED, UNTRIED, Finding, Tried, Variation, keep_finding
from strata.results.store import ResultsFolder
from strata.runners.base import Runner
from strata.statistics.study import StudyResults, gather
from strata.units import NS_PER_S, format_duration, format_size
from strata.words import counted

VARIATIONS_NAME: Final = "variations"
_KERNEL_S: Final = 600.0  # to compile one on two processors


class BudgetExhausted(Exception):  # noqa: N818  not an error
    """The budget does not suffice for a variation."""


class Interrupted(Exception):  # noqa: N818  not an error
    """The user asked for the end; the trials that were run are kept."""


@dataclass(frozen=True)
class Cells:
    """The part of a study that a question is about."""

    stacks: Sequence[str]
    workloads: Sequence[str]
    seeds: Sequence[int]

    @property
    def keys(self) -> list[CellKey]:
        return [CellKey(stack, workload) for stack in self.stacks for workload in self.workloads]

    def of(self, study: Study, seeds: int = 0) -> Study:
        """The study with these cells and the first ``seeds`` seeds (0: all) alone, without what it adds."""
        for name in self.stacks:
            if name not in study.stacks:
                raise StudyError(f"it leaves no stack {name}")
        return replace(
            study,
            stacks={name: study.stacks[name] for name in self.stacks},
            workloads={name: study.workloads[name] for name in self.workloads},
            seeds=tuple(self.seeds[: seeds or None]),
            precision=None,
            survival=None,
            reference=study.reference if study.reference in self.stacks else None,
        )


class Strategy(Protocol):
    """One question: which variations to try, and what each comes to."""

    @property
    def cells(self) -> Cells:
        """The stacks, workloads and seeds that are run under every variation."""

    def next(self, tried: Sequence[Tried]) -> Sequence[Variation]:
        """The variations to try next, given the outcomes so far; none: the question is answered."""

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        """The outcome of a variation, by the results of `cells` under it."""

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        """The answer so far."""


@dataclass
class Experiment:
    """Runs variations of a study, and keeps their trials and the findings.

    Attributes:
        folder: The results of the unchanged study.
        source: The study with other values at key paths; none: as it is.
        make_runner: Called when the first trial is to be run.
        make_display: Of the trials of a variation, with the durations of earlier ones in a folder.
        say: Takes a sentence on the progress.
        budget_s: Real time for all trials.
        clock: Real seconds.
        on_host: Measures a part of the study on this machine.
        interrupted: Whether the user asked for the end.
    """

    folder: ResultsFolder
    source: Callable[[Mapping[str, Any]], Study]
    make_runner: Callable[[], Runner]
    make_display: Callable[[Runner, Path], Display]
    say: Callable[[str], None]
    budget_s: float = math.inf
    jobs: Labs = None
    clock: Callable[[], float] = time.monotonic
    on_host: Callable[[Cells], StudyResults] | None = None
    interrupted: bool = False
    _forecast: Forecast = field(default_factory=Forecast)
    _end_s: float = field(init=False)  # of the present question
    _last_s: float = field(init=False)  # of all questions

    def __post_init__(self) -> None:
        self._end_s = self._last_s = self.clock() + self.budget_s

    @cached_property
    def runner(self) -> Runner:
        return self.make_runner()

    @cached_property
    def study(self) -> Study:
        return self.source({})

    def answer_each(self, strategies: Sequence[Strategy]) -> tuple[list[Finding], list[StudyError]]:
        """The answers, each within an even share of the remaining budget, and the refusals.

        Raises the first refusal if every question is refused.
        """
        found, refused = [], []
        for left, strategy in zip(range(len(strategies), 0, -1), strategies, strict=True):
            try:
                found.append(self.answer(strategy, 1 / left))
            except StudyError as error:  # too little time is left, or only another use has this quantity
                refused.append(error)
            if self.interrupted:
                break
        if refused and not found:
            raise refused[0]
        return found, refused

    def answer(self, strategy: Strategy, share: float = 1.0) -> Finding:
        """Try what a strategy asks for within a share of the remaining budget.

        findings.json keeps the outcomes after each one.

        Raises StudyError if the budget is less than one variation takes.
        """
        now_s = self.clock()
        self._end_s = now_s + max(0.0, self._last_s - now_s) * share
        tried: list[Tried] = []
        for reading in self.folder.readings() if self.folder.study_path.is_file() else ():
            if reading.record is not None:
                self._forecast.learn(reading.record)
        while not self.interrupted and (wanted := strategy.next(tried)):
            if not tried and not math.isinf(self.budget_s):
                self.say(self._first_words(strategy.cells, wanted))
            tried += self._tried_round(strategy, tried, wanted)
        found = strategy.finding(tried, whole=not any(each.note == UNTRIED for each in tried))
        keep_finding(self.folder, found)
        is_judged = any(outcome.verdict for outcome in tried if outcome.name != AS_MEASURED)
        if not (is_judged or found.whole or self.interrupted):
            self._refuse_budget(strategy.cells)
        return found

    def _tried_round(
        self, strategy: Strategy, before: Sequence[Tried], wanted: Sequence[Variation]
    ) -> list[Tried]:
        """The outcomes of one round's variations; what an interruption left is untried."""
        found = [variation.tried(note=UNTRIED) for variation in wanted]
        for number, variation in enumerate(wanted, start=1):
            why = f": {variation.why}" if variation.why else ""
            self.say(f"[{number} of {len(wanted)}] {variation.name}{why}")
            try:
                found[number - 1] = self._tried(strategy, variation)
            except (Interrupted, KeyboardInterrupt):
                self.interrupted = True
                break
            keep_finding(self.folder, strategy.finding([*before, *found], whole=False))
        return found

    def _tried(self, strategy: Strategy, variation: Variation) -> Tried:
        try:
            results = self.run(variation, strategy.cells)
        except BudgetExhausted:
            return variation.tried(note=UNTRIED)  # another one may be there already, or need fewer trials
        except StrataError as error:
            first = getattr(error, "diagnostics", [error])[0]
            return variation.tried(note=f"refused: {first.cause}")
        return strategy.judge(variation, results)

    def run(self, variation: Variation, cells: Cells) -> StudyResults:
        """The results of a part of the study under a variation; trials that are there are not run again.

        Raises StrataError if the study cannot have the variation, BudgetExhausted and Interrupted.
        """
        if variation.time_domain == "wall" and self.on_host is not None:
            return self.on_host(cells)
        varied = self._varied(variation, cells)
        as_it_is = cells.of(self.study, variation.seeds)
        if varied.kernel != as_it_is.kernel:
            self._require_kernels(varied)
        planned = plan_study(varied, self.runner)[0]
        if variation.changes and not self._differs(planned, as_it_is):
            raise StudyError("it changes nothing in these trials")
        needed_bytes = lab_bytes(varied)
        if needed_bytes > max(memory_available_bytes(), lab_bytes(as_it_is)):
            raise StudyError(f"its lab takes {format_size(needed_bytes)} of memory, more than is available")
        place = self._place(variation, planned)
        missing = [trial.key.cell for trial in planned if self._is_missing(trial, place)]
        if missing and self._cost_s(varied, missing) > self.left_s:
            raise BudgetExhausted
        display = self.make_display(self.runner, self.folder.path)
        done = run_study(varied, place, self.runner, display, jobs=self.jobs)
        if done.signal_number is not None:
            raise Interrupted
        results = gather(place)
        for record in results.records:
            self._forecast.learn(record)
        return results

    def is_other(self, changes: Mapping[str, Any], cells: Cells) -> bool:
        """Whether the changes make other trials of these cells."""
        varied = cells.of(self.source(changes)) if changes else None
        return varied is not None and self._differs(plan_study(varied, self.runner)[0], cells.of(self.study))

    def _differs(self, planned: Iterable[PlannedTrial], study: Study) -> bool:
        before = {each.key: each.spec_sha256 for each in plan_study(study, self.runner)[0]}
        return {each.key: each.spec_sha256 for each in planned} != before

    def _varied(self, variation: Variation, cells: Cells) -> Study:
        study = self.source(variation.changes) if variation.changes else self.study
        study = with_values(study, cells.workloads, variation.values)
        if variation.kernel is not None:
            kernel = find_kernel(variation.kernel)
            own = {name: {**each, "kernel": kernel} for name, each in study.own.items()}
            study = replace(study, kernel=kernel, own=own)
        return cells.of(study, variation.seeds)

    def _place(self, variation: Variation, planned: Sequence[PlannedTrial]) -> ResultsFolder:
        """The folder of a variation. Its records are with all others, so an untouched trial is found.

        Kernels have stores of their own: of the user's sources an identity has no content.
        """
        if variation.kernel is not None:
            built = self.runner.identity_of(planned[0].plan).kernel_sha256
            return ResultsFolder(self.folder.path / f"{built}"[:12], shared=self.folder.store.shared)
        return ResultsFolder(self.folder.path / VARIATIONS_NAME, self.folder.store)

    @property
    def left_s(self) -> float:
        """The real time that the present question may still take."""
        return self._end_s - self.clock()

    def _cost_s(self, study: Study, cells: Iterable[CellKey]) -> float:
        """The real time of trials of these cells, estimated by the trials before."""
        total_s = sum(self._forecast.left_s(cell) or 1.0 for cell in cells)
        return total_s / labs_at_once(self.jobs, self.runner, lab_bytes(study))

    def _first_words(self, cells: Cells, wanted: Sequence[Variation]) -> str:
        count = sum(len(cells.seeds[: each.seeds or None]) for each in wanted)
        about = format_duration(round(self._cost_s(self.study, cells.keys * count)) * NS_PER_S)
        most = format_duration(round(self.left_s) * NS_PER_S)
        return f"{counted(len(wanted), 'variation')} first: about {about}, at most {most}"

    def _require_kernels(self, study: Study) -> None:
        """Raise BudgetExhausted if it leaves no time to compile a kernel that the study needs."""
        planned = plan_study(study, self.runner, chosen=())[0]  # builds nothing
        built = all(self.runner.identity_of(each.plan).kernel_sha256 for each in planned)
        if not built and self.left_s < _KERNEL_S:
            raise BudgetExhausted

    def _refuse_budget(self, cells: Cells) -> None:
        seconds = (self.budget_s, self._cost_s(self.study, cells.keys * len(cells.seeds)))
        given, least = (format_duration(each * NS_PER_S) for each in seconds)
        raise StudyError(
            f"the budget of {given} is less than one variation takes: about {least}",
            place="--budget",
            remedy="give more, or fewer --seeds",
        )

    def _is_missing(self, trial: PlannedTrial, place: ResultsFolder) -> bool:
        of_now = fingerprint_of(self.runner.identity_of(trial.plan))
        return not place.store.has(trial.spec_sha256, of_now)
