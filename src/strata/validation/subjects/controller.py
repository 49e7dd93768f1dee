# SPDX-License-Identifier: Apache-2.0
"""A controller's battery-backed cache: what it absorbs, and what it leaves to the members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from strata.datasheet.measure import BLOCK_BYTES, Curve, Picture, Subject, rate_per_s, rates
from strata.devices.device import find_device
from strata.lab.model import READ, WRITE, ModelTrace
from strata.units import NS_PER_MS, NS_PER_S, NS_PER_US
from strata.validation.subject import Found, ModelCheck, mean_ms, near, points, subject, within

_MIRRORS = "controller-bbwc-raid10-4x-wd-re4-500gb"
_PARITY = "controller-bbwc-raid5-6x-generic-nearline-hdd"


@subject(
    "controller",
    "A battery-backed cache",
    """A write is acknowledged from the cache, at the pace of the controller's processor, until the cache is
full. From then on the members set the pace; but they get the writes sorted, neighbours joined, and are
faster than with the same writes one by one. With a dead battery they get them one by one. Random reads of
mirrors use all members. With parity, sequential writes are destaged in whole rows, for which nothing
has to be read; a lone block costs two reads and two writes.""",
)
def controller(quick: bool) -> Found:
    mirrors = Subject(find_device(_MIRRORS))
    member = mirrors.device.member
    assert member is not None
    small = mirrors.with_values({"cache_size": 64})  # full sooner
    count = 40_000 if quick else 120_000
    cached = small.random(WRITE, depth=32, count=count)
    through = small.with_values({"battery": 0}).random(WRITE, depth=32, count=count // 8)
    ends = np.sort(cached.complete_ns)
    half = len(ends) // 2
    full = float((len(ends) - half) * NS_PER_S / (ends[-1] - ends[half]))
    reads = rate_per_s(mirrors.random(READ, depth=64, count=count // 8), depth=64)
    of_one = rate_per_s(Subject(member).random(READ, depth=16, count=count // 8), depth=16)
    over_dead = full / rate_per_s(through, depth=32)
    checks = (
        *_absorbed(mirrors),
        within("RAID 10, cache full, over a dead battery", over_dead, 1.3, 4.0, "×"),
        near("RAID 10: random reads at depth 64 over one member's at 16", reads / of_one, 4.0, 0.1, "×"),
        *_parity(),
    )
    title = "Random 4-KiB writes, four RE4 in RAID 10, cache of 64 MiB"
    curves = Curve("battery good", _over_count(cached)), Curve("battery dead", _over_count(through), "theory")
    return checks, [Picture(title, "writes", "per second", curves, y_log=True)]


def _absorbed(drive: Subject) -> Iterator[ModelCheck]:
    device = drive.device
    count = device.whole("cache_size") * (1 << 20) // BLOCK_BYTES // 2
    trace = drive.random(WRITE, depth=16, count=count)
    alone_us = mean_ms(drive.random(WRITE, depth=1, count=100)) * NS_PER_MS / NS_PER_US
    overhead_us = device.number("command_overhead") + BLOCK_BYTES / device.number("link_rate")
    rate, possible = count * NS_PER_S / trace.duration_ns, 1e6 / device.number("command_interval")
    yield near("write into the cache", alone_us, overhead_us, 0.01, "µs")
    yield near("writes into the cache, 16 at a time", rate, possible, 0.01, "/s")


def _parity() -> Iterator[ModelCheck]:
    """The bytes that members of RAID 5 read and write for one written, when all is destaged."""
    device = find_device(_PARITY)
    assert device.member is not None
    # A member that waits for another one reads ahead, which is not part of the arithmetic.
    member = Subject(device.member).with_values({"read_segments": 0, "read_segment_size": 0}).device
    device = replace(device, member=member)
    members, rows = device.whole("members"), 200
    row = (members - 1) * device.whole("stripe_size") * 2  # sectors
    for order, places, reads, writes in (
        ("in order", np.arange(rows * row // 8) * 8, 0.0, members / (members - 1)),
        ("lone blocks", np.arange(rows) * 17 * row, 2.0, 2.0),
    ):
        disk = Subject(device).open()
        disk.closed_loop(WRITE, places, 8, depth=16)
        disk.advance(disk.now_ns + 1000 * NS_PER_S)
        account = disk.account()
        for what, expected in (("read", reads), ("write", writes)):
            title = f"RAID 5, {order}: bytes that members {what} for one written"
            found = account[f"media_{what}_bytes"] / account["write_bytes"]
            yield near(title, found, expected, 0.02, "×")


def _over_count(trace: ModelTrace) -> tuple[tuple[float, float], ...]:
    edges, found = rates(trace, 79)
    return points(edges[1:], found)
