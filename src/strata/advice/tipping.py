# SPDX-License-Identifier: Apache-2.0
"""What would change an answer: values of uncertain quantities at which another stack becomes best.

Each end of a quantity's range is tried with one seed. The ends at which a rival comes near are tried with all
seeds, and where it leads there, the value between is found by bisection. The stacks of a trial are paired by
seed, as everywhere, and each seed keeps its drive but for the value. Weights need no trials.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from strata.advice.evidence import Scorer, evidence_of
from strata.advice.model import Advice
from strata.advice.quantities import Quantity, quantities
from strata.advice.tipping_weights import answered, best_two, tipping_weights, tried_before
from strata.errors import StrataError, StudyError
from strata.execution.display import Display
from strata.execution.varied import Ended, VariedTrials, mean_trial_s, narrowed
from strata.model.study import Study
from strata.results.store import ResultsFolder
from strata.results.tipping import (
    SEEDS,
    TRIALS_NAME,
    Outcome,
    TippingPoint,
    Tried,
    Uncertain,
    UseTipping,
    identity_of,
    sorted_points,
    write_tipping,
)
from strata.runners.base import Runner
from strata.statistics.study import StudyResults, gather
from strata.units import NS_PER_S, format_duration
from strata.words import counted

NEAR: Final = 1.1
"""A judgement: where the rival waits longer by more than this with one seed, no further seed is tried."""
WITHIN: Final = 0.05
"""How near the values come between which the answer changes, as a share."""
_STEPS_MAX: Final = 8


@dataclass(frozen=True)
class Limits:
    """How much is tried: seconds of real time, seeds for each value, the quantities by globs over names."""

    budget_s: float
    seeds: int = SEEDS
    globs: Sequence[str] = ()


@dataclass
class Tipper:
    """The search of one use's tipping points, with trials in a folder beside the results.

    Attributes:
        say: Takes a sentence on the progress.
        clock: Real seconds.
    """

    study: Study
    folder: ResultsFolder
    results: StudyResults
    advice: Advice
    runner: Runner
    display: Callable[[], Display]
    say: Callable[[str], None]
    limits: Limits
    jobs: int | None = None
    clock: Callable[[], float] = time.monotonic
    interrupted: bool = False
    _points: dict[tuple[str, float], TippingPoint] = field(default_factory=dict)
    _weights: list[TippingPoint] = field(default_factory=list)

    def run(self) -> UseTipping:
        """Search within the budget; whatever was found is kept in tipping.json, at every step.

        Raises ResultError if there is no answer that could change, and StudyError if the budget is less than
        one value takes, or no quantity has a name that was asked for.
        """
        answer = answered(self.results, self.advice)
        self._leaders, self._stacks = answer.leaders, answer.stacks
        self._earlier = tried_before(self.folder, self.advice, self._leaders)
        evidence = evidence_of(self.results, self.advice.use, self._stacks, Scorer(self.results))
        self._workloads = [*dict.fromkeys(part.workload for part in evidence.parts)]
        self._seeds = evidence.common_seeds(evidence.stacks)[: self.limits.seeds]
        self._trials = VariedTrials(
            *(self.folder, TRIALS_NAME, self.runner, self.display),
            budget_s=self.limits.budget_s,
            jobs=self.jobs,
            clock=self.clock,
            trial_s=mean_trial_s(self.results.records, self._stacks, self._workloads),
        )
        wanted = self._wanted()
        self._weights = [
            each for each in tipping_weights(self.results, self.advice) if self._is_asked(each.quantity)
        ]
        if wanted and self._cost_s(1) > self.limits.budget_s:
            given, least = (
                format_duration(each * NS_PER_S) for each in (self.limits.budget_s, self._cost_s(1))
            )
            raise StudyError(
                f"the budget of {given} is less than one value takes: about {least}",
                place="--budget",
                remedy="give more, name one use, or run fewer stacks or shorter windows",
            )
        whole = True
        try:
            self._search(wanted)
        except (Ended, KeyboardInterrupt) as ended:
            whole = False
            self.interrupted = self._trials.interrupted or isinstance(ended, KeyboardInterrupt)
        return self._keep(whole=whole)

    def _wanted(self) -> list[Quantity]:
        every = quantities(self.study, self._workloads)
        found = [each for each in every if self._is_asked(each.quantity)]
        if self.limits.globs and not found:
            weights = [f"weights.{part.name}" for part in self.advice.use.weights]
            if not any(map(self._is_asked, weights)):
                names = ", ".join([*(each.quantity for each in every), *weights])
                cause = f'no quantity is called "{", ".join(self.limits.globs)}"'
                raise StudyError(cause, place="--parameter", remedy=f"there are: {names}")
        return found

    def _is_asked(self, name: str) -> bool:
        return not self.limits.globs or any(fnmatchcase(name, glob) for glob in self.limits.globs)

    def _search(self, wanted: Sequence[Quantity]) -> None:
        for each in wanted:
            for end in each.ends:
                self._put(each, end, "cannot say", note="not tried within the budget")
        if wanted:
            self.say(self._forecast(wanted))
        screened: list[tuple[float, Quantity, float]] = []
        for number, each in enumerate(wanted, start=1):
            for end in each.ends:
                self.say(f"[{number} of {len(wanted)}] {each.quantity} = {each.shown(end)}, one seed")
                tried = self._try(each, end, end, 1)
                if tried is not None:
                    self._put(each, end, "stays" if tried.ratio >= 1 else "tips", tried)
                    screened.append((tried.ratio, each, end))
        near = sorted((each for each in screened if each[0] < NEAR), key=lambda each: each[0])
        for number, (_, quantity, end) in enumerate(near, start=1):
            self.say(f"[{number} of {len(near)}] near: {quantity.quantity} towards {quantity.shown(end)}")
            self._bisect(quantity, end)

    def _forecast(self, wanted: Sequence[Quantity]) -> str:
        values = sum(len(each.ends) for each in wanted)
        first = format_duration(round(self._cost_s(values)) * NS_PER_S)
        given = format_duration(round(self.limits.budget_s) * NS_PER_S)
        return (
            f"{self.advice.use.name}: {counted(len(wanted), 'quantity', 'quantities')}, "
            f"{counted(values, 'value')} with one seed: about {first}, and more where a rival comes near; "
            f"at most {given}"
        )

    def _bisect(self, quantity: Quantity, end: float) -> None:
        count = len(self._seeds)
        tried = self._try(quantity, end, end, count)
        if tried is None:
            return
        # Of one seed alone nothing is left: all seeds have their own value there.
        self._put(quantity, end, "tips" if tried.ratio < 1 else "stays", tried, anew=True)
        stays, tips = quantity.stated, end
        for _ in range(_STEPS_MAX if tried.ratio < 1 else 0):
            middle = quantity.near(math.sqrt(stays * tips) if min(stays, tips) > 0 else (stays + tips) / 2)
            is_near = abs(tips - stays) <= WITHIN * max(abs(stays), abs(tips))
            if is_near or middle in (stays, tips):
                break
            between = self._try(quantity, end, middle, count)
            if between is None:
                break
            self._put(quantity, end, "tips", between)
            stays, tips = (stays, middle) if between.ratio < 1 else (middle, tips)

    def _try(self, quantity: Quantity, end: float, value: float, seeds: int) -> Tried | None:
        """What leads at a value; None, with a note on the point, where a trial failed."""
        used = self._seeds[:seeds]
        try:
            varied = narrowed(quantity.applied(self.study, value), self._stacks, self._workloads, used)
            found = self._trials.run(varied, f"{quantity.quantity}={value:.6g}")
        except StrataError as error:
            self._put(quantity, end, "cannot say", note=f"{quantity.shown(value)}: {error.cause}")
            return None
        tried = self._judged(gather(found), value, used)
        if isinstance(tried, str):
            self._put(quantity, end, "cannot say", note=f"{quantity.shown(value)}: {tried}")
            return None
        return tried

    def _judged(self, results: StudyResults, value: float, seeds: Sequence[int]) -> Tried | str:
        """The comparison of the best leader with the best rival; or why there is none."""
        scorer = Scorer(results)
        evidence = evidence_of(results, self.advice.use, self._stacks, scorer)
        common = evidence.common_seeds(evidence.stacks)
        sides = [
            set(evidence.stacks) & set(self._leaders),
            set(evidence.stacks) - set(self._leaders),
        ]
        if not all(sides) or set(common) != set(seeds):
            problems = [each.problem for each in results.readings if each.problem]
            return problems[0] if problems else "it has no numbers that count"
        baseline = scorer.baseline(evidence.stacks)
        score = scorer.estimates(evidence.stacks, baseline, evidence.parts, common)
        leader, rival = best_two(score, self._leaders)
        found = scorer.against(
            *(self.advice.use.name, rival, leader),
            baseline=baseline,
            parts=evidence.parts,
            seeds=common,
            mean="arithmetic",
            family=scorer.family(evidence.stacks, baseline, evidence.parts, common, "arithmetic"),
        ).ratio
        ends = (found.interval.low, found.interval.high) if found.interval else (None, None)
        seen = {"low": ends[0], "high": ends[1]}
        return Tried(value=value, seeds=len(common), leader=leader, rival=rival, ratio=found.ratio, **seen)

    def _put(
        self,
        quantity: Quantity,
        end: float,
        outcome: Outcome,
        tried: Tried | None = None,
        *,
        note: str = "",
        anew: bool = False,
    ) -> None:
        before = self._points.get((quantity.quantity, end))
        known = before.tried if before is not None and not anew else ()
        self._points[quantity.quantity, end] = TippingPoint(
            **quantity.model_dump(include=set(Uncertain.model_fields)),
            end=end,
            outcome=outcome,
            note=note,
            tried=(*known, tried) if tried is not None else known,
        )
        if tried is not None:
            self._keep(whole=False)

    def _keep(self, *, whole: bool) -> UseTipping:
        points = self._earlier | {
            key: each for key, each in self._points.items() if each.tried or key not in self._earlier
        }
        found = UseTipping(
            leaders=self._leaders,
            conclusion=self.advice.conclusion,
            results_sha256=identity_of(self.results.snapshot),
            whole=whole,
            points=sorted_points([*self._weights, *points.values()]),
        )
        write_tipping(self.folder, self.advice.use.name, found)
        return found

    def _cost_s(self, values: int) -> float:
        """The real time of this number of values, each with one seed."""
        return self._trials.cost_s(self.study, len(self._stacks) * len(self._workloads) * values)
