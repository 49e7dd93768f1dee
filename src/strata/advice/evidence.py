# SPDX-License-Identifier: Apache-2.0
"""The results of a study that count for a use, and the scores of the stacks by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Final, Literal

import numpy as np

from strata.advice.model import Coverage, Excluded, Part
from strata.advice.uses import HEADLINE, Use, Weight
from strata.model.study_record import WorkloadRecord
from strata.model.trial import CellKey
from strata.model.warning import DURABLE as DURABLE_CHECK
from strata.results.capabilities import Capabilities, PowerCutFinding
from strata.statistics.comparison import CellSeries, Comparison, MetricKind, judge
from strata.statistics.family import Family
from strata.statistics.interval import SEEDS_MIN, Floats
from strata.statistics.level import (
    Level,
    Method,
    Positions,
    cached_method,
    estimate,
    family_among,
    once,
    resamples,
)
from strata.statistics.study import StudyResults

Mean = Literal["arithmetic", "geometric"]
"""Of the relative times of a use's parts. The arithmetic one is the time that the use waits."""
MEANS: Final[tuple[Mean, ...]] = ("arithmetic", "geometric")

_SCORES: Final[dict[Mean, MetricKind]] = {
    "arithmetic": MetricKind("waiting", "1", "lower", headline=True),
    "geometric": MetricKind("geometric_mean", "1", "lower", headline=True),
}
# Judgements: how many weightings are drawn, and how far from the stated one. A weight of 70 % lies between
# 40 and 93 % in 95 % of the draws.
_WEIGHTINGS: Final = 4000
_CONCENTRATION: Final = 10.0
_WEIGHTINGS_SEED: Final = 20_260_102


@dataclass(frozen=True)
class CachedLevel:
    """A level with its computed values: uses and pairs of stacks draw the same seeds."""

    level: Level
    _known: dict[object, Floats] = field(default_factory=dict, repr=False, compare=False)

    def log_at(self, positions: Positions) -> Floats:
        key = (positions.shape, positions.tobytes())
        if key not in self._known:
            self._known[key] = np.asarray(np.log(self.level.at(positions)))
        return self._known[key]


@dataclass(frozen=True)
class Time:
    """A part's time on a stack, relative to the baseline's, which is a constant: part of the weights."""

    level: CachedLevel
    sign: float  # 1: the metric is a time; -1: it is a rate
    baseline_log: float

    def log_at(self, positions: Positions) -> Floats:
        return np.asarray(self.sign * self.level.log_at(positions) - self.baseline_log)


@dataclass(frozen=True)
class Score:
    """The weighted mean of a stack's relative times as a level: below another's is better.

    Every metric's level is a function of the seeds drawn, and so is their weighted mean: one draw of seeds
    serves all workloads, so that effects of a seed on several workloads stay together.
    """

    parts: Sequence[tuple[float, Time]]
    mean: Mean = "arithmetic"

    @property
    def method(self) -> Method:
        """Merged histograms, if any part has them: they decide how the interval is made."""
        merged = any(time.level.level.method == "merged histogram" for _, time in self.parts)
        return "merged histogram" if merged else "geometric mean"

    def at(self, positions: Positions) -> Floats:
        logs = ((share, time.log_at(positions)) for share, time in self.parts)
        if self.mean == "geometric":
            return np.asarray(np.exp(sum(share * log for share, log in logs)), dtype=np.float64)
        return np.asarray(sum(share * np.exp(log) for share, log in logs), dtype=np.float64)


@dataclass(frozen=True)
class Scores:
    """A stack's scores by seed; ``alike``: no seed reaches any metric in them."""

    over: Callable[[Sequence[int]], Score]
    seeds: tuple[int, ...]
    alike: bool

    @cached_property
    def values(self) -> Mapping[int, float]:
        each = self.over(self.seeds).at(np.arange(len(self.seeds))[:, np.newaxis])
        return dict(zip(self.seeds, each.tolist(), strict=True))

    def level(self, seeds: list[int]) -> Level:
        return self.over(seeds)


@dataclass(frozen=True)
class Scorer:
    """Levels and comparisons of a study's stacks, kept for several uses."""

    results: StudyResults

    def seeds(self, stack: str, part: Part) -> frozenset[int]:
        """The seeds with a part's metric on a stack, above zero as a ratio needs."""
        values = self.results.cells[stack, part.workload].series(part.kind.name).values
        return frozenset(seed for seed, value in values.items() if value > 0)

    @cached_method
    def level(self, stack: str, workload: str, metric: str, seeds: tuple[int, ...]) -> CachedLevel:
        return CachedLevel(self.results.cells[stack, workload].series(metric).level(list(seeds)))

    def compared(self, part: Part, stack: str, baseline: str) -> Comparison | None:
        cells = CellKey(stack, part.workload), CellKey(baseline, part.workload)
        return self.results.compared(part.kind, *cells)


def _leads(waiting: Floats) -> Floats:
    """For each row, a stack, where it waits least; equal stacks share the lead."""
    # Differences by rounding alone are none.
    leads = waiting <= waiting.min(axis=0) * (1 + 1e-12)
    return np.asarray(leads / leads.sum(axis=0), dtype=np.float64)


@dataclass(frozen=True)
class Evidence:
    """The results that count for a use, and the scores of the stacks by them.

    Attributes:
        stacks: The stacks that have all parts, in the study's order; ``out`` has the others.
        seeds: By stack, the seeds with all parts.
        weighed_by: The stack whose time the weights divide; None: the study's reference, or the first.
    """

    use: Use
    scorer: Scorer
    coverage: tuple[Coverage, ...]
    parts: tuple[Part, ...]
    stacks: tuple[str, ...]
    out: tuple[Excluded, ...]
    seeds: Mapping[str, frozenset[int]]
    weighed_by: str | None = None

    @property
    def covered(self) -> float:
        return sum(each.share for each in self.coverage if each.workloads)

    @property
    def baseline(self) -> str:
        reference = self.scorer.results.reference
        return self.weighed_by or (reference if reference in self.stacks else self.stacks[0])

    def common_seeds(self, stacks: Sequence[str]) -> list[int]:
        each = [self.seeds[stack] for stack in stacks]
        return sorted(frozenset.intersection(*each)) if each else []

    def _score(self, stack: str, seeds: Sequence[int], mean: Mean = "arithmetic") -> Score:
        """A stack's score over these seeds. The stack must have results of every seed."""
        return Score([(part.share, self._time(stack, part, seeds)) for part in self.parts], mean)

    def _time(self, stack: str, part: Part, seeds: Sequence[int]) -> Time:
        sign, metric = (1.0 if part.kind.better == "lower" else -1.0), (part.workload, part.kind.name)
        own = tuple(sorted(self.scorer.seeds(self.baseline, part)))
        of_baseline = self.scorer.level(self.baseline, *metric, own).log_at(once(len(own)))
        return Time(self.scorer.level(stack, *metric, tuple(seeds)), sign, sign * float(of_baseline[0]))

    def estimates(self, stacks: Sequence[str], seeds: Sequence[int]) -> dict[str, float]:
        """The waiting on each stack relative to the baseline."""
        return {stack: estimate(self._score(stack, seeds), len(seeds)) for stack in stacks}

    def best_shares(self) -> dict[str, float]:
        """The share of the resamples of the common seeds in which each stack leads."""
        seeds = self.common_seeds(self.stacks)
        drawn = resamples(len(seeds))
        levels = [self._score(stack, seeds).at(drawn.positions) for stack in self.stacks]
        return dict(zip(self.stacks, map(float, _leads(np.stack(levels)) @ drawn.shares), strict=True))

    def weightings(self) -> dict[str, float]:
        """The share of weightings, drawn from a Dirichlet distribution about the stated one, led by each."""
        seeds = self.common_seeds(self.stacks)
        names = list(dict.fromkeys(part.weight for part in self.parts))
        stated = np.array([sum(part.share for part in self.parts if part.weight == name) for name in names])
        drawn = np.random.default_rng(_WEIGHTINGS_SEED).dirichlet(_CONCENTRATION * stated, _WEIGHTINGS)
        places = [names.index(part.weight) for part in self.parts]
        within = np.array([part.share for part in self.parts]) / stated[places]
        times = np.array(
            [
                [float(self._time(stack, part, seeds).log_at(once(len(seeds)))[0]) for part in self.parts]
                for stack in self.stacks
            ]
        )
        leads = _leads(np.exp(times) @ (drawn[:, places] * within).T).mean(axis=1)
        return dict(zip(self.stacks, map(float, leads), strict=True))

    def family(self, mean: Mean = "arithmetic") -> Family | None:
        """What the scores have in common: the leader is chosen by them, so their intervals hold together."""
        seeds = self.common_seeds(self.stacks)
        return family_among(len(seeds), [self._score(stack, seeds, mean) for stack in self.stacks])

    def against(
        self, stack: str, leader: str, mean: Mean = "arithmetic", family: Family | None = None
    ) -> Comparison:
        """A stack's score against the leader's over their common seeds: above 1 is a longer time."""
        seeds = tuple(self.common_seeds([stack, leader]))

        def side(name: str) -> CellSeries:
            cells = [
                self.scorer.results.series(CellKey(name, each.workload), each.kind) for each in self.parts
            ]
            alike = all(cell.series.alike for cell in cells)
            scores = Scores(partial(self._score, name, mean=mean), seeds, alike)
            return CellSeries.joined(self.use.name, name, cells, scores)

        found = judge(_SCORES[mean], side(stack), side(leader), family=family)
        assert found is not None  # scores are positive, and `seeds` are those of both
        return found


def evidence_of(results: StudyResults, use: Use, stacks: Sequence[str], scorer: Scorer) -> Evidence:
    """The evidence on the candidate ``stacks``."""
    declared = results.snapshot.workloads
    fitting = _fitting(results.workloads, use, declared)
    kept, complete = _comparable(results, stacks, chain(*fitting.values()))
    counting = [(weight, [each for each in fitting[weight.name] if each in kept]) for weight in use.weights]
    parts = _parts(results, counting, complete, scorer)
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
    return Evidence(use, scorer, _coverage(use, fitting, parts), tuple(parts), tuple(ranked), out, seeds)


def _coverage(use: Use, fitting: Mapping[str, Sequence[str]], parts: Iterable[Part]) -> tuple[Coverage, ...]:
    """By weight, which of the workloads that fit it were measured, and which were not."""
    used = {part.workload for part in parts}
    found = []
    for weight in use.weights:
        names = fitting[weight.name]
        measured = tuple(name for name in names if name in used)
        lacking = tuple(name for name in names if name not in used)
        found.append(Coverage(weight, weight.weight / use.total, measured, lacking))
    return tuple(found)


def _comparable(
    results: StudyResults, stacks: Sequence[str], workloads: Iterable[str]
) -> tuple[set[str], list[str]]:
    """The workloads that enough stacks have, and the stacks that have all of them.

    A workload with results on only a few stacks would exclude all the others.
    """
    has = {name: [stack for stack in stacks if _counts(results, stack, name)] for name in workloads}
    involved = set(chain(*has.values()))
    kept = {name for name, those in has.items() if len(those) >= max(2, len(involved) / 2)}
    return kept, [stack for stack in stacks if kept and all(stack in has[name] for name in kept)]


def durability_of(results: StudyResults, use: Use, stack: str) -> str | None:
    """The settings by which a power failure takes what was acknowledged under the workloads that count.

    Empty: there are none; None: no result says it.
    """
    fitting = _fitting(results.workloads, use, results.snapshot.workloads)
    found = [
        check
        for names in fitting.values()
        for workload in names
        for record in results.cells[stack, workload].records.values()
        for check in record.checks
        if check.name == DURABLE_CHECK and check.verdict != "unknown"
    ]
    risks = dict.fromkeys(each.detail for each in found if each.verdict == "no")
    return "; ".join(risks) if found else None


def counting_workloads(results: StudyResults, use: Use) -> list[str]:
    """The study's workloads that count for a use."""
    fitting = _fitting(results.workloads, use, results.snapshot.workloads)
    return [workload for names in fitting.values() for workload in names]


def cuts_under(
    results: StudyResults, use: Use, stack: str, capabilities: Capabilities | None
) -> list[PowerCutFinding]:
    """The power cuts of a stack under the workloads that count."""
    counting = counting_workloads(results, use)
    found = () if capabilities is None else capabilities.cuts
    return [cut for cut in found if cut.stack == stack and cut.workload in counting]


def _counts(results: StudyResults, stack: str, workload: str) -> bool:
    return bool(results.cells[stack, workload].records) and not results.unranked(stack, workload)


def _fitting(
    workloads: Sequence[str], use: Use, declared: Mapping[str, WorkloadRecord]
) -> dict[str, list[str]]:
    """The study's workloads by weight; each counts for the first weight that it fits."""
    found: dict[str, list[str]] = {weight.name: [] for weight in use.weights}
    # A use is judged on sound disks.
    sound = (name for name in workloads if not declared[name].loses_disk)
    for workload in sound:
        for weight in use.weights:
            if any(pattern.fits(declared[workload].keys) for pattern in weight.fits):
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
