# SPDX-License-Identifier: Apache-2.0
"""What the tasks of a program used, from the kernel's task statistics (taskstats, generic netlink).

The kernel reports each task as it ends, and answers for living ones. Layout: include/uapi/linux/taskstats.h,
genetlink.h; the offsets are those of version 8 and later, but for 15 and 16, which broke them.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.errors import ToolError

NAME_BYTES_MAX: Final = 15
"""The kernel keeps this many bytes of a task's name."""
_NETLINK_GENERIC, _CONTROL, _REQUEST, _ERROR = 16, 0x10, 1, 2
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2  # CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_*
_GET, _BY_PID, _REGISTER = 1, 1, 3  # TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, …_REGISTER_CPUMASK
_AGGREGATE, _STATISTICS = 4, 3  # TASKSTATS_TYPE_AGGR_PID, TASKSTATS_TYPE_STATS
_BUFFER_BYTES: Final = 16 << 20
_DRAIN_S: Final = 0.3  # the kernel reports an end some milliseconds late
_FIELDS: Final = struct.Struct("=72x Q 32s 16x I 20x Q Q Q Q 32x Q Q".replace(" ", ""))
"""Processor time in ns, name, id, user and system time in us, faults (two kinds), bytes read and written."""


@dataclass(frozen=True)
class TaskUsage:
    """Processor time, page faults, and bytes read and written with read(2), write(2) and their relatives."""

    processor_ns: int = 0
    user_ticks_us: int = 0  # sampled; their sum is off for tasks that run in short bursts
    system_ticks_us: int = 0
    page_faults: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def user_ns(self) -> float:
        """The share of the processor time that the samples found in user code."""
        ticks = self.user_ticks_us + self.system_ticks_us
        return self.processor_ns * self.user_ticks_us / ticks if ticks else 0.0

    def __add__(self, other: TaskUsage) -> TaskUsage:
        return TaskUsage(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __sub__(self, other: TaskUsage) -> TaskUsage:
        return TaskUsage(*(a - b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


class TaskStatistics:
    """The usage of all tasks of one name while the context is open; threads count as tasks.

    Entering raises ToolError without root, or on a kernel without task statistics.
    """

    def __init__(self, name: str) -> None:
        self.total = TaskUsage()
        self._name = name.encode()[:NAME_BYTES_MAX]
        self._open: dict[int, TaskUsage] = {}  # the tasks that lived at the beginning
        self._is_over = threading.Event()
        self._failure: ToolError | None = None

    def __enter__(self) -> TaskStatistics:
        self._ends, self._questions = _connection(), _connection()
        self._family = _family(self._questions)
        mask = Path("/sys/devices/system/cpu/possible").read_text().strip()
        _send(self._ends, self._family, _GET, _REGISTER, f"{mask}\0".encode())
        self._open = dict(self._living())
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_over.wait(_DRAIN_S)
        for pid, usage in self._living():
            self._count(pid, usage)
        self._is_over.set()
        self._thread.join()
        self._ends.close()
        self._questions.close()
        if self._failure is not None and raised[0] is None:
            raise self._failure

    def _count(self, pid: int, usage: TaskUsage) -> None:
        self.total += usage - self._open.pop(pid, TaskUsage())

    def _listen(self) -> None:
        self._ends.settimeout(0.05)
        while not self._is_over.is_set():
            try:
                message = self._ends.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError as error:  # ENOBUFS: ends were lost
                cause = f"the kernel's reports of ended tasks were lost: {error.strerror}"
                self._failure = ToolError(cause, remedy="measure while fewer programs start and end")
                return
            if (found := _statistics(message)) is not None and found[1] == self._name:
                self._count(found[0], found[2])

    def _living(self) -> Iterator[tuple[int, TaskUsage]]:
        for folder in _tasks():
            with suppress(OSError):
                if (folder / "comm").read_bytes().rstrip(b"\n") == self._name:
                    _send(self._questions, self._family, _GET, _BY_PID, struct.pack("=I", int(folder.name)))
                    if (found := _statistics(self._questions.recv(1 << 16))) is not None:
                        yield found[0], found[2]


def _tasks() -> Iterator[Path]:
    """The folders of all tasks; processes may end meanwhile, which Path.glob does not survive."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield from (process / "task").iterdir()


def _connection() -> socket.socket:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    made.bind((0, 0))
    made.settimeout(5)
    return made


def _send(to: socket.socket, family: int, command: int, attribute: int, value: bytes) -> None:
    stated = struct.pack("=HH", 4 + len(value), attribute) + value
    body = struct.pack("=BBH", command, 1, 0) + stated + bytes(-len(stated) % 4)
    to.send(struct.pack("=IHHII", 16 + len(body), family, _REQUEST, 0, 0) + body)


def _family(to: socket.socket) -> int:
    _send(to, _CONTROL, _GET_FAMILY, _FAMILY_NAME, b"TASKSTATS\0")
    message = to.recv(1 << 16)
    found = dict(_attributes(message[20:])) if _kind(message) != _ERROR else {}
    if _FAMILY_ID not in found:
        remedy = "it needs CONFIG_TASKSTATS, as Debian's kernels have it"
        raise ToolError("this kernel has no task statistics", remedy=remedy)
    if os.geteuid() != 0:
        raise ToolError("only root may read the statistics of all tasks", remedy="run it as root")
    return int(struct.unpack("=H", found[_FAMILY_ID][:2])[0])


def _kind(message: bytes) -> int:
    return int(struct.unpack_from("=IH", message)[1])


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


def _statistics(message: bytes) -> tuple[int, bytes, TaskUsage] | None:
    """A task's id, name and usage; None for an error, and for the sum over a process's threads."""
    if _kind(message) == _ERROR:
        return None
    parts = dict(_attributes(message[20:]))
    if _AGGREGATE not in parts:
        return None
    inner = dict(_attributes(parts[_AGGREGATE]))
    told = struct.unpack("=I", inner[_BY_PID][:4])[0]
    fields = _FIELDS.unpack_from(inner[_STATISTICS])
    processor_ns, name, pid, user_us, system_us, *faults, read_bytes, written_bytes = fields
    if pid != told:
        cause = "this kernel's task statistics have another layout"
        raise ToolError(cause, remedy="Linux 6.14 and 6.15 broke it: use an older or a later kernel")
    return (
        pid,
        name.split(b"\0")[0],
        TaskUsage(processor_ns, user_us, system_us, sum(faults), read_bytes, written_bytes),
    )
