# SPDX-License-Identifier: Apache-2.0
"""Write amplification of uniform random writes in the steady state, over the drive's spare room."""

from __future__ import annotations

import numpy as np
from scipy.special import lambertw

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.measure import WRITE, Subject, random_trace
from strata.spec.device import find_device
from strata.spec.device_kinds.flash import PRECONDITIONS
from strata.validation.check import Check, Section, near

_DEVICE = "samsung-pm883-960gb"
_SPARE_PERCENT = (7.0, 12.0, 20.0, 28.0, 50.0)
_BYTES = 1 << 30
_BYTES_QUICK = 256 << 20
_OVERWRITES = {7.0: 12.0, 12.0: 8.0}  # of the capacity, until an empty drive is steady; else
_OVERWRITES_ELSE = 6.0
_TEXT = """Under uniform random writing, cleaning settles where each block that is reclaimed holds a
certain share of valid data. With α = cells / capacity, the share of blocks written long ago that is
still valid solves to a write amplification of α / (α + W(−α e<sup>−α</sup>)), W being Lambert's
function (Menon 1995; Desnoyers 2012, for large blocks): greedy cleaning, which the model does, comes to
the same for large blocks and stays a little below with small ones. The rule of thumb is (1 + r) / 2r, r
= α − 1. Compared are the model's computed steady state, and what it comes to when an empty drive is
overwritten until nothing changes."""


def analytic(spare: float) -> float:
    """Write amplification for cells = (1 + spare) capacity."""
    alpha = 1 + spare
    return float(alpha / (alpha + lambertw(-alpha * np.exp(-alpha), 0).real))


def examine(*, quick: bool = False) -> Section:
    """One drive with several amounts of spare room."""
    checks: list[Check] = []
    found: dict[str, list[tuple[float, float]]] = {
        "computed steady state": [],
        "overwritten until steady": [],
    }
    for percent in _SPARE_PERCENT:
        if quick and percent < 12:
            continue  # a smaller drive has smaller blocks, which matters most where spare room is least
        expected = analytic(percent / 100)
        computed = _amplification(percent, "steady", 1.0, quick=quick)
        found["computed steady state"].append((percent, computed))
        checks.append(
            near(f"{percent:g} % spare, computed steady state", computed, expected, part=0.06, unit="×")
        )
        if quick and percent < 20:
            continue
        reached = _amplification(percent, "none", _OVERWRITES.get(percent, _OVERWRITES_ELSE), quick=quick)
        found["overwritten until steady"].append((percent, reached))
        checks.append(
            near(f"{percent:g} % spare, overwritten until steady", reached, computed, part=0.05, unit="×")
        )
    grid = np.linspace(5, 55, 40)
    picture = Picture(
        "Write amplification, uniform random writes",
        "spare room, % of the capacity",
        "×",
        (
            Curve("analytic", tuple((float(p), analytic(p / 100)) for p in grid), "theory"),
            *(Curve(name, tuple(points), "dots") for name, points in found.items()),
        ),
    )
    return Section("flash-steady", "Flash in the steady state", _TEXT, tuple(checks), (picture,))


def _amplification(percent: float, state: str, overwrites: float, *, quick: bool) -> float:
    """Bytes programmed over bytes written, over the last half of a capacity."""
    used = _BYTES_QUICK if quick else _BYTES
    subject = Subject(find_device(_DEVICE), capacity_bytes=used).with_values(
        {
            "over_provisioning": percent,
            "precondition": PRECONDITIONS[state],
            "slc_cache": 0,
            "write_buffer": 1,  # a larger one would join writes to the same place
        }
    )
    disk = subject.open()
    blocks = used // 4096
    random_trace(
        disk, WRITE, subject.sectors, depth=32, count=int((overwrites - 0.5) * blocks), name="warm-up"
    )
    before = disk.account()
    random_trace(disk, WRITE, subject.sectors, depth=32, count=blocks // 2, name="measured")
    after = disk.account()
    written = after["write_bytes"] - before["write_bytes"]
    return (after["media_write_bytes"] - before["media_write_bytes"]) / written
