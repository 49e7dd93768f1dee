# SPDX-License-Identifier: Apache-2.0
"""Files that others name: only regular ones are read, and writing survives a crash."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Final

from strata.errors import ResultError, StrataError
from strata.units import format_size

JSON_BYTES_MAX: Final = 64 << 20
"""More than any file that Strata writes as one piece of JSON has."""

_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


class Unsuitable(OSError):  # noqa: N818  caught like what the operating system refuses
    """A file that is not read because of its kind or its size."""


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read it. A pipe or a device could block, or never end.

    Raises:
        OSError: If it cannot be opened; `Unsuitable` if it is no regular file.
    """
    _refuse_special(path.stat())  # opening some devices does something already
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
    try:
        _refuse_special(os.fstat(file.fileno()))
    except OSError:
        file.close()
        raise
    return file


def _refuse_special(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "of another kind")
        raise Unsuitable(errno.EINVAL, f"it is {kind}, and must be a regular file")


def read_regular(path: Path, limit_bytes: int = JSON_BYTES_MAX) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: As of `open_regular`, or `Unsuitable` if it holds more than the limit.
    """
    with open_regular(path) as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise Unsuitable(errno.EFBIG, f"it is larger than the {format_size(limit_bytes)} that are read")
    return content


@contextmanager
def explained(
    path: Path, doing: str, kind: type[StrataError] = ResultError, *, reading: bool = False
) -> Iterator[None]:
    """Turn the operating system's refusals below ``path`` into errors that a user can act on.

    Args:
        path: What is read or written.
        doing: What cannot be done then, as after "cannot".
        kind: The errors' class.
        reading: Whether nothing is written, so that it is no remedy to write elsewhere.

    Raises:
        StrataError: Of that kind, for any OSError of the block.
    """
    try:
        yield
    except OSError as error:
        raise refused(error, doing, path, kind, reading=reading) from error


def refused(
    error: OSError,
    doing: str,
    path: Path | str | None = None,
    kind: type[StrataError] = ResultError,
    *,
    reading: bool = False,
) -> StrataError:
    """The operating system's refusal as an error that a user can act on."""
    place = path if path is not None else error.filename
    return kind(
        f"cannot {doing}: {error.strerror or error}",
        place=None if place is None else str(place),
        remedy=_remedy(error, reading=reading),
    )


def _remedy(error: OSError, *, reading: bool) -> str:
    if isinstance(error, Unsuitable):
        return "name another file, or remove this one if Strata is to write it"
    match error.errno:
        case errno.EACCES | errno.EPERM if reading:
            return "let its owner make it readable for you, or work as the user who ran the study"
        case errno.ENOSPC | errno.EDQUOT:
            return "make room on that filesystem and start the same command again; finished trials are kept"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "choose a folder that you may write to"
        case errno.ENOENT | errno.ENOTDIR:
            return "check the path"
        case _:
            return "check the disk that holds the folder; finished trials are kept"


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder with those above it, durably; one that is there already is fine.

    Raises:
        ResultError: If it cannot be created.
    """
    with explained(folder, "create the folder"):
        if not folder.is_dir():
            missing = [folder, *(above for above in folder.parents if not above.exists())]
            folder.mkdir(parents=True, exist_ok=True)
            for each in missing:
                sync(each.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it is there complete, or as it was before.

    Raises:
        ResultError: If the folder cannot be written or is full; the temporary file is removed.
    """
    temporary = path.with_name(f".{path.name}.part")
    with explained(path, "write the file"):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync(path.parent)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
