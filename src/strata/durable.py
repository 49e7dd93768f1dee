# SPDX-License-Identifier: Apache-2.0
"""Errors of files that users can act on, and writing that survives a crash."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from strata.errors import ResultError, StrataError
from strata.folders import NotPlain, create, opened_inside, refuse_link


@contextmanager
def explained(
    path: Path, doing: str, kind: type[StrataError] = ResultError, *, reading: bool = False
) -> Iterator[None]:
    """Turn an OSError of the block into a ``kind`` of error that a user can act on.

    ``doing`` follows "cannot" in its message. When only ``reading``, another folder is no remedy.
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
    """An OSError as an error that a user can act on."""
    place = path if path is not None else error.filename
    return kind(
        f"cannot {doing}: {error.strerror or error}",
        place=None if place is None else str(place),
        remedy=_remedy(error, reading=reading),
    )


def _remedy(error: OSError, *, reading: bool) -> str:
    if isinstance(error, NotPlain):
        return "see who put it there; then remove it, or name another"
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
    """Create a folder and its parents durably, unless it exists; a link is refused. Raises ResultError."""
    with explained(folder, "create the folder"):
        refuse_link(folder)
        if not folder.is_dir():
            missing = [folder, *(above for above in folder.parents if not above.exists())]
            folder.mkdir(parents=True, exist_ok=True)
            for each in missing:
                sync(each.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it is either complete or unchanged.

    A symbolic link of its name is replaced, not followed; its folder must not be a link. Raises ResultError
    if the folder is full or not writable; the temporary file is removed, also on an interruption.
    """
    write_whole(path, content, durably=True)


def write_page(output: Path, page: str | bytes) -> None:
    """Write a page or a plot durably, into a folder that may be new. Raises ResultError."""
    refuse_folder(output)
    output = output.parent.resolve() / output.name  # the folder may be a link
    make_folder(output.parent)
    write_durably(output, page.encode() if isinstance(page, str) else page)


def refuse_folder(output: Path) -> None:
    """Check the name of a file before minutes are spent on its content. Raises ResultError."""
    if output.is_dir():
        raise ResultError("it is a folder", place=str(output), remedy="name a file")


def write_whole(path: Path, content: bytes, *, durably: bool = False) -> None:
    """Like `write_durably`, but without waiting for the disk."""
    temporary = f".{path.name}.part"
    with explained(path, "write the file"), opened_inside(path.parent) as folder:
        try:
            with os.fdopen(create(temporary, folder), "wb") as file:
                file.write(content)
                file.flush()
                if durably:
                    os.fsync(file.fileno())
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            if durably:
                os.fsync(folder)
        except BaseException:  # Ctrl-C, too
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
