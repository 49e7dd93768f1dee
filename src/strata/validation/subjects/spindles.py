# SPDX-License-Identifier: Apache-2.0
"""Several rotating disks that serve one request together, against the greatest of random angles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.datasheet.formulas import random_read_ns_mean
from strata.datasheet.measure import Curve, Picture, Subject, random_blocks
from strata.devices.device import Device, find_device
from strata.devices.kinds.mechanism import Mechanism, mechanism
from strata.lab.disk import driver_config
from strata.lab.model import FUA, READ, WRITE, ModelledDisk
from strata.seeds import derive_seed
from strata.units import NS_PER_MS, SECTOR_BYTES
from strata.validation.subject import RE4, Found, ModelCheck, near, points, subject

_WIDTHS = (1, 2, 4)
_REQUESTS = 30  # of each array, since the angle between its spindles changes slowly
_WRITE_BYTES, _CHUNK_BYTES = 4096, 65536


@subject(
    "spindles",
    "Mirrors and stripes of several spindles",
    """Each drive starts at an angle of its own and turns at a speed of its own. A request that n spindles
serve together ends with the slowest of them, whose rotational delay is the greatest of n uniform ones: on
average n / (n + 1) of a turn. In step, as drives of a simulation easily are, they would wait half a turn,
however many. A mirror of n writes 4 KiB to the same place of each drive and waits for all; a stripe of n
reads a chunk of 64 KiB of each. The next request begins when the last one has ended.""",
)
def spindles(quick: bool) -> Found:
    device = find_device(RE4)
    disk = mechanism(device)
    checks: list[ModelCheck] = []
    curves = []
    for kind, op, flags, size in (("mirror", WRITE, FUA, _WRITE_BYTES), ("stripe", READ, 0, _CHUNK_BYTES)):
        known, found = {}, {}
        for width in _WIDTHS:
            expected = _expected_ns(disk, width, size) + (disk.write_settle_ns if op == WRITE else 0)
            known[width] = expected / NS_PER_MS
            request = op, flags, size // SECTOR_BYTES
            found[width] = _mean_ns(device, width, 50 if quick else 300, request) / NS_PER_MS
            what = "uncached write of 4 KiB" if op == WRITE else f"read of {width * size >> 10} KiB"
            title = f"{kind} of {width}: {what}"
            checks.append(near(title, found[width], known[width], 0.03 if quick else 0.02, "ms"))
        curves.append(Curve(f"{kind}, formula", points(known, known.values()), "theory"))
        curves.append(Curve(kind, points(found, found.values()), "dots"))
    return checks, [Picture("Requests that all spindles serve, WD RE4", "spindles", "ms", tuple(curves))]


def _expected_ns(disk: Mechanism, width: int, size: int) -> float:
    greatest = width / (width + 1)
    return random_read_ns_mean(disk, block_bytes=size) + (greatest - 1 / 2) * disk.rotation_ns


def _mean_ns(device: Device, width: int, arrays: int, request: tuple[int, int, int]) -> float:
    """The mean time of a request over several arrays, one request after the other."""
    total_ns = 0
    for array in range(arrays):
        seeds = (derive_seed(array, "spindle", str(member)) for member in range(width))
        members = [ModelledDisk(driver_config(device, name="sda", backing_fd=3, seed=seed)) for seed in seeds]
        places = random_blocks(Subject(device).sectors, _REQUESTS, f"spindles-{array}")
        total_ns += _served_ns(members, places, request)
    return total_ns / arrays / _REQUESTS


def _served_ns(members: Sequence[ModelledDisk], places: np.ndarray, request: tuple[int, int, int]) -> int:
    op, flags, sectors = request
    now = 0
    for place in places // sectors * sectors:
        each = (one.closed_loop(op, [place], sectors, depth=1, start_ns=now, flags=flags) for one in members)
        now = max(int(trace.complete_ns[0]) for trace in each)
    return now
