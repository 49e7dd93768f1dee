# SPDX-License-Identifier: Apache-2.0
"""dm-cache and dm-writecache, as LVM makes them: a volume on one device, and its cache on another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, StrictStr

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
from strata.units import NS_PER_MS, NS_PER_S, Duration, Size, describe_size

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


_CHUNK_STEP_BYTES: Final = 32 << 10
_CHUNK_BYTES_MAX: Final = 1 << 30
# LVM refuses more (allocation/cache_pool_max_chunks): their table would fill the memory.
_CHUNKS_MAX: Final = 1_000_000


def _chunk(size_bytes: int) -> int:
    if size_bytes % _CHUNK_STEP_BYTES or not _CHUNK_STEP_BYTES <= size_bytes <= _CHUNK_BYTES_MAX:
        raise Diagnostic(
            f"{describe_size(size_bytes)} is not a chunk of dm-cache",
            remedy="give a multiple of 32KiB, 1GiB at most",
        )
    return size_bytes


def _sectors(size_bytes: int) -> int:
    if size_bytes % 512:
        raise Diagnostic(
            f"{describe_size(size_bytes)} is no multiple of a sector", remedy='write "1MiB", say'
        )
    return size_bytes


class DmCache(CachedVolume):
    """A volume whose hot chunks are moved to the device ``cache``, where they are read and written."""

    prerequisites: ClassVar[Prerequisites] = CachedVolume.prerequisites | Prerequisites(
        features=("dm:cache",)
    )
    segment_type: ClassVar[str] = "cache"

    layer: Literal["dm-cache"] = "dm-cache"
    mode: Literal["writethrough", "writeback", "passthrough"] = Field(
        default="writethrough",
        description="What becomes of writes to chunks in the cache: to both devices, to the cache alone, or "
        "to the device below, and the chunk is given up; passthrough caches no reads either",
    )
    policy: Literal["smq"] = Field(
        default="smq", description="What decides which chunks are hot; Linux has no other since 4.6"
    )
    chunk_bytes: Annotated[Size, AfterValidator(_chunk)] | None = Field(
        default=None,
        alias="chunk",
        description="What is moved as one piece, a multiple of 32KiB; default: LVM's, 64 KiB, or more on a "
        "cache of more than a million chunks",
        examples=["256KiB"],
    )
    migration_threshold_bytes: Annotated[Size, AfterValidator(_sectors)] | None = Field(
        default=None,
        alias="migration_threshold",
        description="How much is moved at a time between the devices; default: as LVM sets it, eight chunks "
        "or 1 MiB",
        examples=["16MiB"],
    )

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        """Chunks too small for the cache, beside devices too small for LVM."""
        yield from super().diagnostics(lower, named)
        if self.chunk_bytes is not None and named[self.cache] // self.chunk_bytes > _CHUNKS_MAX:
            yield Diagnostic(
                f"a cache of {describe_size(named[self.cache])} would have more than a million chunks of "
                f"{describe_size(self.chunk_bytes)}",
                remedy="give a larger chunk, or leave it out",
                key="chunk",
            )

    def convert_options(self) -> list[str]:
        """Mode, policy, chunk."""
        options = ["--cachemode", self.mode, "--cachepolicy", self.policy]
        if self.chunk_bytes is not None:
            options += ["--chunksize", f"{self.chunk_bytes}b"]
        if self.migration_threshold_bytes is not None:
            options += ["--cachesettings", f"migration_threshold={self.migration_threshold_bytes // 512}"]
        return options


Percent = Annotated[int, Field(ge=0, le=100)]


def _whole_milliseconds(duration_ns: int) -> int:
    if duration_ns % NS_PER_MS:
        raise Diagnostic("the kernel takes whole milliseconds", remedy='write "1000ms", for instance')
    return duration_ns


Milliseconds = Annotated[Duration, AfterValidator(_whole_milliseconds)]


class DmWritecache(CachedVolume):
    """A volume that writes to the device ``cache``, and from there to its own, when there is time.

    Reads of what is not in the cache go past it. It is taken down when all is written back.
    """

    prerequisites: ClassVar[Prerequisites] = CachedVolume.prerequisites | Prerequisites(
        features=("dm:writecache",)
    )
    segment_type: ClassVar[str] = "writecache"

    layer: Literal["dm-writecache"] = "dm-writecache"
    block_bytes: Literal[512, 4096] = Field(
        default=4096,
        alias="block_size",
        description="Blocks of the cache, in bytes; no smaller I/O is then possible above",
    )
    high_watermark_percent: Percent = Field(
        default=50, alias="high_watermark", description="How full it is when it begins to write back, in %"
    )
    low_watermark_percent: Percent = Field(
        default=45, alias="low_watermark", description="How full it is when it ends to write back, in %"
    )
    writeback_jobs: Annotated[int, Field(ge=1, le=(1 << 31) - 1)] | None = Field(
        default=None, description="How many blocks are written back at once; default: no limit", examples=[64]
    )
    autocommit_blocks: Annotated[int, Field(ge=1, le=(1 << 31) - 1)] | None = Field(
        default=None,
        description="After how many blocks its metadata are written, if nothing is flushed; default: 64",
        examples=[1024],
    )
    autocommit_time_ns: Milliseconds | None = Field(
        default=None,
        alias="autocommit_time",
        description="After what time they are; default: 1 s",
        examples=["100ms"],
    )
    max_age_ns: Milliseconds | None = Field(
        default=None,
        alias="max_age",
        description="What is dirty for longer is written back in any case; default: never",
        examples=["60s"],
    )

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        """Watermarks that lie the wrong way round, beside devices too small for LVM."""
        yield from super().diagnostics(lower, named)
        if self.low_watermark_percent > self.high_watermark_percent:
            yield Diagnostic(
                f"the low watermark of {self.low_watermark_percent} % lies above the high one of "
                f"{self.high_watermark_percent} %",
                remedy="swap them",
                key="low_watermark",
            )

    def provided(self, lower: Provided) -> Provided:
        """One block device, with the cache's blocks as its sectors."""
        return super().provided(lower).with_sectors(self.block_bytes)

    def convert_options(self) -> list[str]:
        """The settings, all in one."""
        settings = {
            "block_size": self.block_bytes,
            "high_watermark": self.high_watermark_percent,
            "low_watermark": self.low_watermark_percent,
            "writeback_jobs": self.writeback_jobs,
            "autocommit_blocks": self.autocommit_blocks,
            "autocommit_time": _milliseconds(self.autocommit_time_ns),
            "max_age": _milliseconds(self.max_age_ns),
        }
        given = " ".join(f"{name}={value}" for name, value in settings.items() if value is not None)
        return ["--cachesettings", given]


def _milliseconds(duration_ns: int | None) -> int | None:
    return None if duration_ns is None else duration_ns // NS_PER_MS
