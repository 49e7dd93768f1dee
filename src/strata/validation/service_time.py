# SPDX-License-Identifier: Apache-2.0
"""Random reads one at a time: overhead + E[seek] + half a revolution + transfer."""

from __future__ import annotations

from strata.datasheet.formulas import random_read_ns_mean
from strata.datasheet.measure import READ, Subject, random_trace
from strata.spec.device_kinds.mechanism import mechanism
from strata.units import NS_PER_MS
from strata.validation.check import Check, Section, near
from strata.validation.library import RE4, conventional

_COUNT = 16_000
_COUNT_QUICK = 4_000
_TEXT = """Service time is overhead + seek + rotational delay + transfer (Ruemmler and Wilkes, 1994). At
queue depth 1 the mean follows in closed form from a drive's parameters: E[seek] over pairs of blocks,
outer tracks holding more of them; half a revolution; and the sectors' share of a track. The model is
run with random 4-KiB reads."""


def examine(*, quick: bool = False) -> Section:
    """Every conventional rotating disk of the library."""
    checks: list[Check] = []
    count = _COUNT_QUICK if quick else _COUNT
    for device in conventional():
        subject = Subject(device)
        trace = random_trace(subject.open(), READ, subject.sectors, depth=1, count=count)
        disk = mechanism(device)
        expected_ms = random_read_ns_mean(disk) / NS_PER_MS
        found_ms = float(trace.latency_ns.mean()) / NS_PER_MS
        checks.append(near(f"{device.name}: mean", found_ms, expected_ms, part=0.015, unit="ms"))
        if device.name == RE4:
            rotation_ms = float(trace.part("rotation_ns").mean()) / NS_PER_MS
            half_ms = disk.rotation_ns / 2 / NS_PER_MS
            checks.append(
                near(f"{device.name}: rotational delay", rotation_ms, half_ms, part=0.02, unit="ms")
            )
            exact = bool((trace.sum_ns == trace.latency_ns).all())
            checks.append(
                Check(
                    f"{device.name}: parts that add up to the latency",
                    "all" if exact else "not all",
                    "all",
                    "passed" if exact else "failed",
                )
            )
    return Section("service-time", "Analytic service times", _TEXT, tuple(checks))
