# SPDX-License-Identifier: Apache-2.0
"""What the layers have in common that LVM makes of a volume on one device and its cache on another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from pydantic import Field, StrictStr

from strata.layers.lvm.volume_group import (
    EXTENT_BYTES,
    PERSISTENT_DATA_TROUBLE,
    VOLUME,
    VolumeGroup,
    extents,
    sector_diagnostics,
)
from strata.spec.interface import Interface, LowerInterface, Provided
from strata.spec.layer import KernelLog, Layer, LayerContext
from strata.spec.names import Diagnostic
from strata.spec.step import Prerequisites, Step
from strata.units import NS_PER_S, describe_size

_CACHE_VOLUME: Final = "cache"
# LVM takes 8 MiB of a small cache for its metadata, and more of a large one.
_CACHE_BYTES_MIN: Final = 32 << 20
_CONVERT_LIMIT_NS: Final = 600 * NS_PER_S


class CachedVolume(Layer):
    """The base of the layers that are a volume with a cache volume attached.

    Attributes:
        segment_type: The type to which LVM converts the volume.
    """

    requires: ClassVar[LowerInterface] = LowerInterface("block")
    provides: ClassVar[Interface] = "block"
    segment_type: ClassVar[str]
    prerequisites: ClassVar[Prerequisites] = Prerequisites(
        tools=("lvconvert", "lvcreate", "pvcreate", "vgchange", "vgcreate")
    )
    # drivers/md/{dm-cache-target,dm-writecache}.c of Linux 7.2
    kernel_log: ClassVar[KernelLog] = KernelLog(
        trouble=(
            r"device-mapper: (?:cache|writecache): .*(?:failed|error|could not|until repaired|unable to"
            r"|aborting current metadata|switching cache to (?:read-only|fail)).*",
            *PERSISTENT_DATA_TROUBLE,
        )
    )
    packages: ClassVar[tuple[str, ...]] = ("lvm2", "dmsetup", "thin-provisioning-tools")

    cache: StrictStr = Field(description="The study's device that caches", examples=["ssd"])

    def named_devices(self) -> Mapping[str, tuple[str, ...]]:
        """The cache."""
        return {"cache": (self.cache,)}

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        """Devices that are too small, or cannot be in one group."""
        yield from sector_diagnostics(lower, "cache")
        if extents(named[self.cache]) * EXTENT_BYTES < _CACHE_BYTES_MIN:
            yield Diagnostic(
                f"a cache of {describe_size(named[self.cache])} has no room beside its metadata",
                remedy=f"raise the `capacity` of {self.cache}",
                key="cache",
            )
        if not self.usable_bytes(lower.capacities_bytes):
            yield Diagnostic(
                f"the device below has {describe_size(lower.smallest_bytes)}, and volumes consist of whole "
                f"extents of {describe_size(EXTENT_BYTES)}",
                remedy="raise the `capacity` of the device",
            )

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The whole extents of what it stands on; the cache adds nothing."""
        return extents(min(lower_bytes)) * EXTENT_BYTES

    def path(self, context: LayerContext) -> str:
        """The cached volume."""
        return self._group(context).volume()

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        """The group's metadata."""
        group = self._group(context)
        return group.argv("vgck", group.name)

    def convert_options(self) -> list[str]:
        """The options of lvconvert that say how to cache."""
        raise NotImplementedError

    def _group(self, context: LayerContext) -> VolumeGroup:
        return VolumeGroup.of(context, further=(f"${{{self.cache}}}",))

    def build(self, context: LayerContext) -> list[Step]:
        """One group of both devices, a volume that fills each, and the one attached to the other."""
        group = self._group(context)
        cache, backing = f"${{{self.cache}}}", context.lower[0]
        whole = ("--extents", "100%PVS", group.name)
        attach = ("--type", self.segment_type, "--cachevol", _CACHE_VOLUME, *self.convert_options())
        return [
            *group.create(),
            group.step(
                "cache",
                f"Make the volume that caches on {self.cache}",
                # LVM writes its first blocks itself when it is attached.
                *("lvcreate", "--activate", "n", "--zero", "n", "--wipesignatures", "n"),
                *("--name", _CACHE_VOLUME, *whole, cache),
            ),
            group.step(
                "volume",
                "Make the volume that is cached",
                *("lvcreate", "--zero", "y", "--wipesignatures", "y", "--name", VOLUME, *whole, backing),
                undo=group.down,
            ),
            group.step(
                "attach",
                "Attach the cache",
                *("lvconvert", *attach, f"{group.name}/{VOLUME}"),
                time_limit_ns=_CONVERT_LIMIT_NS,
                undo=group.down,
            ),
        ]

    def assemble(self, context: LayerContext) -> list[Step]:
        """Bring up both."""
        return [self._group(context).activate()]
