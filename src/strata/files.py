# SPDX-License-Identifier: Apache-2.0
"""Files and folders: opened safely where other users may write, and written so that they survive a crash.

A user who may write to a folder can replace its content by a symbolic link. So root uses a folder only if
root or the caller owns every folder on its path and nobody else may write to them. On the way, a folder with
the sticky bit, such as ``/tmp``, is safe: others cannot rename foreign entries. The user's own group may
write, as under Fedora's and RHEL's umask of 002.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Final

from strata.errors import ResultError, StrataError
from strata.units import format_size

_LINK: Final = "it is a symbolic link, and Strata follows none here"
JSON_BYTES_MAX: Final = 512 << 20  # more than the study.json of the most trials has
_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}
_HARM: Final = "write, delete or run something else"
_PART_BYTES: Final = 1 << 20
_LINKS_MAX: Final = 40  # as in the kernel
_NAMED: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NotPlain(OSError):  # noqa: N818  names the finding
    """A path leads to a symbolic link, or to no regular file."""


def open_folder(path: Path, kind: type[StrataError] = ResultError) -> int:
    """Open a folder; as root component by component, and only where no other user can exchange one.

    Symbolic links on the path are followed once; as root only the links of root and the caller. Raises
    ``kind`` if another user could exchange a component, else OSError.
    """
    return _open_judged(path, kind, sticky=False) if os.geteuid() == 0 else os.open(path, _LISTED)


def _open_judged(path: Path, kind: type[StrataError], *, sticky: bool) -> int:
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


def refuse_exchangeable_path(
    path: Path, kind: type[StrataError] = ResultError, *, as_anybody: bool = False
) -> None:
    """Refuse a folder that another user can exchange, even before it exists. Raises ``kind``.

    Only root is refused one, unless ``as_anybody``: what lies there is executed.
    """
    if os.geteuid() != 0 and not as_anybody:
        return
    wanted = path.absolute()
    there = next(each for each in (wanted, *wanted.parents) if os.path.lexists(each))
    try:
        os.close(_open_judged(there, kind, sticky=there != wanted))
    except OSError as error:
        raise kind(f"cannot use the folder: {error.strerror}", place=str(there)) from error


def refuse_exchangeable(descriptor: int, kind: type[StrataError], *, sticky: bool) -> None:
    """Refuse an open file or folder that another user could exchange or fill. Raises ``kind``."""
    state = os.fstat(descriptor)
    stranger = state.st_uid not in _callers()
    if not stranger and not (stat.S_ISDIR(state.st_mode) and _others_write(state, descriptor)):
        return
    place = Path(f"/proc/self/fd/{descriptor}").readlink()
    if stranger:
        cause = f"it belongs to {_name(state.st_uid)}, who could have {_name(os.geteuid())} {_HARM}"
        remedy = f"work as that user, use a folder of your own, or run `chown {_name(os.geteuid())} {place}`"
    elif not state.st_mode & stat.S_ISVTX:
        cause = f"other users may write to this folder, so they could have {_name(os.geteuid())} {_HARM}"
        remedy = f"run `chmod go-w {place}`, or use another folder"
    elif not sticky:
        cause = "everybody may write to this folder"
        remedy = "make a folder of your own in it, and use that one"
    else:
        return
    raise kind(cause, place=str(place), remedy=remedy)


def _others_write(folder: os.stat_result, descriptor: int) -> bool:
    if folder.st_mode & stat.S_IWOTH:
        return True
    if not folder.st_mode & stat.S_IWGRP:
        return False
    # With an access control list, the group's bits are the upper bound of all its entries.
    with suppress(OSError):
        os.getxattr(f"/proc/self/fd/{descriptor}", "system.posix_acl_access")
        return True
    return not _is_own_group(folder.st_gid, folder.st_uid)


def _is_own_group(group: int, owner: int) -> bool:
    try:
        own, members = pwd.getpwuid(owner), set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return False
    sharing = {each.pw_name for each in pwd.getpwall() if each.pw_gid == group}
    return own.pw_gid == group and members | sharing <= {own.pw_name}


def _callers() -> set[int]:
    """Root and the caller, including the user who called sudo, who has root's rights anyway."""
    called_sudo = os.environ.get("SUDO_UID", "")
    return {0, os.geteuid(), *([int(called_sudo)] if called_sudo.isdecimal() else [])}


def _name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"


def refuse_link(path: Path) -> None:
    """Refuse a name that is a symbolic link. Raises NotPlain if it is one."""
    if path.is_symlink():
        raise NotPlain(errno.ELOOP, _LINK, str(path))


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """A descriptor that is closed at the end of the context."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file unless another process has locked it."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def opened_inside(path: Path) -> AbstractContextManager[int]:
    """The descriptor of a folder that is no symbolic link. Raises OSError."""
    refuse_link(path)
    return closing(os.open(path, _LISTED | os.O_NOFOLLOW))


def open_plain(path: Path | str, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Open a regular file; a pipe or a device could block, or never end.

    ``follow`` permits a symbolic link, for files named by the user. Raises OSError; `NotPlain` for anything
    but a regular file.
    """
    with suppress(FileNotFoundError):
        _refuse_special(Path(path).stat(follow_symlinks=follow), path)  # opening a device can have effects
    no_link = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, flags | no_link | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    try:
        _refuse_special(os.fstat(descriptor), path)
    except NotPlain:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_special(found: os.stat_result, path: Path | str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise NotPlain(errno.ELOOP, _LINK, str(path))
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "of another kind")
        raise NotPlain(errno.EINVAL, f"it is {kind}, and must be a regular file", str(path))


def read_plain(path: Path, limit_bytes: int = JSON_BYTES_MAX, *, follow: bool = False) -> bytes:
    """The content of a regular file. Raises OSError as `open_plain`; `NotPlain` if it exceeds the limit."""
    with os.fdopen(open_plain(path, follow=follow), "rb") as file:
        # A file that is far too large need not be read; a file in /proc states no size.
        stated_bytes = os.fstat(file.fileno()).st_size
        # In parts: Python would set the whole limit's memory aside.
        parts, left_bytes = [], limit_bytes + 1 if stated_bytes <= limit_bytes else 0
        while part := file.read(min(left_bytes, _PART_BYTES)):
            parts.append(part)
            left_bytes -= len(part)
    content = b"".join(parts)
    if max(stated_bytes, len(content)) > limit_bytes:
        cause = f"it is larger than the {format_size(limit_bytes)} that are read"
        raise NotPlain(errno.EFBIG, cause, str(path))
    return content


def open_named(path: Path) -> BufferedReader:
    return os.fdopen(open_plain(path, follow=True), "rb")


def is_private(path: Path) -> bool:
    """Whether some other users cannot read a file or folder. Raises OSError."""
    real = path.resolve()
    return not real.stat().st_mode & stat.S_IROTH or any(
        not each.stat().st_mode & stat.S_IXOTH for each in real.parents
    )


def create(name: str, folder: int, mode: int = 0o666) -> int:
    """Create a file in a folder (a descriptor), and open it for reading and writing. Raises OSError.

    An earlier file of the name, of a killed process, is removed first.
    """
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, mode, dir_fd=folder)


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
        case errno.ENOENT | errno.ENOTDIR | errno.ENAMETOOLONG:
            return "check the path"
        case _:
            return "check the disk that holds the folder; finished trials are kept"


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, durable."""
    with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents durably, unless it exists; a link is refused. Raises ResultError."""
    with explained(folder, "create the folder"):
        refuse_link(folder)
        if not folder.is_dir():
            missing = [folder, *(above for above in folder.parents if not above.exists())]
            folder.mkdir(parents=True, exist_ok=True)
            for each in missing:
                sync(each.parent)


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


def temporary_name(name: str) -> str:
    """The name under which `write_durably` prepares a file; a killed process leaves it behind."""
    return f".{name}.part"


def write_durably(path: Path, content: bytes | Iterable[bytes], *, wait: bool = True) -> None:
    """Write a file so that after a crash it is either complete or unchanged; or do not ``wait`` for that.

    Its content may come in pieces. A symbolic link of its name is replaced, not followed; its folder must not
    be a link. Raises ResultError if the folder is full or not writable; the temporary file is removed, also
    on an interruption.
    """
    temporary = temporary_name(path.name)
    with explained(path, "write the file"), opened_inside(path.parent) as folder:
        try:
            with os.fdopen(create(temporary, folder), "wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
                file.flush()
                if wait:
                    os.fsync(file.fileno())
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            if wait:
                os.fsync(folder)
        except BaseException:  # Ctrl-C, too
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
