# SPDX-License-Identifier: Apache-2.0
"""dm-cache, as LVM makes it: a volume whose hot chunks lie on another device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from strata.layers.lvm.cached_volume import CachedVolume
from strata.spec.interface import Provided
from strata.spec.names import Diagnostic
from strata.spec.step import Prerequisites
from strata.units import Size, describe_size

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
