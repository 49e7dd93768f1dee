# SPDX-License-Identifier: Apache-2.0
"""What some layers can do with what they hold: snapshots, clones, quotas, resizing, scrubbing, rebuilding.

Studies use them between preparing and measuring (``before_measure``), and `strata capabilities` tries them.
A layer that can do something overrides the method; None, the default, says that it cannot. What a layer says
here is what it will try: whether it works is measured, not asserted.

Every method gets the `LayerContext` of the layer as it was built, but for phase and prefix, and returns steps
made with `LayerContext.step`. Unless it says otherwise the layer and everything above it is up meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from strata.errors import RunError
from strata.spec.interface import Provided
from strata.spec.step import Step

if TYPE_CHECKING:
    from strata.spec.layer import LayerContext


@dataclass(frozen=True)
class Outcome:
    """Steps and the place that they make.

    Attributes:
        steps: What to do.
        path: What there is then: a block device, or a folder; with ``${variable}``s.
    """

    steps: list[Step]
    path: str


@dataclass(frozen=True)
class FreeSpace:
    """One figure of how the free space of a layer is divided.

    Attributes:
        name: What it is, unit last: ``free_extents``, ``free_extent_bytes_mean``.
        unit: As of a `Metric`; so is ``better``.
    """

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
    """What the pattern's group matches in what a tool says of the free space.

    Raises:
        RunError: If it matches nothing.
    """
    match = pattern.search(stdout)
    if match is None:
        raise unreadable_free_space(tool, stdout)
    return match[1]


def unreadable_free_space(tool: str, stdout: str) -> RunError:
    """The error of an output without the expected figures."""
    tail = "\n    ".join(stdout.strip().splitlines()[-5:]) or "(it is empty)"
    return RunError(f"{tool} did not tell how the free space is divided", remedy=f"it said:\n    {tail}")


class Abilities:
    """The abilities of a layer; `Layer` inherits them."""

    def capable(self) -> Self:
        """The same layer with what its abilities cost beforehand: space set aside, quotas switched on.

        A study pays for them only where it asks; `strata capabilities` asks for all.
        """
        return self

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        """Keep what the layer holds now as a snapshot ``name``, on the running stack."""
        return None

    def snapshots_max(self) -> int | None:
        """How many snapshots there may be at once; None: as many as space allows."""
        return None

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        """Remove a snapshot. Only called where `snapshot` is not None."""
        raise NotImplementedError

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        """Make the layer hold again what it held at the snapshot ``name``, which need not be the latest.

        What is above is down. A filesystem is up and may unmount and mount itself: at the end it is mounted
        where it was.
        """
        return None

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        """A writable copy of the snapshot ``name`` that shares its blocks.

        Of a block layer the outcome is another block device; of a filesystem it is a folder.
        """
        return None

    def quota(self, context: LayerContext, limit_bytes: int) -> Outcome | None:
        """A folder of this filesystem that cannot hold more than ``limit_bytes``."""
        return None

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """Make what the layer gives larger or smaller while it is in use.

        A layer with a key ``size`` changes its own size within what it stands on. A layer without (a
        filesystem, an encrypted volume) follows what it stands on: it grows after that has grown, and shrinks
        before that shrinks; ``capacity_bytes`` is then what the layer below gives.
        """
        return None

    def send(self, context: LayerContext, older: str, newer: str, file: str) -> list[Step] | None:
        """Write what changed from the snapshot ``older`` to ``newer`` into ``file``."""
        return None

    def receive(self, context: LayerContext, base: str, file: str) -> Outcome | None:
        """Apply a file of `send` to a copy of the snapshot ``base``; the outcome holds the newer content."""
        return None

    def scrub(self, context: LayerContext) -> list[Step] | None:
        """Read everything, compare it with checksums or copies, mend what can be mended; wait for the end.

        The last step's standard output is what `scrub_errors` reads.
        """
        return None

    def scrub_errors(self, stdout: str) -> int:
        """How many errors the scrub found, mended or not. Only called where `scrub` is not None."""
        raise NotImplementedError

    def losses_survived(self, lower: Provided) -> int:
        """How many of the devices that it stands on may be lost, whichever they are."""
        return 0

    def rebuild(self, context: LayerContext, lost: str, spare: str) -> list[Step] | None:
        """Begin to restore the redundancy when the device at ``lost`` has gone, using the one at ``spare``.

        Both are paths. It does not wait for the end. An empty list: the layer has begun by itself.
        """
        return None

    def rebuilt(self, context: LayerContext) -> list[Step] | None:
        """Wait until the rebuilding has ended."""
        return None

    def allocated(self, context: LayerContext) -> Step | None:
        """A step whose standard output tells what the layer has taken of what it stands on.

        For layers that give space back when it is discarded (a thin pool, a sparse image, a pool).
        """
        return None

    def allocated_bytes(self, stdout: str) -> int:
        """The number in that output. Only called where `allocated` is not None."""
        raise NotImplementedError

    def free_space(self, context: LayerContext) -> list[Step] | None:
        """Steps, of which the last tells on its standard output in how many pieces what is free lies."""
        return None

    def free_space_metrics(self, stdout: str) -> list[FreeSpace]:
        """What that output says. Only called where `free_space` is not None.

        Raises:
            RunError: If it does not have the expected form.
        """
        raise NotImplementedError
