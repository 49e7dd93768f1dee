# SPDX-License-Identifier: Apache-2.0
"""A volume of a ZFS pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool

from strata.diagnostics.names import Diagnostic
from strata.layers.options import power_of_two
from strata.layers.zfs.options import VOLUME
from strata.layers.zfs.zfs import Dataset
from strata.model.abilities import Outcome
from strata.model.layer import LayerContext, Provided
from strata.model.step import Command, Prerequisites, Step
from strata.units import MIB, SECTOR_BYTES, Size, describe_size

_VOLUME_BLOCK_BYTES: Final = 16 << 10
# The reserve of a pool (spa_get_slop_space): a thirty-second, 128 MiB at least.
_SLOP_DIVISOR: Final = 32
_SLOP_BYTES_MIN: Final = 128 << 20


def _room_bytes(pool_bytes: int) -> int:
    return max(pool_bytes - max(pool_bytes // _SLOP_DIVISOR, _SLOP_BYTES_MIN), 0)


class Zvol(Dataset):
    """A volume of a ZFS pool: a block device.

    A property that is not set has ZFS's own default.
    """

    provides = "block"
    prerequisites = Prerequisites(tools=("udevadm", "zfs"), modules=("zfs",))
    allowed = {"properties": VOLUME}
    own_properties = f"volblocksize {Dataset.own_properties}"

    layer: Literal["zvol"] = "zvol"
    size_bytes: Size | None = Field(None, alias="size", examples=["8GiB"])
    """Its size, a multiple of its blocks; default: three quarters of the pool's space without ZFS's
    reserve"""
    volblocksize_bytes: Annotated[Size, power_of_two(SECTOR_BYTES, 128 << 10)] | None = Field(
        None, alias="volblocksize", examples=["8KiB"]
    )
    """Size of its blocks, a power of two from 512B to 128KiB; default: 16KiB"""
    sparse: StrictBool = False
    """Whether it takes space from the pool only for what is written; it may then be larger than the pool"""

    def buffers_direct_io(self, kernel: tuple[int, int] | None, write_bytes: int | None) -> str | None:
        return "a zvol's data go through the ARC"

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        size_bytes = self.usable_bytes(lower.capacities_bytes)
        if self.size_bytes is not None and (size_bytes == 0 or size_bytes % self._block_bytes):
            yield Diagnostic(
                f"{describe_size(size_bytes)} is not a multiple of the volume's blocks of "
                f"{describe_size(self._block_bytes)}",
                remedy="change `size` or `volblocksize`",
                key="size",
            )
        room_bytes = _room_bytes(lower.smallest_bytes)
        if not self.sparse and size_bytes * (self.copies or 1) > room_bytes:
            yield Diagnostic(
                f"a volume of {describe_size(size_bytes)} does not fit into the pool, which has "
                f"{describe_size(room_bytes)} besides what ZFS keeps back",
                remedy="make it smaller, or write sparse = true",
                key="size",
            )

    @property
    def _block_bytes(self) -> int:
        return self.volblocksize_bytes or _VOLUME_BLOCK_BYTES

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """Its size; by default it leaves room for the space that small blocks waste with parity."""
        if self.size_bytes is not None:
            return self.size_bytes
        return _room_bytes(sum(lower_bytes)) // (self.copies or 1) * 3 // 4 // MIB * MIB

    def path(self, context: LayerContext) -> str:
        """Its device: made by udev on a host, by the kernel itself in the lab."""
        return self._device(context, "")

    def build(self, context: LayerContext) -> list[Step]:
        size = str(self.usable_bytes(context.provided.capacities_bytes))
        sparse = ("-s",) if self.sparse else ()
        make = self.create_step(context, "make", "Make the volume in the pool", *sparse, "-V", size)
        return [make, *self.assemble(context)]

    def assemble(self, context: LayerContext) -> list[Step]:
        return [self._awaited(context, "")]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        # Of the origin's properties a clone has only the block size.
        properties = self.model_copy(update={"volblocksize_bytes": None}).options()
        clone = self.clone_step(context, name, *properties)
        return Outcome([clone, self._awaited(context, f"-{name}")], self._device(context, f"-{name}"))

    def receive(self, context: LayerContext, base: str, file: str) -> Outcome | None:
        received = self.receive_into(context, base, file)
        return Outcome([received, self._awaited(context, "-received")], self._device(context, "-received"))

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        title = f"Make the volume {'larger' if grow else 'smaller'}"
        size = ("set", f"volsize={capacity_bytes}", self.dataset(context))
        return [self._change(context, "resize", title, *size)]

    def _device(self, context: LayerContext, suffix: str) -> str:
        return f"/dev/zvol/{self.dataset(context, suffix)}"

    def _awaited(self, context: LayerContext, suffix: str) -> Step:
        return context.step(
            f"device{suffix}",
            f"Wait for the device of {context.name}{suffix}",
            *("udevadm", "settle", f"--exit-if-exists={self._device(context, suffix)}"),
            cwd=context.cwd,
            # A pool is busy while udev still reads a volume that was written to.
            undo=Command(argv=("udevadm", "settle")),
        )
