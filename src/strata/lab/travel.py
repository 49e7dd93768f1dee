# SPDX-License-Identifier: Apache-2.0
"""The parts of a lab on their way to another machine: entries of the cache, by the hashes of their files."""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError
from strata.lab.cache import Cache, Entry, cache_root, caches, damage_of, file_hash
from strata.lab.inputs import provided_inputs
from strata.lab.integrity import HASHES, content_hash, data_extents
from strata.lab.lab import Lab, files_of
from strata.plan.model import Plan, sha256_hex

CHUNK_BYTES: Final = 4 << 20
_MADE: Final = (HASHES, "inputs.json", "manifest.json")


@dataclass(frozen=True)
class Listing:
    """An entry that travels.

    Attributes:
        files: The name, mode and size of each file.
        pieces: The file and place of each piece, of `CHUNK_BYTES` at most; the rest are holes.
    """

    entry: Entry
    files: tuple[tuple[str, int, int], ...]
    pieces: tuple[tuple[str, int], ...]
    hashes: bytes  # of `HASHES`


@dataclass(frozen=True)
class LabPart:
    """An entry of the cache, by the hash of its files' hashes."""

    kind: str
    key: str
    sha256: str

    @property
    def folder(self) -> Path:
        """Where it is on this machine, or would be."""
        return at_cache(f"{self.kind}/{self.key}")

    def is_here(self) -> bool:
        """Whether this machine has it, with these bytes. Raises LabError if it has another one."""
        if not (self.folder / HASHES).is_file() or damage_of(self.folder) is not None:
            return False
        if (found := file_hash(self.folder / HASHES)) != self.sha256:
            raise LabError(
                f"its {self.kind} has the hash {found[:12]}, not {self.sha256[:12]} as here",
                place=str(self.folder),
                remedy="remove that folder, or name another cache for the worker with STRATA_CACHE",
            )
        return True

    def listing(self) -> Listing:
        """Raises OSError if it was removed."""
        entry = Cache(self.folder.parents[1]).read(self.kind, self.key)
        if entry is None:
            raise FileNotFoundError(self.folder)
        files, pieces = [], []
        for path in (path for path in sorted(self.folder.rglob("*")) if path.is_file()):
            if (name := path.relative_to(self.folder).as_posix()) in _MADE:
                continue
            with path.open("rb") as file:
                state = os.fstat(file.fileno())
                data = data_extents(file.fileno(), state.st_size)
                starts = {
                    at for begin, end in data for at in range(begin - begin % CHUNK_BYTES, end, CHUNK_BYTES)
                }
            files.append((name, state.st_mode & 0o777, state.st_size))
            pieces += [(name, start) for start in sorted(starts)]
        return Listing(entry, tuple(files), tuple(pieces), (self.folder / HASHES).read_bytes())

    def content(self, piece: tuple[str, int]) -> bytes:
        """The content of a piece."""
        with (self.folder / piece[0]).open("rb") as file:
            return os.pread(file.fileno(), CHUNK_BYTES, piece[1])

    def receive(self, listing: Listing, contents: Iterable[bytes]) -> None:
        """Place an entry of another machine into this one's cache, unless it is there already.

        Raises LabError if what arrives has other hashes, or cannot be kept.
        """
        try:
            Cache(cache_root()).build(
                self.kind, listing.entry.inputs, functools.partial(self._write, listing, contents)
            )
        except OSError as error:
            raise LabError(
                f"its {self.kind} cannot be kept: {error.strerror}",
                place=str(cache_root()),
                remedy="free some space there, or name another cache for the worker with STRATA_CACHE",
            ) from error

    def _write(self, listing: Listing, contents: Iterable[bytes], folder: Path) -> dict[str, Any]:
        for name, _, size_bytes in listing.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
            os.truncate(folder / name, size_bytes)
        for (name, start), content in zip(listing.pieces, contents, strict=True):
            with (folder / name).open("r+b") as file:
                file.seek(start)
                file.write(content)
        for name, mode, _ in listing.files:
            (folder / name).chmod(mode)
        own = {name: sha for name, sha in json.loads(listing.hashes).items() if name not in _MADE}
        wrong = (name for name, sha in own.items() if content_hash(folder / name) != sha)
        if sha256_hex(listing.hashes) != self.sha256 or any(wrong):
            raise LabError(f"its {self.kind} is damaged on arrival", place=str(self.folder))
        return dict(listing.entry.manifest)


@dataclass(frozen=True)
class Made:
    """An entry that one machine has and another may fetch: its size, and the time that making it took."""

    part: LabPart
    size_bytes: int
    seconds: float


def lab_parts_of(labs: Callable[[Plan], Lab], plans: Iterable[Plan]) -> list[LabPart]:
    """The parts that plans need, each once; ``labs`` has the lab of a plan, with all of them."""
    folders: dict[Path, None] = {}
    for plan in plans:
        inputs = (each.path for each in provided_inputs(plan))
        folders |= dict.fromkeys(path.parent for path in (*files_of(plan, labs(plan)), *inputs))
    return [
        LabPart(folder.parent.name, folder.name, sha256_hex((folder / HASHES).read_bytes()))
        for folder in folders
    ]


class _Pickler(pickle.Pickler):
    """Writes a path below a cache by its place there."""

    def reducer_override(self, value: Any) -> Any:
        for cache in caches() if isinstance(value, Path) else ():
            if value.is_relative_to(cache.root):
                return at_cache, (str(value.relative_to(cache.root)),)
        return NotImplemented


def at_cache(place: str) -> Path:
    """A place in this machine's caches: where it is, or else in the user's own."""
    found = (path for cache in caches() if (path := cache.root / place).exists())
    return next(found, cache_root() / place)


def packed(*values: object) -> bytes:
    """Values on their way to another machine, whose cache lies elsewhere; `pickle.loads` unpacks them."""
    stream = io.BytesIO()
    _Pickler(stream).dump(values)
    return stream.getvalue()


def sources_sha256() -> str:
    """The hash of all that this Strata makes plans and results with: its own files."""
    root = Path(__file__).parents[1]
    return _sources(root)


@functools.cache
def _sources(root: Path) -> str:
    # Only a wheel has more than code in ``bundled``, and plans hold what they use of it.
    own = (path for path in root.rglob("*.toml") if "bundled" not in path.relative_to(root).parts)
    found = sorted([*root.rglob("*.py"), *own])
    stated = {path.relative_to(root).as_posix(): sha256_hex(path.read_bytes()) for path in found}
    return sha256_hex(json.dumps(stated).encode())
