# SPDX-License-Identifier: Apache-2.0
"""A rotating disk with caches, defects, large sectors or shingles, on any list of I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from kernel_model import Geometry
from strata.lab.model import DISCARD, FLUSH, FUA, READ, WRITE, Counts, ModelledDisk, ModelTrace, part_names

NS = 1_000_000


@dataclass(frozen=True)
class Stream:
    """A drive, and a list of I/O for it."""

    text: str
    ops: list[int]
    flags: list[int]
    sectors: list[int]
    lengths: list[int]
    arrival_ns: list[int]
    volatile: bool

    def run(self, depth: int | None = None) -> tuple[ModelledDisk, ModelTrace]:
        """With a depth, the next arrives whenever one completes."""
        disk = ModelledDisk(self.text)
        disk.record_durable(100_000)
        io = (self.ops, self.sectors, self.lengths)
        if depth is None:
            return disk, disk.arrivals(*io, self.arrival_ns, flags=self.flags)
        return disk, disk.closed_loop(*io, depth=depth, flags=self.flags)


@st.composite
def drives(draw: st.DrawFn) -> tuple[Geometry, dict[str, int], str]:
    zones = draw(st.integers(1, 4))
    per_track = sorted(draw(st.lists(st.integers(2, 300), min_size=zones, max_size=zones)), reverse=True)
    tracks = draw(st.lists(st.integers(40, 500), min_size=zones, max_size=zones))
    rotation_ns = draw(st.integers(2 * NS, 20 * NS))
    geometry = Geometry(
        rotation_ns=rotation_ns,
        track_skew_ns=draw(st.integers(0, rotation_ns // 3)),
        overhead_ns=draw(st.integers(0, NS)),
        write_settle_ns=draw(st.integers(0, NS)),
        window=draw(st.integers(1, 32)),
        wait_limit_ns=draw(st.integers(0, 500 * NS)),
        zones=tuple((count, 8 * per) for count, per in zip(tracks, per_track, strict=True)),
        seek=(draw(st.floats(1e5, 3e6)), draw(st.floats(0, 2e7)), draw(st.floats(0.05, 1))),
    )
    large = draw(st.booleans())
    keys = {
        "volatile_cache": draw(st.integers(0, 1)),
        "fua": 1,
        "discard": 1,
        "physical_block_bytes": 4096 if large else 512,
        "link_bytes_per_s": draw(st.sampled_from([0, 1_000_000, 300_000_000])),
        "buffer_overhead_ns": draw(st.sampled_from([0, 10_000])),
        "read_segments": draw(st.sampled_from([0, 1, 4])),
        "read_segment_bytes": draw(st.sampled_from([4096, 65_536, 1 << 20])),
        "write_cache_bytes": draw(st.sampled_from([0, 8192, 100_000, 1 << 20])),
        "write_cache_extents": draw(st.sampled_from([1, 3, 64])),
        "destage_window": draw(st.sampled_from([1, 2, 8])),
        "positioning_margin_ns": draw(st.sampled_from([0, NS, 9 * NS])),
        "admission_oldest_every": draw(st.sampled_from([1, 2, 32])),
        "destage_idle_ns": draw(st.sampled_from([0, 10 * NS, 1000 * NS])),
    }
    if large and draw(st.booleans()):
        ring = draw(st.sampled_from([4096, 65_536, 262_144]))
        keys["shingle_cache_bytes"] = ring
        keys["shingle_band_bytes"] = draw(st.sampled_from([4096, 40_960, 1 << 20]))
        keys["cleaning_idle_ns"] = draw(st.sampled_from([0, 100 * NS]))
        keys["capacity_sectors"] = geometry.capacity_sectors - ring // 512
        if keys["capacity_sectors"] <= geometry.first_sector(zones - 1):
            del keys["shingle_cache_bytes"], keys["capacity_sectors"]
    places = sorted(draw(st.sets(st.integers(0, 3000), max_size=5)))
    capacity = keys.get("capacity_sectors", geometry.capacity_sectors)
    defects = [
        f"defect={8 * place},{geometry.first_sector(zones - 1)}\n" for place in places if 8 * place < capacity
    ]
    return geometry, keys, "".join(defects)


@st.composite
def streams(draw: st.DrawFn, most: int = 32) -> Stream:
    geometry, keys, defects = draw(drives())
    capacity = keys.get("capacity_sectors", geometry.capacity_sectors)
    count = draw(st.integers(1, most))
    several: dict[str, Any] = {"min_size": count, "max_size": count}
    ops = draw(
        st.lists(
            st.sampled_from([READ, READ, WRITE, WRITE, FLUSH, DISCARD]),
            **several,
        )
    )
    fua = draw(st.lists(st.sampled_from([0, 0, 0, FUA]), **several))
    # Near each other, so that they overlap and follow each other.
    span = draw(st.sampled_from([100, 3000, capacity]))
    lengths = draw(st.lists(st.sampled_from([1, 7, 8, 8, 8, 16, 100, 300]), **several))
    sectors = draw(st.lists(st.integers(0, min(span, capacity) - 1), **several))
    aligned = draw(st.booleans())
    sectors = [min(s // 8 * 8 if aligned else s, capacity - n) for s, n in zip(sectors, lengths, strict=True)]
    gaps = draw(st.lists(st.sampled_from([0, 0, 1000, 500_000, 5 * NS, 60 * NS, 2000 * NS]), **several))
    return Stream(
        text=geometry.text(**keys) + defects,
        ops=ops,
        flags=[flag if op == WRITE else 0 for op, flag in zip(ops, fua, strict=True)],
        sectors=sectors,
        lengths=[0 if op == FLUSH else n for op, n in zip(ops, lengths, strict=True)],
        arrival_ns=[int(time) for time in np.cumsum(gaps)],
        volatile=bool(keys["volatile_cache"]),
    )


def covered(marks: Counts, stream: Stream, index: int, by_ns: int) -> bool:
    """Whether all sectors of a write are durable by then, with what it or a later one wrote."""
    first, end = stream.sectors[index], stream.sectors[index] + stream.lengths[index]
    good = [mark for mark in marks.tolist() if mark[2] >= index + 1 and mark[3] <= by_ns]
    at = first
    for sector, sectors, _, _ in sorted(good):
        if sector <= at < sector + sectors:
            at = sector + sectors
    return at >= end


def check(stream: Stream, disk: ModelledDisk, trace: ModelTrace) -> None:
    done, arrival = trace.complete_ns.astype(np.int64), trace.arrival_ns.astype(np.int64)
    assert sorted(trace.order) == list(range(len(stream.ops)))
    assert np.all(np.diff(done[trace.order.astype(np.int64)]) >= 0)
    assert np.all(done >= arrival)
    assert np.array_equal(trace.sum_ns, trace.latency_ns)
    account = disk.account()
    for name in part_names():
        assert account[name] == int(trace.part(name).sum())
    commands = account["reads"] + account["writes"] + account["flushes"] + account["discards"]
    assert commands == len(stream.ops)
    assert account["busy_ns"] <= int(done.max()) - int(arrival[0])
    work = ("command_work_ns", "destage_work_ns", "prefetch_work_ns", "cleaning_work_ns")
    assert sum(account[name] for name in work) <= max(disk.now_ns, int(done.max())) + 20_000 * NS
    marks = disk.durable
    for sector, sectors, sequence, at_ns in marks.tolist():
        assert sectors > 0
        assert sector + sectors <= 2**50
        assert int(arrival[sequence - 1]) <= at_ns
    for index, op in enumerate(stream.ops):
        if op == FLUSH:
            assert np.all(done[:index] <= done[index])
            assert np.all(done[index + 1 :] >= done[index])
            for before in range(index):
                if stream.ops[before] == WRITE:
                    assert covered(marks, stream, before, int(done[index]))
        if op == WRITE and (stream.flags[index] or not stream.volatile):
            assert covered(marks, stream, index, int(done[index]))


@examples(500)
@given(streams())
def test_any_stream_completes_once_adds_up_and_keeps_what_a_flush_promises(stream: Stream) -> None:
    check(stream, *stream.run())


@examples(150)
@given(streams(most=150), st.integers(1, 32))
def test_the_same_holds_of_any_stream_that_keeps_the_queue_filled(stream: Stream, depth: int) -> None:
    check(stream, *stream.run(depth))


@examples(100)
@given(streams())
def test_a_disk_left_alone_makes_everything_durable_once(stream: Stream) -> None:
    disk, trace = stream.run()
    disk.advance(int(trace.complete_ns.max()) + 10_000_000 * NS)
    for index, op in enumerate(stream.ops):
        if op == WRITE:
            assert covered(disk.durable, stream, index, 2**62)


@examples(60)
@given(streams(most=100), st.integers(1, 32))
def test_the_same_stream_gives_the_same_trace(stream: Stream, depth: int) -> None:
    (first_disk, first), (second_disk, second) = stream.run(depth), stream.run(depth)
    assert np.array_equal(first.complete_ns, second.complete_ns)
    assert np.array_equal(first.parts, second.parts)
    assert first_disk.account() == second_disk.account()
    assert np.array_equal(first_disk.durable, second_disk.durable)
