# SPDX-License-Identifier: Apache-2.0
"""One reading of a machine: counters, clocks, processes and temperatures at an instant.

They are read from the files below /proc, /sys, /run and /dev in which a machine describes itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strata.units import SECTOR_BYTES


@dataclass(frozen=True)
class SystemFiles:
    """A machine's own files; a missing or unreadable one counts as empty.

    Paths are relative to the root, or absolute below it.
    """

    root: Path = Path("/")

    def has(self, path: str | Path) -> bool:
        return (self.root / path).exists()

    def content(self, path: str | Path) -> bytes:
        try:
            return (self.root / path).read_bytes()
        except OSError:
            return b""

    def text(self, path: str | Path) -> str:
        """A file's text without surrounding white space."""
        return self.content(path).decode(errors="replace").strip()

    def line(self, path: str | Path) -> str:
        """A file's text on one line, with printable characters only."""
        return one_line(self.content(path).decode(errors="replace"))

    def lines(self, path: str | Path) -> list[list[str]]:
        """The words of each line of a file."""
        return [line.split() for line in self.text(path).splitlines()]

    def number(self, path: str | Path) -> int:
        """The integer in a file, or 0."""
        text = self.line(path)
        return int(text) if text.lstrip("-").isdigit() else 0

    def names(self, path: str | Path) -> list[str]:
        try:
            return sorted(os.listdir(self.root / path))  # noqa: PTH208  names are wanted
        except OSError:
            return []

    def places(self, pattern: str) -> list[Path]:
        return sorted(self.root.glob(pattern))


def one_line(text: str) -> str:
    """A text from outside, such as a device's model, on one line and safe to print."""
    words = text.replace("\0", " ").split()
    return "".join(each if each.isprintable() else "\ufffd" for each in " ".join(words))


def chosen(text: str) -> str:
    """The choice in brackets, of files such as ``[none] mq-deadline``."""
    return text.partition("[")[2].partition("]")[0] or text


_KERNEL_THREAD: Final = 0x0020_0000  # PF_KTHREAD in include/linux/sched.h
_HZ: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Sensors without a limit say 0, or the largest number of their register.
_LIMIT_CELSIUS_MAX: Final = 200.0
_THROTTLE_COUNTS: Final = "sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count"
_DRIVES: Final = ("nvme", "drivetemp")

Clocks = Callable[[], tuple[int, int, int]]
"""CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_REALTIME in nanoseconds."""


def _clocks() -> tuple[int, int, int]:
    kinds = (time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME, time.CLOCK_REALTIME)
    monotonic_ns, boot_ns, real_ns = (time.clock_gettime_ns(kind) for kind in kinds)
    return monotonic_ns, boot_ns, real_ns


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    started: int  # in ticks since the boot; distinguishes processes with the same pid
    name: str
    own_s: float  # processor time of its threads
    waited_s: float  # processor time of its ended and reaped descendants
    group: int = 0
    state: str = "S"  # of its first thread, a letter of proc_pid_stat(5)


@dataclass(frozen=True)
class Temperature:
    """A sensor's reading."""

    sensor: str
    celsius: float
    limit_celsius: float | None  # at which the drive or processor slows down, by the kernel; None: unknown

    @property
    def is_at_limit(self) -> bool:
        return self.limit_celsius is not None and self.celsius >= self.limit_celsius


@dataclass(frozen=True)
class Ticks:
    """Processor time of all CPUs since the boot, used and withheld by a hypervisor."""

    cpus: int
    busy_s: float
    steal_s: float


@dataclass(frozen=True)
class MachineReading:
    """A machine at an instant; counters run since its boot."""

    monotonic_ns: int
    boottime_ns: int
    realtime_ns: int
    ticks: Ticks
    processes: Mapping[int, Process] = field(default_factory=dict)
    kernel_threads_s: Mapping[int, float] = field(default_factory=dict)  # processor time of each
    disk_bytes: Mapping[str, int] = field(default_factory=dict)  # read and written, by the kernel's names
    stall_s: Mapping[str, float] = field(default_factory=dict)  # waiting for cpu, io or memory (PSI)
    swapped_bytes: int = 0
    oom_kills: int = 0
    throttles: int = 0  # of CPUs, for their temperature
    temperatures: Sequence[Temperature] = ()


@dataclass(frozen=True)
class Sampler(SystemFiles):
    """Samples a machine's counters, clocks, processes and sensors."""

    clocks: Clocks = _clocks

    def reading(self) -> MachineReading:
        """Read everything; missing figures are left out or 0."""
        monotonic_ns, boottime_ns, realtime_ns = self.clocks()
        counters = {words[0]: int(words[1]) for words in self.lines("proc/vmstat") if len(words) == 2}
        tasks = list(self._tasks())
        return MachineReading(
            monotonic_ns=monotonic_ns,
            boottime_ns=boottime_ns,
            realtime_ns=realtime_ns,
            ticks=self.ticks(),
            processes={each.pid: each for each, is_kernels in tasks if not is_kernels},
            kernel_threads_s={each.pid: each.own_s for each, is_kernels in tasks if is_kernels},
            disk_bytes=self._disk_bytes(),
            stall_s=self.stall_s(),
            swapped_bytes=_PAGE_BYTES * (counters.get("pswpin", 0) + counters.get("pswpout", 0)),
            oom_kills=counters.get("oom_kill", 0),
            throttles=sum(map(self.number, self.places(_THROTTLE_COUNTS))),
            temperatures=tuple(self.temperatures()),
        )

    def ticks(self) -> Ticks:
        rows = [words for words in self.lines("proc/stat") if words[:1] and words[0].startswith("cpu")]
        total = next((list(map(int, words[1:])) for words in rows if words[0] == "cpu"), [])
        total += [0] * (8 - len(total))
        # Interrupts are left out: the process that they serve is not known.
        return Ticks(max(1, len(rows) - 1), sum(total[:3]) / _HZ, total[7] / _HZ)

    def stall_s(self) -> dict[str, float]:
        """The totals of /proc/pressure (Documentation/accounting/psi.rst)."""
        found = {}
        for kind in ("cpu", "io", "memory"):
            for words in self.lines(f"proc/pressure/{kind}"):
                if words[0] == "some":
                    found[kind] = int(words[-1].removeprefix("total=")) / 1e6
        return found

    def temperatures(self) -> Iterator[Temperature]:
        """The sensors of hwmon and the thermal zones. Reading one may wake a drive."""
        for path in self.places("sys/class/hwmon/hwmon*/temp*_input"):
            if (celsius := self._celsius(path)) is None:
                continue
            chip, stem = self.text(path.parent / "name"), path.name.removesuffix("_input")
            # Drives slow down at their warning temperature; a processor's is where its fans speed up.
            limits = ("max", "crit") if chip in _DRIVES else ("crit",)
            known = self._limits(path.parent / f"{stem}_{each}" for each in limits)
            label = self.text(path.parent / f"{stem}_label") or stem
            yield Temperature(f"{chip} {label}", celsius, known[0] if known else None)
        for zone in self.places("sys/class/thermal/thermal_zone*"):
            if (celsius := self._celsius(zone / "temp")) is not None:
                trips = [path for path in zone.glob("trip_point_*_type") if self.text(path) == "passive"]
                set_at = self._limits(path.with_name(path.name.replace("_type", "_temp")) for path in trips)
                yield Temperature(self.text(zone / "type") or zone.name, celsius, min(set_at, default=None))

    def _celsius(self, path: Path) -> float | None:
        text = self.text(path)
        return int(text) / 1000 if text.lstrip("-").isdecimal() else None

    def _limits(self, paths: Iterable[Path]) -> list[float]:
        found = map(self._celsius, paths)
        return [each for each in found if each is not None and 0 < each < _LIMIT_CELSIUS_MAX]

    def _disk_bytes(self) -> dict[str, int]:
        rows = [words for words in self.lines("proc/diskstats") if len(words) > 9]
        return {words[2]: SECTOR_BYTES * (int(words[5]) + int(words[9])) for words in rows}

    def processes(self) -> Iterator[Process]:
        """All processes in ascending order, without kernel threads, which serve the trial, too."""
        yield from (process for process, is_kernels in self._tasks() if not is_kernels)

    def _tasks(self) -> Iterator[tuple[Process, bool]]:
        """All processes, and whether each is a kernel thread."""
        # Upwards, so that one that ends meanwhile is missed, and not counted twice: in itself and its parent.
        pids = sorted(int(name) for name in os.listdir(self.root / "proc") if name.isdigit())  # noqa: PTH208
        for pid in pids:
            if (found := _process(self.text(f"proc/{pid}/stat"))) is not None:
                yield found


def _process(stat: str) -> tuple[Process, bool] | None:
    """A process, and whether it is a kernel thread, by proc_pid_stat(5). The name may hold any character."""
    head, _, rest = stat.rpartition(")")
    pid, _, name = head.partition(" (")
    words = rest.split()
    if len(words) < 20:
        return None
    own, waited = (sum(map(int, words[at : at + 2])) / _HZ for at in (11, 13))
    process = Process(int(pid), int(words[1]), int(words[19]), name, own, waited, int(words[2]), words[0])
    return process, bool(int(words[6]) & _KERNEL_THREAD)
