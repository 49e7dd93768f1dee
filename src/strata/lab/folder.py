# SPDX-License-Identifier: Apache-2.0
"""Private folders of running trials, which outlive a killed process and can then be told from those in use.

Each holds a file that its owner keeps locked. The lock ends with the owner, however it ends, so a folder
whose lock is free was left behind. Folders are made and judged under one more lock, that of their place.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.lab.cache import cache_root

PREFIX: Final = "strata-"
OWNER: Final = ".owner"


def run_root() -> Path:
    """Where the folders of running labs lie: below the user's cache."""
    return cache_root() / "run"


@contextmanager
def private_folder(place: Path, before: Callable[[Path], None] = lambda path: None) -> Iterator[Path]:
    """A new folder in ``place``, gone when the context ends.

    Args:
        place: The folder to make it in.
        before: Called with its path before it is made: to record it.

    Raises:
        LabError: If it cannot be made.
    """
    try:
        with _place_lock(place):
            path = Path(tempfile.mktemp(prefix=PREFIX, dir=place))  # noqa: S306  made below, under the lock
            before(path)
            path.mkdir(mode=0o755)
            owner = os.open(path / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(owner, fcntl.LOCK_EX)
    except OSError as error:
        raise LabError(
            f"a private folder cannot be made: {error.strerror}",
            place=str(place),
            remedy="make it writable and free some space; STRATA_CACHE names another place for the lab's",
        ) from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(owner)


def stale_folders(place: Path) -> list[Path]:
    """The private folders in ``place`` whose owner has died, sorted."""
    if not place.is_dir():
        return []
    with suppress(OSError), _place_lock(place):
        return [path for path in sorted(place.glob(f"{PREFIX}*")) if path.is_dir() and is_stale(path)]
    return []


def is_stale(path: Path) -> bool:
    """Whether the folder's owner has died."""
    try:
        owner = os.open(path / OWNER, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return path.is_dir()  # its maker died at once, or its removal was cut short
    except OSError:
        return False  # another user's
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(owner)
    return True


def remove_stale(place: Path) -> list[Path]:
    """Remove the folders that killed runs left in ``place``; returns them."""
    stale = stale_folders(place)
    for path in stale:
        shutil.rmtree(path, ignore_errors=True)
    return [path for path in stale if not path.exists()]


@contextmanager
def _place_lock(place: Path) -> Iterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
