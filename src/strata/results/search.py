# SPDX-License-Identifier: Apache-2.0
"""What the probes of a search have found: the highest rate that keeps a target, of a stack with a seed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from strata.model.find import RATE_MAX, REACHED, Find
from strata.model.metric import Metric
from strata.model.trial import TrialKey
from strata.plan.model import Trial
from strata.printable import in_json
from strata.results.counts import metric_of
from strata.results.record import ResultRecord, StudySnapshot
from strata.units import NS_PER_S

_SHORT_OF: Final = 0.05  # a judgement: who asks for 200 a second is not served by less than 190
_DEVIATIONS: Final = 3.0  # of the number of Poisson arrivals within the window


@dataclass(frozen=True)
class RateProbe:
    """One rate that was tried.

    Attributes:
        value: The searched metric; None where the load did not yield it.
        reached: The rate that the load came to.
        kept: Whether the metric stayed within the limit, and the load came to the rate.
    """

    rate: int
    record: ResultRecord = field(repr=False)
    value: float | None
    reached: float | None
    kept: bool

    @property
    @in_json
    def trial(self) -> TrialKey:
        return self.record.trial.key


@dataclass(frozen=True)
class Search:
    """The probes of a stack with a seed, by rising rate."""

    find: Find
    probes: tuple[RateProbe, ...]

    @property
    def missed(self) -> RateProbe | None:
        """The lowest rate that missed the target."""
        return next((each for each in self.probes if not each.kept), None)

    @property
    def kept(self) -> RateProbe | None:
        """The highest rate below it that kept the target."""
        limit = self.missed.rate if self.missed else math.inf
        return next((each for each in reversed(self.probes) if each.kept and each.rate < limit), None)

    @property
    @in_json
    def is_ended(self) -> bool:
        kept, missed = self.kept, self.missed
        if kept is None:
            return missed is not None and missed.rate == 1
        if missed is None:
            return kept.rate >= RATE_MAX
        return missed.rate <= max(kept.rate * (1 + self.find.within), kept.rate + 1)

    @property
    @in_json
    def rate_per_s(self) -> float | None:
        """Where the metric meets the limit, between the highest rate that kept it and the lowest that missed.

        The logarithm of the metric is taken as linear in that of the rate. None: no rate kept the target.
        """
        kept, missed = self.kept, self.missed
        if kept is None:
            return None
        if missed is None or not kept.value or not missed.value or missed.value <= self.find.limit:
            return float(kept.rate)
        way: float = math.log(self.find.limit / kept.value) / math.log(missed.value / kept.value)
        return float(kept.rate * (missed.rate / kept.rate) ** way)

    def as_record(self, key: TrialKey) -> ResultRecord | None:
        """The result of the whole search: that of the highest rate that kept the target, with what it found.

        None while it has not ended, and where no rate kept the target.
        """
        rate, kept = self.rate_per_s, self.kept
        if not self.is_ended or rate is None or kept is None:
            return None
        others = (each.model_copy(update={"headline": False}) for each in kept.record.metrics)
        counted = next((name for name in REACHED if kept.record.metric(name) is not None), "requests_per_s")
        found = Metric.of(counted.replace("_per_s", "_within_target_per_s"), rate, "1/s", headline=True)
        trial = Trial.of(kept.record.trial.study, key)
        return kept.record.model_copy(update={"trial": trial, "metrics": (found, *others)})


def finds(snapshot: StudySnapshot) -> dict[str, Find]:
    """The searches that a study declares, by workload."""
    return {name: load.find for name, load in snapshot.workloads.items() if load.find is not None}


def searches(snapshot: StudySnapshot, records: Iterable[ResultRecord]) -> dict[TrialKey, Search]:
    """The searches among the usable records of a study, in the order of their first probes."""
    declared = finds(snapshot)
    found: dict[TrialKey, list[RateProbe]] = {}
    for record in records if declared else ():
        key = record.trial.key
        if key.rate is not None and key.workload in declared:
            found.setdefault(key.search, []).append(_probe(declared[key.workload], key.rate, record))
    return {
        key: Search(declared[key.workload], tuple(sorted(probes, key=lambda each: each.rate)))
        for key, probes in found.items()
    }


def _probe(find: Find, rate: int, record: ResultRecord) -> RateProbe:
    metric = metric_of(record, find.metric)
    rates = (record.metric(name) for name in REACHED)
    reached = next((each.value for each in rates if each is not None), None)
    window_s = record.phases_ns.get("measure", 0) / NS_PER_S
    tolerance = max(_SHORT_OF, _DEVIATIONS / math.sqrt(max(rate * window_s, 1.0)))
    is_carried = reached is None or reached >= rate * (1 - tolerance)
    value = None if metric is None else metric.value
    return RateProbe(rate, record, value, reached, value is not None and value <= find.limit and is_carried)
