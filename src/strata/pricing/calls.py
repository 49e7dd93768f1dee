# SPDX-License-Identifier: Apache-2.0
"""Counting the system calls of a program: the tracepoint raw_syscalls:sys_enter, by perf_event_open(2)."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from strata.errors import ToolError
from strata.pricing.tasks import NAME_BYTES_MAX

_TRACING: Final = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_POINT: Final = "events/raw_syscalls/sys_enter/id"
_PERF_EVENT_OPEN: Final = 298  # of x86-64
_TRACEPOINT, _DISABLED, _CLOSE_ON_EXEC = 2, 1, 8
_SET_FILTER: Final = 0x40082406  # PERF_EVENT_IOC_SET_FILTER
_ENABLE, _DISABLE = 0x2400, 0x2401
_ATTRIBUTE_BYTES: Final = 112  # PERF_ATTR_SIZE_VER5


class SystemCalls:
    """The system calls of all tasks of one name while the context is open, in ``count``.

    Entering raises ToolError without root or without the tracepoint.
    """

    def __init__(self, name: str) -> None:
        self.count = 0
        self._filter = ctypes.create_string_buffer(f'comm == "{name[:NAME_BYTES_MAX]}"'.encode())
        self._counters: list[int] = []

    def __enter__(self) -> SystemCalls:
        point = _tracepoint()
        head = struct.pack("=IIQ24xQ", _TRACEPOINT, _ATTRIBUTE_BYTES, point, _DISABLED)
        attribute = ctypes.create_string_buffer(head, _ATTRIBUTE_BYTES)
        library = ctypes.CDLL(None, use_errno=True)
        try:
            for cpu in sorted(os.sched_getaffinity(0) | _online()):
                counter = library.syscall(_PERF_EVENT_OPEN, attribute, -1, cpu, -1, _CLOSE_ON_EXEC)
                if counter < 0:
                    reason = os.strerror(ctypes.get_errno())
                    raise ToolError(f"system calls cannot be counted: {reason}", remedy="run it as root")
                self._counters.append(counter)
                if library.ioctl(counter, ctypes.c_ulong(_SET_FILTER), self._filter) < 0:
                    reason = os.strerror(ctypes.get_errno())
                    raise ToolError(
                        f"system calls cannot be counted by name: {reason}", remedy="name a program"
                    )
        except BaseException:
            self._close()
            raise
        for counter in self._counters:
            fcntl.ioctl(counter, _ENABLE, 0)
        return self

    def __exit__(self, *_: object) -> None:
        for counter in self._counters:
            fcntl.ioctl(counter, _DISABLE, 0)
        self.count = sum(struct.unpack("=Q", os.read(counter, 8))[0] for counter in self._counters)
        self._close()

    def _close(self) -> None:
        while self._counters:
            os.close(self._counters.pop())


def _online() -> set[int]:
    found: set[int] = set()
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _tracepoint() -> int:
    for folder in _TRACING:
        with suppress(OSError):
            return int((folder / _POINT).read_text())
    raise ToolError(
        "the kernel's tracepoints cannot be read",
        place=str(_TRACING[0]),
        remedy="as root: `mount -t tracefs none /sys/kernel/tracing`; it needs CONFIG_FTRACE_SYSCALLS",
    )
