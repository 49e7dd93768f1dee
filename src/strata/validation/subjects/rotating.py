# SPDX-License-Identifier: Apache-2.0
"""Reads of rotating disks against closed forms: service times, queue depth, short-stroking, zones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf

import numpy as np

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.formulas import random_read_ns_mean, sustained_bytes_per_s
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import (
    Subject,
    random_trace,
    rate_per_s,
    sequential_bytes_per_s,
    sequential_trace,
)
from strata.lab.model import READ
from strata.spec.device import Device, find_device
from strata.spec.device_kinds.mechanism import Mechanism, mechanism
from strata.units import NS_PER_MS, NS_PER_S, SECTOR_BYTES, format_share
from strata.validation.subject import RE4, Check, Found, conventional, mean_ms, near, points, subject, within

_MB = 1e6


@subject(
    "service-time",
    "Analytic service times",
    """Service time is overhead + seek + rotational delay + transfer (Ruemmler and Wilkes, 1994). At queue
depth 1 the mean follows in closed form from a drive's parameters: E[seek] over pairs of blocks, outer tracks
holding more of them; half a revolution; and the sectors' share of a track. The model is run with random
4-KiB reads.""",
)
def service_time(quick: bool) -> Found:
    """Every conventional rotating disk of the library."""
    checks: list[Check] = []
    for device in conventional():
        trace = Subject(device).random(READ, depth=1, count=4_000 if quick else 16_000)
        disk = mechanism(device)
        expected_ms = random_read_ns_mean(disk) / NS_PER_MS
        checks.append(near(f"{device.name}: mean", mean_ms(trace), expected_ms, 0.015, "ms"))
        if device.name == RE4:
            rotation_ms = float(trace.part("rotation_ns").mean()) / NS_PER_MS
            half_ms = disk.rotation_ns / 2 / NS_PER_MS
            checks.append(near(f"{RE4}: rotational delay", rotation_ms, half_ms, 0.02, "ms"))
            exact = bool((trace.sum_ns == trace.latency_ns).all())
            title, shown = f"{RE4}: parts that add up to the latency", "all" if exact else "not all"
            checks.append(Check(title, shown, "all", "passed" if exact else "failed"))
    return checks, ()


_DEPTHS = (1, 2, 4, 8, 16, 32)
# An age limit of 500 ms, as the drive has it, costs a tenth at depth 32.
_IDEAL = {"scheduler_window": 32, "scheduler_wait_limit": 100_000}
# Computed beforehand from these drives' seek curves, with an ideal window of 32 (/s at the depths below).
_COMPUTED_DEPTHS = (1, 4, 16, 32)
_COMPUTED = {
    "wd-re3-500gb": (76, 105, 139, 161),
    "wd-re4-500gb": (76, 105, 139, 160),
    "seagate-barracuda-7200-12-500gb": (78, 109, 146, 169),
    "seagate-barracuda-7200-12-500gb-measured": (68, 94, 124, 142),
    "wd-re4-2tb": (76, 105, 141, 164),
    "seagate-constellation-es3-2tb": (78, 110, 149, 174),
    "hgst-ultrastar-hc310-6tb": (86, 121, 171, 203),
    "seagate-exos-x20-20tb": (82, 116, 163, 195),
}


@subject(
    "queue-depth",
    "IOPS against queue depth",
    """A drive with native command queueing takes the command that it reaches first. With an ideal window of
32 commands, shortest positioning time first gains 2.0 to 2.4 times over queue depth 1; rates for eight
drives were computed beforehand from their seek curves alone. Real desktop drives gain less, as if they chose
among 6 to 8: that window is a parameter of the drive. In the model, the command that follows a completion
comes after the drive has chosen its next one, so that of N commands it chooses among N − 1. It is therefore
5 % slower at depth 4.""",
)
def queue_depth(quick: bool) -> Found:
    """The RE4 with its own window and with an ideal one."""
    own = Subject(find_device(RE4))
    best = _rates(own.with_values(_IDEAL), _DEPTHS, quick=quick)
    drive = _rates(own, _DEPTHS, quick=quick)
    least_gain = min(after / before for before, after in pairwise(best.values()))
    checks = [
        within("ideal window of 32: gain of depth 32 over 1", best[32] / best[1], 2.0, 2.4, "×"),
        within("window of 8: gain of depth 32 over 1", drive[32] / drive[1], 1.4, 2.0, "×"),
        within("ideal window: least gain of a doubled depth", least_gain, 1.0, inf, "×"),
        *(_against_computed(name, quick=quick) for name in _COMPUTED),
    ]
    curves = (
        Curve("computed", points(_COMPUTED_DEPTHS, _COMPUTED[RE4]), "theory"),
        Curve("window of 32", points(best, best.values())),
        Curve("window of 8", points(drive, drive.values())),
    )
    return checks, [Picture("Random 4-KiB reads, WD RE4", "queue depth", "per second", curves, x_log=True)]


def _against_computed(name: str, *, quick: bool) -> Check:
    """The depth at which the model with an ideal window differs most from the computed rate."""
    rates = _rates(Subject(find_device(name)).with_values(_IDEAL), _COMPUTED_DEPTHS, quick=quick)
    pairs = dict(zip(_COMPUTED_DEPTHS, _COMPUTED[name], strict=True))
    worst = max(pairs, key=lambda depth: abs(rates[depth] / pairs[depth] - 1))
    return near(f"{name}, ideal window: worst depth ({worst})", rates[worst], pairs[worst], 0.06, "/s")


def _rates(drive: Subject, depths: Iterable[int], *, quick: bool) -> dict[int, float]:
    count = 6_000 if quick else 24_000
    return {d: rate_per_s(drive.random(READ, depth=d, count=count), depth=d) for d in depths}


_SPANS = (1.0, 0.5, 0.25, 0.1, 0.01)
_NO_INTERCEPT_MS = 0.5


@subject(
    "short-stroking",
    "Short-stroking",
    """Reading only the first part of a disk makes seeks shorter, but a real drive gains little: settling on
a track takes 1.5 to 2.5 ms over any distance (Wong, measured on 17 drives). A seek curve that starts at the
track-to-track time of a modern data sheet promises too much. Here the RE4 with its intercept of 2 ms stands
against one that starts at 0.5 ms, with the same mean and full stroke.""",
)
def short_stroking(quick: bool) -> Found:
    """The RE4 with and without its intercept."""
    drive = Subject(find_device(RE4))
    naive = drive.with_values({"seek_intercept": _NO_INTERCEPT_MS, "seek_track_to_track": _NO_INTERCEPT_MS})
    checks: list[Check] = []
    curves, limits = [], []
    for name, tested in (("intercept of 2 ms", drive), ("without", naive)):
        times = {span: _mean_ns(tested, span, quick=quick) for span in _SPANS}
        disk = mechanism(tested.device)
        for span in _SPANS[1:]:
            title, gain = f"{name}: gain of the first {format_share(span)}", times[1.0] / times[span]
            checks.append(near(title, gain, _formula_gain(disk, span), 0.02, "×"))
        gains = {100 * span: times[1.0] / times[span] for span in reversed(_SPANS)}
        curves.append(Curve(name, points(gains, gains.values())))
        limits.append(gains[10.0])
    more = limits[1] / limits[0]
    checks.append(within("how much more the first 10 % promise without", more, 1.05, 2.0, "×"))
    disk = mechanism(drive.device)
    theory = points((100 * s for s in reversed(_SPANS)), (_formula_gain(disk, s) for s in reversed(_SPANS)))
    curves.append(Curve("formula", theory, "theory"))
    title = "Gain of short-stroking, WD RE4"
    return checks, [Picture(title, "part used, %", "× the whole disk", tuple(curves), x_log=True)]


def _mean_ns(drive: Subject, span: float, *, quick: bool) -> float:
    sectors, count = int(drive.sectors * span), 3_000 if quick else 12_000
    return float(random_trace(drive.open(), READ, sectors, depth=1, count=count).latency_ns.mean())


def _formula_gain(disk: Mechanism, span: float) -> float:
    whole, part = (
        random_read_ns_mean(disk, span_bytes=int(disk.sectors * each) * SECTOR_BYTES) for each in (1.0, span)
    )
    return whole / part


_ZONE_BYTES = 32 << 20
_LARGE_SECTORS = (256, 1024, 2560, 8192)
_LARGE_TOTAL = 600_000


@subject(
    "zones",
    "Sequential rate by zone",
    """The sustained rate of a zone is its sectors a track times 512 bytes, over the time of one revolution
and one skew. Every zone of every drive should give it to sequential reads of 256 KiB, two at once. The outer
zones of real drives are 1.9 to 2.3 times as fast as the inner ones.""",
)
def zones(quick: bool) -> Found:
    """The outermost, a middle and the innermost zone of every conventional drive."""
    checks = [check for device in conventional() for check in _zone_checks(device, quick=quick)]
    drive = find_device(RE4)
    disk = mechanism(drive)
    ratio = sustained_bytes_per_s(disk, 0) / sustained_bytes_per_s(disk, len(disk.zones) - 1)
    checks.append(within(f"{RE4}: outer over inner rate", ratio, 1.9, 2.3, "×"))
    return checks, [each for each in sheet_of(drive, quick=True).pictures() if "rate" in each.title]


def _zone_checks(device: Device, *, quick: bool) -> Iterator[Check]:
    """The zone that differs most; and large reads, which come no faster than their sectors pass the head."""
    disk, drive = mechanism(device), Subject(device)
    last = len(disk.zones) - 1
    found = []
    for index in sorted({0, last // 2, last}) if quick else range(last + 1):
        zone = disk.zones[index]
        first, total = zone.first_sector * SECTOR_BYTES, min(_ZONE_BYTES, zone.sectors * SECTOR_BYTES // 2)
        trace = sequential_trace(
            drive.open(), READ, drive.sectors, first_byte=first, total_bytes=total, depth=2
        )
        found.append((sequential_bytes_per_s(trace, 2) / _MB, sustained_bytes_per_s(disk, index) / _MB))
    rate, formula = max(found, key=lambda pair: abs(pair[0] / pair[1] - 1))
    yield near(f"{device.name}: zone furthest from the formula", rate, formula, 0.015, "MB/s")
    rates = []
    for sectors in _LARGE_SECTORS:
        count = _LARGE_TOTAL // sectors
        places = sectors * np.arange(count, dtype=np.uint64)
        trace = drive.open().closed_loop(READ, places, sectors, depth=1)
        spent_ns = int(trace.complete_ns[-1] - trace.complete_ns[0])
        rates.append(sectors * SECTOR_BYTES * (count - 1) * NS_PER_S / spent_ns / _MB)
    media = sustained_bytes_per_s(disk, 0) / _MB
    yield within(f"{device.name}: fastest of large reads in order", max(rates), 0.0, 1.03 * media, "MB/s")
