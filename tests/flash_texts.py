# SPDX-License-Identifier: Apache-2.0
"""A flash drive in plain numbers, apart from ``strata.lab.model``: a mistake in either shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from strata.lab.model import ModelledDisk, ModelTrace

MIB = 1 << 20
GIB = 1 << 30
US = 1000
BLOCK = 8
"""Sectors of a mapping unit of 4 KiB."""


@dataclass(frozen=True)
class Drive:
    """Sixteen dies, a link of 500 MB/s, no power-loss protection unless ``volatile_cache`` is 0."""

    capacity_bytes: int = 256 * MIB
    dies: int = 16
    page_bytes: int = 16384
    read_ns: tuple[int, ...] = (50 * US,)
    program_ns: tuple[int, ...] = (400 * US,)
    erase_ns: int = 4000 * US
    spare_ppm: int = 120_000
    link_bytes_per_s: int = 500_000_000
    command_ns: int = 2 * US
    interface_ns: int = 10 * US
    flush_ns: int = 1000 * US
    buffer_bytes: int = MIB
    volatile_cache: int = 1

    @property
    def sectors(self) -> int:
        return self.capacity_bytes // 512

    @property
    def units(self) -> int:
        return self.capacity_bytes // 4096

    def link_ns(self, size_bytes: int) -> int:
        """The time for which a command keeps the link busy."""
        return self.command_ns + size_bytes * 1_000_000_000 // self.link_bytes_per_s

    def text(self, **changed: object) -> str:
        """The configuration text; keywords replace, add or, with None, remove keys."""
        values: dict[str, object] = {
            "name": "sda",
            "capacity_sectors": self.sectors,
            "backing_fd": 3,
            "model": "flash",
            "queue_depth": 1024,
            "seed": 7,
            "discard": 1,
            "volatile_cache": self.volatile_cache,
            "fua": self.volatile_cache,
            "dies": self.dies,
            "channels": 4,
            "page_bytes": self.page_bytes,
            "pages_per_block": 256,
            "spare_ppm": self.spare_ppm,
            "read_ns": ",".join(map(str, self.read_ns)),
            "program_ns": ",".join(map(str, self.program_ns)),
            "erase_ns": self.erase_ns,
            "link_bytes_per_s": self.link_bytes_per_s,
            "command_ns": self.command_ns,
            "interface_read_ns": self.interface_ns,
            "interface_write_ns": self.interface_ns,
            "flush_ns": self.flush_ns,
            "buffer_bytes": self.buffer_bytes,
        }
        values.update(changed)
        return "".join(f"{key}={value}\n" for key, value in values.items() if value is not None)

    def open(self, **changed: object) -> ModelledDisk:
        """The drive, with other keys."""
        return ModelledDisk(self.text(**changed))


def blocks(drive: Drive, count: int, seed: int = 1) -> npt.NDArray[np.int64]:
    """First sectors of uniform random 4-KiB blocks."""
    return np.random.default_rng(seed).integers(0, drive.units, count) * BLOCK


def rate_per_s(trace: ModelTrace) -> float:
    """I/Os a second."""
    return len(trace.arrival_ns) / trace.duration_ns * 1e9


def amplification(disk: ModelledDisk, before: dict[str, int]) -> float:
    """Bytes programmed for each byte written, since the account ``before``."""
    after = disk.account()
    media = after["media_write_bytes"] - before["media_write_bytes"]
    return media / (after["write_bytes"] - before["write_bytes"])
