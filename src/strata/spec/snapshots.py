# SPDX-License-Identifier: Apache-2.0
"""A workload's snapshots of its stack: the layer that takes them, their number, their room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from strata.spec.layer import Placed
from strata.spec.names import Diagnostic
from strata.spec.workload import Workload
from strata.units import describe_duration

SNAPSHOT: Final = "before"
"""The name of the snapshot before the measured window."""
SNAPSHOT_LANE: Final = "snapshots"
"""The lane of the steps of snapshots in the measured window."""


def snapshotting(placed: Sequence[Placed]) -> Placed | None:
    """The uppermost layer that takes snapshots."""
    return next((each for each in reversed(placed) if each[0].snapshot(each[1], SNAPSHOT) is not None), None)


def taken_in_window(load: Workload) -> int:
    """The number of snapshots in the measured window, without its ends."""
    return max(0, (load.window_ns - 1) // load.snapshot_every_ns) if load.snapshot_every_ns else 0


def interval_diagnostics(load: Workload) -> Iterable[Diagnostic]:
    """Refuse snapshots at intervals in a window that has no length, or is too short for one."""
    if load.snapshot_every_ns is None or taken_in_window(load):
        return
    every = describe_duration(load.snapshot_every_ns)
    if load.window_ns:
        window = describe_duration(load.window_ns)
        yield Diagnostic(
            f"a snapshot every {every} is none at all in a window of {window}",
            remedy="shorten snapshot_every, or lengthen the window",
            key="snapshot_every",
        )
    else:
        yield Diagnostic(
            f"snapshots every {every} need a window of a given length; this one ends when its work is done",
            remedy='give `duration`, or take one snapshot before it: before_measure = ["snapshot"]',
            key="snapshot_every",
        )


def room_diagnostics(stack: str, placed: Sequence[Placed], load: Workload) -> Iterable[Diagnostic]:
    """Refuse more snapshots than the layer of a stack has set space aside for."""
    found = snapshotting(placed)
    room = found[0].snapshots_max() if found else None
    wanted = taken_in_window(load) + ("snapshot" in load.before_measure)
    if found and room is not None and taken_in_window(load) and wanted > room:
        yield Diagnostic(
            f"there will be {wanted} snapshots at once, and the layer {found[0].layer} of the stack {stack} "
            f"has room for {room}",
            remedy=f"write snapshots = {wanted} there, or a longer snapshot_every here",
            key="snapshot_every",
        )
