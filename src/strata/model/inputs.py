# SPDX-License-Identifier: Apache-2.0
"""The archives and traces that a study's workloads read: beside the study, or Strata's own.

Beside the study is in its folder or below it, after all links; what else may be read, the caller names
(`strata.model.consent`).

A workload names them by `Workload.inputs`, and its steps find each as a plain tar at ``${input-NAME}``; that
of a trace has one file, `REQUESTS`, with a line for each request, and that of a single file `CONTENT`.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, Self

from strata.diagnostics.names import Diagnostic, nearest
from strata.errors import ResultError
from strata.files import is_private, open_named
from strata.model.consent import consent
from strata.model.workload import InputKind, Workload, loads_of
from strata.traces.calls import read_about
from strata.units import format_size

BUILT_IN: Final = "strata:"
LINUX_SOURCE: Final = "strata:linux-source"
"""The complete source of the lab's kernel."""
PACKAGES: Final = "strata:packages"
"""A minimal Debian as packages (``image/packages.toml``)."""
BUILT_IN_SOURCES: Final = (LINUX_SOURCE, PACKAGES)
REQUESTS: Final = "requests"
"""The file in the tar of a trace."""
_TEXT_BYTES_MAX: Final = 1 << 20
CONTENT: Final = "content"
"""The file in the tar of a single file."""


@dataclass(frozen=True)
class InputFile:
    """A user's archive, which its digest identifies, and the size of each regular file in it, by name.

    Of a trace the sizes are the bytes that it reads or writes, in areas of 1 MiB, by disk; of an
    application's calls, the most that its files held at once.
    """

    path: Path
    sha256: str
    sizes_bytes: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    kind: InputKind = "archive"
    private: bool = field(default=False, compare=False)  # other users cannot read it, nor may its copies


def read_input(source: str, folder: Path, kind: InputKind = "archive") -> InputFile | None:
    """Read a file relative to the study's folder; None for one of Strata's own. Raises Diagnostic."""
    if "\0" in source:  # which no system call takes
        raise Diagnostic("no file has such a name", remedy="leave out the character NUL")
    if source.startswith(BUILT_IN):
        if source not in BUILT_IN_SOURCES:
            raise Diagnostic(f'Strata has no "{source[:60]}"', remedy=nearest(source, BUILT_IN_SOURCES))
        return None
    path = folder / source
    _refuse_foreign(path, folder)
    if (reader := {"trace": _read_trace, "calls": _read_calls}.get(kind)) is not None:
        return reader(path, folder)
    remedy = "name a folder or a file .tar, .tar.gz, .tar.xz or .tar.bz2, relative to the study's folder"
    remedy = "name a file, relative to the study's folder" if kind != "archive" else remedy
    try:
        if path.is_dir() and kind == "archive":
            return _read_folder(path)
        with open_named(path) as file:
            # Of a plain tar only the headers are read.
            size_bytes = os.fstat(file.fileno()).st_size
            sizes = _member_sizes(file) if kind == "archive" else {path.name: size_bytes}
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return InputFile(path.absolute(), digest, sizes, kind, is_private(path))
    except Diagnostic:
        raise
    except FileNotFoundError:
        cause = f"there is no file {path}"
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror or error}"
    except (tarfile.TarError, EOFError, ValueError, MemoryError, lzma.LZMAError, zlib.error):
        cause = f"{path} is no tar archive, or is damaged"
    raise Diagnostic(cause, remedy=remedy)


def read_text(source: str, folder: Path, *, whole: bool = True) -> str:
    """The text of a small file beside the study, which becomes a part of its workload. Raises Diagnostic.

    Not ``whole``: the beginning of any file; bytes that are no UTF-8 are replaced.
    """
    if "\0" in source:
        raise Diagnostic("no file has such a name", remedy="leave out the character NUL")
    path = folder / source
    _refuse_foreign(path, folder)
    try:
        with open_named(path) as file:
            content = file.read(_TEXT_BYTES_MAX + 1)
        if not whole:
            return content.decode(errors="replace")
        if len(content) > _TEXT_BYTES_MAX:
            raise Diagnostic(f"{path} has more than 1MiB", remedy="no text of a workload is that long")
        return content.decode()
    except FileNotFoundError:
        cause = f"there is no file {path}"
    except UnicodeDecodeError:
        cause = f"{path} is no text in UTF-8"
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror or error}"
    raise Diagnostic(cause, remedy="name a text file, relative to the study's folder")


def _refuse_foreign(path: Path, folder: Path) -> None:
    """Refuse a file that neither lies beside the study nor is named by the caller. Raises Diagnostic."""
    try:
        permitted = consent().covers(path, folder)
    except (OSError, RuntimeError):  # a loop of links, which nobody can open
        return
    if not permitted:
        raise Diagnostic(
            f"{path} lies outside the study's folder",
            remedy=f"put it there, or permit it with --allow-input {path.resolve()}",
        )


class _Sink(Protocol):
    def write(self, content: bytes, /) -> object: ...


class _Hashed:
    """A file of which only the hash is kept."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()

    def write(self, content: bytes, /) -> int:
        self.hash.update(content)
        return len(content)


def pack_folder(folder: Path, out: _Sink) -> dict[str, int]:
    """Write a folder as a plain tar that is a function of its content; returns the sizes of its files.

    Owners and times are left out. Raises OSError, and Diagnostic for what no archive should hold.
    """
    sizes: dict[str, int] = {}
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as tar:  # type: ignore[call-overload]
        for count, path in enumerate(sorted(folder.rglob("*"))):
            if count >= MEMBERS_MAX:
                raise Diagnostic(f"the folder holds more than {MEMBERS_MAX} files", remedy="leave some out")
            name = str(path.relative_to(folder))
            kind = path.lstat().st_mode
            member = tarfile.TarInfo(name)
            member.mode = 0o755 if stat.S_ISDIR(kind) or kind & 0o100 else 0o644
            if stat.S_ISLNK(kind):
                member.type, member.linkname = tarfile.SYMTYPE, str(path.readlink())
                tar.addfile(member)
            elif stat.S_ISDIR(kind):
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
            elif stat.S_ISREG(kind):
                with open_named(path) as file:
                    member.size = sizes[name] = os.fstat(file.fileno()).st_size
                    tar.addfile(member, file)
            else:
                cause = f"{path} is no file, folder or link"
                raise Diagnostic(cause, remedy="leave it out of the folder")
    return sizes


def _read_folder(folder: Path) -> InputFile:
    packed = _Hashed()
    sizes = pack_folder(folder, packed)
    private = is_private(folder) or any(
        not each.lstat().st_mode & stat.S_IROTH for each in folder.rglob("*") if not each.is_symlink()
    )
    return InputFile(folder.absolute(), packed.hash.hexdigest(), sizes, private=private)


def _read_trace(path: Path, folder: Path) -> InputFile:
    from strata.traces.foreign import files_of  # noqa: PLC0415  NumPy and DuckDB load slowly
    from strata.traces.requests import read_any, touched_bytes  # noqa: PLC0415

    files = files_of(path)
    for each in files:
        _refuse_foreign(each, folder)
    try:
        private = any(map(is_private, files))
        return InputFile(path.absolute(), trace_hash(path), touched_bytes(read_any(path)), "trace", private)
    except OSError as error:
        cause, remedy = f"{path} cannot be read: {error.strerror or error}", "name a trace beside the study"
    except ResultError as error:
        cause, remedy = f"{error.place}: {error.cause}", error.remedy or "record the trace again"
    raise Diagnostic(cause, remedy=remedy)


def _read_calls(path: Path, folder: Path) -> InputFile:
    try:
        about = read_about(path)
    except ResultError as error:
        raise Diagnostic(f"{error.place}: {error.cause}", remedy=error.remedy or "record it again") from None
    found = read_input(path.name, path.parent, "file")
    assert found is not None  # none of Strata's own
    return replace(found, kind="calls", sizes_bytes={path.name: about.bytes_most})


def trace_hash(path: Path) -> str:
    """The hash of a trace's files together. Raises OSError."""
    from strata.traces.foreign import files_of  # noqa: PLC0415  NumPy loads slowly

    whole = hashlib.sha256()
    for each in files_of(path):
        with open_named(each) as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _member_sizes(file: BinaryIO) -> dict[str, int]:
    return {member.name: member.size for member in members(file) if member.isreg()}


def read_inputs(
    workload: Workload, folder: Path, found: MutableMapping[str, InputFile]
) -> Iterator[Diagnostic]:
    """Read the inputs of a workload and its tenants, and add the users' archives to ``found`` by source."""
    for load in loads_of(workload):
        for source in load.inputs().values():
            if source not in found:
                key = next((key for key, value in load if value == source), None)
                try:
                    file = read_input(source, folder, load.input_kind)
                except Diagnostic as diagnostic:
                    diagnostic.key = key if load is workload else None
                    yield diagnostic
                else:
                    if file is not None:
                        found[source] = file


def read_image(source: str, folder: Path, found: MutableMapping[str, InputFile]) -> None:
    """Read a disk image that a machine starts from, and add it to ``found`` by source. Raises Diagnostic."""
    if source in found:
        return
    file = read_input(source, folder, "image")
    assert file is not None  # none of Strata's own
    with open_named(file.path) as content:
        head = content.read(_SECTOR_BYTES)
    is_qcow2 = head.startswith(_QCOW2)
    if is_qcow2 != source.endswith(".qcow2") or not (is_qcow2 or head.endswith(_BOOT_MARK)):
        raise Diagnostic(
            f"{file.path} is not the image of a disk that its name says",
            remedy="unpack it if it is compressed, and name it .qcow2, or .raw with a boot sector: "
            "`qemu-img info` says what it is",
        )
    backing, features = head[8:16], int.from_bytes(head[72:80])
    if is_qcow2 and (any(backing) or (head[7] >= 3 and features & _EXTERNAL_DATA)):
        raise Diagnostic(
            f"a part of {file.path} lies in another file",
            remedy="write it into one: qemu-img convert -O qcow2 IMAGE WHOLE.qcow2",
        )
    found[source] = file


# docs/interop/qcow2.txt of QEMU: the magic, and the incompatible feature of an external data file.
_QCOW2: Final = b"QFI\xfb"
_EXTERNAL_DATA: Final = 1 << 2
_BOOT_MARK: Final = b"\x55\xaa"  # at the end of the first sector, also of a disk with GPT
_SECTOR_BYTES: Final = 512


def input_diagnostics(
    workload: Workload, found: Mapping[str, InputFile], capacity_bytes: int
) -> Iterator[Diagnostic]:
    """Diagnostics of inputs that do not fit on ``capacity_bytes``, from `read_inputs`."""
    for load in loads_of(workload):
        sizes = {name: found[source].sizes_bytes for name, source in load.inputs().items() if source in found}
        for diagnostic in load.input_diagnostics(sizes, capacity_bytes):
            if load is not workload:
                diagnostic.key = None
            yield diagnostic


# Sources are compressed by ten times and less.
_GROWTH_MAX: Final = 100
_SWOLLEN_BYTES_MIN: Final = 1 << 30
MEMBERS_MAX: Final = 1_000_000
_HEADER_BYTES_MAX: Final = 1 << 20  # of a name, a link's target or pax's records
_CHUNK_BYTES: Final = 1 << 20

# A file's first bytes, its decompression, and an estimate of how many times larger it becomes at most.
_PACKED: Final[tuple[tuple[bytes, Callable[[BinaryIO], Any], int], ...]] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file), 5),
    (b"BZh", bz2.BZ2File, 6),
    (b"\xfd7zXZ\x00", lzma.LZMAFile, 12),  # the kernel's sources: 10 to 11 times
    (b"\x5d\x00\x00", lzma.LZMAFile, 12),
)


class Unpacked:
    """The content of a file, decompressed as it is read, which may not swell beyond any tree of files.

    Raises Diagnostic at the first byte too many.
    """

    def __init__(self, file: BinaryIO) -> None:
        magic = file.read(8)
        file.seek(0)
        self._file = file
        self._packed_bytes = os.fstat(file.fileno()).st_size
        found = next(((opened, growth) for mark, opened, growth in _PACKED if magic.startswith(mark)), None)
        self.is_packed = found is not None
        self.growth = found[1] if found else 1  # an estimate, for the room that is needed
        self._content: BinaryIO = found[0](file) if found else file
        self._limit_bytes = max(_SWOLLEN_BYTES_MIN, _GROWTH_MAX * self._packed_bytes)
        self.bytes = 0

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes; all of them would be too many."""
        chunk = self._content.read(_CHUNK_BYTES if size < 0 else size)
        self.bytes += len(chunk)
        if self.is_packed and self.bytes > self._limit_bytes:
            raise swollen(f"more than {format_size(self._limit_bytes)} in {format_size(self._packed_bytes)}")
        return chunk

    def drain(self) -> None:
        """Read the rest."""
        while self.read(_CHUNK_BYTES):
            pass

    @property
    def consumed_bytes(self) -> int:
        """The bytes of the file that have been read."""
        return self._file.tell()


class SmallHeaders(tarfile.TarInfo):
    """A member whose headers are small: tarfile reads them into memory at the size that they state."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        headers = {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}
        headers |= {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
        if found.type in headers and not 0 <= found.size <= _HEADER_BYTES_MAX:
            raise swollen(f"a header of {format_size(max(0, found.size))}")
        return found


def members(file: BinaryIO) -> Iterator[tarfile.TarInfo]:
    """The members of an archive, compressed or not; of a plain one only the headers are read.

    Raises Diagnostic for one that is larger than any tree of files, and the errors of tarfile and of the
    decompressions for one that is damaged.
    """
    content = Unpacked(file)
    source, mode = (content, "r|") if content.is_packed else (file, "r:")
    stated_bytes, count = 0, 0
    most_bytes = max(_SWOLLEN_BYTES_MIN, _GROWTH_MAX * os.fstat(file.fileno()).st_size)
    with tarfile.open(fileobj=source, mode=mode, tarinfo=SmallHeaders) as tar:  # type: ignore[call-overload]
        while (member := tar.next()) is not None:
            tar.members.clear()  # it would keep them all
            count += 1
            stated_bytes += max(0, member.size)
            if count > MEMBERS_MAX or stated_bytes > most_bytes:
                raise swollen(f"{count} members so far, {format_size(stated_bytes)}")
            yield member
        if content.is_packed:
            content.drain()  # what comes after the archive's end is unpacked, too


def swollen(how: str) -> Diagnostic:
    return Diagnostic(
        f"the archive holds more than any tree of files: {how}",
        remedy="split it, or leave out files of zeros",
    )
