# SPDX-License-Identifier: Apache-2.0
"""A network volume with any buckets answers each command once, never above its rates."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from strata.lab.model import DISCARD, FLUSH, READ, WRITE, ModelledDisk, ModelTrace, _Asked, library
from volume_texts import network_text

S = 1_000_000_000
UNIT_SECTORS = 512


@dataclass(frozen=True)
class Bucket:
    """A bucket of the text."""

    kind: str
    rate: int
    capacity: int
    initial: int

    def cost(self, op: int, sectors: int) -> int:
        """The tokens of a command."""
        if op == FLUSH:
            return 0
        moved = 0 if op == DISCARD else sectors
        return moved if self.kind == "sectors" else max(1, -(-moved // UNIT_SECTORS))


@st.composite
def buckets(draw: st.DrawFn) -> Bucket:
    capacity = draw(st.integers(1, 3000))
    return Bucket(
        draw(st.sampled_from(["operations", "sectors"])),
        draw(st.integers(1, 100_000)),
        capacity,
        draw(st.integers(0, capacity)),
    )


commands = st.tuples(
    st.sampled_from([READ, WRITE, READ, WRITE, FLUSH, DISCARD]),
    st.integers(1, 2000),
    st.one_of(st.just(0), st.integers(0, 3_000_000), st.integers(0, 20 * S)),
)


def run(
    limits: list[Bucket], asked: list[tuple[int, int, int]], **changed: object
) -> tuple[ModelTrace, list[int]]:
    """The volume's answers, and the costs' order of arrival."""
    lines = [f"{b.kind}_bucket={b.rate},{b.capacity},{b.initial}" for b in limits]
    disk = ModelledDisk(network_text(buckets=lines, latency_ns=1000, queue_depth=1024, **changed))
    arrivals = np.cumsum([pause for _, _, pause in asked])
    ops = [op for op, _, _ in asked]
    lengths = [0 if op == FLUSH else sectors for op, sectors, _ in asked]
    return disk.arrivals(ops, np.zeros(len(asked)), lengths, arrivals), [int(ns) for ns in arrivals]


def arrivals_together(disks: Sequence[ModelledDisk], lists: Sequence[Any]) -> list[ModelTrace]:
    """`ModelledDisk.arrivals` of several disks on one clock, each with ops, sectors, lengths and times."""
    asked = [
        _Asked(disk._capacity_sectors, ops, sectors, lengths, np.array(arrival, np.uint64), None)
        for disk, (ops, sectors, lengths, arrival) in zip(disks, lists, strict=True)
    ]
    handles = (ctypes.c_void_p * len(disks))(*(disk._handle for disk in disks))
    ios = (ctypes.c_void_p * len(disks))(*(ctypes.addressof(each.io) for each in asked))
    if library().strata_disk_open_lists(handles, ios, len(disks)) < 0:
        raise ValueError("the queue was full")
    return [each.trace(0) for each in asked]


@examples(150)
@given(st.lists(buckets(), max_size=4), st.lists(commands, min_size=1, max_size=60))
def test_each_command_is_answered_once_and_its_parts_add_up(
    limits: list[Bucket], asked: list[tuple[int, int, int]]
) -> None:
    trace, _ = run(limits, asked)

    assert sorted(trace.order.tolist()) == list(range(len(asked)))
    assert trace.sum_ns.tolist() == trace.latency_ns.tolist()


shares = st.sampled_from([0, 1, 300_000, 1_000_000])
factors = st.sampled_from([100, 150, 100_000])


@examples(150)
@given(st.lists(buckets(), max_size=4), st.lists(commands, min_size=1, max_size=60), st.data())
def test_a_tail_changes_the_latency_of_its_direction_alone(
    limits: list[Bucket], asked: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    share, factor = data.draw(shares), data.draw(factors)
    tail = {"write_tail_ppm": share, "write_tail_percent": factor, "seed": data.draw(st.integers(0, 99))}
    trace, _ = run(limits, asked, **tail)
    plain, _ = run(limits, asked)

    assert trace.sum_ns.tolist() == trace.latency_ns.tolist()
    assert trace.part("throttle_ns").tolist() == plain.part("throttle_ns").tolist()
    for (op, _, _), ns in zip(asked, trace.part("overhead_ns").tolist(), strict=True):
        slow = 1000 * factor // 100
        if op in {READ, FLUSH}:
            assert ns == (1000 if op == READ else 0)
        else:
            assert ns in ({slow} if share == 1_000_000 else {1000, slow} if share else {1000})


@examples(150)
@given(st.lists(buckets(), min_size=1, max_size=4), st.lists(commands, min_size=1, max_size=60))
def test_no_interval_gets_more_than_rate_times_time_and_the_burst(
    limits: list[Bucket], asked: list[tuple[int, int, int]]
) -> None:
    trace, arrivals = run(limits, asked)

    waits = [int(ns) for ns in trace.part("throttle_ns")]
    for bucket in limits:
        grants = [
            (arrival + wait, bucket.cost(op, sectors))
            for arrival, wait, (op, sectors, _) in zip(arrivals, waits, asked, strict=True)
            if op != FLUSH
        ]
        check_rate(bucket, grants)


def check_rate(bucket: Bucket, grants: list[tuple[int, int]]) -> None:
    """No interval between grants (an instant and its tokens) has more than rate × time and the burst."""
    burst = max([bucket.capacity, *(cost for _, cost in grants)])
    for first, (start, _) in enumerate(grants):
        sum_tokens = 0
        for at, cost in grants[first:]:
            sum_tokens += cost
            # A grant is rounded up to whole ns, and what that gives too much is not lost.
            assert sum_tokens <= burst + Fraction((at - start + 1) * bucket.rate, S)


@examples(150)
@given(buckets(), st.lists(commands, min_size=1, max_size=60))
def test_a_command_waits_no_longer_than_an_ideal_bucket_makes_it_wait(
    bucket: Bucket, asked: list[tuple[int, int, int]]
) -> None:
    trace, arrivals = run([bucket], asked)

    level, at = Fraction(bucket.initial), 0
    waits = [int(ns) for ns in trace.part("throttle_ns")]
    for arrival, wait, (op, sectors, _) in zip(arrivals, waits, asked, strict=True):
        if op == FLUSH:
            continue
        cost, start = bucket.cost(op, sectors), max(at, arrival)
        level = max(level, min(Fraction(bucket.capacity), level + Fraction((start - at) * bucket.rate, S)))
        ideal = max(Fraction(0), (cost - level) * S / bucket.rate)
        at = arrival + wait
        assert 0 <= at - start - ideal < 1
        level += Fraction((at - start) * bucket.rate, S) - cost
        level = min(level, max(bucket.capacity - cost, 0) + Fraction(bucket.rate - 1, S))


@examples(100)
@given(buckets(), st.lists(st.lists(commands, min_size=1, max_size=40), min_size=2, max_size=3))
def test_all_volumes_of_a_machine_together_stay_below_its_rate(
    limit: Bucket, asked: list[list[tuple[int, int, int]]]
) -> None:
    line = f"machine_{limit.kind}_bucket={limit.rate},{limit.capacity},{limit.initial}"
    text = network_text(buckets=["machine=1", line], latency_ns=1000, queue_depth=1024)
    disks = [ModelledDisk(text) for _ in asked]
    for disk in disks[1:]:
        disk.join(disks[0])
    arrivals = [np.cumsum([pause for _, _, pause in each]) for each in asked]
    ops = [[op for op, _, _ in each] for each in asked]
    lengths = [[0 if op == FLUSH else sectors for op, sectors, _ in each] for each in asked]

    traces = arrivals_together(
        disks, [(ops[at], np.zeros(len(ops[at])), lengths[at], arrivals[at]) for at in range(len(asked))]
    )

    grants = sorted(
        (int(arrival) + int(wait), limit.cost(op, sectors))
        for at, trace in enumerate(traces)
        for arrival, wait, op, sectors in zip(
            trace.arrival_ns, trace.part("throttle_ns"), ops[at], lengths[at], strict=True
        )
        if op != FLUSH
    )
    check_rate(limit, grants)


def test_a_volume_that_waits_for_its_own_tokens_keeps_no_other_volume_waiting() -> None:
    machine = ["machine=1", "machine_operations_bucket=1000,1000,1000"]
    slow = ModelledDisk(network_text(buckets=[*machine, "operations_bucket=1,1,1"], queue_depth=1024))
    fast = ModelledDisk(network_text(buckets=machine, queue_depth=1024))
    fast.join(slow)

    asked = (READ, np.zeros(20), 8, np.arange(20) * 1000)
    behind, ahead = arrivals_together([slow, fast], [asked, asked])

    assert behind.part("throttle_ns").max() > 18 * S
    assert ahead.part("throttle_ns").max() == 0


@examples(50)
@given(st.lists(buckets(), max_size=4), st.lists(commands, min_size=1, max_size=60))
def test_a_write_is_durable_when_it_is_acknowledged(
    limits: list[Bucket], asked: list[tuple[int, int, int]]
) -> None:
    lines = [f"{b.kind}_bucket={b.rate},{b.capacity},{b.initial}" for b in limits]
    disk = ModelledDisk(network_text(buckets=lines, queue_depth=1024))
    disk.record_durable(len(asked))
    ops = [op for op, _, _ in asked]

    trace = disk.arrivals(ops, np.zeros(len(asked)), [n for _, n, _ in asked], np.zeros(len(asked)))

    complete_ns = trace.complete_ns.tolist()
    writes = [i for i, op in enumerate(ops) if op == WRITE]
    acknowledged = [[0, asked[i][1], i + 1, complete_ns[i]] for i in writes]
    assert disk.durable.tolist() == acknowledged
