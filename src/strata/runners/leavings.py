# SPDX-License-Identifier: Apache-2.0
"""What a trial on a host could leave behind when it is killed, and its removal.

Everything of a trial lies under one private folder: the files behind its loop devices, its mount point,
its scratch space, the bindings that its agent was started with. So it is enough to record that folder durably
before it is made: from its path follow the processes, mounts and loop devices to be removed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from strata.errors import RunError
from strata.runners.base import BINDINGS_NAME

JOURNAL: Final = ".journal"
# A killed strata's agent tears down by itself; give it a moment before it is killed, too.
_GRACE_S: Final = 20.0
_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.05


class Journal:
    """The private folders of a results folder's trials, recorded before they are made.

    Args:
        results: The results folder.
    """

    def __init__(self, results: Path) -> None:
        self._folder = results / JOURNAL

    def record(self, path: Path) -> None:
        """Note, durably, that ``path`` is about to be made."""
        self._folder.mkdir(exist_ok=True)
        entry = self._folder / f"{path.name}.json"
        temporary = entry.with_suffix(".part")
        with temporary.open("w") as file:
            json.dump({"folder": str(path.absolute())}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(entry)
        for folder in (self._folder, self._folder.parent):
            _fsync(folder)

    def forget(self, path: Path) -> None:
        """Note that ``path`` is gone with all that was in it."""
        (self._folder / f"{path.name}.json").unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()  # unless other trials are in it

    def folders(self) -> Iterator[Path]:
        """What is recorded, sorted; an entry that was cut short stands for nothing that was made."""
        for part in sorted(self._folder.glob("*.part")):
            part.unlink(missing_ok=True)
        for entry in sorted(self._folder.glob("*.json")):
            with suppress(ValueError, KeyError, TypeError):
                yield Path(json.loads(entry.read_text())["folder"])

    def clean(self) -> list[str]:
        """Remove everything that killed trials left behind; the results folder must be locked.

        Returns:
            What was removed, a line each.

        Raises:
            RunError: If something cannot be removed.
        """
        removed: list[str] = []
        for path in list(self.folders()):
            removed += remove_leavings(path)
            self.forget(path)
        return removed


def remove_leavings(path: Path, *, grace_s: float = _GRACE_S) -> list[str]:
    """End, unmount, detach and delete what belongs to a trial's private folder.

    Args:
        path: The folder.
        grace_s: How long its processes may take to end by themselves.

    Returns:
        What was removed, a line each.

    Raises:
        RunError: If something cannot be removed.
    """
    removed = []
    for pid in _end_processes(path, grace_s):
        removed.append(f"ended process {pid}")
    for mount in mounts_under(path):
        _call("umount", str(mount))
        removed.append(f"unmounted {mount}")
    for loop, file in loops_under(path).items():
        _call("losetup", "--detach", loop)
        removed.append(f"detached {loop} ({file})")
    if not _wait_until(lambda: not loops_under(path), _PATIENCE_S):
        raise RunError(
            f"still in use: {', '.join(loops_under(path))}",
            place=str(path),
            remedy="end whatever uses it, then run `strata clean`",
        )
    if path.exists():
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            raise RunError(
                "the folder cannot be removed", place=str(path), remedy="run `strata clean` as root"
            )
        removed.append(f"deleted {path}")
    return removed


def processes_of(path: Path) -> list[int]:
    """The trial's agent, by the bindings it was given, and all that live in its mount namespace."""
    folder, bindings = os.fsencode(path), os.fsencode(path / BINDINGS_NAME)
    own = Path("/proc/self/ns/mnt").readlink()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):  # ended meanwhile, or another user's
            foreign = (entry / "ns/mnt").readlink() != own
            named = bindings in (entry / "cmdline").read_bytes().split(b"\0")
            if named or (foreign and folder in (entry / "mountinfo").read_bytes()):
                found.append(int(entry.name))
    return sorted(found)


def mounts_under(path: Path) -> list[Path]:
    """Mount points under ``path``, the last mounted first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    # The kernel writes a space as \040.
    plain = [Path(point.encode().decode("unicode_escape")) for point in points]
    return [point for point in reversed(plain) if point.is_relative_to(path)]


def loops_under(path: Path) -> dict[str, str]:
    """Loop devices whose file is, or was, under ``path``, with that file."""
    found = {}
    for state in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        with suppress(OSError):  # detached meanwhile
            file = state.read_text().rstrip("\n").removesuffix(" (deleted)")
            if Path(file).is_relative_to(path):
                found[f"/dev/{state.parent.parent.name}"] = file
    return found


def _end_processes(path: Path, grace_s: float) -> list[int]:
    found = processes_of(path)
    if not found:
        return []
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not _wait_until(lambda: not processes_of(path), grace_s):
        for pid in processes_of(path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if not _wait_until(lambda: not processes_of(path), _PATIENCE_S):
        raise RunError(
            f"processes cannot be ended: {', '.join(map(str, processes_of(path)))}",
            place=str(path),
            remedy="they wait for a disk that does not answer; restart the machine, then `strata clean`",
        )
    return found


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def _call(*argv: str) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(
            f"{' '.join(argv)} failed: {done.stderr.strip() or f'exit status {done.returncode}'}",
            remedy="see what uses it (`lsof`, `fuser -vm`), then run `strata clean` as root",
        )


def _fsync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
