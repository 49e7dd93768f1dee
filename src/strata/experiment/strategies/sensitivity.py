# SPDX-License-Identifier: Apache-2.0
"""What would change an answer: values of uncertain quantities at which another stack becomes best.

Each end of a quantity's range is tried with one seed. The ends at which a rival comes near are tried with all
seeds, and where it leads there, the value between is found by bisection. The stacks of a trial are paired by
seed, as everywhere, and each seed keeps its drive but for the value. Weights need no trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from strata.advice.model import Advice
from strata.advice.rivals import Rivalry, rivalry
from strata.errors import StudyError
from strata.experiment.experiment import Cells
from strata.experiment.quantities import Quantity, quantities
from strata.model.study import Study
from strata.results.findings import (
    SEEDS,
    Compared,
    Finding,
    Tried,
    Uncertain,
    Variation,
    findings_of,
    identity_of,
)
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults
from strata.words import matching

NEAR: Final = 1.1
"""A judgement: where the rival waits longer by more than this with one seed, no further seed is tried."""
WITHIN: Final = 0.05
"""How near the values come between which the answer changes, as a share."""
_STEPS_MAX: Final = 8


@dataclass(frozen=True)
class Sensitivity:
    """The break-even points of the answer for a use.

    Attributes:
        study: None: only weights are tried, as of results of a real machine.
        seeds_max: Of each value near a break-even point.
        globs: Over the names of quantities; none: all are tried.
    """

    folder: ResultsFolder
    results: StudyResults
    advice: Advice
    study: Study | None
    seeds_max: int = SEEDS
    globs: Sequence[str] = ()

    @cached_property
    def rivalry(self) -> Rivalry:
        """The answer that could change. Raises ResultError if there is none."""
        return rivalry(self.results, self.advice)

    @cached_property
    def cells(self) -> Cells:
        evidence = self.rivalry.evidence(self.results)
        workloads = list(dict.fromkeys(part.workload for part in evidence.parts))
        seeds = evidence.common_seeds(evidence.stacks)[: self.seeds_max]
        return Cells(self.rivalry.stacks, workloads, seeds)

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        """The ends of all ranges with one seed; then, point by point, the values between.

        Raises StudyError if no quantity has a name that was asked for.
        """
        sides = [(quantity, end) for quantity in self._wanted for end in quantity.ends]
        if not tried:
            return [quantity.varied(end, 1) for quantity, end in sides]
        near = [(quantity.on_side(end, tried)[0].ratio, quantity, end) for quantity, end in sides]
        for ratio, quantity, end in sorted(near, key=lambda side: side[0]):
            if ratio < NEAR and (value := self._following(quantity, end, tried)) is not None:
                return [quantity.varied(value, len(self.cells.seeds))]
        return []

    def _following(self, quantity: Quantity, end: float, tried: Sequence[Tried]) -> float | None:
        """The next value of a quantity on one side, whose end was tried first; None after the last one."""
        if len(self.cells.seeds) > 1 and len(quantity.on_side(end, tried)) == 1:
            return end  # until now with one seed
        point = quantity.towards(end, tried)
        between, at = point.between, point.at
        if between is None or at is None or point.tried != point.every or len(point.every) > _STEPS_MAX:
            return None
        is_near = abs(between[1] - between[0]) <= WITHIN * max(map(abs, between))
        middle = quantity.near(at)
        return None if is_near or middle in between else middle

    @cached_property
    def _wanted(self) -> list[Quantity]:
        if self.study is None:
            return []
        every = quantities(self.study, self.cells.workloads)
        found = [quantity for quantity in every if self._is_asked(quantity.quantity)]
        weights = [f"weights.{part.name}" for part in self.advice.use.weights]
        if not found and not any(map(self._is_asked, weights)):
            names = ", ".join([*(quantity.quantity for quantity in every), *weights])
            cause = f'no quantity is called "{", ".join(self.globs)}"'
            raise StudyError(cause, place="--parameter", remedy=f"there are: {names}")
        return found

    def _is_asked(self, name: str) -> bool:
        return bool(matching([name], self.globs))

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        """The comparison of the best leader with the best rival, or why there is none."""
        found = self.rivalry.compared(results)
        if found is None or found.ratio.n != variation.seeds:
            problems = (reading.problem for reading in results.readings if reading.problem)
            return variation.tried(note=next(problems, "it has no numbers that count"))
        level, interval = found.ratio.ratio, found.ratio.interval
        low, high = (interval.low, interval.high) if interval else (None, None)
        names = {"workload": found.workload, "stack": found.stack, "against": found.baseline}
        compared = Compared(**names, level=level, low=low, high=high)
        return variation.tried("flips" if level < 1 else "stays", "", [compared], found.ratio.n)

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        """What was found now, and before of other quantities or with a larger budget."""
        weights, shares = self.rivalry.by_weights(self.results)
        weights = [weight for weight in weights if self._is_asked(weight.quantity)]
        asked = {weight.quantity for weight in weights}
        return Finding(
            kind="sensitivity",
            subject=self.advice.use.name,
            results_sha256=identity_of(self.results.snapshot),
            whole=whole,
            tried=(*(share for share in shares if asked.issuperset(share.values)), *tried),
            leaders=self.rivalry.leaders,
            conclusion=self.advice.conclusion,
            quantities=(*weights, *(Uncertain(**each.plain) for each in self._wanted)),
        ).joined(self._earlier)

    @cached_property
    def _earlier(self) -> Finding | None:
        return findings_of(self.folder, "sensitivity").get(self.advice.use.name)
