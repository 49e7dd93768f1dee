# SPDX-License-Identifier: Apache-2.0
"""dm-writecache, as LVM makes it: a volume whose writes go to another device first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from strata.layers.lvm.cached_volume import CachedVolume
from strata.spec.interface import Provided
from strata.spec.names import Diagnostic
from strata.spec.step import Prerequisites
from strata.units import NS_PER_MS, Duration

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
