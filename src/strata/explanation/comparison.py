# SPDX-License-Identifier: Apache-2.0
"""Why one trial is faster than another: the time that an operation takes, divided and subtracted.

The time of one operation is the measured window divided by the operations. On every disk it consists of the
shares of each kind of request (`strata.explanation.attribution`) and idle time, so their differences add up
to the difference of the two trials: the disks explain all but the idle time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata.errors import ResultError
from strata.explanation.analysis import PARTS, Explanation
from strata.results.trace import KINDS

IDLE = "idle"


@dataclass(frozen=True)
class Side:
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
    faster: Side
    slower: Side

    @property
    def difference_ns(self) -> float:
        """The slower trial's time minus the faster one's."""
        return self.slower.total_ns - self.faster.total_ns

    @property
    def by_count_ns(self) -> float:
        """The effect of their number, each at the mean of both costs."""
        if not (self.slower.count and self.faster.count):
            return self.difference_ns
        return (self.slower.count - self.faster.count) * (self.slower.each_ns + self.faster.each_ns) / 2

    @property
    def by_cost_ns(self) -> float:
        return self.difference_ns - self.by_count_ns

    @property
    def parts_ns(self) -> dict[str, float]:
        """The difference by part of the mechanism, the largest first."""
        gained = {
            part: self.slower.share_ns.get(part, 0.0) - self.faster.share_ns.get(part, 0.0)
            for part in (*PARTS, IDLE)
        }
        return dict(sorted(gained.items(), key=lambda item: -abs(item[1])))


@dataclass(frozen=True)
class Comparison:
    """Two trials of one workload, with the contributions to their difference, the largest first."""

    faster: Explanation
    slower: Explanation
    contributions: tuple[Contribution, ...]

    @property
    def faster_ns(self) -> float:
        return self.faster.window_ns / self.faster.operations

    @property
    def slower_ns(self) -> float:
        return self.slower.window_ns / self.slower.operations

    @property
    def difference_ns(self) -> float:
        return self.slower_ns - self.faster_ns


def compare(first: Explanation, second: Explanation) -> Comparison:
    """Divide the difference of two trials.

    Raises:
        ResultError: If they cannot be compared.
    """
    _refuse_unlike(first, second)
    faster, slower = sorted((first, second), key=lambda each: each.window_ns / each.operations)
    contributions = [Contribution(kind, _side(faster, kind), _side(slower, kind)) for kind in (*KINDS, IDLE)]
    present = [each for each in contributions if each.faster.total_ns or each.slower.total_ns]
    present.sort(key=lambda each: -abs(each.difference_ns))
    return Comparison(faster, slower, tuple(present))


def _refuse_unlike(first: Explanation, second: Explanation) -> None:
    place = f"{first.trial_id}, {second.trial_id}"
    if first.time_domain != second.time_domain:
        raise ResultError(
            f"one was measured in {first.time_domain} time, the other in {second.time_domain} time",
            place=place,
            remedy="compare trials of one time domain: the two are never pooled",
        )
    if (first.workload, first.workload_title) != (second.workload, second.workload_title):
        raise ResultError(
            f'they ran different workloads: "{first.workload_title or first.workload}" and '
            f'"{second.workload_title or second.workload}"',
            place=place,
            remedy="compare trials that differ in their stack, their device or their seed alone",
        )
    for each in (first, second):
        for is_wrong, cause, remedy in (
            (
                not each.operations,
                "the workload counts no operations that its time could be divided by",
                "compare trials of a workload with a metric `transactions` or `operations`",
            ),
            (
                each.left_out is None,
                "the trial has no trace of its requests",
                "only the lab keeps one: run it there, without `trace = false` in [study]",
            ),
            (
                each.missing,
                f"the trace was full before {each.missing:,} requests of the measured window",
                "shorten the measured window, or what comes before it, and run the trial again",
            ),
            (not each.disks, "the trial has no disks' accounts", "run it in the lab"),
        ):
            if is_wrong:
                raise ResultError(cause, place=each.trial_id, remedy=remedy)


def _side(trial: Explanation, kind: str) -> Side:
    disks = len(trial.disks)
    if kind == IDLE:
        idle_ns = sum(disk.idle_ns for disk in trial.disks) / disks / trial.operations
        return Side(0.0, 0.0, {IDLE: idle_ns})
    shares: dict[str, float] = {}
    for disk in trial.disks:
        found = disk.kind(kind)
        for part, share_ns in found.shares_ns.items() if found else ():
            shares[part] = shares.get(part, 0.0) + share_ns / disks / trial.operations
    count, size = trial.count("requests", kind), trial.count("bytes", kind)
    return Side(count / trial.operations, size / trial.operations, shares)
