# SPDX-License-Identifier: Apache-2.0
"""Private folders of running trials; the folders of a killed process can be found and removed.

Each holds a file that its owner keeps locked. The lock ends with the owner, however it ends, so a folder
whose lock is free was left behind. Folders are made and judged under the lock of their place. They are made,
opened and deleted by descriptor, so that nobody can substitute another folder.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.files import closing, create, open_folder, try_lock
from strata.lab.cache import cache_root
from strata.plan.compile import ENVIRONMENT

PREFIX: Final = "strata-"
OWNER: Final = ".owner"
# Steps that run as other users have theirs in a sandbox, on a path of its own.
_MODE: Final = 0o700
_INSIDE: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class PrivateFolder:
    """A private folder: its path, and its open descriptor."""

    path: Path
    descriptor: int

    def make_folder(self, name: str, mode: int) -> None:
        """Make a folder in it, with this mode whatever the umask is."""
        os.mkdir(name, dir_fd=self.descriptor)
        with opened_private(name, self.descriptor) as inner:
            os.fchmod(inner, mode)

    def write(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file in it, with this mode whatever the umask is."""
        with os.fdopen(create(name, self.descriptor), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)


def run_root() -> Path:
    """Where the folders of running labs lie: below the user's cache."""
    return cache_root() / "run"


@contextmanager
def private_folder(
    place: Path,
    before: Callable[[Path], None] = lambda path: None,
    remove: Callable[[Path], object] | None = None,
) -> Iterator[PrivateFolder]:
    """A new folder in ``place``, deleted, or removed by ``remove``, when the context ends.

    ``before`` is called with its path before it is made: to record it. Raises LabError if it cannot be made,
    or as root another user could exchange it.
    """
    with ExitStack() as opened:
        try:
            with _locked(place) as there:
                path = Path(tempfile.mktemp(prefix=PREFIX, dir=place))  # noqa: S306  made below, under the lock
                before(path)
                os.mkdir(path.name, dir_fd=there)
                folder = PrivateFolder(path, os.open(path.name, _INSIDE, dir_fd=there))
                opened.callback(os.close, folder.descriptor)
                os.fchmod(folder.descriptor, _MODE)
                owner = create(OWNER, folder.descriptor, 0o600)
                opened.callback(os.close, owner)  # after the removal
                fcntl.flock(owner, fcntl.LOCK_EX)
        except OSError as error:
            raise LabError(
                f"a private folder cannot be made: {error.strerror}",
                place=str(place),
                remedy="make it writable and free some space; STRATA_CACHE names another place for the lab's",
            ) from error
        try:
            yield folder
        finally:
            (remove or _delete)(path)


def _delete(path: Path) -> None:
    with suppress(OSError), opened_place(path.parent) as place:
        delete(path.name, place)


def delete(name: str, place: int) -> bool:
    """Delete a private folder in the open folder ``place``; returns whether it is gone.

    Its mark comes last, so that after an interruption the rest is still known as a trial's.
    """
    with suppress(OSError), opened_private(name, place) as folder:
        for each in names_in(folder):
            if stat.S_ISDIR(os.lstat(each, dir_fd=folder).st_mode):
                _remove_tree(each, folder)
            elif each != OWNER:
                os.unlink(each, dir_fd=folder)
        if names_in(folder) <= {OWNER}:
            with suppress(FileNotFoundError):
                os.unlink(OWNER, dir_fd=folder)
            os.rmdir(name, dir_fd=place)
    try:
        os.lstat(name, dir_fd=place)
    except FileNotFoundError:
        return True
    return False


def _remove_tree(name: str, folder: int) -> None:
    """By `rm`: `shutil.rmtree` calls itself for each level and keeps it open, and a step can make any number.

    Files that `rm` cannot remove stay.
    """
    subprocess.run(
        ("rm", "-rf", "--one-file-system", "--", name),
        cwd=f"/proc/self/fd/{folder}",
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


def names_in(folder: int) -> set[str]:
    with os.scandir(folder) as found:
        return {each.name for each in found}


def stale_folders(place: Path) -> list[Path]:
    """The private folders in ``place`` whose owner has died, sorted."""
    if not place.is_dir():
        return []
    with suppress(OSError), _locked(place) as there:
        names = sorted(name for name in names_in(there) if name.startswith(PREFIX))
        return [place / name for name in names if is_stale(name, there)]
    return []


def is_stale(name: str, place: int) -> bool:
    """Whether this, in the open folder ``place``, is a private folder of the caller whose owner has died."""
    with suppress(OSError), opened_private(name, place) as folder:  # a link, or another user's
        if os.fstat(folder).st_uid != os.geteuid():
            return False
        try:
            owner = os.open(OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return True  # its maker died at once, or its removal was cut short
        with closing(owner):
            return try_lock(owner)
    return False


def remove_stale(place: Path) -> list[Path]:
    """Remove the folders that killed runs left in ``place``; returns them."""
    stale = stale_folders(place)
    for path in stale:
        _delete(path)
    return [path for path in stale if not path.exists()]


def opened_private(name: str, place: int) -> AbstractContextManager[int]:
    """The descriptor of a folder in another one; a link is refused."""
    return closing(os.open(name, _INSIDE, dir_fd=place))


def opened_place(place: Path) -> AbstractContextManager[int]:
    """The descriptor of a folder for private folders; as root one that no other user can exchange.

    Raises LabError if another user could, and OSError if it cannot be opened.
    """
    return closing(open_folder(place, LabError))


@contextmanager
def _locked(place: Path) -> Iterator[int]:
    place.mkdir(parents=True, exist_ok=True)
    with opened_place(place) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
