# SPDX-License-Identifier: Apache-2.0
"""Rotating disks: reads and writes against theory, and the HP 97560 of the literature."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf

import numpy as np

from strata.datasheet.formulas import random_read_ns_mean, sustained_bytes_per_s
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import (
    Curve,
    Picture,
    Subject,
    flush_trace,
    random_trace,
    rate_per_s,
    rates,
    sequential_bytes_per_s,
    sequential_trace,
)
from strata.devices.device import Device, find_device
from strata.devices.kinds.mechanism import Mechanism, mechanism
from strata.lab.model import FUA, READ, WRITE
from strata.units import NS_PER_MS, NS_PER_S, SECTOR_BYTES, format_share
from strata.validation.subject import (
    RE4,
    Found,
    ModelCheck,
    conventional,
    mean_ms,
    near,
    points,
    subject,
    within,
)

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
    checks: list[ModelCheck] = []
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
            checks.append(ModelCheck(title, shown, "all", "passed" if exact else "failed"))
    return checks, ()


_DEPTHS = (1, 2, 4, 8, 16, 32)
_IDEAL = {"scheduler_window": 32, "scheduler_wait_limit": 100_000, "positioning_margin": 0.0}
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
drives were computed beforehand from their seek curves alone. Real drives gain 1.4 to 1.8 times, because they
leave out what they might just miss: that margin is a parameter of the drive. In the model, the command that
follows a completion comes after the drive has chosen its next one, so that of N commands it chooses among
N − 1. It is therefore 5 % slower at depth 4.""",
)
def queue_depth(quick: bool) -> Found:
    own = Subject(find_device(RE4))
    best = _rates(own.with_values(_IDEAL), _DEPTHS, quick=quick)
    drive = _rates(own, _DEPTHS, quick=quick)
    least_gain = min(after / before for before, after in pairwise(best.values()))
    checks = [
        within("ideal window of 32: gain of depth 32 over 1", best[32] / best[1], 2.0, 2.4, "×"),
        within("as it is: gain of depth 32 over 1", drive[32] / drive[1], 1.4, 1.9, "×"),
        within("ideal window: least gain of a doubled depth", least_gain, 1.0, inf, "×"),
        *(_against_computed(name, quick=quick) for name in _COMPUTED),
    ]
    curves = (
        Curve("computed", points(_COMPUTED_DEPTHS, _COMPUTED[RE4]), "theory"),
        Curve("ideal", points(best, best.values())),
        Curve("as it is", points(drive, drive.values())),
    )
    return checks, [Picture("Random 4-KiB reads, WD RE4", "queue depth", "per second", curves, x_log=True)]


def _against_computed(name: str, *, quick: bool) -> ModelCheck:
    """The depth at which the model with an ideal window differs most from the computed rate."""
    rates = _rates(Subject(find_device(name)).with_values(_IDEAL), _COMPUTED_DEPTHS, quick=quick)
    pairs = dict(zip(_COMPUTED_DEPTHS, _COMPUTED[name], strict=True))
    worst = max(pairs, key=lambda depth: abs(rates[depth] / pairs[depth] - 1))
    return near(f"{name}, ideal window: worst depth ({worst})", rates[worst], pairs[worst], 0.06, "/s")


def _rates(drive: Subject, depths: Iterable[int], *, quick: bool) -> dict[int, float]:
    count = 6_000 if quick else 24_000
    return {d: rate_per_s(drive.random(READ, depth=d, count=count), depth=d) for d in depths}


_SPANS = (1.0, 0.5, 0.25, 0.1, 0.01)


@subject(
    "short-stroking",
    "Short-stroking",
    """Reading only the first part of a disk makes seeks shorter, but a real drive gains little: settling on
a track takes 1.5 to 2.5 ms over any distance (Wong, measured on 17 drives). A seek curve that starts at the
track-to-track time of a modern data sheet promises too much. Here the RE4 with its intercept of 2 ms stands
against one that starts at 0.5 ms, with the same mean and full stroke.""",
)
def short_stroking(quick: bool) -> Found:
    drive = Subject(find_device(RE4))
    naive = drive.with_values({"seek_intercept": 0.5, "seek_track_to_track": 0.5})
    checks: list[ModelCheck] = []
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
    part_bytes = int(disk.sectors * span) * SECTOR_BYTES
    return random_read_ns_mean(disk) / random_read_ns_mean(disk, span_bytes=part_bytes)


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
    checks = [check for device in conventional() for check in _zone_checks(device, quick=quick)]
    drive = find_device(RE4)
    disk = mechanism(drive)
    ratio = sustained_bytes_per_s(disk, 0) / sustained_bytes_per_s(disk, len(disk.zones) - 1)
    checks.append(within(f"{RE4}: outer over inner rate", ratio, 1.9, 2.3, "×"))
    return checks, [each for each in sheet_of(drive, quick=True).pictures() if "rate" in each.title]


def _zone_checks(device: Device, *, quick: bool) -> Iterator[ModelCheck]:
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
        places = np.arange(0, _LARGE_TOTAL // sectors * sectors, sectors, dtype=np.uint64)
        complete_ns = drive.open().closed_loop(READ, places, sectors, depth=1).complete_ns
        spent_s = int(complete_ns[-1] - complete_ns[0]) / NS_PER_S
        rates.append(sectors * SECTOR_BYTES * (len(places) - 1) / spent_s / _MB)
    media = sustained_bytes_per_s(disk, 0) / _MB
    yield within(f"{device.name}: fastest of large reads in order", max(rates), 0.0, 1.03 * media, "MB/s")


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
    drive = Subject(find_device(RE4))
    disk = mechanism(drive.device)
    count = 8_000 if quick else 24_000
    cached = drive.random(WRITE, depth=1, count=count)
    uncached = drive.random(WRITE, depth=1, count=count // 3, flags=FUA)
    expected_ms = (random_read_ns_mean(disk) + disk.write_settle_ns) / NS_PER_MS
    early_ms = float(np.percentile(cached.latency_ns[:100], 99)) / NS_PER_MS
    full, off = rate_per_s(cached, depth=1, warm_up=0.6), rate_per_s(uncached, depth=1)
    turn_ms = disk.rotation_ns / NS_PER_MS
    period = "uncached and in order: period of a write"
    note = "one revolution, and now and then a track switch"
    checks = (
        within("cached, the first 100: p99", early_ms, 0.0, 1.0, "ms"),
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
    drive = Subject(find_device(RE4))
    found = {}
    for n in _FLUSH_WRITES:
        flushes, _ = flush_trace(drive.open(), drive.sectors, writes=n, rounds=30 if quick else 120)
        found[n] = float(flushes.mean()) / NS_PER_MS
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
    title = "Flush after N scattered writes, WD RE4"
    return checks, [Picture(title, "writes since the last flush", "ms", curves)]


_CYLINDERS = 1962
_HEADS = 19
_TRACK_SECTORS = 72
_ROTATION_MS = 60_000 / 4002
_OVERHEAD_MS = 2.2
_TRACK_SKEW = 8
_LINK_MB_PER_S = 10
_BLOCK_SECTORS = 8


def published_seek_ms(cylinders: int) -> float:
    if cylinders <= 0:
        return 0.0
    return 3.24 + 0.400 * math.sqrt(cylinders) if cylinders <= 383 else 8.00 + 0.008 * cylinders


def published_service_ms() -> float:
    """Random 4-KiB reads by the published parameters; within a cylinder, a track switch is the seek."""
    pairs = ((d, (2 if d else 1) * (_CYLINDERS - d) / _CYLINDERS**2) for d in range(_CYLINDERS))
    switch_ms = 1.6 * (_HEADS - 1) / _HEADS
    seek_ms = sum(share * (published_seek_ms(d) if d else switch_ms) for d, share in pairs)
    sector_ms = _ROTATION_MS / _TRACK_SECTORS
    crossing_ms = (_BLOCK_SECTORS - 1) / _TRACK_SECTORS * _TRACK_SKEW * sector_ms
    last_sector_ms = 512 / (_LINK_MB_PER_S * 1000)
    transfer_ms = _BLOCK_SECTORS * sector_ms + crossing_ms + last_sector_ms
    return _OVERHEAD_MS + seek_ms + _ROTATION_MS / 2 + transfer_ms


@subject(
    "hp-97560",
    "The HP 97560 of the literature",
    """Seek time over d cylinders is 3.24 + 0.400 √d ms up to 383 cylinders and 8.00 + 0.008 d from there
(Ruemmler and Wilkes, 1994; Kotz and others, 1994). 1962 cylinders, 19 heads, 72 sectors a track, 4002 rpm,
2.2 ms of overhead. The model has one axis of tracks, 19 of which make a cylinder. The service time of random
reads is computed here from these numbers alone, over all pairs of cylinders.""",
)
def hp_97560(quick: bool) -> Found:
    drive = Subject(find_device("hp-97560"))
    disk = drive.open()

    def model_ms(cylinders: int) -> float:
        return disk.seek_ns(cylinders * _HEADS) / NS_PER_MS

    worst = max(range(1, _CYLINDERS), key=lambda d: abs(model_ms(d) / published_seek_ms(d) - 1))
    service_ms = mean_ms(drive.random(READ, depth=1, count=4_000 if quick else 20_000))
    title = f"worst seek of all distances ({worst} cylinders)"
    checks = [
        *(
            near(f"seek over {d} cylinders", model_ms(d), published_seek_ms(d), 0.01, "ms")
            for d in (1, 10, 100, 383, 384, 1000, 1961)
        ),
        near(title, model_ms(worst), published_seek_ms(worst), 0.02, "ms"),
        near("service time, random 4-KiB reads", service_ms, published_service_ms(), 0.015, "ms"),
    ]
    every, some = range(1, _CYLINDERS, 20), range(1, _CYLINDERS, 60)
    curves = (
        Curve("published", points(every, map(published_seek_ms, every)), "theory"),
        Curve("model", points(some, map(model_ms, some)), "dots"),
    )
    return checks, [Picture("Seek time of the HP 97560", "distance, cylinders", "ms", curves)]
