# SPDX-License-Identifier: Apache-2.0
"""The flash model on any drive and any list of I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from flash_texts import Drive
from strata.lab.model import DISCARD, FLUSH, FUA, READ, WRITE, ModelTrace


@dataclass(frozen=True)
class Stream:
    """Commands for a drive. A flush has no place and no length."""

    ops: list[int]
    sectors: list[int]
    lengths: list[int]
    flags: list[int]
    gaps_ns: list[int]

    @property
    def arrival_ns(self) -> list[int]:
        return list(map(int, np.cumsum(self.gaps_ns)))


@st.composite
def drives(draw: st.DrawFn) -> tuple[Drive, dict[str, object]]:
    """A small drive, so that cleaning is met, and its other keys."""
    in_place = draw(st.booleans()) and draw(st.booleans())
    page_bytes = 4096 if in_place else draw(st.sampled_from([4096, 8192, 16_384, 65_536]))
    times = st.lists(st.integers(1, 500_000), min_size=1, max_size=4).map(tuple)
    drive = Drive(
        capacity_bytes=draw(st.integers(2, 4096)) * 512,
        dies=draw(st.integers(1, 9)),
        page_bytes=page_bytes,
        read_ns=draw(times),
        program_ns=draw(times),
        erase_ns=draw(st.integers(0, 5_000_000)),
        spare_ppm=draw(st.sampled_from([1000, 10_000, 70_000, 500_000])),
        link_bytes_per_s=draw(st.sampled_from([1_000_000, 500_000_000, 7_000_000_000])),
        command_ns=draw(st.integers(0, 10_000)),
        buffer_bytes=draw(st.sampled_from([2, 3, 50])) * page_bytes,
        volatile_cache=draw(st.integers(0, 1)),
    )
    return drive, {
        "in_place": int(in_place),
        "channels": 1,
        "pages_per_block": draw(st.sampled_from([1, 2, 7, 64])),
        "link_duplex": draw(st.integers(0, 1)),
        "flush_queued": draw(st.integers(0, 1)),
        "channel_bytes_per_s": draw(st.sampled_from([0, 50_000_000])),
        "program_suspend_ns": draw(st.sampled_from([0, 20_000])),
        "erase_suspend_ns": draw(st.sampled_from([0, 300_000])),
        "slc_bytes": draw(st.sampled_from([0, 200_000])),
        "slc_program_ns": 10_000,
        "precondition": draw(st.integers(0, 3)),
        "used_filled_ppm": draw(st.sampled_from([0, 300_000, 750_000, 1_000_000])),
        "used_scattered_ppm": draw(st.sampled_from([0, 500_000, 1_000_000])),
        "used_collected_ppm": draw(st.sampled_from([0, 500_000, 1_000_000])),
        "read_spread_ppm": draw(st.sampled_from([0, 60_000, 1_000_000])),
        "read_retry_ppm": draw(st.sampled_from([0, 300_000, 1_000_000])),
        "read_retry_again_ppm": draw(st.sampled_from([0, 1_000_000])),
        "read_retry_ns": draw(st.integers(0, 100_000)),
        "refresh_page_ns": draw(st.sampled_from([0, 1, 300_000])) if not in_place else 0,
        "cleaning_burst_bytes": draw(st.sampled_from([0, 1, 5 * page_bytes, 64 * page_bytes, 1 << 30])),
        "write_through": draw(st.integers(0, 1)),
        "housekeeping_interval_ns": 400_000,
        "housekeeping_ns": draw(st.sampled_from([0, 1, 200_000])),
        "seed": draw(st.integers(0, 1000)),
    }


@st.composite
def streams(draw: st.DrawFn, sectors: int, count_max: int = 300) -> Stream:
    """Up to ``count_max`` commands, from a seed: hypothesis would take long to draw each."""
    count = draw(st.integers(1, count_max))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    weights = np.array(draw(st.sampled_from([(4, 4, 1, 1), (1, 8, 0, 0), (1, 6, 3, 0), (0, 5, 0, 5)])))
    ops = rng.choice([READ, WRITE, FLUSH, DISCARD], count, p=weights / weights.sum())
    aligned = draw(st.booleans()) and sectors >= 8
    unit = 8 if aligned else 1
    starts = rng.integers(0, sectors // unit, count) * unit
    most = draw(st.sampled_from([1, 4, 64])) * unit
    lengths = np.minimum(rng.integers(1, most // unit + 1, count) * unit, sectors - starts)
    pause = draw(st.sampled_from([0, 1000, 1_000_000, 100_000_000]))
    return Stream(
        ops=ops.tolist(),
        sectors=np.where(ops == FLUSH, 0, starts).tolist(),
        lengths=np.where(ops == FLUSH, 0, lengths).tolist(),
        flags=(rng.integers(0, 8, count) == 0).astype(int).tolist() if draw(st.booleans()) else [0] * count,
        gaps_ns=rng.integers(0, pause + 1, count).tolist(),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Drive, dict[str, object], Stream]:
    drive, keys = draw(drives())
    return drive, keys, draw(streams(drive.sectors))


def _check(drive: Drive, stream: Stream, trace: ModelTrace, account: dict[str, int]) -> None:
    assert sorted(trace.order) == list(range(len(stream.ops))), "each completes once"
    assert list(trace.sum_ns) == list(trace.latency_ns), "the parts are the latency"
    done = trace.complete_ns[trace.order]
    assert (done[1:] >= done[:-1]).all()
    ops, lengths = np.array(stream.ops), np.array(stream.lengths)
    assert account["reads"] == np.count_nonzero(ops == READ)
    assert account["write_bytes"] == 512 * int(lengths[ops == WRITE].sum())
    least = np.where(np.isin(ops, [READ, WRITE]), drive.interface_ns + drive.command_ns, drive.interface_ns)
    assert (trace.latency_ns >= least).all()


@examples(300)
@given(cases())
def test_every_command_completes_once_and_the_map_stays_sound(
    case: tuple[Drive, dict[str, object], Stream],
) -> None:
    drive, keys, stream = case
    disk = drive.open(**keys)
    assert disk.flash_problem() is None
    trace = disk.arrivals(stream.ops, stream.sectors, stream.lengths, stream.arrival_ns, flags=stream.flags)
    _check(drive, stream, trace, disk.account())
    assert disk.flash_problem() is None
    again = drive.open(**keys)
    same = again.arrivals(stream.ops, stream.sectors, stream.lengths, stream.arrival_ns, flags=stream.flags)
    assert (same.parts == trace.parts).all()


@examples(60)
@given(cases(), st.integers(1, 64))
def test_the_map_stays_sound_however_long_one_writes(
    case: tuple[Drive, dict[str, object], Stream], depth: int
) -> None:
    drive, keys, stream = case
    disk = drive.open(**keys)
    times = 1 + 4000 // len(stream.ops)
    trace = disk.closed_loop(stream.ops * times, stream.sectors * times, stream.lengths * times, depth=depth)
    assert list(trace.sum_ns) == list(trace.latency_ns)
    assert disk.flash_problem() is None
    account = disk.account()
    if not keys["in_place"]:
        return
    assert account["cleanings"] == 0


@examples(200)
@given(cases())
def test_what_a_flush_or_fua_promises_is_durable_in_time(
    case: tuple[Drive, dict[str, object], Stream],
) -> None:
    drive, keys, stream = case
    disk = drive.open(**keys)
    disk.record_durable(40_000)
    trace = disk.arrivals(stream.ops, stream.sectors, stream.lengths, stream.arrival_ns, flags=stream.flags)
    noted = disk.durable.astype(np.int64)
    promised = _promises(drive, stream, trace, write_through=bool(keys["write_through"]))
    for index, due_ns in promised.items():
        first, last = stream.sectors[index], stream.sectors[index] + stream.lengths[index]
        in_time = noted[(noted[:, 3] <= due_ns) & (noted[:, 2] >= index + 1)]
        covered = np.zeros(last - first, bool)
        for sector, sectors, _, _ in in_time:
            covered[max(sector - first, 0) : max(sector + sectors - first, 0)] = True
        assert covered.all(), f"write {index} is not durable at {due_ns}"


def _promises(drive: Drive, stream: Stream, trace: ModelTrace, *, write_through: bool) -> dict[int, int]:
    """By when each write must be durable: its own completion, or the next flush's that came after that."""
    due: dict[int, int] = {}
    flushes = [
        (int(trace.arrival_ns[i]), int(trace.complete_ns[i]))
        for i, op in enumerate(stream.ops)
        if op == FLUSH
    ]
    for index, op in enumerate(stream.ops):
        if op != WRITE:
            continue
        complete = int(trace.complete_ns[index])
        if not drive.volatile_cache or write_through or stream.flags[index] & FUA:
            due[index] = complete
            continue
        after = [end for start, end in flushes if start >= complete]
        if after:
            due[index] = min(after)
    return due
