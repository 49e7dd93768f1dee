# SPDX-License-Identifier: Apache-2.0
"""A trial that has been carried out, and its throughput over time: of the loads, and of the disks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

from strata.plan.model import Plan
from strata.plan.placement import Placement, placements_of
from strata.results.events import Events
from strata.results.record import Throughput
from strata.spec.fit import SNAPSHOT_LANE
from strata.spec.study import Study
from strata.spec.workload import Outputs, Workload
from strata.units import NS_PER_S

# Requests of this size and more are judged by their bytes, smaller ones by their number, as SNIA has a test
# of throughput with large blocks and one of IOPS with small ones.
_LARGE_REQUEST_BYTES: Final = 64 << 10


@dataclass(frozen=True)
class FinishedTrial:
    """A trial that has been carried out, whether it succeeded or not."""

    study: Study
    plan: Plan
    events: Events

    @property
    def is_complete(self) -> bool:
        """Whether the agent came to the plan's end."""
        return self.events.end is not None and self.events.end.outcome == "ok"

    @cached_property
    def load(self) -> Workload:
        return self.study.workloads[self.plan.trial.workload]

    @cached_property
    def placements(self) -> list[Placement]:
        """The placement of its workload, or of each of its tenants."""
        trial = self.plan.trial
        return placements_of(self.study, self.study.stacks[trial.stack], trial.workload, trial.seed)[1]

    @cached_property
    def outputs(self) -> Outputs:
        return self.events.outputs()

    def outputs_of(self, placement: Placement) -> Outputs:
        return self.outputs if placement.tenant is None else self.outputs.within(placement.tenant)


def throughput_of(trial: FinishedTrial) -> list[Throughput]:
    """The throughput over the measured window: of each load that reports its own, and of all disks together.

    Raises:
        RunError: If a workload cannot read its outputs.
    """
    if not trial.is_complete:
        return []
    plan, events = trial.plan, trial.events
    found = []
    for placement in trial.placements:
        if rates := tuple(placement.load.rates_per_s(trial.outputs_of(placement))):
            ns, tenant = placement.load.rates_interval_ns, placement.tenant
            found.append(Throughput(source="load", unit="1/s", interval_ns=ns, rates=rates, tenant=tenant))
    if window := load_window(plan, events):
        unit, of_disks = _disk_rates(plan, events, window)
        ns = plan.monitors.interval_ns
        if of_disks:
            found.append(Throughput(source="disks", unit=unit, interval_ns=ns, rates=tuple(of_disks)))
    return found


def moved_bytes(counters: Mapping[str, int]) -> int:
    """The bytes that a disk read and wrote, by its counters."""
    return counters.get("read_bytes", 0) + counters.get("write_bytes", 0)


def load_window(plan: Plan, events: Events) -> tuple[int, int] | None:
    """The longest measuring step of one workload; from the first to the last of several tenants'."""
    lanes: dict[str | None, list[tuple[int, int]]] = {}
    for step in plan.steps:
        run = events.steps.get(step.id)
        counts = step.phase == "measure" and not step.background and step.lane != SNAPSHOT_LANE
        if counts and run is not None and run.ended_ns is not None:
            lanes.setdefault(step.lane, []).append((run.started_ns, run.ended_ns))
    if not lanes:
        return None
    longest = [max(spans, key=lambda span: span[1] - span[0]) for spans in lanes.values()]
    return min(start for start, _ in longest), max(end for _, end in longest)


def _disk_rates(
    plan: Plan, events: Events, window: tuple[int, int]
) -> tuple[Literal["B/s", "1/s"], list[float]]:
    """The rate of all disks in each whole interval of the window, in bytes or requests per second."""
    totals = [
        (
            each.monotonic_ns,
            sum(moved_bytes(disk) for disk in each.disks.values()),
            sum(disk.get("reads", 0) + disk.get("writes", 0) for disk in each.disks.values()),
        )
        for each in events.samples
        if each.at == "interval" and window[0] <= each.monotonic_ns <= window[1] and each.disks
    ]
    if len(totals) < 2:
        return "1/s", []
    moved, completed = totals[-1][1] - totals[0][1], totals[-1][2] - totals[0][2]
    large = moved >= _LARGE_REQUEST_BYTES * max(completed, 1)
    column = 1 if large else 2
    rates: list[float] = []
    for before, after in pairwise(totals):
        took_ns = after[0] - before[0]
        # On a loaded host an interval may be missed: its neighbour then counts as two.
        intervals = max(1, round(took_ns / plan.monitors.interval_ns))
        rates += [(after[column] - before[column]) * NS_PER_S / max(took_ns, 1)] * intervals
    return "B/s" if large else "1/s", rates
