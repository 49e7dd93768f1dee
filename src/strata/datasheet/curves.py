# SPDX-License-Identifier: Apache-2.0
"""Curves of a device: rates over queue depth, over place, over the bytes written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from strata.datasheet.measure import BLOCK_BYTES
from strata.lab.model import Trace
from strata.units import NS_PER_S

_WINDOWS: Final = 80


@dataclass(frozen=True)
class Curve:
    """One curve: ``style`` is ``line``, ``dots``, ``steps`` or ``theory``."""

    name: str
    points: tuple[tuple[float, float], ...]
    style: str = "line"


@dataclass(frozen=True)
class Picture:
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    x_log: bool = False
    y_log: bool = False


def rates(trace: Trace, windows: int) -> tuple[Sequence[float], Sequence[float]]:
    """Completions per second in windows of equally many I/Os: the windows' ends as indices, and rates."""
    ends = np.sort(trace.complete_ns).astype(np.float64)
    edges = np.linspace(0, len(ends) - 1, windows + 1).astype(int)
    found = np.diff(edges) * NS_PER_S / np.maximum(np.diff(ends[edges]), 1.0)
    return edges.tolist(), found.tolist()


def rate_over_writes(trace: Trace, used_bytes: int) -> list[tuple[float, float]]:
    """The rate of 4-KiB writes over the written bytes, in units of ``used_bytes``."""
    edges, found = rates(trace, _WINDOWS)
    middles = ((first + last) / 2 * BLOCK_BYTES / used_bytes for first, last in pairwise(edges))
    return list(zip(middles, found, strict=True))
