# SPDX-License-Identifier: Apache-2.0
"""The requests of one of this machine's disks, from the kernel's block events in tracefs.

They are the tracepoints that blktrace and programs of eBPF attach to. tracefs needs no other program, and a
kernel that is locked down for Secure Boot refuses blktrace's files in debugfs, but not these.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Final

from strata.errors import ResultError
from strata.traces.foreign import Event, joined
from strata.traces.table import END_SECTOR_MAX, Trace
from strata.units import NS_PER_S, NS_PER_US

TRACEFS: Final = Path("/sys/kernel/tracing")
_BLOCK: Final = Path("/sys/dev/block")
# A disk without a queue of its own (LVM, RAID, zram) takes bios, and issues no requests.
_REQUESTS: Final = ("block_rq_issue", "block_rq_complete")
_BIOS: Final = ("block_bio_queue", "block_bio_complete")
_ACTIONS: Final = {"rq_issue": "D", "bio_queue": "Q", "rq_complete": "C", "bio_complete": "C"}
_EVENT: Final = re.compile(
    r"\[\d+\] \S+ +(?P<s>\d+)\.(?P<us>\d{6}): block_(?P<what>rq_issue|rq_complete|bio_queue|bio_complete): "
    r"(?P<disk>\d+,\d+) (?P<rwbs>[A-Z]+) (?:(?:\d+ )?\(.*?\) )?(?P<sector>\d+) \+ (?P<sectors>\d+) "
)
_LOST: Final = re.compile(r"CPU:\d+ \[LOST (\d+) EVENTS\]")
_BUFFERS_KIB: Final = 64 << 10  # of all CPUs: some 800,000 events
_BUFFER_KIB_MIN: Final = 256  # of a CPU
_READ_BYTES: Final = 1 << 20
_MEMORY_BYTES: Final = 256 << 20  # what is written while a disk is recorded would be in the recording


def block_events(lines: Iterable[str]) -> Iterator[Event]:
    """The requests in the text of tracefs; its times are of a microsecond."""
    for found in filter(None, map(_EVENT.search, lines)):
        sectors = int(found["sectors"])
        sector = int(found["sector"]) if sectors else 0  # a flush has sector -1
        if sector + sectors <= END_SECTOR_MAX:
            at_ns = int(found["s"]) * NS_PER_S + int(found["us"]) * NS_PER_US
            yield Event(at_ns, _ACTIONS[found["what"]], found["disk"], found["rwbs"], sector, sectors)


class BlockRecording:
    """A disk's events as text; the kernel's other tracing sees nothing of them."""

    def __init__(self, pipe: FileIO) -> None:
        self._pipe, self._text = pipe, tempfile.SpooledTemporaryFile[bytes](_MEMORY_BYTES)

    def take(self) -> None:
        """Take what has come."""
        while text := self._pipe.read(_READ_BYTES):
            self._text.write(text)

    def trace(self) -> tuple[Trace, int]:
        """The requests, and how many events were lost, which came faster than they were taken."""
        self._text.seek(0)
        with TextIOWrapper(self._text, errors="replace") as lines:
            lost = 0

            def kept() -> Iterator[str]:
                nonlocal lost
                for line in lines:
                    found = _LOST.search(line)
                    lost += int(found[1]) if found else 0
                    yield line

            return joined(block_events(kept())), lost


@contextmanager
def tracing(device: Path, tracefs: Path = TRACEFS) -> Iterator[BlockRecording]:
    """Trace a disk's requests. Raises ResultError if the device is no whole disk or may not be traced."""
    major, minor, events = _traceable(device)
    try:
        if not (tracefs / "events/block").is_dir():
            cause = "the kernel's block events are not there"
            remedy = (
                f"mount them: mount -t tracefs tracefs {tracefs}; a kernel without CONFIG_FTRACE has none"
            )
            raise ResultError(cause, place=str(tracefs), remedy=remedy)
        _remove_left(tracefs)
        folder = Path(tempfile.mkdtemp(prefix=f"strata-{os.getpid()}-", dir=tracefs / "instances"))
        try:
            (folder / "buffer_size_kb").write_text(
                str(max(_BUFFERS_KIB // (os.cpu_count() or 1), _BUFFER_KIB_MIN))
            )
            (folder / "trace_clock").write_text("mono")
            for event in events:
                (folder / "events/block" / event / "filter").write_text(f"dev == {major << 20 | minor}")
                (folder / "events/block" / event / "enable").write_text("1")
            with FileIO(folder / "trace_pipe", opener=_waiting_for_nothing) as pipe:
                yield (found := BlockRecording(pipe))
                (folder / "tracing_on").write_text("0")
                found.take()
        finally:
            folder.rmdir()
    except PermissionError as error:
        remedy = "be root: sudo strata record --disk …; a kernel locked down to confidentiality allows nobody"
        raise ResultError(
            "the kernel's block events may not be read", place=str(tracefs), remedy=remedy
        ) from error


def _waiting_for_nothing(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _traceable(device: Path) -> tuple[int, int, tuple[str, ...]]:
    """A disk's number and its events. Raises ResultError."""
    try:
        state = device.stat()
    except OSError:
        state = None
    if state is None or not stat.S_ISBLK(state.st_mode):
        remedy = "see the disks with `strata list disks`"
        raise ResultError("it is no block device", place=str(device), remedy=remedy)
    major, minor = os.major(state.st_rdev), os.minor(state.st_rdev)
    described = (_BLOCK / f"{major}:{minor}").resolve()
    if (described / "partition").exists():
        remedy = f"name the disk: /dev/{described.parent.name}"
        raise ResultError("it is a part of a disk", place=str(device), remedy=remedy)
    return major, minor, _REQUESTS if (described / "mq").is_dir() else _BIOS


def _remove_left(tracefs: Path) -> None:
    """Remove the tracing of recordings that were killed: their buffers are the kernel's memory."""
    for folder in (tracefs / "instances").glob("strata-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with suppress(OSError):  # another container's recording, whose process is not seen here
                folder.rmdir()
