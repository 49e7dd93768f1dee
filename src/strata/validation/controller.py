# SPDX-License-Identifier: Apache-2.0
"""A controller's battery-backed cache: what it absorbs, and what it leaves to the members."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.measure import READ, WRITE, Subject, random_trace, rate_per_s
from strata.lab.model import Trace
from strata.spec.device import Device, find_device
from strata.units import NS_PER_S, NS_PER_US
from strata.validation.check import Check, Section, near, within

_MIRRORS = "controller-bbwc-raid10-4x-wd-re4-500gb"
_PARITY = "controller-bbwc-raid5-6x-generic-nearline-hdd"
_BLOCK_BYTES = 4096
_TEXT = """A write is acknowledged from the cache, at the pace of the controller's processor, until the
cache is full. From then on the members set the pace; but they get the writes sorted, neighbours
joined, and are faster than with the same writes one by one. With a dead battery they get them one by
one. Random reads of mirrors use all members. With parity, what was written in order is destaged in whole
rows, for which nothing has to be read; a lone block costs two reads and two writes."""


def examine(*, quick: bool = False) -> Section:
    """Four RE4 in RAID 10, and six nearline disks in RAID 5."""
    mirrors = find_device(_MIRRORS)
    small = _changed(mirrors, cache_size=64)  # full sooner
    count = 40_000 if quick else 120_000
    cached = _random(small, WRITE, 32, count)
    through = _random(_changed(small, battery=0), WRITE, 32, count // 8)
    member = mirrors.member
    assert member is not None
    checks = (
        *_absorbed(mirrors),
        within(
            "RAID 10, cache full, over a dead battery",
            _last_rate(cached) / rate_per_s(through, depth=32),
            1.3,
            4.0,
            unit="×",
        ),
        near(
            "RAID 10: random reads at depth 64 over one member's at 16",
            rate_per_s(_random(mirrors, READ, 64, count // 8), depth=64)
            / rate_per_s(_random(member, READ, 16, count // 8), depth=16),
            4.0,
            part=0.1,
            unit="×",
        ),
        *_parity(),
    )
    picture = Picture(
        "Random 4-KiB writes, four RE4 in RAID 10, cache of 64 MiB",
        "writes",
        "per second",
        (Curve("battery good", _over_count(cached)), Curve("battery dead", _over_count(through), "theory")),
        y_log=True,
    )
    return Section("controller", "A battery-backed cache", _TEXT, checks, (picture,))


def _changed(device: Device, **values: float) -> Device:
    parameters = dict(device.parameters)
    for name, value in values.items():
        parameters[name] = parameters[name].model_copy(update={"value": value})
    return replace(device, parameters=parameters)


def _random(device: Device, op: int, depth: int, count: int) -> Trace:
    subject = Subject(device)
    return random_trace(subject.open(), op, subject.sectors, depth=depth, count=count)


def _absorbed(device: Device) -> tuple[Check, ...]:
    """Half of the cache, as fast as it comes."""
    count = int(device.number("cache_size")) * (1 << 20) // _BLOCK_BYTES // 2
    trace = _random(device, WRITE, 16, count)
    alone = _random(device, WRITE, 1, 100)
    overhead_us = device.number("command_overhead") + _BLOCK_BYTES / device.number("link_rate")
    return (
        near(
            "write into the cache",
            float(alone.latency_ns.mean()) / NS_PER_US,
            overhead_us,
            part=0.01,
            unit="µs",
        ),
        near(
            "writes into the cache, 16 at a time",
            count * NS_PER_S / trace.duration_ns,
            1e6 / device.number("command_interval"),
            part=0.01,
            unit="/s",
        ),
    )


def _parity() -> tuple[Check, ...]:
    """What the members of RAID 5 read and write for a byte, when all is destaged."""
    device = find_device(_PARITY)
    members, rows = int(device.number("members")), 200
    row = (members - 1) * int(device.number("stripe_size")) * 2  # sectors
    checks = []
    for order, places, sectors, reads, writes in (
        ("in order", np.arange(rows * row // 8) * 8, 8, 0.0, members / (members - 1)),
        ("lone blocks", np.arange(rows) * 17 * row, 8, 2.0, 2.0),
    ):
        disk = Subject(device).open()
        disk.closed_loop(WRITE, places, sectors, depth=16)
        disk.advance(disk.now_ns + 1000 * NS_PER_S)
        account = disk.account()
        for what, expected in (("read", reads), ("write", writes)):
            title = f"RAID 5, {order}: bytes that members {what} for one written"
            found = account[f"media_{what}_bytes"] / account["write_bytes"]
            # Members read ahead now and then.
            checks.append(near(title, found, expected, part=0.02, unit="×"))
    return tuple(checks)


def _last_rate(trace: Trace) -> float:
    ends = np.sort(trace.complete_ns)
    half = len(ends) // 2
    return float((len(ends) - half) * NS_PER_S / (ends[-1] - ends[half]))


def _over_count(trace: Trace) -> tuple[tuple[float, float], ...]:
    ends = np.sort(trace.complete_ns).astype(np.float64)
    edges = np.linspace(0, len(ends) - 1, 80).astype(int)
    rates = np.diff(edges) * NS_PER_S / np.maximum(np.diff(ends[edges]), 1.0)
    return tuple(zip(edges[1:].tolist(), rates.tolist(), strict=True))
