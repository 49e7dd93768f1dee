# SPDX-License-Identifier: Apache-2.0
"""Using only the outer part of a disk: how much the settling of the head leaves to gain."""

from __future__ import annotations

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.formulas import random_read_ns_mean
from strata.datasheet.measure import READ, Subject, random_trace
from strata.spec.device import find_device
from strata.spec.device_kinds.mechanism import Mechanism, mechanism
from strata.units import format_share
from strata.validation.check import Check, Section, near, within
from strata.validation.library import RE4

_SPANS = (1.0, 0.5, 0.25, 0.1, 0.01)
_COUNT = 12_000
_COUNT_QUICK = 3_000
_NO_INTERCEPT_MS = 0.5
_TEXT = """Reading only the first part of a disk makes seeks shorter, but a real drive gains little from
it: settling on a track takes 1.5 to 2.5 ms however short the way (Wong, measured on 17 drives). A seek
curve that starts at the track-to-track time of a modern data sheet promises too much. Here the RE4 with
its intercept of 2 ms stands against one that starts at 0.5 ms, with the same mean and full stroke."""


def examine(*, quick: bool = False) -> Section:
    """The RE4 with and without its intercept."""
    drive = Subject(find_device(RE4))
    naive = drive.with_values({"seek_intercept": _NO_INTERCEPT_MS, "seek_track_to_track": _NO_INTERCEPT_MS})
    gains: dict[str, list[tuple[float, float]]] = {}
    theory: list[tuple[float, float]] = []
    checks: list[Check] = []
    for name, subject in (("intercept of 2 ms", drive), ("without", naive)):
        times = {span: _mean_ns(subject, span, quick=quick) for span in _SPANS}
        gains[name] = [(100 * span, times[1.0] / times[span]) for span in reversed(_SPANS)]
        disk = mechanism(subject.device)
        for span in _SPANS[1:]:
            expected = _formula_ns(disk, 1.0) / _formula_ns(disk, span)
            checks.append(
                near(
                    f"{name}: gain of the first {format_share(span)}",
                    times[1.0] / times[span],
                    expected,
                    part=0.02,
                    unit="×",
                )
            )
        if subject is drive:
            theory = [
                (100 * span, _formula_ns(disk, 1.0) / _formula_ns(disk, span)) for span in reversed(_SPANS)
            ]
    limited, exaggerated = (dict(gains[name])[10.0] for name in gains)
    checks.append(
        within("how much more the first 10 % promise without", exaggerated / limited, 1.05, 2.0, unit="×")
    )
    curves = (
        *(Curve(name, tuple(points)) for name, points in gains.items()),
        Curve("formula", tuple(theory), "theory"),
    )
    picture = Picture(
        "Gain of short-stroking, WD RE4", "part used, %", "× the whole disk", curves, x_log=True
    )
    return Section("short-stroking", "Short-stroking", _TEXT, tuple(checks), (picture,))


def _mean_ns(subject: Subject, span: float, *, quick: bool) -> float:
    count = _COUNT_QUICK if quick else _COUNT
    sectors = int(subject.sectors * span)
    return float(random_trace(subject.open(), READ, sectors, depth=1, count=count).latency_ns.mean())


def _formula_ns(disk: Mechanism, span: float) -> float:
    return random_read_ns_mean(disk, span_bytes=int(disk.sectors * span) * 512)
