# SPDX-License-Identifier: Apache-2.0
"""Preconditions real flash drives before each trial: fresh, filled, used, or steady.

Steady is after SNIA's Solid State Storage Performance Test Specification (2.0.1): a purge, twice the capacity
in sequential writes of 128 KiB, then rounds of a minute each (here of random writes of 4 KiB) until five are
steady, 25 at most. Used is the modelled drives' state: a purge, a part of the capacity written in order, a
part of that overwritten at random, and a pause.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from strata.devices.device import Device
from strata.devices.kinds.flash import PRECONDITIONS, Flash
from strata.errors import LabError
from strata.files import write_durably
from strata.machine.reading import SystemFiles
from strata.model.steadiness import ROUNDS, steadiness
from strata.plan.compile import ENVIRONMENT
from strata.runners.base import Cancelled, Progress, Task, ended_within, ending_with_strata
from strata.seeds import derive_seed
from strata.units import NS_PER_S, SECTOR_BYTES, format_duration, format_size, percent
from strata.words import beginning_and_end

_NOTES_NAME: Final = ".conditioned.json"
_BLOCK_BYTES: Final = 128 << 10
_POLL_S: Final = 0.2
_STOP_LIMIT_S: Final = 10.0
# Earlier rates do not predict the length of a pass. A judgement.
_ESTIMATE_AFTER_S: Final = 5.0


@dataclass(frozen=True)
class Rules:
    """The parameters of preconditioning; the defaults are SNIA's."""

    fill_passes: int = 2
    round_s: float = 60.0
    rounds_max: int = 25
    pause_s: float = 60.0  # of a used drive, in which it collects free blocks


@dataclass(frozen=True)
class Conditioned:
    """The preconditioning of a drive before a trial."""

    asked: str  # the study's state, of `PRECONDITIONS`
    reached: bool  # whether the drive is in that state
    detail: str  # the work done, as a clause
    rounds: tuple[float, ...] = ()  # random writes per second, by round


@dataclass(frozen=True)
class Drive:
    name: str  # in the study
    node: Path  # which the caller has checked
    state: str  # of `PRECONDITIONS`
    files: SystemFiles = field(default_factory=SystemFiles)

    @property
    def place(self) -> Path:
        """Its folder in sysfs."""
        return self.files.root / "sys/class/block" / self.node.name

    def queue(self, name: str) -> str:
        """A setting of its queue; a partition has its disk's."""
        own = self.files.text(self.place / "queue" / name)
        return own or self.files.text(self.place.resolve().parent / "queue" / name)

    @property
    def is_rotating(self) -> bool:
        """Whether it needs no preconditioning. A loop device repeats its file's disk."""
        return self.queue("rotational") == "1" and not self.node.name.startswith("loop")

    @property
    def size_bytes(self) -> int:
        return self.files.number(self.place / "size") * SECTOR_BYTES

    def counted(self, field_number: int) -> int:
        """A counter of its statistics (Documentation/block/stat.rst), numbered from 1."""
        words = self.files.text(self.place / "stat").split()
        return int(words[field_number - 1]) if len(words) >= field_number else 0

    @property
    def written_bytes(self) -> int:
        return self.counted(7) * SECTOR_BYTES

    def note(self) -> dict[str, Any]:
        """Its identity and history, equal later only if nothing was discarded in between."""
        return {
            "boot": self.files.text("proc/sys/kernel/random/boot_id"),
            "sequence": self.files.text(self.place / "diskseq"),
            "size_bytes": self.size_bytes,
            "discards": self.counted(12),
        }


def condition(task: Task, nodes: Mapping[str, str], results: Path) -> dict[str, Conditioned]:
    """Bring a trial's real flash drives, named by their nodes, into the state that its study asks for.

    The results folder notes drives that are still steady. The rules are SNIA's. Returns the work done, by
    the study's names, for drives that need preconditioning.

    Raises Cancelled if the trial was cancelled, and LabError if a drive cannot be written or discarded.
    """
    done = {}
    for name, device in task.devices.items():
        if str(device.kind) != "real" or name not in nodes:
            continue
        drive = Drive(name, Path(nodes[name]), state_of(device))
        if not drive.is_rotating:
            done[name] = Conditioning(task, drive, results / _NOTES_NAME, Rules()).run()
    return done


def state_of(device: Device) -> str:
    """The state that a study asks of a real device, of `PRECONDITIONS`: fresh unless it says so."""
    stated = device.parameters.get("precondition")
    number = PRECONDITIONS["fresh"] if stated is None else int(stated.value)
    return next(state for state, each in PRECONDITIONS.items() if each == number)


@dataclass
class Conditioning:
    """Brings one drive into its state."""

    task: Task
    drive: Drive
    notes: Path  # the file with the notes on the results folder's drives
    rules: Rules = field(default_factory=Rules)

    def run(self) -> Conditioned:
        drive = self.drive
        if drive.state == "fresh":
            purged = self._purge()
            return Conditioned(
                drive.state, purged, "discarded whole" if purged else "it takes no discards (TRIM)"
            )
        if drive.state == "filled":
            self._purge()
            self._fill(1)
            return Conditioned(drive.state, reached=True, detail="written once, in order")
        return self._used() if drive.state == "used" else self._steady()

    def _used(self) -> Conditioned:
        defaults = (Flash.parameters[name].default for name in ("used_filled", "used_scattered"))
        part, scattered = (float(each or 0) / 100 for each in defaults)
        size_bytes = int(self.drive.size_bytes * part) // _BLOCK_BYTES * _BLOCK_BYTES
        again_bytes = int(size_bytes * scattered)
        purged = self._purge()
        options = (f"--size={size_bytes}", f"--randseed={self._seed('use', 1)}")
        self._write("in order", size_bytes, "--rw=write", "--bs=128k", *options)
        self._write(
            "at random", again_bytes, "--rw=randwrite", "--bs=4k", f"--io_size={again_bytes}", *options
        )
        with self._running(["sleep", str(self.rules.pause_s)], lambda: "pause") as process:
            self._succeeded(process)
        detail = (
            f"{percent(part)} written in order, {percent(scattered)} of this overwritten at random, paused"
        )
        return Conditioned(
            self.drive.state, purged, detail if purged else f"{detail}; it takes no discards (TRIM)"
        )

    def _steady(self) -> Conditioned:
        """Precondition fully, or repeat only the rounds if nothing was discarded since."""
        key = str(self.drive.node)
        known: dict[str, Any] = {}
        with suppress(OSError, ValueError):  # unreadable notes count as none
            found = json.loads(self.notes.read_text())
            known = found if isinstance(found, dict) else {}
        before = ""
        if known.pop(key, None) != self.drive.note():
            self._note(known)  # cut short, it is in no known state
            self._purge()
            self._fill(self.rules.fill_passes)
            before = f"written {self.rules.fill_passes} times in order, then "
        rates, is_steady = self._rounds()
        self._note({**known, key: self.drive.note()})
        ended = "steady" if is_steady else "not steady"
        detail = (
            f"{before}overwritten at random for {len(rates)} rounds of "
            f"{format_duration(round(self.rules.round_s * NS_PER_S))}: {ended} at {rates[-1]:,.0f} writes/s"
        )
        return Conditioned(self.drive.state, is_steady, detail, tuple(rates))

    def _note(self, notes: Mapping[str, Any]) -> None:
        write_durably(self.notes, json.dumps(notes, indent=1).encode() + b"\n")

    def _purge(self) -> bool:
        """Discard the whole drive; False if it takes no discards."""
        if self.drive.queue("discard_max_bytes") in {"", "0"}:
            return False
        with self._running(["blkdiscard", str(self.drive.node)], lambda: "discard the whole disk") as process:
            self._succeeded(process)
        return True

    def _fill(self, passes: int) -> None:
        for number in range(1, passes + 1):
            options = ("--rw=write", "--bs=128k", f"--randseed={self._seed('fill', number)}")
            self._write(f"in order, {number} of {passes}", self.drive.size_bytes, *options)

    def _write(self, how: str, size_bytes: int, *options: str) -> None:
        first, started_s = self.drive.written_bytes, time.monotonic()

        def status() -> str:
            left = _left(self.drive.written_bytes - first, size_bytes, time.monotonic() - started_s)
            return f"write {format_size(size_bytes)} {how}: {left}"

        self._fio(status, *options)

    def _rounds(self) -> tuple[list[float], bool]:
        """Write rounds at random until five are steady; returns their rates and whether they are."""
        rates: list[float] = []
        while len(rates) < self.rules.rounds_max:
            number = len(rates) + 1
            status = f"write at random until steady: round {number} of at most {self.rules.rounds_max}"
            limits = ("--time_based", f"--runtime={round(self.rules.round_s * 1000)}ms")
            options = ("--rw=randwrite", "--bs=4k", "--norandommap", *limits)
            result = self._fio(status.__str__, *options, f"--randseed={self._seed('round', number)}")
            rates.append(float(result["jobs"][0]["write"]["iops"]))
            judged = steadiness(rates[-ROUNDS:])
            if judged is not None and judged.is_steady:
                return rates, True
        return rates, False

    def _seed(self, what: str, number: int) -> int:
        # fio's seeds are of 64 bits, signed.
        return derive_seed(self.task.plan.trial.seed, self.drive.name, "condition", what, str(number)) >> 1

    def _fio(self, status: Callable[[], str], *options: str) -> dict[str, Any]:
        argv = [
            *("fio", "--name=condition", f"--filename={self.drive.node}", "--allow_file_create=0"),
            *("--thread", "--direct=1", "--ioengine=libaio", "--iodepth=32"),
            *("--refill_buffers", "--output-format=json"),
            *options,
        ]
        with self._running(argv, status) as process:
            return dict(json.loads(self._succeeded(process)))

    @contextmanager
    def _running(self, argv: list[str], status: Callable[[], str]) -> Iterator[subprocess.Popen[str]]:
        """Run a program that ends with the trial and reports as the trial's progress."""
        if not shutil.which(argv[0], path=ENVIRONMENT["PATH"]):
            raise LabError(
                f"{self.drive.name} cannot be preconditioned: {argv[0]} is not installed",
                place=str(self.drive.node),
                remedy="install fio and util-linux; or leave out `precondition`",
            )
        process = subprocess.Popen(
            [*ending_with_strata("KILL"), *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,  # Ctrl-C is for Strata, which ends it
        )
        started_s = time.monotonic()
        try:
            while not ended_within(process, _POLL_S):
                passed_ns = int((time.monotonic() - started_s) * NS_PER_S)
                self.task.report(Progress(f"{self.drive.name}: {status()}", "build", passed_ns))
                if self.task.cancel.is_set():
                    raise Cancelled
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_LIMIT_S)
                process.kill()
            process.communicate()

    def _succeeded(self, process: subprocess.Popen[str]) -> str:
        """The output of a program that has ended. Raises LabError if it failed."""
        output, errors = process.communicate()
        if process.returncode != 0:
            raise LabError(
                f"{self.drive.name} cannot be preconditioned: {beginning_and_end(errors, 300, ' ')}",
                place=str(self.drive.node),
                remedy="see `dmesg` and the disk's health (`strata list disks`)",
            )
        return output


def _left(done_bytes: int, size_bytes: int, passed_s: float) -> str:
    share = min(1.0, done_bytes / size_bytes) if size_bytes else 0.0
    if passed_s < _ESTIMATE_AFTER_S or not share:
        return percent(share)
    return f"{percent(share)}, about {format_duration(round(passed_s * (1 / share - 1)) * NS_PER_S)} left"
