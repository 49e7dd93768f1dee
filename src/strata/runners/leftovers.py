# SPDX-License-Identifier: Apache-2.0
"""Leftovers of a killed trial on a host, and their removal.

A trial's loop files, mount point, scratch space and bindings lie in one private folder, and the folder's name
is part of the name of all that the trial assembles. So recording that folder durably before making it is
enough to find the processes, mounts and devices to remove.
"""

from __future__ import annotations

import json
import os
import signal
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from strata.disks.machine import mounts_at
from strata.errors import LabError, RunError
from strata.files import explained, make_folder, read_plain, refuse_link, write_durably
from strata.lab.folder import OWNER, PREFIX, delete, is_stale, names_in, opened_place, opened_private
from strata.runners.assembled import Assembled, within
from strata.runners.base import BINDINGS_NAME
from strata.runners.kernel import HostKernel, set_back
from strata.runners.sandbox import remove_spares

JOURNAL: Final = ".journal"
# A killed strata's agent tears down by itself; give it a moment before it is killed, too.
_GRACE_S: Final = 20.0
_PATIENCE_S: Final = 10.0


class Journal:
    """The private folders of a results folder's trials, recorded before they are made."""

    def __init__(self, results: Path) -> None:
        self._folder = results / JOURNAL

    def record(self, path: Path) -> None:
        """Record durably that ``path`` is about to be made. Raises ResultError if that fails."""
        make_folder(self._folder)
        content = json.dumps({"folder": str(path.absolute())})
        write_durably(self._folder / f"{path.name}.json", content.encode())

    def forget(self, path: Path) -> None:
        """Note that ``path`` is gone with all its content."""
        (self._folder / f"{path.name}.json").unlink(missing_ok=True)
        with suppress(OSError):
            self._folder.rmdir()  # unless other trials are in it

    def folders(self) -> list[Path]:
        """The recorded folders, sorted; incomplete entries stand for nothing that was made.

        Raises RunError if an entry names a folder that no trial can have made. Root deletes what is named
        here, and anybody who can write to the results folder can write entries.
        """
        with explained(self._folder, "use the journal"):
            refuse_link(self._folder)
        for part in sorted(self._folder.glob("*.part")):
            part.unlink(missing_ok=True)
        return [_recorded(entry) for entry in sorted(self._folder.glob("*.json"))]

    def clean(self) -> list[str]:
        """Remove everything that killed trials left behind; the results folder must be locked.

        Returns a line for each removal. Raises RunError if something cannot be removed, or, before any
        removal, if an entry is not a trial's.
        """
        removed: list[str] = []
        for path in self.folders():
            removed += remove_leftovers(path)
            self.forget(path)
        return removed


def _recorded(entry: Path) -> Path:
    """The private folder that an entry names, if it can be one."""
    try:
        path = Path(json.loads(read_plain(entry))["folder"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _refused(entry, f"it cannot be read ({error})") from error
    if not path.is_absolute() or ".." in path.parts:
        raise _refused(entry, f"{path} is not an absolute path")
    if path.name != entry.stem or not path.name.startswith(PREFIX):
        raise _refused(entry, f"{path} is not named as a trial's folder")
    if why := _why_not_ours(path):
        raise _refused(entry, f"{path} {why}")
    return path


def _why_not_ours(path: Path) -> str | None:
    """Why ``path`` cannot be a dead trial's folder; None for a folder that was never made."""
    why = None
    try:
        with opened_place(path.parent) as place:
            state = os.lstat(path.name, dir_fd=place)
            if not stat.S_ISDIR(state.st_mode):
                return "is not a folder"
            if state.st_uid != os.geteuid():
                return "belongs to another user"
            with opened_private(path.name, place) as folder:
                content = names_in(folder)
                if not content:
                    pass  # its maker died at once
                elif OWNER not in content or not stat.S_ISREG(os.lstat(OWNER, dir_fd=folder).st_mode):
                    why = "was not made by a trial"
                elif not is_stale(path.name, place):
                    why = "is in use"
    except FileNotFoundError:
        pass
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except LabError as error:
        why = f"could be another user's choice: {error.place}: {error.cause}"
    return why


def _refused(entry: Path, why: str) -> RunError:
    return RunError(
        f"this entry does not name a trial's folder, so nothing was removed: {why}",
        place=str(entry),
        remedy="see who wrote it; delete the entry if it is of no use",
    )


def remove_leftovers(path: Path, *, grace_s: float = _GRACE_S) -> list[str]:
    """End, unmount, detach, set back and delete what belongs to a trial's private folder.

    Its processes have ``grace_s`` to end by themselves. Returns a line for each removal. Raises RunError if
    something cannot be removed.
    """
    removed = []
    for pid in _end_processes(path, grace_s):
        removed.append(f"ended process {pid}")
    removed += Assembled(path).take_down()
    remove_spares(path)
    removed += set_back(path, HostKernel())
    with suppress(FileNotFoundError), opened_place(path.parent) as place:
        os.lstat(path.name, dir_fd=place)
        if not delete(path.name, place):
            raise RunError(
                "the folder cannot be removed", place=str(path), remedy="run `strata lab clean` as root"
            )
        removed.append(f"deleted {path}")
    return removed


def processes_of(path: Path) -> list[int]:
    """The trial's agent, found by its bindings, and all processes in its mount namespace.

    A mount that is also ours proves nothing: a new namespace begins with a copy of all mounts, whoever makes
    it, another trial or a service.
    """
    bindings = os.fsencode(path / BINDINGS_NAME)
    own = Path("/proc/self/ns/mnt").readlink()
    ours = set(mounts_at(path))
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):  # ended meanwhile, or another user's
            foreign = (entry / "ns/mnt").readlink() != own
            named = bindings in (entry / "cmdline").read_bytes().split(b"\0")
            if named or (foreign and not ours.issuperset(mounts_at(path, entry / "mountinfo"))):
                found.append(int(entry.name))
    return sorted(found)


def _end_processes(path: Path, grace_s: float) -> list[int]:
    found = processes_of(path)
    if not found:
        return []
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if not within(grace_s, lambda: not processes_of(path)):
        for pid in processes_of(path):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if not within(_PATIENCE_S, lambda: not processes_of(path)):
        raise RunError(
            f"processes cannot be ended: {', '.join(map(str, processes_of(path)))}",
            place=str(path),
            remedy="they wait for a disk that does not answer; restart the machine, then `strata lab clean`",
        )
    return found
