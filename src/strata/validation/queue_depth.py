# SPDX-License-Identifier: Apache-2.0
"""Random reads against queue depth: what choosing the nearest of several commands gains."""

from __future__ import annotations

from itertools import pairwise

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.measure import READ, Subject, random_trace, rate_per_s
from strata.spec.device import find_device
from strata.validation.check import Check, Section, near, within
from strata.validation.library import RE4

_DEPTHS = (1, 2, 4, 8, 16, 32)
# An age limit of 500 ms, as the drive has it, costs a tenth at depth 32.
_IDEAL = {"scheduler_window": 32, "scheduler_wait_limit": 100_000}
_COUNT = 24_000
_COUNT_QUICK = 6_000
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
_TEXT = """A drive with native command queueing takes the command that it reaches first. With an ideal window
of 32 commands, shortest positioning time first gains 2.0 to 2.4 times over queue depth 1; rates for eight
drives were computed beforehand from their seek curves alone. Real desktop drives gain less, as if they chose
among 6 to 8: that window is a parameter of the drive. In the model, the command that follows a completion
comes after the drive has chosen its next one, so that of N commands it chooses among N − 1: the 5 % that it
is slower at depth 4."""


def examine(*, quick: bool = False) -> Section:
    """The RE4 with its own window and with an ideal one."""
    own = Subject(find_device(RE4))
    ideal = own.with_values(_IDEAL)
    rates = {
        name: {depth: _rate(subject, depth, quick=quick) for depth in _DEPTHS}
        for name, subject in (("window of 32", ideal), ("window of 8", own))
    }
    best, drive = rates["window of 32"], rates["window of 8"]
    checks = [
        within("ideal window of 32: gain of depth 32 over 1", best[32] / best[1], 2.0, 2.4, unit="×"),
        within("window of 8: gain of depth 32 over 1", drive[32] / drive[1], 1.4, 2.0, unit="×"),
        within("ideal window: least gain of a doubled depth", _least_gain(best), 1.0, float("inf"), unit="×"),
        *(_against_computed(name, quick=quick) for name in _COMPUTED),
    ]
    curves = [
        Curve("computed", tuple(zip(map(float, _COMPUTED_DEPTHS), _COMPUTED[RE4], strict=True)), "theory"),
        *(
            Curve(name, tuple((float(depth), rate) for depth, rate in found.items()))
            for name, found in rates.items()
        ),
    ]
    picture = Picture("Random 4-KiB reads, WD RE4", "queue depth", "per second", tuple(curves), x_log=True)
    return Section("queue-depth", "IOPS against queue depth", _TEXT, tuple(checks), (picture,))


def _against_computed(name: str, *, quick: bool) -> Check:
    """The depth at which the model with an ideal window differs most from what was computed."""
    subject = Subject(find_device(name)).with_values(_IDEAL)
    rates = {depth: _rate(subject, depth, quick=quick) for depth in _COMPUTED_DEPTHS}
    pairs = dict(zip(_COMPUTED_DEPTHS, _COMPUTED[name], strict=True))
    worst = max(pairs, key=lambda depth: abs(rates[depth] / pairs[depth] - 1))
    title = f"{name}, ideal window: worst depth ({worst})"
    return near(title, rates[worst], pairs[worst], part=0.06, unit="/s")


def _rate(subject: Subject, depth: int, *, quick: bool) -> float:
    count = _COUNT_QUICK if quick else _COUNT
    trace = random_trace(subject.open(), READ, subject.sectors, depth=depth, count=count)
    return rate_per_s(trace, depth=depth)


def _least_gain(rates: dict[int, float]) -> float:
    values = list(rates.values())
    return min(after / before for before, after in pairwise(values))
