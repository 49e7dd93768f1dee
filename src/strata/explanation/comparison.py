# SPDX-License-Identifier: Apache-2.0
"""Why one of two trials is faster: the time that an operation takes, divided and subtracted.

The time of one operation is the measured window divided by the operations. On every disk it consists of the
shares of each kind of request (`strata.traces.attribution.attribute`) and idle time, so their differences
add up to the difference of the two trials: the disks explain all but the idle time.

The two keep the order in which they were named. A difference is the second minus the first: positive where
the second takes more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata.errors import ResultError
from strata.explanation.analysis import PARTS, Explanation
from strata.printable import in_json
from strata.traces.kinds import KINDS

IDLE = "idle"


@dataclass(frozen=True)
class ComparedSide:
    """One trial's requests of a kind, per operation; ``share_ns``, by part, is a mean over the disks."""

    count: float
    bytes: float
    share_ns: Mapping[str, float]

    @property
    def total_ns(self) -> float:
        return sum(self.share_ns.values())

    @property
    def each_ns(self) -> float:
        return self.total_ns / self.count if self.count else 0.0


@dataclass(frozen=True)
class Contribution:
    """The contribution of one kind of request, or of ``idle`` time, to the difference per operation."""

    kind: str
    first: ComparedSide
    second: ComparedSide

    @property
    @in_json
    def difference_ns(self) -> float:
        return self.second.total_ns - self.first.total_ns

    @property
    @in_json
    def by_count_ns(self) -> float:
        """The effect of their number, each at the mean of both costs."""
        if not (self.second.count and self.first.count):
            return self.difference_ns
        return (self.second.count - self.first.count) * (self.second.each_ns + self.first.each_ns) / 2

    @property
    @in_json
    def by_cost_ns(self) -> float:
        return self.difference_ns - self.by_count_ns

    @property
    @in_json
    def parts_ns(self) -> dict[str, float]:
        """The difference by part of the mechanism, the largest first."""
        gained = {
            part: self.second.share_ns.get(part, 0.0) - self.first.share_ns.get(part, 0.0)
            for part in (*PARTS, IDLE)
        }
        return dict(sorted(gained.items(), key=lambda item: -abs(item[1])))


@dataclass(frozen=True)
class TrialComparison:
    """Two trials with a common unit of work, with the contributions to their difference, the largest first.

    ``differing`` names what differs in their declarations, with the values of both.
    """

    first: Explanation
    second: Explanation
    contributions: tuple[Contribution, ...]
    differing: tuple[str, ...] = ()

    @property
    @in_json
    def first_ns(self) -> float:
        return self.first.window_ns / self.first.operations

    @property
    @in_json
    def second_ns(self) -> float:
        return self.second.window_ns / self.second.operations

    @property
    @in_json
    def difference_ns(self) -> float:
        return self.second_ns - self.first_ns


def compare(first: Explanation, second: Explanation, differing: Sequence[str] = ()) -> TrialComparison:
    """Divide the difference of two trials. Raises ResultError if they cannot be compared."""
    _refuse_unlike(first, second)
    contributions = [Contribution(kind, _side(first, kind), _side(second, kind)) for kind in (*KINDS, IDLE)]
    present = [each for each in contributions if each.first.total_ns or each.second.total_ns]
    present.sort(key=lambda each: -abs(each.difference_ns))
    return TrialComparison(first, second, tuple(present), tuple(differing))


def _refuse_unlike(first: Explanation, second: Explanation) -> None:
    place = f"{first.trial_id}, {second.trial_id}"
    if first.time_domain != second.time_domain:
        cause = f"one was measured in {first.time_domain} time, the other in {second.time_domain} time"
        remedy = "compare trials of one time domain: the two are never pooled"
        raise ResultError(cause, place=place, remedy=remedy)
    units = [each.operation for each in (first, second)]
    if all(units) and units[0] != units[1]:
        cause = f"they have no common unit of work: one counts each {units[0]}, the other each {units[1]}"
        remedy = "compare trials whose loads count the same; of tenants, name one with --tenant"
        raise ResultError(cause, place=place, remedy=remedy)
    for trial in (first, second):
        for is_wrong, cause, remedy in (
            (
                not trial.operations,
                "the workload counts no operations that its time could be divided by",
                "compare trials of a workload with a metric `transactions` or `operations`",
            ),
            (
                trial.left_out is None,
                "the trial has no trace of its requests",
                "only the lab keeps one: run it there, without `trace = false` in [study]",
            ),
            (
                trial.missing,
                f"the trace was full before {trial.missing:,} requests of the measured window",
                "shorten the measured window, or what comes before it, and run the trial again",
            ),
            (not trial.disks, "the trial has no disks' accounts", "run it in the lab"),
        ):
            if is_wrong:
                raise ResultError(cause, place=trial.trial_id, remedy=remedy)


def _side(trial: Explanation, kind: str) -> ComparedSide:
    disks = len(trial.disks)
    if kind == IDLE:
        idle_ns = sum(disk.idle_ns for disk in trial.disks) / disks / trial.operations
        return ComparedSide(0.0, 0.0, {IDLE: idle_ns})
    shares: dict[str, float] = {}
    for disk in trial.disks:
        found = disk.kind(kind)
        for part, share_ns in found.shares_ns.items() if found else ():
            shares[part] = shares.get(part, 0.0) + share_ns / disks / trial.operations
    count, size = trial.count("requests", kind), trial.count("bytes", kind)
    return ComparedSide(count / trial.operations, size / trial.operations, shares)
