# SPDX-License-Identifier: Apache-2.0
"""Write amplification of uniform random writes in the steady state, over the drive's spare room."""

from __future__ import annotations

import numpy as np
from scipy.special import lambertw

from strata.datasheet.measure import BLOCK_BYTES, Curve, Picture, Subject, random_trace
from strata.lab.model import WRITE
from strata.spec.device import find_device
from strata.spec.device_kinds.flash import PRECONDITIONS
from strata.validation.subject import Found, ModelCheck, near, points, subject

_DEVICE = "samsung-pm883-960gb"
_BYTES = 1 << 30
_BYTES_QUICK = 256 << 20
_OVERWRITES = {7.0: 12.0, 12.0: 8.0, 20.0: 6.0, 28.0: 6.0, 50.0: 6.0}
"""Of the capacity, until an empty drive is steady, by its spare room in percent."""


def analytic(spare: float) -> float:
    alpha = 1 + spare
    return float(alpha / (alpha + lambertw(-alpha * np.exp(-alpha), 0).real))


@subject(
    "flash-steady",
    "Flash in the steady state",
    """Under uniform random writing, cleaning settles where each block that is reclaimed holds a certain
share of valid data. With α = cells / capacity, the share of blocks written long ago that is still valid
solves to a write amplification of α / (α + W(−α e<sup>−α</sup>)), W being Lambert's function (Menon 1995;
Desnoyers 2012, for large blocks): greedy cleaning, which the model does, comes to the same for large blocks
and stays a little below with small ones. The rule of thumb is (1 + r) / 2r, r = α − 1. The model's computed
steady state is compared with the formula, and with an empty drive that is overwritten until nothing
changes.""",
)
def flash_steady(quick: bool) -> Found:
    checks: list[ModelCheck] = []
    computed: dict[float, float] = {}
    reached: dict[float, float] = {}
    for percent, overwrites in _OVERWRITES.items():
        if quick and percent < 12:
            continue  # a smaller drive has smaller blocks, which matters most where spare room is least
        now = computed[percent] = _amplification(percent, "steady", 1.0, quick=quick)
        title = f"{percent:g} % spare, computed steady state"
        checks.append(near(title, now, analytic(percent / 100), 0.06, "×"))
        if not quick or percent >= 20:
            then = reached[percent] = _amplification(percent, "none", overwrites, quick=quick)
            checks.append(near(f"{percent:g} % spare, overwritten until steady", then, now, 0.05, "×"))
    grid = np.linspace(5, 55, 40)
    states = {"computed steady state": computed, "overwritten until steady": reached}
    curves = (
        Curve("analytic", points(grid, (analytic(p / 100) for p in grid)), "theory"),
        *(Curve(name, points(found, found.values()), "dots") for name, found in states.items()),
    )
    title = "Write amplification, uniform random writes"
    return checks, [Picture(title, "spare room, % of the capacity", "×", curves)]


def _amplification(percent: float, state: str, overwrites: float, *, quick: bool) -> float:
    """Bytes programmed over bytes written, over the last half of a capacity."""
    used = _BYTES_QUICK if quick else _BYTES
    values = {
        "over_provisioning": percent,
        "precondition": PRECONDITIONS[state],
        "slc_cache": 0,
        "write_buffer": 1,  # a larger one would join writes to the same place
    }
    drive = Subject(find_device(_DEVICE), capacity_bytes=used).with_values(values)
    disk, blocks = drive.open(), used // BLOCK_BYTES
    before = int((overwrites - 0.5) * blocks)
    accounts = []
    for name, count in (("warm-up", before), ("measured", blocks // 2)):
        random_trace(disk, WRITE, drive.sectors, depth=32, count=count, name=name)
        accounts.append(disk.account())
    written, programmed = (accounts[1][k] - accounts[0][k] for k in ("write_bytes", "media_write_bytes"))
    return programmed / written
