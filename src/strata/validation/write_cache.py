# SPDX-License-Identifier: Apache-2.0
"""Cached and uncached writes: what a volatile cache hides, and what it cannot."""

from __future__ import annotations

import numpy as np

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.formulas import random_read_ns_mean
from strata.datasheet.measure import FUA, READ, WRITE, Subject, random_trace, rate_per_s
from strata.lab.model import Trace
from strata.spec.device import find_device
from strata.spec.device_kinds.mechanism import mechanism
from strata.units import NS_PER_MS, NS_PER_S
from strata.validation.check import Section, near, within
from strata.validation.library import RE4

_COUNT = 24_000
_COUNT_QUICK = 8_000
_SECTORS = 64  # of a sequential request
_TEXT = """With its cache on, a drive has a write when the host's transfer is over, until the cache is
full; from then on it takes what the head gets rid of, which is more than without a cache, because it
chooses among many. With the cache off, a write takes a read's time and the longer settling. One after
the other and in order, uncached writes miss their sector and lose a revolution each; reads do not,
because the drive reads ahead."""


def examine(*, quick: bool = False) -> Section:
    """The RE4 with its cache on and off."""
    subject = Subject(find_device(RE4))
    disk = mechanism(subject.device)
    count = _COUNT_QUICK if quick else _COUNT
    cached = random_trace(subject.open(), WRITE, subject.sectors, depth=1, count=count)
    uncached = random_trace(subject.open(), WRITE, subject.sectors, depth=1, count=count // 3, flags=FUA)
    expected_ms = (random_read_ns_mean(disk) + disk.write_settle_ns) / NS_PER_MS
    early_ms = float(np.percentile(cached.latency_ns[:200], 99)) / NS_PER_MS
    full, off = rate_per_s(cached, depth=1, warm_up=0.6), rate_per_s(uncached, depth=1)
    turn_ms = disk.rotation_ns / NS_PER_MS
    checks = (
        within("cached, the first 200: p99", early_ms, 0.0, 1.0, unit="ms"),
        near(
            "uncached, mean",
            float(uncached.latency_ns.mean()) / NS_PER_MS,
            expected_ms,
            part=0.02,
            unit="ms",
        ),
        within("cache full over cache off, random writes", full / off, 1.3, 4.0, unit="×"),
        near(
            "uncached and in order: period of a write",
            _period_ms(subject, WRITE, FUA),
            turn_ms,
            part=0.15,
            unit="ms",
            note="one revolution, and the way to the next track now and then",
        ),
        within("reads in order: period of a read", _period_ms(subject, READ, 0), 0.0, turn_ms / 4, unit="ms"),
        within(
            "cached and in order: period of a write",
            _period_ms(subject, WRITE, 0),
            0.0,
            turn_ms / 4,
            unit="ms",
        ),
    )
    picture = Picture(
        "Random 4-KiB writes, WD RE4",
        "writes",
        "per second",
        (
            Curve("cache on", _over_count(cached)),
            Curve("cache off", ((0.0, off), (float(len(cached.latency_ns)), off)), "theory"),
        ),
        y_log=True,
    )
    return Section("write-cache", "Cached and uncached writes", _TEXT, checks, (picture,))


def _period_ms(subject: Subject, op: int, flags: int) -> float:
    """Between completions of 32-KiB requests in order, one at a time, the middle one of them."""
    sectors = 1 << 20
    places = sectors + _SECTORS * np.arange(400, dtype=np.uint64)
    trace = subject.open().closed_loop(op, places, _SECTORS, depth=1, flags=flags)
    return float(np.median(np.diff(trace.complete_ns.astype(np.int64))[8:])) / NS_PER_MS


def _over_count(trace: Trace) -> tuple[tuple[float, float], ...]:
    ends = np.sort(trace.complete_ns).astype(np.float64)
    edges = np.linspace(0, len(ends) - 1, 60).astype(int)
    rates = np.diff(edges) * NS_PER_S / np.maximum(np.diff(ends[edges]), 1.0)
    return tuple(zip(((edges[1:] + edges[:-1]) / 2).tolist(), rates.tolist(), strict=True))
