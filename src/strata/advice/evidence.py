# SPDX-License-Identifier: Apache-2.0
"""The results of a study that count for a use, and the scores of the stacks by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.advice.model import Coverage, Excluded, Part
from strata.advice.uses import HEADLINE, Use, Weight, declared_workloads
from strata.spec.trial import CellKey
from strata.statistics.comparison import Comparison, MetricKind, Ratio
from strata.statistics.interval import SEEDS_MIN, Floats
from strata.statistics.level import Level, Method, Positions, Remembering, interval_of, once, resamples
from strata.statistics.study import StudyResults

SCORE = MetricKind("score", "1", "higher", headline=True)


@dataclass(frozen=True)
class Remembered(Remembering):
    """A level with its computed values: uses and pairs of stacks draw the same seeds."""

    level: Level

    def log_at(self, positions: Positions) -> Floats:
        return self.once(
            (positions.shape, positions.tobytes()), lambda: np.asarray(np.log(self.level.at(positions)))
        )


@dataclass(frozen=True)
class Score:
    """A stack's score as a level: above another's is better.

    Every metric's level is a function of the seeds drawn, and so is their weighted mean: one draw of seeds
    serves all workloads, so that effects of a seed on several workloads stay together.
    """

    parts: Sequence[tuple[float, Remembered]]

    @property
    def method(self) -> Method:
        """Merged histograms, if any part has them: they decide how the interval is made."""
        merged = any(level.level.method == "merged histogram" for _, level in self.parts)
        return "merged histogram" if merged else "geometric mean"

    def log_at(self, positions: Positions) -> Floats:
        return np.asarray(sum(share * level.log_at(positions) for share, level in self.parts))

    def at(self, positions: Positions) -> Floats:
        return np.asarray(np.exp(self.log_at(positions)), dtype=np.float64)


@dataclass(frozen=True)
class Scorer(Remembering):
    """Scores of a study's stacks, kept for several uses."""

    results: StudyResults

    def seeds(self, stack: str, part: Part) -> frozenset[int]:
        """The seeds with a part's metric on a stack, above zero as a ratio needs."""
        values = self.results.cells[stack, part.workload].series(part.kind.name).values
        return frozenset(seed for seed, value in values.items() if value > 0)

    def score(self, stack: str, parts: Iterable[Part], seeds: Sequence[int]) -> Score:
        """A stack's score over these seeds, all of which it must have."""
        signs = {"higher": 1.0, "lower": -1.0}

        def level(part: Part) -> Remembered:
            series = self.results.cells[stack, part.workload].series(part.kind.name)
            place = (stack, part.workload, part.kind.name, tuple(seeds))
            return self.once(place, lambda: Remembered(series.level(list(seeds))))

        return Score([(signs[each.kind.better] * each.share, level(each)) for each in parts])

    def estimates(
        self, stacks: Sequence[str], parts: Sequence[Part], seeds: Sequence[int]
    ) -> dict[str, float]:
        all_once = once(len(seeds))
        return {stack: float(self.score(stack, parts, seeds).log_at(all_once)[0]) for stack in stacks}

    def best_shares(
        self, stacks: Sequence[str], parts: Sequence[Part], seeds: Sequence[int]
    ) -> dict[str, float]:
        """The share of the resamples in which each stack leads; equal stacks share the lead."""
        drawn = resamples(len(seeds))
        scores = np.stack([self.score(stack, parts, seeds).log_at(drawn.positions) for stack in stacks])
        # Differences by rounding alone are none.
        leads = scores >= scores.max(axis=0) - 1e-12
        shares = (leads / leads.sum(axis=0)) @ drawn.shares
        return {stack: float(share) for stack, share in zip(stacks, shares, strict=True)}

    def against(
        self, use: str, stack: str, baseline: str, parts: Sequence[Part], seeds: Sequence[int]
    ) -> Comparison:
        upper, lower = (self.score(each, parts, seeds) for each in (stack, baseline))
        n, all_once = len(seeds), once(len(seeds))
        ratio = float(np.exp(upper.log_at(all_once)[0] - lower.log_at(all_once)[0]))
        return Comparison(use, stack, baseline, SCORE, Ratio(n, ratio, interval_of(n, upper, lower)))

    def compared(self, part: Part, stack: str, baseline: str) -> Comparison | None:
        ratio = self.results.ratio(part.workload, part.kind.name, stack, baseline)
        return None if ratio is None else Comparison(part.workload, stack, baseline, part.kind, ratio)


@dataclass(frozen=True)
class Evidence:
    """The results that count for a use.

    Attributes:
        stacks: The stacks that have all parts, in the study's order; ``out`` has the others.
        seeds: By stack, the seeds with all parts.
    """

    coverage: tuple[Coverage, ...]
    parts: tuple[Part, ...]
    stacks: tuple[str, ...]
    out: tuple[Excluded, ...]
    seeds: Mapping[str, frozenset[int]]

    @property
    def covered(self) -> float:
        return sum(each.share for each in self.coverage if each.workloads)

    def common_seeds(self, stacks: Sequence[str]) -> list[int]:
        each = [self.seeds[stack] for stack in stacks]
        return sorted(frozenset.intersection(*each)) if each else []


def evidence_of(results: StudyResults, use: Use, stacks: Sequence[str], scorer: Scorer) -> Evidence:
    """The evidence on the candidate ``stacks``."""
    declared = declared_workloads(results.snapshot)
    fitting = _fitting(results.workloads, use, declared)
    has = {
        workload: [stack for stack in stacks if _counts(results, stack, workload)]
        for names in fitting.values()
        for workload in names
    }
    involved = {stack for each in has.values() for stack in each}
    # A workload with results on only a few stacks would exclude all the others.
    kept = {workload for workload, each in has.items() if len(each) >= max(2, len(involved) / 2)}
    complete = [stack for stack in stacks if kept and all(stack in has[workload] for workload in kept)]
    counting = [(weight, [each for each in fitting[weight.name] if each in kept]) for weight in use.weights]
    parts = _parts(results, counting, complete, scorer)
    used = {part.workload for part in parts}
    coverage = []
    for weight in use.weights:
        names = fitting[weight.name]
        measured = tuple(name for name in names if name in used)
        lacking = tuple(name for name in names if name not in used)
        coverage.append(Coverage(weight, weight.weight / use.total, measured, lacking))
    seeds = {
        stack: frozenset[int].intersection(*(scorer.seeds(stack, part) for part in parts))
        for stack in (complete if parts else ())
    }
    enough = [stack for stack, each in seeds.items() if len(each) >= SEEDS_MIN]
    ranked = enough if len(enough) >= 2 else list(seeds)
    out = tuple(
        Excluded(stack, "results", _lacking(results, stack, kept, len(seeds.get(stack, ()))))
        for stack in stacks
        if kept and stack not in ranked
    )
    return Evidence(tuple(coverage), tuple(parts), tuple(ranked), out, seeds)


def _counts(results: StudyResults, stack: str, workload: str) -> bool:
    return bool(results.cells[stack, workload].records) and not results.unranked(stack, workload)


def _fitting(
    workloads: Sequence[str], use: Use, declared: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[str]]:
    """The study's workloads by weight; each counts for the first weight that it fits."""
    found: dict[str, list[str]] = {weight.name: [] for weight in use.weights}
    for workload in workloads:
        for weight in use.weights:
            if any(pattern.fits(declared.get(workload, {})) for pattern in weight.fits):
                found[weight.name].append(workload)
                break
    return found


def _parts(
    results: StudyResults,
    counting: Sequence[tuple[Weight, Sequence[str]]],
    stacks: Sequence[str],
    scorer: Scorer,
) -> list[Part]:
    """The metrics that all these stacks have, each with its share of the score.

    The workloads of a weight share it evenly; so do the headlines of a workload. The share of a metric that
    was not measured goes to the others of its workload.
    """
    found: list[Part] = []
    for weight, workloads in counting:
        each_metrics = {name: _metrics(results, weight, name, stacks, scorer) for name in workloads}
        measured = {name: metrics for name, metrics in each_metrics.items() if metrics}
        for workload, metrics in measured.items():
            total = sum(metrics.values())
            found += [
                Part(weight.name, workload, kind, weight.weight / len(measured) * each / total)
                for kind, each in metrics.items()
            ]
    whole = sum(part.share for part in found)
    return [Part(each.weight, each.workload, each.kind, each.share / whole) for each in found]


def _metrics(
    results: StudyResults, weight: Weight, workload: str, stacks: Sequence[str], scorer: Scorer
) -> dict[MetricKind, float]:
    """The counting metrics of a workload, with their weights; only metrics that every stack has."""
    kinds = [
        kind
        for kind in results.metrics(workload)
        if stacks and all(scorer.seeds(stack, Part(weight.name, workload, kind, 1.0)) for stack in stacks)
    ]
    found: dict[MetricKind, float] = {}
    for name, share in weight.metrics.items():
        meant = [kind for kind in kinds if (kind.headline if name == HEADLINE else kind.name == name)]
        for kind in meant:
            found[kind] = found.get(kind, 0.0) + share / len(meant)
    return found


def _lacking(results: StudyResults, stack: str, kept: set[str], seeds: int) -> str:
    unranked = {
        name: why for name in results.workloads if name in kept and (why := results.unranked(stack, name))
    }
    if unranked:
        whys = "; ".join(dict.fromkeys(unranked.values()))
        return f"its results of {', '.join(unranked)} have no rank ({whys})"
    missing = [name for name in results.workloads if name in kept and not results.cells[stack, name].records]
    if missing:
        skipped = results.snapshot.skipped
        reasons = [skipped.get(CellKey(stack, name), "") for name in missing]
        why = f" ({reasons[0]})" if reasons[0] and len(set(reasons)) == 1 else ""
        return f"it has no results of {', '.join(missing)}{why}"
    return f"it has all that counts of only {seeds} seed{'' if seeds == 1 else 's'}"
