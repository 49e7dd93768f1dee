# SPDX-License-Identifier: Apache-2.0
"""The page on which a running lab publishes its clock and the task that it runs.

The kernel's side is struct strata_status in ``kernel/patches``. It writes without locks, so a reading may
mix two instants; it serves progress and the watchdog, never a result.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from typing import Final

PAGE_BYTES: Final = 4096
_LAYOUT: Final = struct.Struct("<8sQQI16s")
_MAGIC: Final = b"STRATA01"


@dataclass(frozen=True)
class Status:
    """One reading.

    Attributes:
        booted: The kernel has come far enough to publish at all.
        virtual_time_ns: Since the lab's boot.
        context_switches: Since the lab's boot.
        pid: The task that runs now; ``comm`` is its name.
    """

    booted: bool
    virtual_time_ns: int
    context_switches: int
    pid: int
    comm: str


class StatusPage:
    """The host's side of the page: a file without a name, shared with the lab.

    Close it when the lab has ended.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("strata-status", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, PAGE_BYTES)
        self._page = mmap.mmap(self.descriptor, PAGE_BYTES, prot=mmap.PROT_READ)

    def read(self) -> Status:
        """What the lab says now."""
        magic, virtual_time_ns, switches, pid, comm = _LAYOUT.unpack_from(self._page)
        name = comm.split(b"\0", 1)[0].decode(errors="replace")
        return Status(magic == _MAGIC, virtual_time_ns, switches, pid, name)

    def close(self) -> None:
        """Give up the page."""
        self._page.close()
        os.close(self.descriptor)
