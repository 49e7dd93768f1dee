# SPDX-License-Identifier: Apache-2.0
"""Flushes after N scattered writes: an intercept and a slope."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.measure import Subject, flush_trace
from strata.spec.device import find_device
from strata.units import NS_PER_MS
from strata.validation.check import Section, within
from strata.validation.library import RE4

_WRITES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
_ROUNDS = 120
_ROUNDS_QUICK = 30
_TEXT = """A flush waits until all that was acknowledged is on the platters. After one write that is a
random write: 12 to 16 ms were measured in production on a drive of 7200 rpm (Hitachi 7K8xx). After N
scattered writes the drive chooses the nearest of what it holds, so that each further write costs less
than the first: an intercept and a slope, both behaviour of the model rather than constants."""


def examine(*, quick: bool = False) -> Section:
    """The RE4 from one write to 64."""
    subject = Subject(find_device(RE4))
    rounds = _ROUNDS_QUICK if quick else _ROUNDS
    found = {
        n: float(flush_trace(subject.open(), subject.sectors, writes=n, rounds=rounds)[0].mean()) / NS_PER_MS
        for n in _WRITES
    }
    counts, times = np.array(list(found), float), np.array(list(found.values()))
    slope, intercept = (float(value) for value in np.polyfit(counts, times, 1))
    fitted = intercept + slope * counts
    explained = 1 - float(((times - fitted) ** 2).sum() / ((times - times.mean()) ** 2).sum())
    values = list(found.values())
    least = min(after - before for before, after in pairwise(values))
    checks = (
        within("flush after one write", found[1], 12.0, 16.0, unit="ms", note="as measured on real drives"),
        within("flush after 64 writes", found[64], 64 * 3.0, 64 * found[1], unit="ms"),
        within("fitted slope, a write", slope, 3.0, found[1], unit="ms"),
        within("fitted intercept", intercept, 0.0, 4 * found[1], unit="ms"),
        within("part of the variance that the line explains", explained, 0.98, 1.0),
        within("least step from one N to the next", least, 0.0, float("inf"), unit="ms"),
    )
    picture = Picture(
        "Flush after N scattered writes, WD RE4",
        "writes since the last flush",
        "ms",
        (
            Curve(
                f"{intercept:.1f} + {slope:.2f} N ms",
                tuple(zip(counts.tolist(), fitted.tolist(), strict=True)),
                "theory",
            ),
            Curve("model", tuple((float(n), value) for n, value in found.items()), "dots"),
        ),
    )
    return Section("flush", "Flush after N scattered writes", _TEXT, checks, (picture,))
