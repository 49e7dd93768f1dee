# SPDX-License-Identifier: Apache-2.0
"""Opening folders and files so that nobody else can have others opened in their place.

Whoever may write to a folder can rename what is in it and put a symbolic link there. So root uses a folder
only when all folders on its path belong to root or the caller, and nobody else may write to them. A folder
with the sticky bit, such as ``/tmp``, is fine on the way: in it others cannot rename what is not theirs.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from strata.errors import ResultError, StrataError

_LINK: Final = "it is a symbolic link, and Strata follows none here"
_LINKS_MAX: Final = 40  # as in the kernel
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH
_NAMED: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NotPlain(OSError):  # noqa: N818  it is what was found
    """Something is a symbolic link, or not the regular file that it should be."""


def open_folder(path: Path, kind: type[StrataError] = ResultError, *, sticky: bool = False) -> int:
    """Open a folder; as root component by component, and only where no other user can exchange one.

    Symbolic links on the path are followed once, and as root only those of root and the caller.

    Args:
        path: The folder.
        kind: The error's class.
        sticky: Whether the folder itself may be one like ``/tmp``.

    Returns:
        Its descriptor.

    Raises:
        StrataError: Of that kind, if another user could exchange a component.
        OSError: If it cannot be opened.
    """
    if os.geteuid() != 0:
        return os.open(path, _LISTED)
    left, links = deque(path.absolute().parts), 0
    with ExitStack() as opened:
        descriptor = -1
        while left:
            found = os.open(left.popleft(), _NAMED, dir_fd=descriptor if descriptor >= 0 else None)
            opened.callback(os.close, found)
            refuse_exchangeable(found, kind, sticky=sticky or bool(left))
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                descriptor = found
                continue
            if (links := links + 1) > _LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            left.extendleft(reversed(Path(os.readlink("", dir_fd=found)).parts))
        return os.open(".", _LISTED, dir_fd=descriptor)


def refuse_exchangeable_path(path: Path, kind: type[StrataError] = ResultError) -> None:
    """Refuse, as root, a folder that another user can exchange, also before it is made.

    Raises:
        StrataError: Of that kind.
    """
    if os.geteuid() != 0:
        return
    wanted = path.absolute()
    there = next(each for each in (wanted, *wanted.parents) if os.path.lexists(each))
    try:
        os.close(open_folder(there, kind, sticky=there != wanted))
    except OSError as error:
        raise kind(f"cannot use the folder: {error.strerror}", place=str(there)) from error


def refuse_exchangeable(descriptor: int, kind: type[StrataError], *, sticky: bool) -> None:
    """Refuse what another user could exchange, or put something else into.

    Raises:
        StrataError: Of that kind.
    """
    state = os.fstat(descriptor)
    stranger = state.st_uid not in _callers()
    if not stranger and not (stat.S_ISDIR(state.st_mode) and state.st_mode & _WRITABLE):
        return
    place = Path(f"/proc/self/fd/{descriptor}").readlink()
    if stranger:
        raise kind(
            f"it belongs to {_name(state.st_uid)}, who could have root write or delete something else",
            place=str(place),
            remedy=f"work as that user, use a folder of your own, or run `chown root {place}`",
        )
    if not state.st_mode & stat.S_ISVTX:
        raise kind(
            "other users may write to this folder, so they could have root write or delete something else",
            place=str(place),
            remedy=f"run `chmod go-w {place}`, or use another folder",
        )
    if not sticky:
        raise kind(
            "everybody may write to this folder",
            place=str(place),
            remedy="make a folder of your own in it, and use that one",
        )


def _callers() -> set[int]:
    """Root and the caller. Who called sudo has root's rights anyway, and is in a folder of their own."""
    called_sudo = os.environ.get("SUDO_UID", "")
    return {0, os.geteuid(), *([int(called_sudo)] if called_sudo.isdecimal() else [])}


def _name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"


def refuse_link(path: Path) -> None:
    """Refuse a name that is a symbolic link.

    Raises:
        NotPlain: If it is one.
    """
    if path.is_symlink():
        raise NotPlain(errno.ELOOP, _LINK, str(path))


@contextmanager
def opened_inside(path: Path) -> Iterator[int]:
    """The descriptor of a folder that is no symbolic link itself.

    Raises:
        OSError: If it is one, or cannot be opened.
    """
    refuse_link(path)
    descriptor = os.open(path, _LISTED | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_plain(path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Open a regular file; a link is not followed, and a pipe is not waited for.

    Raises:
        OSError: If it cannot be opened, or is something else.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPlain(errno.ELOOP, _LINK, str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPlain(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def read_plain(path: Path) -> bytes:
    """The content of a regular file that is no link.

    Raises:
        OSError: If it cannot be read, or is something else.
    """
    with os.fdopen(open_plain(path), "rb") as file:
        return file.read()


def create(name: str, folder: int, mode: int = 0o666) -> int:
    """Create a file in a folder, given by its descriptor, and open it for reading and writing.

    What a killed process left under the name is removed first.

    Raises:
        OSError: If it cannot be created.
    """
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, mode, dir_fd=folder)
