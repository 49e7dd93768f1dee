# SPDX-License-Identifier: Apache-2.0
"""A controller with any arrangement of members answers each command once and loses no block."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from kernel_model import Geometry
from strata.lab.model import DISCARD, FLUSH, READ, WRITE, ModelledDisk, ModelTrace
from volume_texts import GIB, MIB, MS, S, controller_text, network_lines, slow_member

CAPACITY_SECTORS = 64 * MIB // 512

members = st.sampled_from(
    [
        network_lines(latency_ns=5 * MS, capacity_bytes=GIB),
        network_lines(latency_ns=0, capacity_bytes=GIB, queue_depth=1, link_bytes_per_s=50_000_000),
        slow_member(iops=997, capacity_bytes=GIB),
        Geometry().text().splitlines(),
        ["name=sda", "capacity_sectors=2097152", "backing_fd=0", "model=null"],
    ]
)

arrangements = st.sampled_from(
    [
        ("single", 1),
        ("single", 3),
        ("raid0", 5),
        ("raid10", 2),
        ("raid10", 6),
        ("raid5", 3),
        ("raid5", 5),
        ("raid6", 5),
    ]
)


@st.composite
def controllers(draw: st.DrawFn) -> dict[str, object]:
    level, count = draw(arrangements)
    low = draw(st.integers(0, 100))
    return {
        "level": level,
        "members": count,
        "capacity_sectors": CAPACITY_SECTORS,
        "stripe_bytes": draw(st.sampled_from([4096, 20_480, 65_536, 1 << 20])),
        "cache_bytes": draw(st.sampled_from([0, 512, 65_536, MIB, 256 * MIB])),
        "battery": draw(st.integers(0, 1)),
        "interval_ns": draw(st.sampled_from([0, 10_000])),
        "link_bytes_per_s": draw(st.sampled_from([0, 300_000_000])),
        "low_percent": low,
        "high_percent": draw(st.integers(max(low, 1), 100)),
        "destage_depth": draw(st.sampled_from([1, 4, 64])),
        "destage_bytes": draw(st.sampled_from([4096, MIB])),
        "idle_ns": draw(st.sampled_from([0, 50 * MS])),
        "queue_depth": 1024,
    }


@st.composite
def streams(
    draw: st.DrawFn, ops: tuple[int, ...] = (READ, WRITE, WRITE, FLUSH, DISCARD)
) -> list[tuple[int, int, int, int]]:
    """Op, sector, sectors, pause."""
    op = st.sampled_from(ops)
    near = st.integers(0, 300)
    anywhere = st.integers(0, CAPACITY_SECTORS - 4096)
    sectors = st.one_of(st.integers(1, 16), st.integers(1, 4096))
    pause = st.one_of(st.just(0), st.integers(0, 100 * MS))
    return draw(st.lists(st.tuples(op, st.one_of(near, anywhere), sectors, pause), min_size=1, max_size=80))


def answered(disk: ModelledDisk, stream: list[tuple[int, int, int, int]]) -> ModelTrace:
    ops, sectors, lengths, pauses = map(np.array, zip(*stream, strict=True))
    return disk.arrivals(ops, sectors, np.where(ops == FLUSH, 0, lengths), np.cumsum(pauses))


def covered(stream: list[tuple[int, int, int, int]], only: int) -> int:
    """The distinct bytes that the commands of one kind touch."""
    touched = np.zeros(CAPACITY_SECTORS, bool)
    for op, sector, sectors, _ in stream:
        if op == only:
            touched[sector : sector + sectors] = True
    return int(touched.sum()) * 512


@examples(200)
@given(members, controllers(), streams())
def test_each_command_is_answered_once_in_parts_that_add_up_and_writes_are_then_durable(
    member: list[str], settings_: dict[str, object], stream: list[tuple[int, int, int, int]]
) -> None:
    disk = ModelledDisk(controller_text(member, **settings_))
    disk.record_durable(len(stream))

    trace = answered(disk, stream)

    assert sorted(trace.order.tolist()) == list(range(len(stream)))
    assert trace.sum_ns.tolist() == trace.latency_ns.tolist()
    writes = [i for i, (op, _, _, _) in enumerate(stream) if op == WRITE]
    complete_ns = trace.complete_ns.tolist()
    acknowledged = [[stream[i][1], stream[i][2], i + 1, complete_ns[i]] for i in writes]
    assert sorted(disk.durable.tolist()) == sorted(acknowledged)


@examples(200)
@given(controllers(), streams((READ, WRITE, WRITE, FLUSH)))
def test_what_was_written_reaches_the_members_once(
    settings_: dict[str, object], stream: list[tuple[int, int, int, int]]
) -> None:
    disk = ModelledDisk(controller_text(network_lines(latency_ns=MS, capacity_bytes=GIB), **settings_))
    written = sum(sectors * 512 for op, _, sectors, _ in stream if op == WRITE)

    answered(disk, stream)
    disk.advance(disk.now_ns + 1000 * S)

    media = disk.account()["media_write_bytes"]
    copies = 2 if settings_["level"] == "raid10" else 1
    if settings_["level"] in ("raid5", "raid6"):
        assert media >= covered(stream, WRITE)
    else:
        assert copies * covered(stream, WRITE) <= media <= copies * written
