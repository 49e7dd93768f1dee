# SPDX-License-Identifier: Apache-2.0
"""Thin LVM: a pool, and a volume that takes space from it when it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.layers.lvm.volume_group import (
    EXTENT_BYTES,
    PERSISTENT_DATA_TROUBLE,
    STRIPE_BYTES,
    LvmLayer,
    StripeSize,
    VolumeGroup,
    WholeExtents,
    extents_bytes,
    sector_diagnostics,
    stripe_diagnostics,
)
from strata.layers.options import multiple_of
from strata.model.abilities import Outcome
from strata.model.layer import Geometry, KernelLog, LayerContext, Provided, Share
from strata.model.step import Prerequisites, Step
from strata.units import NS_PER_S, Size, describe_size, format_size

_POOL: Final = "pool"
_METADATA: Final = "metadata"
# The size of a mapping, as LVM and thin_metadata_size reckon; the kernel uses no more than the maximum.
_MAPPING_BYTES: Final = 64
# Of a mapping in the tree, whose nodes are not full: 19.8 measured in the lab with random writes of 64 KiB,
# 19.1 published. Each snapshot takes up to that again.
_KEPT_BYTES: Final = 19.1
_METADATA_BYTES_MAX: Final = 16_192 << 20
# LVM overwrites all of the metadata with zeros when they lie on a device of their own.
_CONVERT_LIMIT_NS: Final = 600 * NS_PER_S


class LvmThin(LvmLayer):
    """A thin volume of LVM and its pool, over one or several devices.

    The volume takes a chunk of the pool when it is first written there. With ``zero`` the pool overwrites a
    new chunk with zeros first, unless it is written as a whole. A pool that is full fails writes at once:
    nothing would extend it.
    """

    family = "RAID and volumes"
    device_keys = ("metadata",)
    prerequisites = LvmLayer.prerequisites | Prerequisites(features=("dm:thin", "dm:thin-pool"))
    # drivers/md/dm-thin.c of Linux 7.2
    kernel_log = KernelLog(
        trouble=(
            r"device-mapper: thin: .*(?:failed|unserviceable|until repaired|aborting current metadata"
            r"|switching pool to (?:read-only|out-of-data-space|out-of-metadata-space|fail)).*",
            *PERSISTENT_DATA_TROUBLE,
        )
    )
    also_called = ("lvmthin", "thin")

    layer: Literal["lvm-thin"] = "lvm-thin"
    size_bytes: WholeExtents | None = Field(None, alias="size", examples=["100GiB"])
    """The volume's virtual size, in whole extents of 4MiB; default: the pool's size"""
    overcommit: StrictBool = Field(False, examples=[True])
    """Whether the volume may be larger than the pool"""
    chunk_bytes: Annotated[Size, multiple_of(64 << 10, 64 << 10, 1 << 30)] = Field(
        64 << 10, alias="chunk", examples=["256KiB"]
    )
    """The pool's unit of allocation: a multiple of 64KiB, up to 1GiB"""
    zero: StrictBool = Field(True, examples=[False])
    """Whether new chunks are overwritten with zeros, unless they are written as a whole"""
    discards: Literal["passdown", "nopassdown", "ignore"] = Field("passdown", examples=["nopassdown"])
    """Whether the pool takes discarded chunks back and passes discards down, only takes them back
    (nopassdown), or neither (ignore)"""
    metadata: StrictStr | None = Field(None, examples=["disk1"])
    """A device of the study for the pool's metadata; default: they lie beside the data"""
    metadata_size_bytes: WholeExtents | None = Field(None, alias="metadata_size", examples=["128MiB"])
    """Size of the metadata; default: 64 bytes for each chunk, in whole extents of 4MiB"""
    stripes: StrictInt = Field(1, ge=1, le=128, examples=[2])
    """Over how many devices the pool is spread at a time, a divisor of their number; 1 fills one after the
    other"""
    stripe_size_bytes: StripeSize | None = Field(None, alias="stripe_size", examples=["256KiB"])
    """With stripes, what lies on one device before the next one's turn comes; default: 64KiB"""

    def needs(self) -> Prerequisites:
        tools = (["lvs"] if self.size_bytes is None else []) + (["lvconvert"] if self.metadata else [])
        return self.prerequisites | Prerequisites(tools=tuple(tools))

    def sole_copies(self) -> tuple[str, ...]:
        return ("metadata",)

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from stripe_diagnostics(self.stripes, lower.count)
        if self.stripe_size_bytes is not None and self.stripes == 1:
            yield Diagnostic(
                "without stripes there is no size of one", remedy="leave it out", key="stripe_size"
            )
        if self.overcommit and self.size_bytes is None:
            yield Diagnostic(
                "without size the volume is as large as the pool", remedy="leave it out", key="overcommit"
            )
        yield from self._metadata_diagnostics(lower, named)
        pool_bytes = self._pool_bytes(lower)
        if pool_bytes < max(EXTENT_BYTES, self.chunk_bytes):
            yield Diagnostic(
                f"a pool does not fit in {describe_size(extents_bytes(lower))}",
                remedy="raise the `capacity` of the devices",
            )
        elif self.size_bytes is not None and self.size_bytes > pool_bytes and not self.overcommit:
            yield Diagnostic(
                f"the volume of {describe_size(self.size_bytes)} is larger than its pool, which has "
                f"{describe_size(pool_bytes)}",
                remedy="write overcommit = true if that is meant",
                key="size",
            )

    def _metadata_diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        wanted_bytes = self._metadata_bytes(lower)
        if self.metadata is not None:
            yield from sector_diagnostics(lower, "metadata")
        if self.metadata_size_bytes is not None and self.metadata_size_bytes > _METADATA_BYTES_MAX:
            yield Diagnostic(
                f"the kernel uses {describe_size(_METADATA_BYTES_MAX)} of metadata at most",
                remedy="ask for less, or take a larger chunk",
                key="metadata_size",
            )
        elif self.metadata is not None and self.metadata in named:
            room_bytes = extents_bytes(lower.of(named[self.metadata]))
            if wanted_bytes > room_bytes:
                yield Diagnostic(
                    f"the metadata take {describe_size(wanted_bytes)}, and {self.metadata} holds "
                    f"{describe_size(room_bytes)}",
                    remedy="raise the `capacity` of that device, or take a larger chunk",
                    key="metadata",
                )

    def _metadata_bytes(self, lower: Provided) -> int:
        if self.metadata_size_bytes is not None:
            return self.metadata_size_bytes
        mappings_bytes = extents_bytes(lower) // self.chunk_bytes * _MAPPING_BYTES
        whole_bytes = -(-mappings_bytes // EXTENT_BYTES) * EXTENT_BYTES
        return min(max(EXTENT_BYTES, whole_bytes), _METADATA_BYTES_MAX)

    def _pool_bytes(self, lower: Provided) -> int:
        """The pool's capacity; space that layers below keep to themselves is not subtracted."""
        room_bytes = extents_bytes(lower)
        if self.stripes > 1:
            room_bytes = extents_bytes(lower.of(lower.smallest_bytes)) * lower.count
        return max(0, room_bytes - (0 if self.metadata else self._metadata_bytes(lower)))

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The volume's size, which with ``overcommit`` is more than the pool can hold."""
        return self.size_bytes or self._pool_bytes(Provided("block", tuple(lower_bytes)))

    def provided(self, lower: Provided) -> Provided:
        """One block device, with the stripes below if each chunk holds whole ones and begins with one.

        Otherwise it is striped by its own chunks, which the pool lays anywhere; the kernel reports this.
        """
        geometry = lower.geometry if lower.count == 1 else None
        if geometry is None or (
            self.chunk_bytes % geometry.stripe_bytes or EXTENT_BYTES % geometry.stripe_bytes
        ):
            geometry = Geometry(self.chunk_bytes, 1)
        return replace(super().provided(lower), geometry=geometry)

    def exhausted_by(self, lower: Provided, data_bytes: int) -> str | None:
        chunks, metadata_bytes = -(-data_bytes // self.chunk_bytes), self._metadata_bytes(lower)
        needed_bytes = int(chunks * _KEPT_BYTES)
        if needed_bytes <= metadata_bytes:
            return None
        return (
            f"the pool's metadata of {describe_size(metadata_bytes)} are full before "
            f"{format_size(data_bytes)} of data are written: {chunks:,} chunks take about "
            f"{format_size(needed_bytes)}, and more with snapshots; the pool then turns read-only"
        )

    def share(self, context: LayerContext) -> Share | None:
        provided = self.provided(context.provided)
        part = provided if self.size_bytes is not None else context.fair(provided)
        return Share([], self.path(context), part)

    def share_diagnostics(self, lower: Provided, tenants: int) -> Iterable[Diagnostic]:
        pool_bytes, size_bytes = self._pool_bytes(lower), (self.size_bytes or 0) * tenants
        if size_bytes > pool_bytes and not self.overcommit:
            yield Diagnostic(
                f"{tenants} volumes have {describe_size(size_bytes)} together, and their pool has "
                f"{describe_size(pool_bytes)}",
                remedy="write overcommit = true if that is meant",
                key="size",
            )

    def build(self, context: LayerContext) -> list[Step]:
        group = self.group(context)
        steps = [*group.create(), *(self._far_pool(group) if self.metadata else self._pool(group))]
        size = f"{self.size_bytes}b"
        if self.size_bytes is None:
            # Only LVM knows the pool's size: the layers below may keep some space to themselves.
            variable, tenants = f"{context.name}-pool-bytes", len(context.tenants)
            # With a unit of N MiB, LVM prints an N-th of the pool in MiB.
            steps.append(group.measure(_POOL, variable, unit=f"{tenants}m" if tenants > 1 else "b"))
            size = f"${{{variable}}}{'m' if tenants > 1 else 'b'}"
        for each in group.each():
            thin = ("--type", "thin", "--name", each.data, "--virtualsize", size, "--thinpool", _POOL)
            steps.append(each.make("volume", "Make the thin volume", "lvcreate", *thin, group.name))
        return steps

    def _pool(self, group: VolumeGroup) -> list[Step]:
        metadata_bytes = self._metadata_bytes(group.context.provided)
        size = ("--extents", "100%PVS", "--poolmetadatasize", f"{metadata_bytes}b")
        return [
            group.make(
                "pool",
                "Make the pool",
                *("lvcreate", "--type", "thin-pool", "--name", _POOL, *size, *self._stripe_words()),
                *(*self._pool_words(), group.name, *group.context.lower),
            )
        ]

    def _far_pool(self, group: VolumeGroup) -> list[Step]:
        """Make the pool of two volumes, because its metadata lie on a device of their own."""
        metadata_bytes = self._metadata_bytes(group.context.provided)
        pool, metadata = f"{group.name}/{_POOL}", f"{group.name}/{_METADATA}"
        return [
            group.make(
                "metadata",
                f"Make the volume for the pool's metadata on {self.metadata}",
                *("lvcreate", "--name", _METADATA, "--size", f"{metadata_bytes}b", group.name),
                f"${{{self.metadata}}}",
            ),
            group.make(
                "pool-data",
                "Make the volume for the pool's data",
                *("lvcreate", "--name", _POOL, "--extents", "100%PVS", *self._stripe_words(), group.name),
                *group.context.lower,
            ),
            group.make(
                "pool",
                "Make the pool of the two",
                *("lvconvert", "--type", "thin-pool", "--poolmetadata", metadata, *self._pool_words(), pool),
                time_limit_ns=_CONVERT_LIMIT_NS,
            ),
        ]

    def _pool_words(self) -> tuple[str, ...]:
        zero = "y" if self.zero else "n"
        chunk = ("--chunksize", f"{self.chunk_bytes}b")
        return (*chunk, "--zero", zero, "--discards", self.discards, "--poolmetadataspare", "n")

    def _stripe_words(self) -> tuple[str, ...]:
        if self.stripes == 1:
            return ()
        stripe_bytes = self.stripe_size_bytes or STRIPE_BYTES
        return ("--stripes", str(self.stripes), "--stripesize", f"{stripe_bytes}b")

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        """A thin snapshot: it shares chunks with the volume until one of the two is written."""
        group = self.group(context)
        taken = group.named(name)
        return [self._copy(group, name, f'Take the snapshot "{name}"', group.data, taken)]

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        return [self.group(context).drop(name)]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        """The snapshot takes the volume's place, and is taken again."""
        group = self.group(context)
        title = f'Take the snapshot "{name}" again'
        again = self._copy(group, f"{name}-again", title, group.data, group.named(name))
        return [group.merge(name), again]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        group = self.group(context)
        kept, clone = group.named(name), group.named(f"{name}_clone")
        step = self._copy(group, f"{name}-clone", f'Clone the snapshot "{name}"', kept, clone)
        return Outcome([step], group.volume(clone))

    def _copy(self, group: VolumeGroup, step: str, title: str, of: str, name: str) -> Step:
        words = ("--snapshot", "--setactivationskip", "n", "--name", name, f"{group.name}/{of}")
        return group.step(step, title, "lvcreate", *words)

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """The volume alone; the pool stays as it is."""
        return [self.group(context).resize(capacity_bytes, grow=grow)]

    def allocated(self, context: LayerContext) -> Step | None:
        pool = self.group(context).mapped(f"{_POOL}-tpool")
        return context.act("allocated", "Look how much of the pool is taken", "dmsetup", "status", pool)

    def allocated_bytes(self, stdout: str) -> int:
        """Of ``START SECTORS thin-pool TRANSACTION USED/ALL USED/ALL …``: metadata, then data, in chunks."""
        return int(stdout.split()[5].partition("/")[0]) * self.chunk_bytes
