# SPDX-License-Identifier: Apache-2.0
"""The programs that build the lab: whether they are installed; running them, logged, and ending them."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from strata.errors import LabError, ToolError

TAIL_LINES: Final = 12


def run_logged(
    argv: Sequence[str],
    *,
    log: Path,
    title: str,
    remedy: str,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = lambda line: None,
    within: Sequence[str] = (),
) -> None:
    """Run a program, appending its output to a log, and wait for it.

    ``title`` is the subject of "… failed". ``on_line`` gets every line of output. ``within`` is the beginning
    of the command line, such as `strata.lab.confined.confined` gives it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    tail: collections.deque[str] = collections.deque(maxlen=200)
    with log.open("a", encoding="utf-8") as record:
        record.write(f"$ {' '.join(argv)}\n")
        record.flush()
        with _started(argv, cwd, environment, within) as process:
            assert process.stdout is not None
            for line in process.stdout:
                record.write(line)
                tail.append(line.rstrip("\n"))
                on_line(tail[-1])
    if process.returncode != 0:
        raise LabError(
            f"{title} failed with exit status {process.returncode}\n{_telling(list(tail))}",
            place=str(log),
            remedy=remedy,
        )


_running: Final[set[subprocess.Popen[str]]] = set()
_ended: Final = threading.Event()


@contextlib.contextmanager
def _started(
    argv: Sequence[str], cwd: Path | None, environment: Mapping[str, str] | None, within: Sequence[str]
) -> collections.abc.Iterator[subprocess.Popen[str]]:
    """Start a program in a process group of its own and, if this process must stop, end the whole group."""
    if shutil.which(argv[0], path=(environment or os.environ).get("PATH")) is None:
        raise _missing(argv[0])
    refuse_ended()
    try:
        process = subprocess.Popen(
            # A killed set-up leaves nothing running; of a confined program the first process ignores SIGTERM.
            ["setpriv", "--pdeathsig", "KILL" if within else "TERM", *within, *argv],
            cwd=cwd,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise _missing(str(error.filename)) from error
    _running.add(process)
    try:
        refuse_ended()  # a signal may have come meanwhile
        with process:
            yield process
            process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        _running.discard(process)


def refuse_ended() -> None:
    """Raise a LabError between `end_running` and `begin_running`."""
    if _ended.is_set():
        raise LabError("the build was interrupted", remedy="run the same command again: it goes on")


def begin_running() -> None:
    """Let `run_logged` start programs again after `end_running`."""
    _ended.clear()


def end_running() -> None:
    """End every program that `run_logged` runs in any thread, and let it start no other.

    A thread between two programs of a build would go on for minutes otherwise, with a signal that seems lost.
    """
    _ended.set()
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _missing(program: str) -> ToolError:
    return ToolError(f"{program} is missing", remedy=f"install the package that provides {program}")


def _telling(lines: list[str]) -> str:
    """The lines with the reason of a failure: from the first error on, else the last ones."""
    errors = re.compile(r"(?i:error:)| Error |^(E: |FATAL|patch: \*{4})")
    first = next((at for at, line in enumerate(lines) if errors.search(line)), -TAIL_LINES)
    lines = lines[first:]
    return "\n".join(f"  | {line[:240]}" for line in lines[:TAIL_LINES])


def output_of(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise _missing(argv[0]) from error
    if done.returncode != 0:
        said = _telling((done.stderr or done.stdout).splitlines())
        raise LabError(f"{' '.join(argv)} failed with exit status {done.returncode}\n{said}")
    return done.stdout


Group = Literal["python", "kernel", "image", "agent", "load", "qemu-kernel", "host", "tests"]
_SYSTEM_FOLDERS: Final = "/usr/local/sbin:/usr/sbin:/sbin"  # mkfs and friends: not on an ordinary user's PATH


@dataclass(frozen=True)
class PackageNeed:
    """One line of ``scripts/packages``; ``check`` is a program, a file or glob, or ``python3:MODULE``."""

    group: str
    package: str
    check: str

    def is_met(self) -> bool:
        """Whether the program or file is there, however it was installed."""
        if self.check.startswith("/"):
            return any(Path("/").glob(self.check[1:]))
        if self.check.startswith("python3:"):
            return importlib.util.find_spec(self.check.removeprefix("python3:")) is not None
        return shutil.which(self.check, path=f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}") is not None


def read_needs(path: Path) -> list[PackageNeed]:
    """Read ``scripts/packages``; without a gcc the packages of its version are left out."""
    compiler = output_of(["gcc", "-dumpversion"]).partition(".")[0].strip() if shutil.which("gcc") else ""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    known = (line.replace("@", compiler) for line in lines if compiler or "@" not in line)
    return [PackageNeed(*line.split()) for line in known]


def missing(needs: Iterable[PackageNeed], *groups: Group) -> list[str]:
    """The missing packages of these groups, sorted."""
    return sorted({need.package for need in needs if need.group in groups and not need.is_met()})


def require(packages_file: Path, group: Group, *, purpose: str) -> None:
    """Check that the programs for a group are there; ``purpose`` is the subject of "… needs"."""
    packages = missing(read_needs(packages_file), group)
    if packages:
        root = "" if os.geteuid() == 0 else "as root: "
        raise ToolError(
            f"{purpose} needs programs that are missing; Debian's packages: {' '.join(packages)}",
            remedy=f"{root}apt-get install --no-install-recommends {' '.join(packages)}",
        )
