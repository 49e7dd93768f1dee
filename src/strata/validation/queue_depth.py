# SPDX-License-Identifier: Apache-2.0
"""Random reads against queue depth: what choosing the nearest of several commands gains."""

from __future__ import annotations

from itertools import pairwise

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.measure import READ, Subject, random_trace, rate_per_s
from strata.spec.device import find_device
from strata.validation.check import Section, near, within
from strata.validation.library import RE4

_DEPTHS = (1, 2, 4, 8, 16, 32)
_NO_LIMIT_MS = 100_000  # an age limit of 500 ms, as the drive has it, costs a tenth at depth 32
_COUNT = 24_000
_COUNT_QUICK = 6_000
# Computed for this drive's seek curve with an ideal window of 32.
_COMPUTED = {1: 76.0, 4: 105.0, 16: 139.0, 32: 160.0}
_TEXT = """A drive with native command queueing takes the command that it reaches first. With an ideal
window of 32 commands, shortest positioning time first gains 2.0 to 2.4 times over queue depth 1, as
simulation shows; the rates in the table were computed for the RE4's seek curve. Real desktop drives
gain less, as if they chose among 6 to 8: that window is a parameter of the drive."""


def examine(*, quick: bool = False) -> Section:
    """The RE4 with its own window and with an ideal one."""
    own = Subject(find_device(RE4))
    ideal = own.with_values({"scheduler_window": 32, "scheduler_wait_limit": _NO_LIMIT_MS})
    rates = {
        name: {depth: _rate(subject, depth, quick=quick) for depth in _DEPTHS}
        for name, subject in (("window of 32", ideal), ("window of 8", own))
    }
    best, drive = rates["window of 32"], rates["window of 8"]
    checks = [
        within("ideal window of 32: gain of depth 32 over 1", best[32] / best[1], 2.0, 2.4, unit="×"),
        within("window of 8: gain of depth 32 over 1", drive[32] / drive[1], 1.4, 2.0, unit="×"),
        within("ideal window: least gain of a doubled depth", _least_gain(best), 1.0, float("inf"), unit="×"),
        *(
            near(f"ideal window: depth {depth}", best[depth], rate, part=0.06, unit="/s")
            for depth, rate in _COMPUTED.items()
        ),
    ]
    curves = [
        Curve("computed", tuple((float(depth), rate) for depth, rate in _COMPUTED.items()), "theory"),
        *(
            Curve(name, tuple((float(depth), rate) for depth, rate in found.items()))
            for name, found in rates.items()
        ),
    ]
    picture = Picture("Random 4-KiB reads, WD RE4", "queue depth", "per second", tuple(curves), x_log=True)
    return Section("queue-depth", "IOPS against queue depth", _TEXT, tuple(checks), (picture,))


def _rate(subject: Subject, depth: int, *, quick: bool) -> float:
    count = _COUNT_QUICK if quick else _COUNT
    trace = random_trace(subject.open(), READ, subject.sectors, depth=depth, count=count)
    return rate_per_s(trace, depth=depth)


def _least_gain(rates: dict[int, float]) -> float:
    values = list(rates.values())
    return min(after / before for before, after in pairwise(values))
