# SPDX-License-Identifier: Apache-2.0
"""Writes of a rotating disk: what a volatile cache hides, and what a flush costs."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import numpy as np

from strata.datasheet.curves import Curve, Picture, rates
from strata.datasheet.formulas import random_read_ns_mean
from strata.datasheet.measure import Subject, flush_trace, rate_per_s
from strata.lab.model import FUA, READ, WRITE
from strata.spec.device import find_device
from strata.spec.device_kinds.mechanism import mechanism
from strata.units import NS_PER_MS
from strata.validation.subject import RE4, Found, mean_ms, near, points, subject, within

_SECTORS = 64  # of a sequential request
_FLUSH_WRITES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)


@subject(
    "write-cache",
    "Cached and uncached writes",
    """With its cache on, a drive has a write when the host's transfer is over, until the cache is full; from
then on it takes as much as the head writes, which is more than without a cache, because it chooses among
many. With the cache off, a write takes a read's time and the longer settling. One after the other and in
order, uncached writes miss their sector and lose a revolution each; reads do not, because the drive reads
ahead.""",
)
def write_cache(quick: bool) -> Found:
    """The RE4 with its cache on and off."""
    drive = Subject(find_device(RE4))
    disk = mechanism(drive.device)
    count = 8_000 if quick else 24_000
    cached = drive.random(WRITE, depth=1, count=count)
    uncached = drive.random(WRITE, depth=1, count=count // 3, flags=FUA)
    expected_ms = (random_read_ns_mean(disk) + disk.write_settle_ns) / NS_PER_MS
    early_ms = float(np.percentile(cached.latency_ns[:200], 99)) / NS_PER_MS
    full, off = rate_per_s(cached, depth=1, warm_up=0.6), rate_per_s(uncached, depth=1)
    turn_ms = disk.rotation_ns / NS_PER_MS
    period, note = (
        "uncached and in order: period of a write",
        "one revolution, and now and then a track switch",
    )
    checks = (
        within("cached, the first 200: p99", early_ms, 0.0, 1.0, "ms"),
        near("uncached, mean", mean_ms(uncached), expected_ms, 0.02, "ms"),
        within("cache full over cache off, random writes", full / off, 1.3, 4.0, "×"),
        near(period, _period_ms(drive, WRITE, FUA), turn_ms, 0.15, "ms", note=note),
        within("reads in order: period of a read", _period_ms(drive, READ, 0), 0.0, turn_ms / 4, "ms"),
        within("cached and in order: period of a write", _period_ms(drive, WRITE, 0), 0.0, turn_ms / 4, "ms"),
    )
    edges, found = rates(cached, 59)
    curves = (
        Curve("cache on", points(((first + last) / 2 for first, last in pairwise(edges)), found)),
        Curve("cache off", ((0.0, off), (float(len(cached.latency_ns)), off)), "theory"),
    )
    return checks, [Picture("Random 4-KiB writes, WD RE4", "writes", "per second", curves, y_log=True)]


def _period_ms(drive: Subject, op: int, flags: int) -> float:
    """The median time between completions of 32-KiB requests in order, one at a time."""
    places = (1 << 20) + _SECTORS * np.arange(400, dtype=np.uint64)
    trace = drive.open().closed_loop(op, places, _SECTORS, depth=1, flags=flags)
    return float(np.median(np.diff(trace.complete_ns.astype(np.int64))[8:])) / NS_PER_MS


@subject(
    "flush",
    "Flush after N scattered writes",
    """A flush waits until all acknowledged writes are on the platters. After one write that is a random
write: 12 to 16 ms were measured in production on a drive of 7200 rpm (Hitachi 7K8xx). After N scattered
writes the drive chooses the nearest of what it holds, so that each further write costs less than the first:
an intercept and a slope, both behaviour of the model rather than constants.""",
)
def flush(quick: bool) -> Found:
    """The RE4 from one write to 64."""
    drive = Subject(find_device(RE4))
    found = {
        n: float(flush_trace(drive.open(), drive.sectors, writes=n, rounds=30 if quick else 120)[0].mean())
        / NS_PER_MS
        for n in _FLUSH_WRITES
    }
    counts, times = np.array(list(found), float), np.array(list(found.values()))
    slope, intercept = (float(value) for value in np.polyfit(counts, times, 1))
    fitted = intercept + slope * counts
    explained = 1 - float(((times - fitted) ** 2).sum() / ((times - times.mean()) ** 2).sum())
    least = min(after - before for before, after in pairwise(found.values()))
    checks = (
        within("flush after one write", found[1], 12.0, 16.0, "ms", note="as measured on real drives"),
        within("flush after 64 writes", found[64], 64 * 3.0, 64 * found[1], "ms"),
        within("fitted slope, a write", slope, 3.0, found[1], "ms"),
        within("fitted intercept", intercept, 0.0, 4 * found[1], "ms"),
        within("part of the variance that the line explains", explained, 0.98, 1.0),
        within("least step from one N to the next", least, 0.0, inf, "ms"),
    )
    curves = (
        Curve(f"{intercept:.1f} + {slope:.2f} N ms", points(counts, fitted), "theory"),
        Curve("model", points(found, found.values()), "dots"),
    )
    return checks, [
        Picture("Flush after N scattered writes, WD RE4", "writes since the last flush", "ms", curves)
    ]
