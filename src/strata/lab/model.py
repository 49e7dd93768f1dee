# SPDX-License-Identifier: Apache-2.0
"""The disk models of ``kernel/disk`` in user space: lists of I/O in, completions out.

The library is compiled from the sources of the lab's kernel when first needed, and cached under their hash.
An I/O costs about a microsecond of real time, because neither kernel nor data are simulated.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strata.bundled import project_root
from strata.errors import LabError, ToolError
from strata.lab.cache import Cache, Entry, Inputs, cache_root, caches, file_hash, tree_hashes

READ, WRITE, FLUSH, DISCARD = range(4)
FUA: Final = 1
"""Flag of a write that is complete only when it survives a loss of power."""

LIBRARY_VARIABLE: Final = "STRATA_MODEL_LIBRARY"
"""Environment variable with the path of a library to use, such as one compiled with a sanitizer."""

DURABLE: Final = ("sector", "sectors", "sequence", "at_ns")
"""Columns of a mark: from ``at_ns`` on, writes of commands up to ``sequence`` to these sectors survive."""

Counts = npt.NDArray[np.uint64]

_MESSAGE_BYTES: Final = 160
_FIRST_PART: Final = "queue_ns"


class _List(ctypes.Structure):
    """``struct strata_list`` of ``library.c``."""

    _fields_ = [
        ("count", ctypes.c_uint64),
        *(
            (name, ctypes.c_void_p)
            for name in ("op", "flags", "sector", "sectors", "arrival_ns", "complete_ns", "parts", "order")
        ),
    ]


_POINTER, _U32, _U64, _S64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64

_FUNCTIONS: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "strata_disk_open": (_POINTER, (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p)),
    "strata_disk_close": (None, (_POINTER,)),
    "strata_disk_now_ns": (_U64, (_POINTER,)),
    "strata_disk_advance": (None, (_POINTER, _U64)),
    "strata_disk_account": (None, (_POINTER, _POINTER)),
    "strata_disk_closed_loop": (_S64, (_POINTER, _POINTER, _U64, _U64)),
    "strata_disk_open_list": (_S64, (_POINTER, _POINTER)),
    "strata_disk_open_lists": (_S64, (_POINTER, _POINTER, _U64)),
    "strata_disk_join": (None, (_POINTER, _POINTER)),
    "strata_disk_replay": (_S64, (_POINTER, _POINTER, _POINTER)),
    "strata_disk_record_durable": (None, (_POINTER, _POINTER, _U64)),
    "strata_disk_durable_marks": (_U64, (_POINTER,)),
    "strata_disk_seek_ns": (_U64, (_POINTER, _U64)),
    "strata_flash_check": (ctypes.c_char_p, (_POINTER,)),
    "strata_grid_distance": (_U64, (_U32,)),
    "strata_account_keys": (_U32, ()),
    "strata_account_name": (ctypes.c_char_p, (_U32,)),
    "strata_parts": (_U32, ()),
    "strata_serve": (_S64, (_POINTER, _POINTER)),
}
"""Result and arguments of each function of ``library.c`` and ``serve.c`` that is used here."""


@functools.cache
def library() -> ctypes.CDLL:
    """The library, compiled if its sources have changed."""
    given = os.environ.get(LIBRARY_VARIABLE)
    path = Path(given) if given else build_model(Cache(cache_root()), project_root())
    loaded = ctypes.CDLL(str(path))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


@functools.cache
def account_names() -> tuple[str, ...]:
    """The names of a disk's counters, in the order of the driver's sysfs file."""
    names = (library().strata_account_name(index) for index in range(library().strata_account_keys()))
    return tuple(name.decode() for name in names)


@functools.cache
def part_names() -> tuple[str, ...]:
    """The parts of a request's time, which add up to its latency (``kernel/disk/model.h``)."""
    first = account_names().index(_FIRST_PART)
    return account_names()[first : first + library().strata_parts()]


def grid_distance(index: int) -> int:
    """The distance in tracks of a point of the seek table, in the C code."""
    return int(library().strata_grid_distance(index))


@dataclass(frozen=True)
class ModelTrace:
    """The outcome of a list of I/O, on the disk's clock."""

    arrival_ns: Counts
    complete_ns: Counts
    parts: Counts  # a row for each I/O, a column for each of `part_names`, in ns
    order: Counts  # the indices of the I/Os in the order of their completion

    @property
    def latency_ns(self) -> Counts:
        """Completion minus arrival, of each I/O."""
        return self.complete_ns - self.arrival_ns

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last completion."""
        return int(self.complete_ns.max() - self.arrival_ns.min()) if len(self.arrival_ns) else 0

    def part(self, name: str) -> Counts:
        """One of `part_names` of every I/O."""
        column: Counts = self.parts[:, part_names().index(name)]
        return column

    @property
    def sum_ns(self) -> Counts:
        total: Counts = self.parts.sum(axis=1, dtype=np.uint64)
        return total


class ModelledDisk:
    """A disk made from a configuration text, such as that of `strata.lab.disk.driver_config`.

    Its clock starts at 0 and never goes back; content, caches and maps are kept from one list to the next.

    Raises ValueError with the reader's message, if it refuses the text.
    """

    def __init__(self, text: str) -> None:
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        encoded = text.encode()
        self._handle = library().strata_disk_open(encoded, len(encoded), message)
        if not self._handle:
            raise ValueError(message.value.decode())
        stated = re.search(r"^capacity_sectors=(\d+)$", text, re.MULTILINE)
        assert stated is not None, "the reader requires it"
        self._capacity_sectors = int(stated[1])

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().strata_disk_close(self._handle)

    @property
    def now_ns(self) -> int:
        return int(library().strata_disk_now_ns(self._handle))

    def advance(self, now_ns: int) -> None:
        """Let the disk work in the background, without new commands, until ``now_ns``."""
        library().strata_disk_advance(self._handle, now_ns)

    def seek_ns(self, distance: int) -> int:
        """Seek time of a rotating disk over a distance in tracks."""
        return int(library().strata_disk_seek_ns(self._handle, distance))

    def account(self) -> dict[str, int]:
        """The cumulative counters, by `account_names`."""
        values = np.zeros(len(account_names()), np.uint64)
        library().strata_disk_account(self._handle, values.ctypes.data)
        return dict(zip(account_names(), map(int, values), strict=True))

    def flash_problem(self) -> str | None:
        """The first mistake in the map of a flash drive, or None."""
        problem = library().strata_flash_check(self._handle)
        return None if problem is None else problem.decode()

    def record_durable(self, room: int) -> None:
        """Keep up to ``room`` marks of what becomes durable, for `durable`."""
        self._durable = np.zeros((room, len(DURABLE)), np.uint64)
        library().strata_disk_record_durable(self._handle, self._durable.ctypes.data, room)

    @property
    def durable(self) -> Counts:
        """The marks since `record_durable`, in the order in which the model made them: columns `DURABLE`."""
        count = int(library().strata_disk_durable_marks(self._handle))
        assert count <= len(self._durable), "more marks than there was room for"
        marks: Counts = self._durable[:count]
        return marks

    def closed_loop(
        self,
        ops: Any,
        sectors: Any,
        lengths: Any,
        *,
        depth: int,
        start_ns: int | None = None,
        flags: Any = None,
    ) -> ModelTrace:
        """Keep ``depth`` I/Os outstanding until the list is used up, then wait for the last.

        ``ops``, ``lengths`` and ``flags`` hold one value for all or one for each of ``sectors``; the first is
        submitted at ``start_ns``, by default at once.

        Raises ValueError if the disk's queue is not as deep, or an I/O lies beyond its capacity.
        """
        start_ns = self.now_ns if start_ns is None else start_ns
        arrival = np.zeros(np.size(sectors), np.uint64)
        asked = _Asked(self._capacity_sectors, ops, sectors, lengths, arrival, flags)
        return asked.trace(
            library().strata_disk_closed_loop(self._handle, ctypes.byref(asked.io), start_ns, depth)
        )

    def arrivals(
        self, ops: Any, sectors: Any, lengths: Any, arrival_ns: Any, *, flags: Any = None
    ) -> ModelTrace:
        """Submit each I/O at its time, which must not decrease; raise ValueError at a full queue."""
        asked = _Asked(self._capacity_sectors, ops, sectors, lengths, arrival_ns, flags)
        return asked.trace(library().strata_disk_open_list(self._handle, ctypes.byref(asked.io)))

    def replay(
        self, ops: Any, sectors: Any, lengths: Any, delay_ns: Any, after: Any, *, flags: Any = None
    ) -> ModelTrace:
        """Submit each I/O ``delay_ns`` after the ``after``-th completion, or later if the queue is full.

        The delay of an I/O that waits for none is on the disk's clock. Raises ValueError if one waits for a
        later one.
        """
        asked = _Asked(self._capacity_sectors, ops, sectors, lengths, delay_ns, flags)
        waits = np.ascontiguousarray(after, np.uint64)
        done = library().strata_disk_replay(self._handle, ctypes.byref(asked.io), waits.ctypes.data)
        return asked.trace(done, "an I/O waits for one that comes after it")

    def serve(self, served: Any) -> int:
        """Serve it in real time, by ``serve.c``, until the connection ends; 0, or the negative error."""
        return int(library().strata_serve(self._handle, served))

    def join(self, other: ModelledDisk) -> None:
        """Share the limits of the machine with another volume in the network that names the same one."""
        library().strata_disk_join(self._handle, other._handle)
        self._joined = other  # it must last longer


class _Asked:
    """A list of I/O as the library takes it, and the room for its outcome."""

    def __init__(  # noqa: PLR0917
        self, capacity_sectors: int, ops: Any, sectors: Any, lengths: Any, arrival_ns: Any, flags: Any
    ) -> None:
        arrival = np.array(arrival_ns, np.uint64)
        count = len(arrival)
        op, length, flag = (_each(values, count) for values in (ops, lengths, 0 if flags is None else flags))
        sector = np.array(sectors, np.uint64).reshape(count)
        # The models rely on the block layer, which never sends such I/O.
        if np.any((op != FLUSH) & (sector + length > capacity_sectors)):
            raise ValueError("an I/O lies beyond the disk's capacity")
        complete = np.zeros(count, np.uint64)
        parts = np.zeros((count, len(part_names())), np.uint64)
        order = np.full(count, 2**64 - 1, np.uint64)
        self._arrays = (op, flag, sector, length, arrival, complete, parts, order)
        self.io = _List(count, *(array.ctypes.data for array in self._arrays))

    def trace(self, done: int, refusal: str = "the queue was full") -> ModelTrace:
        """The outcome, if the library has ``done`` it. Raises ValueError."""
        if done < 0:
            raise ValueError(refusal)
        arrival, complete, parts, order = self._arrays[4:]
        return ModelTrace(arrival, complete, parts, order[order < len(order)])


def _each(values: Any, count: int) -> npt.NDArray[np.uint32]:
    """An array of ``count``, from one value for all or one for each."""
    array = np.array(values, np.uint32)
    return np.full(count, array, np.uint32) if array.ndim == 0 else array.reshape(count)


FOLDER: Final = Path("kernel") / "disk"
MODEL: Final = "model"
"""The kind of the library's cache entries."""
_FILE: Final = "libstratadisk.so"
_FLAGS: Final = ("-O2", "-g", "-std=gnu11", "-fPIC", "-shared")


def model_wanted(project: Path) -> dict[str, str]:
    """The project's inputs of the library: every file's hash, and the flags."""
    folder = project / FOLDER
    files = [*_sources(folder), *sorted(folder.glob("*.h"))]
    return {**tree_hashes(folder, *files), "flags": " ".join(_FLAGS)}


def _sources(folder: Path) -> list[Path]:
    makefile = folder / "Makefile"
    found = re.search(r"^SOURCES\s*:?=((?:[^\n\\]|\\\n)*)", makefile.read_text(), re.MULTILINE)
    names = found[1].replace("\\\n", " ").split() if found else []
    if not names:
        raise LabError("it does not state the library's SOURCES", place=str(makefile))
    return [folder / name for name in names]


def build_model(cache: Cache, project: Path) -> Path:
    """The library for the project's sources, compiling it unless it is in the cache."""
    now = model_wanted(project)
    entry = cache.current(MODEL, now) or find_model(project)
    if entry is None:
        compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
        if compiler is None:
            raise ToolError(
                "the disk models must be compiled, and there is no C compiler",
                remedy="apt-get install --no-install-recommends gcc libc6-dev",
            )
        inputs = Inputs(now, {"compiler": _version(compiler)})
        entry = cache.build(MODEL, inputs, lambda to: _compile(compiler, project / FOLDER, to))
    return entry.path / _FILE


def find_model(project: Path) -> Entry | None:
    """The compiled library for the project's sources if it is in a cache."""
    now = model_wanted(project)
    return next(filter(None, (each.current(MODEL, now) for each in caches())), None)


def _version(compiler: str) -> str:
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return said.splitlines()[0] if said else compiler


def _compile(compiler: str, folder: Path, staging: Path) -> dict[str, Any]:
    made = staging / _FILE
    argv = [compiler, *_FLAGS, "-o", str(made), *(str(path.relative_to(folder)) for path in _sources(folder))]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
        raise LabError(
            f"the disk models do not compile: {first}",
            place=str(folder),
            remedy=f"`make -C {folder}` shows all of it",
        )
    return {"sha256": file_hash(made), "size_bytes": made.stat().st_size}
