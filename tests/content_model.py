# SPDX-License-Identifier: Apache-2.0
"""A modelled disk with its content, in user space: the model and the content of ``kernel/disk``, joined."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from strata.lab.model import READ, library

SECTOR: Final = 512
BLOCK: Final = 4096
ARMED: Final = 1
OWN_MARKS: Final = 2
NEVER: Final = (1 << 64) - 1
UNREADABLE: Final = -3
GONE: Final = -4
NEW, LOADED, UNFINISHED, OTHER = range(4)

_POINTER, _U64, _S64, _U32 = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64, ctypes.c_uint32


class Mark(ctypes.Structure):
    """``struct disk_durable``."""

    _fields_ = [("sector", _U64), ("sectors", _U64), ("sequence", _U64), ("at_ns", _U64)]


class Report(ctypes.Structure):
    """``struct loss_report``."""

    _fields_ = [
        (name, _U64) for name in ("open", "kept", "lost", "torn", "lost_acknowledged", "settled_blocks")
    ]


class _Pattern(ctypes.Structure):
    """``struct pattern``."""

    _fields_ = [("kind", _U32), ("cut_bytes", _U32), ("value", _U64)]


_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "strata_store_create": (_POINTER, (_U64,)),
    "strata_store_destroy": (None, (_POINTER,)),
    "strata_store_written": (_U64, (_POINTER,)),
    "strata_store_end": (_U64, (_POINTER,)),
    "strata_full_open": (_POINTER, (ctypes.c_char_p, ctypes.c_size_t, _POINTER, _U32, ctypes.c_char_p)),
    "strata_full_close": (None, (_POINTER,)),
    "strata_full_submit": (_S64, (_POINTER, _U64, _POINTER, _U64, _U32, _POINTER, _U64)),
    "strata_full_next_ns": (_U64, (_POINTER,)),
    "strata_full_take": (_S64, (_POINTER, _U64, _POINTER)),
    "strata_full_advance": (None, (_POINTER, _U64)),
    "strata_full_mark": (None, (_POINTER, _POINTER)),
    "strata_full_cut": (_S64, (_POINTER, _U64, _U64, _POINTER)),
    "strata_full_load": (_S64, (_POINTER,)),
    "strata_full_save": (_S64, (_POINTER,)),
    "strata_full_power_off": (_S64, (_POINTER,)),
    "strata_full_flash_check": (ctypes.c_char_p, (_POINTER,)),
    "strata_full_content": (_S64, (_POINTER, _U64, _U64, _POINTER)),
    "strata_full_fault": (ctypes.c_char_p, (_POINTER, _U64, ctypes.c_char_p, ctypes.c_size_t)),
    "strata_pattern_find": (ctypes.c_bool, (_POINTER, _POINTER)),
    "strata_pattern_make": (None, (_POINTER, _POINTER)),
}


@functools.cache
def functions() -> ctypes.CDLL:
    """The library, with the functions of ``content_library.c``."""
    loaded = library()
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


class Store:
    """Memory in the place of the host's file."""

    def __init__(self, size_bytes: int) -> None:
        self.handle = functions().strata_store_create(size_bytes)
        assert self.handle

    @property
    def written_bytes(self) -> int:
        return int(functions().strata_store_written(self.handle))

    @property
    def end_bytes(self) -> int:
        return int(functions().strata_store_end(self.handle))

    def __del__(self) -> None:
        functions().strata_store_destroy(self.handle)


@dataclass(frozen=True)
class Io:
    """A command; a write's content has ``sectors`` sectors."""

    op: int
    sector: int = 0
    sectors: int = 0
    flags: int = 0
    content: bytes = b""


class FullDisk:
    """A modelled disk with its content."""

    def __init__(self, text: str, store: Store, *, options: int = ARMED) -> None:
        self._library = functions()
        self._store = store  # it must outlive the disk
        message = ctypes.create_string_buffer(160)
        encoded = text.encode()
        self._handle = self._library.strata_full_open(encoded, len(encoded), store.handle, options, message)
        if not self._handle:
            raise ValueError(message.value.decode())

    def submit(self, now_ns: int, io: Io, piece: int = 1 << 20) -> tuple[int, bytes]:
        """Issue a command; returns its sequence (negative: refused), and what was read."""
        buffer = ctypes.create_string_buffer(io.content, max(io.sectors * SECTOR, 1))
        op = (_U32 * 2)(io.op, io.flags)
        arguments = (self._handle, now_ns, op, io.sector, io.sectors, buffer, piece)
        sequence = int(self._library.strata_full_submit(*arguments))
        return sequence, buffer.raw[: io.sectors * SECTOR] if io.op == READ else b""

    @property
    def next_ns(self) -> int:
        return int(self._library.strata_full_next_ns(self._handle))

    def take(self, now_ns: int) -> list[tuple[int, int]]:
        """The sequence and the time of everything that has completed by then, in order."""
        found = []
        complete_ns = _U64()
        while (
            sequence := self._library.strata_full_take(self._handle, now_ns, ctypes.byref(complete_ns))
        ) >= 0:
            found.append((int(sequence), int(complete_ns.value)))
        return found

    def mark(self, sector: int, sectors: int, sequence: int, at_ns: int) -> None:
        self._library.strata_full_mark(self._handle, ctypes.byref(Mark(sector, sectors, sequence, at_ns)))

    def cut(self, at_ns: int, seed: int) -> Report:
        report = Report()
        assert self._library.strata_full_cut(self._handle, at_ns, seed, ctypes.byref(report)) == 0
        return report

    def load(self) -> int:
        return int(self._library.strata_full_load(self._handle))

    def save(self) -> None:
        assert self._library.strata_full_save(self._handle) == 0

    def power_off(self) -> None:
        """An orderly one: the model's state is saved, too."""
        assert self._library.strata_full_power_off(self._handle) == 0
        self.close()

    @property
    def flash_problem(self) -> str | None:
        """What is wrong with a flash drive's map."""
        wrong: bytes | None = self._library.strata_full_flash_check(self._handle)
        return None if wrong is None else wrong.decode()

    def content(self, sector: int, sectors: int) -> bytes:
        buffer = ctypes.create_string_buffer(sectors * SECTOR)
        assert self._library.strata_full_content(self._handle, sector, sectors, buffer) == 0
        return buffer.raw

    def fault(self, now_ns: int, text: str) -> str | None:
        """A fault from now on; what is wrong with it, if anything is."""
        encoded = text.encode()
        wrong: bytes | None = self._library.strata_full_fault(self._handle, now_ns, encoded, len(encoded))
        return None if wrong is None else wrong.decode()

    def close(self) -> None:
        if self._handle:
            self._library.strata_full_close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()


WORD, FIO, DRAWN = range(3)


@dataclass(frozen=True)
class Pattern:
    """Content of which a few bytes are kept: its kind is one of the above, or `DRAWN` and a percentage."""

    kind: int
    value: int
    cut_bytes: int = 0

    @staticmethod
    def of(block: bytes) -> Pattern | None:
        """The pattern of a block of 4 KiB, if it has one."""
        found = _Pattern()
        is_known = functions().strata_pattern_find(block, ctypes.byref(found))
        return Pattern(found.kind, found.value, found.cut_bytes) if is_known else None

    def block(self) -> bytes:
        """What the disk makes of it."""
        made = ctypes.create_string_buffer(BLOCK)
        functions().strata_pattern_make(ctypes.byref(_Pattern(self.kind, self.cut_bytes, self.value)), made)
        return made.raw


def _mix(x: int) -> int:
    """``platform_mix``."""
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def _bytes_of(words: Iterable[int]) -> bytes:
    return b"".join((word % (1 << 64)).to_bytes(8, "little") for word in words)


@functools.lru_cache(1000)
def drawn_block(key: int, percent: int = 0, size: int = BLOCK) -> bytes:
    """A block of the load generator's, of which a compressor saves this much, in a file that ends there."""
    words = max(1, -(-(BLOCK * (100 - percent) // 100) // 8))
    content = _bytes_of(_mix(key + i) for i in range(words)) + b"strata: " * (BLOCK // 8 - words)
    return content[:size] + bytes(BLOCK - size)


@functools.lru_cache(1000)
def fio_block(seed: int, size: int = BLOCK) -> bytes:
    """What fio fills ``size`` bytes with, and zeros behind them."""
    ratio, rows = 0x61C8864680B583EB, size // 32
    words = [seed * prime * ratio**row for row in range(rows) for prime in (1, 2, 3, 5)]
    rest = [seed * ratio ** (rows + i) for i in range(5)]
    return _bytes_of(words + rest)[:size] + bytes(BLOCK - size)
