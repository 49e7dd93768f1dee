# SPDX-License-Identifier: Apache-2.0
"""Whether a cached thing still has the bytes that were written: its hashes, compared when it is used.

A result names the hash of the kernel, the image, the inputs. A size does not show a flipped bit, so the bytes
themselves are compared. Each process compares a file once. A file of the cache remembers for a day what was
compared, by inode, size and both times: a change by any program changes the time of the inode, which no
program can set; a fault of the medium changes none of them, and is found a day later at the latest.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from strata.console import Terminal
from strata.errors import StrataError
from strata.files import closing, write_durably

HASHES: Final = "hashes.json"
"""The hash of every file and folder of an entry, by name."""
MEMORY: Final = "compared.json"
"""The file of a cache that remembers what was compared."""
_REMEMBERED_S: Final = 86_400
# Within this time of its last change a file could change again without another time.
_TICK_NS: Final = 2 * 10**9
_BLOCK_BYTES: Final = 1 << 16  # no filesystem has larger holes than it needs

# By the file that remembers them and by path: the path's state, its hash, when that was computed.
_known: Final[dict[Path, dict[str, tuple[str, str, float]]]] = {}
_said: Final[set[Path]] = set()
_lock: Final = threading.Lock()


def data_hash(descriptor: int) -> str:
    """The hash of an open file: of each block that is not zero, and its place. Holes cost nothing."""
    digest, zeros = hashlib.sha256(), bytes(_BLOCK_BYTES)
    size_bytes = os.fstat(descriptor).st_size
    digest.update(size_bytes.to_bytes(8, "little"))
    done = 0
    for start, end in data_extents(descriptor, size_bytes):
        for at in range(max(done, start - start % _BLOCK_BYTES), end, _BLOCK_BYTES):
            block = os.pread(descriptor, _BLOCK_BYTES, at)
            done = at + _BLOCK_BYTES
            if block != zeros[: len(block)]:
                digest.update(at.to_bytes(8, "little"))
                digest.update(block)
    return digest.hexdigest()


def data_extents(descriptor: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """The start and end of each part of a file that is no hole."""
    at = 0
    while at < size_bytes:
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        at = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, at


def write_hashes(folder: Path) -> None:
    """Record the hashes of a folder's content in it."""
    hashes = {path.name: content_hash(path) for path in folder.iterdir() if path.name != HASHES}
    path = folder / HASHES
    path.write_text(json.dumps(hashes, indent=2, sort_keys=True) + "\n")
    path.chmod(0o644)


def damage(folder: Path, memory: Path | None) -> str | None:
    """The difference between an entry and its hashes, as a clause; None if they are equal.

    ``memory`` is the file that remembers what was compared; None compares all of it now.
    """
    try:
        hashes = dict(json.loads((folder / HASHES).read_text()))
        wrong = [name for name, stated in hashes.items() if _compared(folder / name, memory) != stated]
    except FileNotFoundError as error:
        name = Path(error.filename).name
        return "an older Strata kept it without hashes" if name == HASHES else f"{name} is missing"
    except (OSError, ValueError, TypeError) as error:
        return f"it cannot be read ({error})"
    return f"{wrong[0]} is not what was written" if wrong else None


def say_damage(folder: Path, what: str) -> None:
    """Say once that an entry is not used."""
    with _lock:
        new = folder not in _said
        _said.add(folder)
    if new:
        line = f"cache: {folder.parent.name}/{folder.name}: {what}; it is not used, and made again if needed"
        Terminal(stderr=True).print(line, markup=False, highlight=False, soft_wrap=True)


def _compared(path: Path, memory: Path | None) -> str:
    """The hash of a file or folder, remembered while nothing of it changes."""
    if memory is None:
        return content_hash(path)
    state, changed_ns = _state(path)
    now_s = time.time()
    with _lock:
        if memory not in _known:
            _known[memory] = _read(memory)
        remembered = _known[memory]
        before, found, when_s = remembered.get(str(path), ("", "", 0.0))
    if before == state and 0 <= now_s - when_s < _REMEMBERED_S:
        return found
    found = content_hash(path)
    if _state(path)[0] == state and time.time_ns() - changed_ns > _TICK_NS:
        with _lock:
            remembered[str(path)] = state, found, now_s
            kept = {name: each for name, each in remembered.items() if now_s - each[2] < _REMEMBERED_S}
            with suppress(OSError, StrataError):  # where nothing can be written each process compares again
                write_durably(memory, json.dumps(kept).encode(), wait=False)
    return found


def _read(memory: Path) -> dict[str, tuple[str, str, float]]:
    try:
        stated = json.loads(memory.read_text()).items()
        return {str(path): (str(state), str(found), float(when)) for path, (state, found, when) in stated}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def content_hash(path: Path) -> str:
    """The hash of a file's or a folder's content."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        return _file_hash(path)
    digest = hashlib.sha256()
    for file in _below(path):
        digest.update(f"{file.relative_to(path)}\0".encode(errors="surrogateescape"))
        digest.update(_file_hash(file).encode())
    return digest.hexdigest()


def _file_hash(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    with closing(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as descriptor:
        return data_hash(descriptor)


def _below(folder: Path) -> Iterator[Path]:
    """All files and links below a folder, in one order."""
    for at, folders, files in os.walk(folder):
        folders.sort()
        here = Path(at)
        links = (name for name in folders if (here / name).is_symlink())
        yield from (here / name for name in sorted([*files, *links]))


def _state(path: Path) -> tuple[str, int]:
    """A hash of all that changes with a file or a folder's files, and the time of the last change."""
    digest, changed_ns = hashlib.sha256(), 0
    for each in _below(path) if path.is_dir() and not path.is_symlink() else [path]:
        found = each.lstat()
        digest.update(
            f"{each}\0{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} "
            f"{found.st_ctime_ns}\0".encode(errors="surrogateescape")
        )
        changed_ns = max(changed_ns, found.st_ctime_ns)
    return digest.hexdigest(), changed_ns
