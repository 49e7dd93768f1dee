# SPDX-License-Identifier: Apache-2.0
"""What would change an answer: values of uncertain quantities at which another stack becomes best.

Each end of a quantity's range is tried with one seed. The ends at which a rival comes near are tried with all
seeds, and where it leads there, the value between is found by bisection. The stacks of a trial are paired by
seed, as everywhere, and each seed keeps its drive but for the value. Weights need no trials.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from strata.advice.evidence import Evidence, Scorer, evidence_of
from strata.advice.model import Advice
from strata.advice.quantities import Quantity, quantities
from strata.errors import ResultError, StrataError, StudyError
from strata.execution.display import Display
from strata.execution.run import run_study, worker_cpus
from strata.files import explained
from strata.plan.compile import trials
from strata.results.store import ResultsFolder
from strata.results.tipping import (
    TRIALS_NAME,
    Outcome,
    TippingPoint,
    Tried,
    UseTipping,
    identity_of,
    read_tipping,
    sorted_points,
    write_tipping,
)
from strata.runners.base import Runner
from strata.spec.study import Study
from strata.statistics.study import StudyResults, gather
from strata.units import NS_PER_S, format_duration, format_size
from strata.words import counted, listed

SEEDS: Final = 3
"""The seeds of a value by default: the fewest with an interval."""
NEAR: Final = 1.1
"""A judgement: where the rival waits longer by more than this with one seed, no further seed is tried."""
WITHIN: Final = 0.05
"""How near the values come between which the answer changes, as a share."""
_STEPS_MAX: Final = 8
_SHARED: Final = ("kind", "words", "unit", "stated", "low", "high", "known", "source")
"""The fields that a quantity gives to its tipping points."""
_WEIGHT_WITHIN: Final = 1e-4


@dataclass(frozen=True)
class Limits:
    """How much is tried: seconds of real time, seeds for each value, the quantities by globs over names."""

    budget_s: float
    seeds: int = SEEDS
    globs: Sequence[str] = ()


class _Ended(Exception):  # noqa: N818  not an error
    """The budget is used up, or the user interrupted; what was found is kept."""


@dataclass(frozen=True)
class Answered:
    """The answer that could change: ``leaders`` against the other ``stacks``."""

    leaders: tuple[str, ...]
    stacks: tuple[str, ...]


def answered(results: StudyResults, advice: Advice) -> Answered:
    """The answer that could change. Where no stack is shown to be behind, it is the one that leads.

    Raises ResultError if there is no answer, or all stacks are even.
    """
    use = advice.use.name
    remedy = f"`strata advise RESULTS --use {use}` says what is missing"
    if advice.conclusion in ("no stack left", "nothing to compare"):
        left = listed(advice.candidates) or "none"
        cause = f"{advice.conclusion} for {use}: {left} of {listed(results.stacks)}"
        raise ResultError(cause, place="--use", remedy=remedy)
    ranked = tuple(each.stack for each in advice.standings)
    if not advice.leaders or not ranked:
        cause = f"the results choose no stack for {use} ({advice.conclusion}), so nothing can change that"
        raise ResultError(cause, place="--use", remedy=remedy)
    if not set(ranked) <= set(advice.leaders):
        return Answered(advice.leaders, ranked)
    if advice.take_either:
        cause = f"no stack is ahead of another for {use}: {listed(ranked)} are even within ±3 %"
        raise ResultError(cause, place="--use", remedy="add a stack that differs, or weigh otherwise")
    return Answered(ranked[:1], ranked)


def tipping_weights(results: StudyResults, advice: Advice) -> list[TippingPoint]:
    """The share of each weight at which another stack becomes best; the others keep their proportions."""
    answer = answered(results, advice)
    scorer = Scorer(results)
    evidence = evidence_of(results, advice.use, answer.stacks, scorer)
    names = list(dict.fromkeys(part.weight for part in evidence.parts))
    if len(names) < 2:
        return []
    baseline, seeds = scorer.baseline(evidence.stacks), evidence.common_seeds(evidence.stacks)
    points = []
    for name in names:
        mine = [part for part in evidence.parts if part.weight == name]
        rest = [part for part in evidence.parts if part.weight != name]
        stated = sum(part.share for part in mine)
        times = [
            scorer.estimates(
                evidence.stacks,
                baseline,
                [replace(part, share=part.share / sum(one.share for one in parts)) for part in parts],
                seeds,
            )
            for parts in (mine, rest)
        ]

        def tried(share: float, times: list[dict[str, float]] = times) -> Tried:
            score = {stack: share * times[0][stack] + (1 - share) * times[1][stack] for stack in times[0]}
            leader, rival = _best_two(score, answer.leaders)
            return Tried(value=share, seeds=0, leader=leader, rival=rival, ratio=score[rival] / score[leader])

        for end in (0.0, 1.0):
            found = [tried(end)]
            if found[0].ratio < 1:
                stays, tips = stated, end
                while abs(tips - stays) > _WEIGHT_WITHIN:
                    found.append(tried((stays + tips) / 2))
                    stays, tips = (stays, found[-1].value) if found[-1].ratio < 1 else (found[-1].value, tips)
            points.append(
                TippingPoint(
                    quantity=f"weights.{name}",
                    kind="weight",
                    words=f"weight of {name}",
                    unit="share",
                    stated=stated,
                    low=0.0,
                    high=1.0,
                    known="chosen",
                    source="any weight",
                    end=end,
                    outcome="tips" if found[0].ratio < 1 else "stays",
                    tried=tuple(found),
                )
            )
    return points


def only_weights(folder: ResultsFolder, results: StudyResults, advice: Advice) -> UseTipping:
    """The tipping points of the weights alone, kept in tipping.json; Raises ResultError as `answered`."""
    found = UseTipping(
        leaders=answered(results, advice).leaders,
        conclusion=advice.conclusion,
        results_sha256=identity_of(results.snapshot),
        # Of a host's results nothing else can be varied.
        whole=results.snapshot.time_domain == "wall",
        points=sorted_points(tipping_weights(results, advice)),
    )
    write_tipping(folder, advice.use.name, found)
    return found


def _best_two(score: dict[str, float], leaders: Sequence[str]) -> tuple[str, str]:
    """The best of the leaders, and the best of the others."""
    leading = min((stack for stack in score if stack in leaders), key=lambda stack: score[stack])
    return leading, min((stack for stack in score if stack not in leaders), key=lambda stack: score[stack])


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
    _begun_s: float = 0.0
    _trial_s: float = 0.0

    def run(self) -> UseTipping:
        """Search within the budget; whatever was found is kept in tipping.json, at every step.

        Raises ResultError if there is no answer that could change, and StudyError if the budget is less than
        one value takes, or no quantity has a name that was asked for.
        """
        answer = answered(self.results, self.advice)
        self._leaders, self._stacks = answer.leaders, answer.stacks
        evidence = evidence_of(self.results, self.advice.use, self._stacks, Scorer(self.results))
        self._workloads = [*dict.fromkeys(part.workload for part in evidence.parts)]
        self._seeds = evidence.common_seeds(evidence.stacks)[: self.limits.seeds]
        self._begun_s, self._trial_s = self.clock(), self._past_trial_s(evidence)
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
        except (_Ended, KeyboardInterrupt) as ended:
            whole = False
            self.interrupted = self.interrupted or isinstance(ended, KeyboardInterrupt)
        return self._keep(whole=whole)

    def _wanted(self) -> list[Quantity]:
        every = quantities(self.study, self._workloads)
        found = [each for each in every if self._is_asked(each.name)]
        if self.limits.globs and not found:
            weights = [f"weights.{part.name}" for part in self.advice.use.weights]
            if not any(map(self._is_asked, weights)):
                names = ", ".join([*(each.name for each in every), *weights])
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
                self.say(f"[{number} of {len(wanted)}] {each.name} = {_shown(end, each.unit)}, one seed")
                tried = self._try(each, end, end, 1)
                if tried is not None:
                    self._put(each, end, "stays" if tried.ratio >= 1 else "tips", tried)
                    screened.append((tried.ratio, each, end))
        near = sorted((each for each in screened if each[0] < NEAR), key=lambda each: each[0])
        for number, (_, quantity, end) in enumerate(near, start=1):
            self.say(f"[{number} of {len(near)}] near: {quantity.name} towards {_shown(end, quantity.unit)}")
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
            varied = replace(
                quantity.applied(self.study, value),
                stacks={name: self.study.stacks[name] for name in self._stacks},
                seeds=tuple(used),
                precision=None,
                survival=None,
                reference=self.study.reference if self.study.reference in self._stacks else None,
            )
            changed = varied.workloads
            varied = replace(varied, workloads={name: changed[name] for name in self._workloads})
            for stack in self._stacks:
                for seed in used:
                    varied.drawn_devices(stack, seed)
        except StrataError as error:
            self._put(quantity, end, "cannot say", note=f"{_shown(value, quantity.unit)}: {error.cause}")
            return None
        place = self.folder.path / TRIALS_NAME / f"{quantity.name}={value:.6g}"
        self._reuse(quantity, varied, place)
        cost_s = self._cost_s(seeds, done=_measured(place))
        if self.clock() - self._begun_s + cost_s > self.limits.budget_s:
            raise _Ended
        begun_s = self.clock()
        done = run_study(varied, place, self.runner, self.display(), jobs=self.jobs)
        if done.valid:
            self._trial_s = (self.clock() - begun_s) / len(done.valid) * self._at_once
        if done.signal_number is not None:
            self.interrupted = True
            raise _Ended
        tried = self._judged(gather(ResultsFolder.open(place)), value, used)
        if isinstance(tried, str):
            self._put(quantity, end, "cannot say", note=f"{_shown(value, quantity.unit)}: {tried}")
            return None
        return tried

    def _reuse(self, quantity: Quantity, varied: Study, place: Path) -> None:
        """Copy the results of trials without the quantity; `run_study` keeps those that answer."""
        folder = ResultsFolder.create(place, self.results.snapshot)
        for trial in trials(varied):
            measured, copy = (each.trials_path / trial.id for each in (self.folder, folder))
            if quantity.occurs_in(self.study, trial.key.cell) or copy.exists() or not measured.is_dir():
                continue
            with explained(copy, "copy the results"):
                shutil.copytree(measured, copy)

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
        leader, rival = _best_two(score, self._leaders)
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
        before = self._points.get((quantity.name, end))
        known = before.tried if before is not None and not anew else ()
        self._points[quantity.name, end] = TippingPoint(
            **{name: getattr(quantity, name) for name in _SHARED},
            quantity=quantity.name,
            end=end,
            outcome=outcome,
            note=note,
            tried=(*known, tried) if tried is not None else known,
        )
        if tried is not None:
            self._keep(whole=False)

    def _earlier(self) -> dict[tuple[str, float], TippingPoint]:
        """What earlier runs found for the same answer, of other quantities or with a larger budget."""
        before = read_tipping(self.folder)
        found = before.uses.get(self.advice.use.name) if before else None
        if found is None or found.leaders != self._leaders:
            return {}
        return {(each.quantity, each.end): each for each in found.points if each.kind != "weight"}

    def _keep(self, *, whole: bool) -> UseTipping:
        earlier = {key: each for key, each in self._earlier().items() if each.tried}
        points = earlier | {
            key: each for key, each in self._points.items() if each.tried or key not in earlier
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

    @property
    def _at_once(self) -> int:
        return len(worker_cpus(self.runner, self.jobs, self.study.memory_bytes_max))

    def _past_trial_s(self, evidence: Evidence) -> float:
        """The real time of a trial of the results that count."""
        took = [
            record.real_time.duration_s
            for record in self.results.records
            if record.trial.stack in self._stacks and record.trial.workload in self._workloads
        ]
        return sum(took) / len(took) if took else 1.0

    def _cost_s(self, seeds: int, done: int = 0) -> float:
        trials = len(self._stacks) * len(self._workloads) * seeds
        return max(0, trials - done) * self._trial_s / self._at_once


def _measured(place: Path) -> int:
    """The trials that a folder has already."""
    try:
        folder = ResultsFolder.open(place)
        return sum(any(each.complete for each in folder.attempts(trial)) for trial in folder.trials())
    except ResultError:
        return 0


def _shown(value: float, unit: str) -> str:
    return format_size(value) if unit == "B" else f"{value:.4g} {unit}".removesuffix(" 1")
