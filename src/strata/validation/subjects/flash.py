# SPDX-License-Identifier: Apache-2.0
"""Write amplification: of uniform random writes in the steady state, and of sequential writes after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from scipy.special import lambertw

from strata.datasheet.measure import BLOCK_BYTES, Curve, Picture, Subject, random_trace, sequential_trace
from strata.devices.device import find_device
from strata.devices.kinds.flash import PRECONDITIONS
from strata.lab.model import WRITE
from strata.units import SECTOR_BYTES
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
            then = reached[percent] = _amplification(percent, "fresh", overwrites, quick=quick)
            checks.append(near(f"{percent:g} % spare, overwritten until steady", then, now, 0.05, "×"))
    grid = np.linspace(5, 55, 40)
    states = {"computed steady state": computed, "overwritten until steady": reached}
    curves = (
        Curve("analytic", points(grid, (analytic(p / 100) for p in grid)), "theory"),
        *(Curve(name, points(found, found.values()), "dots") for name, found in states.items()),
    )
    title = "Write amplification, uniform random writes"
    return checks, [Picture(title, "spare room, % of the capacity", "×", curves)]


_SLICES = 8
_PIECES = 4000


def recovering(spare: float) -> list[float]:
    """The write amplification of the first sequential pass after the steady state, in slices of the capacity.

    Blocks are cleaned in the order of their age. The valid shares of the steady state fall exponentially with
    age, and when the part x of the capacity has been overwritten, every block holds 1 - x of them; moved data
    fill blocks completely, and are cleaned again in their turn.
    """
    oldest, piece = 1 - 1 / analytic(spare), (1 + spare) / _PIECES
    blocks = deque((piece, oldest ** (1 - (i + 0.5) / _PIECES)) for i in range(_PIECES))
    written, moved = 0.0, [0.0] * _SLICES
    while written < 1 - 1e-6:
        volume, share = blocks.popleft()
        valid = min(1.0, share * (1 - written))
        moved[min(_SLICES - 1, int(written * _SLICES))] += volume * valid
        blocks.append((volume * valid, 1 / (1 - written)))
        written += volume * (1 - valid)
    return [1 + each * _SLICES for each in moved]


@subject(
    "flash-recovery",
    "Flash recovers when it is written in order",
    """After uniform random writing no block is free of valid data, so a sequential write is as slow as a
random one at first. Each overwritten unit leaves a hole somewhere; when the part x of the capacity has been
overwritten, the blocks of the steady state hold 1 − x of what they held. Cleaning them in the order of their
age gives the expected write amplification. The second pass meets only blocks that were written in order,
which need no cleaning: a drive stays slow until most of it has been overwritten in order.""",
)
def flash_recovery(quick: bool) -> Found:
    checks: list[ModelCheck] = []
    curves: list[Curve] = []
    middles = (np.arange(_SLICES) + 0.5) / _SLICES * 100
    for percent in (20.0, 50.0) if quick else (7.0, 12.0, 20.0, 50.0):
        found, expected = _sequential_passes(percent, quick=quick), recovering(percent / 100)
        for index in (0, _SLICES // 2, _SLICES - 1):
            title = f"{percent:g} % spare, {middles[index]:.0f} % overwritten in order"
            checks.append(near(title, found[index], expected[index], 0.06, "×"))
        checks.append(near(f"{percent:g} % spare, second pass", max(found[_SLICES:]), 1.0, 0.01, "×"))
        theory = Curve(f"theory, {percent:g} % spare", points(middles, expected), "theory")
        curves += [theory, Curve(f"model, {percent:g} % spare", points(middles, found[:_SLICES]), "dots")]
    title = "Write amplification, sequential writes after the steady state"
    return checks, [Picture(title, "% of the capacity overwritten in order", "×", tuple(curves))]


def _drive(percent: float, state: str, *, quick: bool) -> Subject:
    values = {
        "over_provisioning": percent,
        "precondition": PRECONDITIONS[state],
        "refresh_period": 0,  # its programs are not the host's
        "slc_cache": 0,
        "write_buffer": 1,  # a larger one would join writes to the same place
    }
    used = _BYTES_QUICK if quick else _BYTES
    return Subject(find_device(_DEVICE), capacity_bytes=used).with_values(values)


def _sequential_passes(percent: float, *, quick: bool) -> list[float]:
    """Bytes programmed over bytes written, in slices of two sequential passes."""
    drive = _drive(percent, "steady", quick=quick)
    disk, each = drive.open(), drive.sectors // _SLICES
    accounts = [disk.account()]
    for index in range(2 * _SLICES):
        first_byte = index % _SLICES * each * SECTOR_BYTES
        sequential_trace(
            disk, WRITE, drive.sectors, first_byte=first_byte, total_bytes=each * SECTOR_BYTES, depth=8
        )
        accounts.append(disk.account())
    return [_programmed(*pair) for pair in pairwise(accounts)]


def _programmed(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    written, programmed = (after[key] - before[key] for key in ("write_bytes", "media_write_bytes"))
    return programmed / written


def _amplification(percent: float, state: str, overwrites: float, *, quick: bool) -> float:
    """Bytes programmed over bytes written, over the last half of a capacity."""
    drive = _drive(percent, state, quick=quick)
    disk, blocks = drive.open(), drive.sectors * SECTOR_BYTES // BLOCK_BYTES
    before = int((overwrites - 0.5) * blocks)
    accounts = []
    for name, count in (("warm-up", before), ("measured", blocks // 2)):
        random_trace(disk, WRITE, drive.sectors, depth=32, count=count, name=name)
        accounts.append(disk.account())
    return _programmed(*accounts)
