# SPDX-License-Identifier: Apache-2.0
"""Abilities of some layers: snapshots, clones, quotas, resizing, scrubbing, rebuilding.

Studies use them between preparing and measuring (``before_measure``), and `strata capabilities` tries them.
A layer overrides the methods of its abilities; None, the default, means that it lacks one. Whether an ability
works is measured, not asserted here.

Every method gets the layer's `LayerContext` with another phase and prefix, and returns steps made with
`LayerContext.step`. Unless it says otherwise, the layer and everything above it is up meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from strata.devices.structure import Structure
from strata.errors import RunError
from strata.model.step import Step
from strata.words import beginning_and_end

if TYPE_CHECKING:
    from strata.model.layer import LayerContext, Provided


@dataclass(frozen=True)
class Outcome:
    """Steps, and the path of the block device or folder that they make, with ``${variable}``s."""

    steps: list[Step]
    path: str


@dataclass(frozen=True)
class FreeSpace:
    """One figure of how the free space of a layer is divided; unit and ``better`` as in `Metric`."""

    name: str
    value: float
    unit: str
    better: Literal["higher", "lower"]


def divided(count: int, mean_bytes: float) -> list[FreeSpace]:
    """The figures of free space in ``count`` extents."""
    return [
        FreeSpace("free_extents", float(count), "1", "lower"),
        FreeSpace("free_extent_bytes_mean", float(mean_bytes), "B", "higher"),
    ]


def found(pattern: re.Pattern[str], stdout: str, tool: str) -> str:
    """The pattern's group in a tool's report of the free space. Raises RunError."""
    match = pattern.search(stdout)
    if match is None:
        raise unreadable_free_space(tool, stdout)
    return match[1]


def unreadable_free_space(tool: str, stdout: str) -> RunError:
    said = beginning_and_end(stdout, 1000, "\n    ") or "(it is empty)"
    return RunError(f"{tool} did not report how the free space is divided", remedy=f"it said:\n    {said}")


class Abilities:
    """The abilities of a layer; `Layer` inherits them."""

    def capable(self) -> Self:
        """The same layer with its abilities prepared, for `strata capabilities`: room reserved, quotas on."""
        return self

    def caches_direct_io(self) -> bool:
        """Whether it caches content even for programs that bypass the page cache."""
        return False

    def buffers_direct_io(self, kernel: tuple[int, int] | None, write_bytes: int | None) -> str | None:
        """Why direct I/O is not direct, as a clause; None: it is.

        ``kernel`` is Linux's version, None if it is unknown, which is taken as a new one; ``write_bytes`` is
        the size of the smallest write, None if nothing is written.
        """
        return None

    def uncached(self) -> str:
        """The key by which a filesystem's data are kept out of memory; empty: they are cached."""
        return ""

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        """Keep the layer's present content as a snapshot ``name``, on the running stack."""
        return None

    def snapshots_max(self) -> int | None:
        """The most snapshots at once; None: as many as space allows."""
        return None

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        """Remove a snapshot. Only called where `snapshot` is not None."""
        raise NotImplementedError

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        """Bring the layer's content back to the snapshot ``name``, which need not be the latest.

        The layers above are down. A filesystem is up; it may unmount itself, but must be mounted at the end.
        A container is down, with its daemon; at the end it is up.
        """
        return None

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        """A writable copy, a block device or a folder, of the snapshot ``name``, whose blocks it shares."""
        return None

    def quota(self, context: LayerContext, limit_bytes: int) -> Outcome | None:
        """A folder of this filesystem that cannot hold more than ``limit_bytes``."""
        return None

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """Resize the layer while it is in use.

        A layer with a key ``size`` changes its own size. A layer without one (a filesystem, an encrypted
        volume) follows the layer below: it grows after that has grown, and shrinks before that shrinks;
        ``capacity_bytes`` is then the capacity below.
        """
        return None

    def send(self, context: LayerContext, older: str, newer: str, file: str) -> list[Step] | None:
        """Write the changes from the snapshot ``older`` to ``newer`` into ``file``."""
        return None

    def receive(self, context: LayerContext, base: str, file: str) -> Outcome | None:
        """Apply a file of `send` to a copy of the snapshot ``base``; the outcome holds the newer content."""
        return None

    def scrub(self, context: LayerContext) -> list[Step] | None:
        """Read everything, compare it with checksums or copies, correct errors; wait for the end."""
        return None

    def scrub_errors(self, stdout: str) -> int:
        """The errors, corrected or not, that the last step of a `scrub` reports."""
        raise NotImplementedError

    def verify(self, context: LayerContext) -> list[Step] | None:
        """Read all and fail if something is damaged, of a layer that no checker reads when it is down."""
        return None

    def losses_survived(self, lower: Provided) -> int:
        """The number of devices below that may be lost, whichever they are."""
        return 0

    def structures(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Structure]:
        """Its structures whose cost small data do not meet; ``named`` as for `Layer.diagnostics`."""
        return ()

    def exhausted_by(self, lower: Provided, data_bytes: int) -> str | None:
        """Which space of its own is too small for these data above it, as a sentence; None: none is."""
        return None

    def sole_copies(self) -> tuple[str, ...]:
        """The keys of its named devices that hold the only copy of something that the stack needs."""
        return ()

    rebuilds_used_only: ClassVar[bool] = False
    """Whether a rebuild copies what is used alone, and not the whole disk."""
    rebuild_room: ClassVar[float] = 1.0
    """How many times the measured part a disk is made, with the same data, where a small one has no room to
    rebuild in though a whole one has."""

    def rebuild(self, context: LayerContext, lost: str, spare: str) -> list[Step] | None:
        """Start to replace the lost device at the path ``lost`` by the one at ``spare``, without waiting."""
        return None

    def rebuilt(self, context: LayerContext) -> list[Step] | None:
        """Wait for the end of the rebuild."""
        return None

    def container_acts(self, context: LayerContext) -> Mapping[str, list[Step]]:
        """The steps of each act on containers, by its name; empty without containers.

        ``launch`` makes and starts one more; ``copy`` copies that of the layer, and the copy undergoes
        ``snapshot``, ``restore``, ``resize``, ``move`` and ``delete``.
        """
        return {}

    def given_back(self, context: LayerContext) -> list[Step]:
        """Wait until the space of dropped snapshots is free; empty where dropping one waits for that."""
        return []

    def allocated(self, context: LayerContext) -> Step | None:
        """A step that prints the space taken from below, of a layer that frees space when it is discarded."""
        return None

    def allocated_bytes(self, stdout: str) -> int:
        """The number in that output. Only called where `allocated` is not None."""
        raise NotImplementedError

    def free_space(self, context: LayerContext) -> list[Step] | None:
        """Steps, of which the last reports on its standard output how the free space is divided."""
        return None

    def free_space_metrics(self, stdout: str) -> list[FreeSpace]:
        """The figures in that output; only called where `free_space` is not None. Raises RunError."""
        raise NotImplementedError
