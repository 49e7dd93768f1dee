# SPDX-License-Identifier: Apache-2.0
"""dm-cache and dm-writecache, as LVM makes them: a volume on one device, and its cache on another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictStr

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.layers.lvm.volume_group import (
    EXTENT_BYTES,
    PERSISTENT_DATA_TROUBLE,
    VOLUME,
    LvmLayer,
    extents,
    sector_diagnostics,
)
from strata.layers.options import cache_structures, multiple_of, whole
from strata.model.layer import KernelLog, LayerContext, LowerInterface, Provided
from strata.model.step import Prerequisites, Step
from strata.units import NS_PER_MS, NS_PER_S, SECTOR_BYTES, Duration, Size, describe_size

_CACHE_VOLUME: Final = "cache"
# LVM takes 8 MiB of a small cache for its metadata, and more of a large one.
_CACHE_BYTES_MIN: Final = 32 << 20
_CONVERT_LIMIT_NS: Final = 600 * NS_PER_S


class CachedVolume(LvmLayer):
    """The base of the layers that are a volume with a cache volume attached."""

    family = "caches, encryption, integrity"
    requires = LowerInterface("block")
    device_keys = ("cache",)
    segment_type: ClassVar[str]  # the type to which LVM converts the volume
    prerequisites = Prerequisites(tools=("lvconvert", "lvcreate", "pvcreate", "vgchange", "vgcreate"))
    # drivers/md/{dm-cache-target,dm-writecache}.c of Linux 7.2
    kernel_log = KernelLog(
        trouble=(
            r"device-mapper: (?:cache|writecache): .*(?:failed|error|could not|until repaired|unable to"
            r"|aborting current metadata|switching cache to (?:read-only|fail)).*",
            *PERSISTENT_DATA_TROUBLE,
        )
    )

    cache: StrictStr = Field(examples=["ssd"])
    """The study's device that caches"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
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
        return extents(min(lower_bytes)) * EXTENT_BYTES

    def structures(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Structure]:
        return cache_structures([named[self.cache]], f"cache of {self.layer}")

    def convert_options(self, cache_bytes: int) -> list[str]:
        """The options of lvconvert for a cache of this size."""
        raise NotImplementedError

    def build(self, context: LayerContext) -> list[Step]:
        group = self.group(context)
        cache, backing = f"${{{self.cache}}}", context.lower[0]
        whole = ("--extents", "100%PVS", group.name)
        options = self.convert_options(context.capacities[self.cache])
        attach = ("--type", self.segment_type, "--cachevol", _CACHE_VOLUME, *options)
        return [
            *group.create(),
            group.step(
                "cache",
                f"Make the volume that caches on {self.cache}",
                # LVM writes the first blocks of a cache itself when it attaches it.
                *("lvcreate", "--activate", "n", "--zero", "n", "--wipesignatures", "n"),
                *("--name", _CACHE_VOLUME, *whole, cache),
            ),
            group.make(
                "volume",
                "Make the volume that is cached",
                *("lvcreate", "--zero", "y", "--wipesignatures", "y", "--name", VOLUME, *whole, backing),
            ),
            group.make(
                "attach",
                "Attach the cache",
                *("lvconvert", *attach, f"{group.name}/{VOLUME}"),
                time_limit_ns=_CONVERT_LIMIT_NS,
            ),
        ]


# LVM refuses more (allocation/cache_pool_max_chunks): their table would fill the memory. It computes a larger
# chunk for a cache pool (lib/metadata/cache_manip.c), but for a --cachevol it does not.
_CHUNKS_MAX: Final = 1_000_000
_CHUNK_BYTES: Final = 64 << 10
_CHUNK_STEP_BYTES: Final = 32 << 10


class DmCache(CachedVolume):
    """A volume whose hot chunks are moved to the device ``cache``."""

    prerequisites = CachedVolume.prerequisites | Prerequisites(features=("dm:cache",))
    segment_type = "cache"
    also_called = ("cache", "lvm-cache", "lvmcache")

    layer: Literal["dm-cache"] = "dm-cache"
    mode: Literal["writethrough", "writeback", "passthrough"] = "writethrough"
    """Where writes to cached chunks go: to both devices, to the cache alone, or to the device below, which
    drops the chunk from the cache; passthrough caches no reads either"""
    policy: Literal["smq"] = "smq"
    """The policy that decides which chunks are hot; the only one since Linux 4.6"""
    chunk_bytes: Annotated[Size, multiple_of(_CHUNK_STEP_BYTES, _CHUNK_STEP_BYTES, 1 << 30)] | None = Field(
        None, alias="chunk", examples=["256KiB"]
    )
    """The unit that is moved, a multiple of 32KiB; default: LVM's, 64 KiB, or the least by which a cache
    has a million chunks at most: 512 KiB on 500 GB"""
    migration_threshold_bytes: Annotated[Size, multiple_of(SECTOR_BYTES)] | None = Field(
        None, alias="migration_threshold", examples=["16MiB"]
    )
    """How much is moved at a time between the devices; default: LVM's, eight chunks or 1 MiB"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        if self.chunk_bytes is not None and named[self.cache] // self.chunk_bytes > _CHUNKS_MAX:
            yield Diagnostic(
                f"a cache of {describe_size(named[self.cache])} would have more than a million chunks of "
                f"{describe_size(self.chunk_bytes)}",
                remedy="give a larger chunk, or leave it out",
                key="chunk",
            )

    def sole_copies(self) -> tuple[str, ...]:
        """In each mode its metadata, without which the volume returns errors."""
        return ("cache",)

    def convert_options(self, cache_bytes: int) -> list[str]:
        options = ["--cachemode", self.mode, "--cachepolicy", self.policy]
        steps = -(-cache_bytes // (_CHUNKS_MAX * _CHUNK_STEP_BYTES))
        chunk_bytes = self.chunk_bytes or max(_CHUNK_BYTES, steps * _CHUNK_STEP_BYTES)
        if chunk_bytes != _CHUNK_BYTES or self.chunk_bytes:
            options += ["--chunksize", f"{chunk_bytes}b"]
        if self.migration_threshold_bytes is not None:
            options += [
                "--cachesettings",
                f"migration_threshold={self.migration_threshold_bytes // SECTOR_BYTES}",
            ]
        return options


Percent = Annotated[int, Field(ge=0, le=100)]
Count = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
Milliseconds = Annotated[Duration, whole(NS_PER_MS, "milliseconds")]


class DmWritecache(CachedVolume):
    """A volume whose writes go to the device ``cache`` first.

    They are written back later. Reads that miss the cache go past it. It is taken down when everything is
    written back.
    """

    prerequisites = CachedVolume.prerequisites | Prerequisites(features=("dm:writecache",))
    segment_type = "writecache"
    also_called = ("writecache",)

    layer: Literal["dm-writecache"] = "dm-writecache"
    block_bytes: Literal[512, 4096] = Field(4096, alias="block_size")
    """Blocks of the cache, in bytes; no smaller I/O is then possible above"""
    high_watermark_percent: Percent = Field(50, alias="high_watermark")
    """Fill level at which writing back starts, in %"""
    low_watermark_percent: Percent = Field(45, alias="low_watermark")
    """Fill level at which writing back stops, in %"""
    writeback_jobs: Count | None = Field(None, examples=[64])
    """How many blocks are written back at once; default: no limit"""
    autocommit_blocks: Count | None = Field(None, examples=[1024])
    """Write the metadata after this many blocks without a flush; default: 64"""
    autocommit_time_ns: Milliseconds | None = Field(None, alias="autocommit_time", examples=["100ms"])
    """Write the metadata after this time without a flush; default: 1 s"""
    max_age_ns: Milliseconds | None = Field(None, alias="max_age", examples=["60s"])
    """Write blocks back that are dirty for longer than this; default: never"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        if self.low_watermark_percent > self.high_watermark_percent:
            yield Diagnostic(
                f"the low watermark of {self.low_watermark_percent} % lies above the high one of "
                f"{self.high_watermark_percent} %",
                remedy="swap them",
                key="low_watermark",
            )

    def provided(self, lower: Provided) -> Provided:
        return super().provided(lower).with_sectors(self.block_bytes)

    def sole_copies(self) -> tuple[str, ...]:
        return ("cache",)

    def tables_bytes(self, named: Mapping[str, int]) -> int:
        """A struct wc_entry and a struct wc_memory_entry for each block: 72 bytes in the lab's kernel."""
        entry_bytes, on_disk_bytes = 56, 16
        return named[self.cache] // (self.block_bytes + on_disk_bytes) * (entry_bytes + on_disk_bytes)

    def convert_options(self, cache_bytes: int) -> list[str]:
        settings = {
            "block_size": self.block_bytes,
            "high_watermark": self.high_watermark_percent,
            "low_watermark": self.low_watermark_percent,
            "writeback_jobs": self.writeback_jobs,
            "autocommit_blocks": self.autocommit_blocks,
            "autocommit_time": self.autocommit_time_ns and self.autocommit_time_ns // NS_PER_MS,
            "max_age": self.max_age_ns and self.max_age_ns // NS_PER_MS,
        }
        given = " ".join(f"{name}={value}" for name, value in settings.items() if value is not None)
        return ["--cachesettings", given]
