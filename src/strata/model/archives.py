# SPDX-License-Identifier: Apache-2.0
"""Archives of strangers: unpacked as streams, with limits that hold for what comes out, to its last byte."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, Self

from strata.diagnostics.names import Diagnostic
from strata.units import format_size

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


class _Member(tarfile.TarInfo):
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
    with tarfile.open(fileobj=source, mode=mode, tarinfo=_Member) as tar:  # type: ignore[call-overload]
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
