# SPDX-License-Identifier: Apache-2.0
"""Traces as the driver would have written them, made from a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from strata.traces.kinds import FLAGS, KINDS, OPS, TIME_PARTS
from strata.traces.table import RECORD, Records, Trace

MS = 1_000_000
_OPS = {"flush": "flush", "discard": "discard", "read": "read", "read_metadata": "read"}


def request(
    arrival_ns: int,
    *,
    kind: str = "write_sync",
    sector: int = 0,
    sectors: int = 8,
    disk: int = 1,
    outstanding: int = 1,
    flags: Iterable[str] = (),
    **parts: int,
) -> dict[str, Any]:
    """One request: its parts by name without the unit, such as ``seek=4 * MS``; they make up its latency."""
    times = {f"{name}_ns": value for name, value in parts.items()}
    assert set(times) <= set(TIME_PARTS)
    return {
        "arrival_ns": arrival_ns,
        "complete_ns": arrival_ns + sum(times.values()),
        "sector": sector,
        "sectors": sectors,
        "op": OPS.index(_OPS.get(kind, "write")),
        "kind": KINDS.index(kind),
        "flags": sum(1 << FLAGS.index(name) for name in flags),
        "disk": disk,
        "outstanding": outstanding,
        **times,
    }


def records(*requests: dict[str, Any]) -> Records:
    """Requests as records, by completion."""
    made = np.zeros(len(requests), dtype=RECORD)
    for row, each in zip(made, sorted(requests, key=lambda one: one["complete_ns"]), strict=True):
        for name, value in each.items():
            row[name] = value
    return made


def trace(*requests: dict[str, Any]) -> Trace:
    """A trace of one disk beside the root image."""
    return Trace(records(*requests), ("rootimage", "disk0"))
