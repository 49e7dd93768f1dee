# SPDX-License-Identifier: Apache-2.0
"""Sequential rates by zone: sectors a track over the time of a revolution and its skew."""

from __future__ import annotations

import numpy as np

from strata.datasheet.formulas import sustained_bytes_per_s
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import READ, Subject, sequential_bytes_per_s, sequential_trace
from strata.spec.device import Device, find_device
from strata.spec.device_kinds.mechanism import mechanism
from strata.units import NS_PER_S, SECTOR_BYTES
from strata.validation.check import Check, Section, near, within
from strata.validation.library import RE4, conventional

_BYTES = 32 << 20
_MB = 1e6
_LARGE_SECTORS = (256, 1024, 2560, 8192)
_LARGE_TOTAL = 600_000
_TEXT = """The sustained rate of a zone is its sectors a track times 512 bytes, over the time of one
revolution and one skew. Read in order, 256 KiB at a time and two at once, every zone of every drive
should give it. The outer zones of real drives are 1.9 to 2.3 times as fast as the inner ones."""


def examine(*, quick: bool = False) -> Section:
    """The outermost, a middle and the innermost zone of every conventional drive."""
    checks = []
    for device in conventional():
        worst, formula = _worst_zone(device, quick=quick)
        checks.append(
            near(f"{device.name}: zone furthest from the formula", worst, formula, part=0.015, unit="MB/s")
        )
        checks.append(_large_reads(device))
    drive = find_device(RE4)
    disk = mechanism(drive)
    ratio = sustained_bytes_per_s(disk, 0) / sustained_bytes_per_s(disk, len(disk.zones) - 1)
    checks.append(within(f"{RE4}: outer over inner rate", ratio, 1.9, 2.3, unit="×"))
    shown = tuple(picture for picture in sheet_of(drive, quick=True).pictures() if "rate" in picture.title)
    return Section("zones", "Sequential rate by zone", _TEXT, tuple(checks), shown)


def _worst_zone(device: Device, *, quick: bool) -> tuple[float, float]:
    """Rate and formula, in MB/s, of the zone that differs most."""
    disk, subject = mechanism(device), Subject(device)
    last = len(disk.zones) - 1
    chosen = sorted({0, last // 2, last}) if quick else range(last + 1)
    found = []
    for index in chosen:
        zone = disk.zones[index]
        total = min(_BYTES, zone.sectors * 512 // 2)
        trace = sequential_trace(
            subject.open(),
            READ,
            subject.sectors,
            first_byte=zone.first_sector * 512,
            total_bytes=total,
            depth=2,
        )
        rate = sequential_bytes_per_s(trace, 2)
        found.append((rate / _MB, sustained_bytes_per_s(disk, index) / _MB))
    return max(found, key=lambda pair: abs(pair[0] / pair[1] - 1))


def _large_reads(device: Device) -> Check:
    """However large a read is, it comes no faster than its sectors pass the head."""
    disk, subject = mechanism(device), Subject(device)
    media = sustained_bytes_per_s(disk, 0) / _MB
    rates = []
    for sectors in _LARGE_SECTORS:
        count = _LARGE_TOTAL // sectors
        places = sectors * np.arange(count, dtype=np.uint64)
        trace = subject.open().closed_loop(READ, places, sectors, depth=1)
        spent_ns = int(trace.complete_ns[-1] - trace.complete_ns[0])
        rates.append(sectors * SECTOR_BYTES * (count - 1) * NS_PER_S / spent_ns / _MB)
    return within(
        f"{device.name}: fastest of large reads in order", max(rates), 0.0, 1.03 * media, unit="MB/s"
    )
