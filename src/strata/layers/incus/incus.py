# SPDX-License-Identifier: Apache-2.0
"""A container whose root is on a pool of Incus that takes a whole device: btrfs, thin LVM or ZFS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, Self

from pydantic import Field

from strata.diagnostics.names import Diagnostic
from strata.layers.btrfs import Btrfs, buffers_checksums
from strata.layers.ext import Ext4
from strata.layers.incus.container import PREREQUISITES, IncusContainer
from strata.layers.lvm.lvm_thin import LvmThin
from strata.layers.lvm.volume_group import EXTENT_BYTES, VolumeGroup, extents_bytes
from strata.layers.xfs import Xfs
from strata.layers.zfs.zfs import Zfs
from strata.layers.zfs.zpool import Zpool
from strata.model.layer import KernelLog, LayerContext, LowerInterface, Provided
from strata.model.step import Prerequisites, Step
from strata.units import NS_PER_S, MemorySize, describe_size, whole_mib

_DEVICE_BYTES_MIN: Final = 512 << 20
# Incus makes a volume with XFS no smaller than 512 MiB, which is to fit into three quarters of the device.
_THIN_BYTES_MIN: Final = 1 << 30
_DEACTIVATE_LIMIT_NS: Final = 600 * NS_PER_S
_LARGER_BYTES: Final = 256 << 20
_THIN_POOL: Final = "thin"


class Incus(IncusContainer):
    """A container of Incus on a pool of its own on a block device.

    All steps above run in the container, which shares the kernel and has a memory limit. On thin LVM its root
    is a filesystem on a volume, else a subvolume or dataset. `incus-dir` puts the root into a folder.
    """

    requires = LowerInterface("block")
    prerequisites = PREREQUISITES
    kernel_log = KernelLog(
        trouble=tuple(line for each in (Btrfs, Ext4, LvmThin, Xfs, Zpool) for line in each.kernel_log.trouble)
    )
    periods_ns = {**Btrfs.periods_ns, **Zpool.periods_ns}
    no_periods = ""
    also_called = ("lxc", "lxd", "container", "docker", "podman")

    layer: Literal["incus"] = "incus"
    pool: Literal["btrfs", "lvm-thin", "zfs"] = "btrfs"
    """The storage driver of the pool"""
    filesystem: Literal["ext4", "xfs"] | None = Field(None, examples=["xfs"])
    """The filesystem of the root's volume on `lvm-thin`; default: ext4"""
    arc_max_bytes: MemorySize = Field(256 << 20, alias="arc_max", examples=["128MiB"])
    """On `zfs`, upper limit of the cache in memory (ARC), 64MiB at least"""

    def needs(self) -> Prerequisites:
        return self.prerequisites | self._needs_below()

    def _needs_below(self) -> Prerequisites:
        if self.pool == "btrfs":
            return Btrfs.prerequisites
        if self.pool == "zfs":
            tools = tuple(each for each in Zpool.prerequisites.tools if each != "cat")
            return Zpool.prerequisites.model_copy(update={"tools": tools})
        return Prerequisites(
            tools=("pvcreate", "vgchange", "vgcreate"),
            features=("dm:thin-pool", f"filesystem:{self.filesystem or 'ext4'}"),
        )

    def stated(self) -> Mapping[str, str]:
        return {**super().stated(), "pool": self.pool}

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        needed_bytes = _THIN_BYTES_MIN if self.pool == "lvm-thin" else _DEVICE_BYTES_MIN
        if lower.smallest_bytes < needed_bytes:
            yield Diagnostic(
                f"a pool of containers needs {describe_size(needed_bytes)}, and the device has "
                f"{describe_size(lower.smallest_bytes)}",
                remedy="raise the `capacity` of the device",
            )
        if self.filesystem is not None and self.pool != "lvm-thin":
            yield Diagnostic(
                f"the pool {self.pool} is a filesystem itself",
                remedy='leave it out, or write pool = "lvm-thin"',
                key="filesystem",
            )
        if self.pool == "zfs":
            yield from self._zpool.diagnostics(lower, named)

    def share_diagnostics(self, lower: Provided, tenants: int) -> Iterable[Diagnostic]:
        if self.pool == "lvm-thin" and lower.smallest_bytes < tenants * _THIN_BYTES_MIN:
            yield Diagnostic(
                f"{tenants} containers on thin LVM need {describe_size(tenants * _THIN_BYTES_MIN)}",
                remedy="raise the `capacity` of the device",
            )

    @property
    def _zpool(self) -> Zpool:
        return Zpool().model_copy(update={"arc_max_bytes": self.arc_max_bytes})

    def with_memory(self, ratio: float) -> Self:
        return self.model_copy(update={"arc_max_bytes": whole_mib(self.arc_max_bytes * ratio)})

    def kernel_memory_bytes(self) -> int:
        return self.arc_max_bytes if self.pool == "zfs" else 0

    def buffers_direct_io(self, kernel: tuple[int, int] | None, write_bytes: int | None) -> str | None:
        match self.pool:
            case "btrfs":
                return buffers_checksums(kernel, write_bytes)
            case "zfs":
                return Zfs().buffers_direct_io(kernel, write_bytes)
        return None

    def caches_direct_io(self) -> bool:
        return self.pool == "zfs"

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        if self.pool == "lvm-thin":
            return self._volume_bytes(Provided("block", tuple(lower_bytes)), 1)
        return sum(lower_bytes)

    def resized_bytes(self, context: LayerContext) -> int:
        if self.pool != "lvm-thin":
            return super().resized_bytes(context)
        return self._volume_bytes(context.provided, len(context.tenants)) + _LARGER_BYTES

    def _volume_bytes(self, lower: Provided, containers: int) -> int:
        """Of a root's volume on thin LVM: the pool keeps room for its image and its metadata."""
        whole_bytes = extents_bytes(lower) * 3 // 4 // max(1, containers)
        return max(EXTENT_BYTES, whole_bytes - whole_bytes % EXTENT_BYTES)

    def below(self, context: LayerContext) -> list[Step]:
        own = _below(context)
        if self.pool == "btrfs":
            return Btrfs().build(own)
        return self._zpool.build(own) if self.pool == "zfs" else _group(context).create()

    def below_again(self, context: LayerContext) -> list[Step]:
        own = _below(context)
        if self.pool == "btrfs":
            return Btrfs().assemble(own)
        return self._zpool.assemble(own) if self.pool == "zfs" else []

    def activated(self, context: LayerContext) -> list[Step]:
        if self.pool != "lvm-thin":
            return []
        activate = ("vgchange", "--activate", "y", context.label)
        return [_group(context).make("activate", "Bring up the volumes", *activate)]

    def known_settings(self, context: LayerContext) -> list[str]:
        names = {"lvm-thin": "lvm.vg_name", "zfs": "zfs.pool_name"}
        source = self.pool_argv(context)[1].partition("=")[2]
        return [f"{names[self.pool]}={source}"] if self.pool in names else []

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        return Btrfs().check_argv(_below(context)) if self.pool == "btrfs" else None

    def pool_argv(self, context: LayerContext) -> tuple[str, ...]:
        if self.pool == "btrfs":
            return ("btrfs", f"source={context.mount}/{context.name}")
        if self.pool == "zfs":
            return ("zfs", f"source={context.label}/{context.name}")
        size_bytes = self._volume_bytes(context.provided, len(context.tenants))
        return (
            *("lvm", f"source={context.label}", f"lvm.thinpool_name={_THIN_POOL}"),
            *(f"volume.size={size_bytes}B", f"volume.block.filesystem={self.filesystem or 'ext4'}"),
        )


def _below(context: LayerContext) -> LayerContext:
    return replace(context, prefix=f"{context.prefix or context.name}-pool")


def _group(context: LayerContext) -> VolumeGroup:
    return VolumeGroup(_below(context), context.lower)
