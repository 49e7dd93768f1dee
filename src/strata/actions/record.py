# SPDX-License-Identifier: Apache-2.0
"""Recording this machine: what an application asks of its filesystem, what is asked of a disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import ResultError
from strata.files import explained, refuse_folder
from strata.traces.block_events import tracing
from strata.traces.calls import About, Call, Names, write_calls
from strata.traces.recorder import OPTIONS, Recorder
from strata.traces.strace import system_calls
from strata.traces.table import Trace, write_parquet
from strata.traces.tasks import Before, Opened
from strata.working import working

_IDLE: Final = ("sh", "-c", "for each in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do /bin/true; done")
_TRIES: Final = 3
_FILES_MAX: Final = 1_000_000
_POLL_S: Final = 0.1
_START_S: Final = 2.0
_LET_GO_S: Final = 3.0
_ACCESS: Final = ("r", "w", "rw")


@dataclass(frozen=True)
class Recorded:
    """A recording that was written, and how the command ended; None if it was not waited for."""

    about: About
    calls: Sequence[Call]
    exit_code: int | None


def record(
    output: Path,
    folder: Path | None,
    *,
    command: Sequence[str] = (),
    pid: int | None = None,
    keep_names: bool = False,
    left_running: Callable[[], None] = lambda: None,
    stdout: int | None = None,
) -> Recorded:
    """Record a command until all of its processes have ended, or a process until it ends or SIGINT comes.

    The folder is that of the application; None: where the command starts, or the process works.
    ``left_running`` is called when the command has ended and processes that it started go on. ``stdout`` is
    the descriptor of the command's standard output; None: this process's.

    Raises ResultError.
    """
    strace = _strace(command)
    refuse_folder(output)
    before = {} if pid is None else _processes(pid)
    start = str(Path.cwd()) if pid is None else before[pid].folder
    root = Path(folder or start).resolve()
    if not root.is_dir():
        raise ResultError("there is no such folder", place=str(root), remedy="name the application's folder")
    tracing_ns = _tracing_ns(strace)
    names = Names(_content(root), keep_names)
    target = ["--", *command] if pid is None else [f"--attach={each}" for each in before]
    with tempfile.TemporaryDirectory(prefix="strata-record-") as place:
        log = Path(place) / "strace"
        # No --seccomp-bpf: what goes on when strace has let go would keep the filter, and its calls fail.
        words = [strace, *OPTIONS, f"--output={log}", *target]
        exit_code, is_ended, said = _traced(words, left_running if command else None, stdout)
        if not log.is_file() or not log.stat().st_size:
            raise _refused(said, pid)
        with working("reading what was recorded"), log.open(errors="surrogateescape") as lines:
            recorder = Recorder(root, names, start, before, tracing_ns)
            recorder.unseen["running"] += not is_ended
            about = recorder.record(system_calls(lines))
    if not recorder.calls:
        cause = f"nothing was asked of files in {root}"
        raise ResultError(cause, place="--folder", remedy="name the folder of the application's data")
    with explained(output, "write the recording"), output.open("w", encoding="ascii") as file:
        write_calls(file, about, names, recorder.calls)
    return Recorded(about, recorder.calls, exit_code if command and is_ended else None)


@dataclass(frozen=True)
class RecordedDisk:
    """A disk's requests, how many of their events were lost, and how the command ended, if there was one."""

    trace: Trace
    lost: int
    exit_code: int | None


def record_disk(
    output: Path, device: Path, *, command: Sequence[str] = (), stdout: int | None = None
) -> RecordedDisk:
    """Record a disk's requests until the command has ended, or SIGINT comes. Raises ResultError."""
    refuse_folder(output)
    _known(command)
    stopped_s: list[float] = []
    with tracing(device) as recording, working(f"recording {device}, Ctrl-C ends it"):
        running = subprocess.Popen(command, stdout=stdout) if command else None
        with _interruptible(running, stopped_s):
            while (running.poll() is None) if running else not stopped_s:
                recording.take()
                time.sleep(_POLL_S)
    trace, lost = recording.trace()
    if not len(trace.records):
        cause = "no request was issued and completed"
        raise ResultError(cause, place=str(device), remedy="let it record while the disk is used")
    write_parquet(output, trace)
    return RecordedDisk(trace, lost, running.returncode if running else None)


def _strace(command: Sequence[str]) -> str:
    """The path of strace. Raises ResultError."""
    strace = shutil.which("strace")
    if strace is None:
        remedy = "install it: apt-get install strace, or the package strace of your distribution"
        raise ResultError("strace is not installed", place="strata record", remedy=remedy)
    _known(command)
    return strace


def _known(command: Sequence[str]) -> None:
    """Check that a command is there. Raises ResultError."""
    if command and shutil.which(command[0]) is None:
        raise ResultError("there is no such program", place=command[0], remedy="check its name")


def _tracing_ns(strace: str) -> int:
    """What the tracing of a call costs on this machine now, by processes that do nothing."""
    plain, traced = list[int](), list[tuple[int, int]]()
    for _ in range(_TRIES):  # the shortest of each: the machine does other things, too
        begin_ns = time.monotonic_ns()
        subprocess.run(_IDLE, check=False)
        plain.append(time.monotonic_ns() - begin_ns)
        with tempfile.NamedTemporaryFile("r", prefix="strata-record-") as log:
            quiet = subprocess.DEVNULL
            subprocess.run([strace, *OPTIONS, f"--output={log.name}", *_IDLE], check=False, stderr=quiet)
            calls = system_calls(log)
        # The log begins when strace itself is up.
        traced += [(calls[-1].end_ns - calls[0].begin_ns, len(calls))] if calls else []
    took_ns, count = min(traced, default=(0, 1))
    return max(0, took_ns - min(plain)) // count


def _refused(said: str, pid: int | None) -> ResultError:
    last = (said.strip().splitlines() or ["strace recorded nothing"])[-1].removeprefix("strace: ")
    remedy = "try it as root, or see kernel.yama.ptrace_scope" if pid else "see strace's words"
    return ResultError(last, place="strata record", remedy=remedy)


def _content(root: Path) -> dict[str, int | None]:
    """What is in the folder: the size of each file, None for a folder."""
    found: dict[str, int | None] = {".": None}
    with working(f"looking through {root}"):
        for above, folders, files in os.walk(root):
            prefix = "" if above == str(root) else f"{above[len(str(root)) + 1 :]}/"
            found |= {f"{prefix}{name}": None for name in folders}
            for name in files:
                with suppress(OSError):  # it has just been deleted
                    found[f"{prefix}{name}"] = os.lstat(f"{above}/{name}").st_size
            if len(found) > _FILES_MAX:
                cause = f"the folder holds more than {_FILES_MAX} files"
                raise ResultError(cause, place=str(root), remedy="name the application's own with --folder")
    return found


@contextmanager
def _interruptible(running: subprocess.Popen[Any] | None, stopped_s: list[float]) -> Iterator[None]:
    """Pass SIGINT and SIGTERM on: strace lets go of its processes and writes what it has."""

    def stop(number: int, _: object) -> None:
        stopped_s.append(time.monotonic())
        with suppress(ProcessLookupError):
            if running is not None:
                running.send_signal(number)

    old = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _traced(
    words: Sequence[str], left_running: Callable[[], None] | None, stdout: int | None
) -> tuple[int, bool, str]:
    """Run strace: its exit code (the command's), whether it ended by itself, what it said."""
    stopped_s: list[float] = []
    with tempfile.TemporaryFile("w+") as said:
        # The command has the terminal; strace's own words would stand between its.
        quiet = {"stdout": stdout} if left_running else {"stdin": subprocess.DEVNULL, "stderr": said}
        strace = subprocess.Popen(words, text=True, **quiet)
        begin_s, first = time.monotonic(), None
        with _interruptible(strace, stopped_s):
            while strace.poll() is None:
                first = first or _child(strace.pid)
                # A command that ends at once may never be seen.
                is_late = time.monotonic() > begin_s + _START_S
                if left_running and not stopped_s and not _runs(first) and (first or is_late):
                    left_running()
                    left_running = None
                # It waits for ever for a process that waits in vfork() for a child that strace holds.
                if stopped_s and time.monotonic() > stopped_s[0] + _LET_GO_S:
                    strace.kill()
                with suppress(subprocess.TimeoutExpired):
                    strace.wait(_POLL_S)
        said.seek(0)
        return strace.returncode, not stopped_s, said.read()


def _runs(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}/fd").exists()


def _child(strace: int) -> int | None:
    """The command: the child of strace that it traces."""
    with suppress(OSError):
        for pid in Path(f"/proc/{strace}/task/{strace}/children").read_text().split():
            if f"TracerPid:\t{strace}\n" in Path(f"/proc/{pid}/status").read_text():
                return int(pid)
    return None


def _processes(pid: int) -> dict[int, Before]:
    """A process and all that it has started, with what each has open. Raises ResultError."""
    found: dict[int, Before] = {}
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        place = Path(f"/proc/{each}")
        try:
            opened = {int(fd.name): _opened(fd) for fd in (place / "fd").iterdir()}
            found[each] = Before(str((place / "cwd").readlink()), opened)
            for task in (place / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            if each == pid:
                remedy = "see the running processes with ps"
                raise ResultError("there is no such process", place=f"--pid {pid}", remedy=remedy) from None
        except PermissionError:
            raise ResultError("it belongs to another user", place=f"--pid {pid}", remedy="be root") from None
    return found


def _opened(descriptor: Path) -> Opened:
    lines = (descriptor.parent.parent / "fdinfo" / descriptor.name).read_text().splitlines()
    said = dict(line.split(":", 1) for line in lines if ":" in line)
    flags = int(said["flags"], 8)
    path = str(descriptor.readlink())
    letters = "rD" if flags & os.O_DIRECTORY else _ACCESS[flags & os.O_ACCMODE]
    more = {"a": os.O_APPEND, "d": os.O_DIRECT, "s": os.O_SYNC, "y": os.O_DSYNC}
    letters += "".join(key for key, bits in more.items() if flags & bits == bits)
    return Opened(path, int(said["pos"]), letters)
