# SPDX-License-Identifier: Apache-2.0
"""The parts of a lab on their way to another machine: entries of the cache, by the hashes of their files."""

from __future__ import annotations

import functools
import io
import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError
from strata.lab.cache import Cache, Entry, cache_root, caches, damage_of, file_hash
from strata.lab.inputs import provided_inputs
from strata.lab.integrity import HASHES
from strata.lab.lab import Lab, files_of
from strata.plan.model import Plan, sha256_hex

CHUNK_BYTES: Final = 8 << 20
_MADE: Final = (HASHES, "inputs.json", "manifest.json")


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

    def files(self) -> list[tuple[str, int, int]]:
        """The name, mode and size of each file that travels."""
        found = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        names = [path.relative_to(self.folder).as_posix() for path in found]
        states = [path.stat() for path in found]
        return [
            (name, state.st_mode & 0o777, state.st_size)
            for name, state in zip(names, states, strict=True)
            if name not in _MADE
        ]

    def chunks(self) -> Iterator[bytes]:
        """The content of these files, one after another in pieces."""
        for name, _, _ in self.files():
            with (self.folder / name).open("rb") as file:
                yield from iter(functools.partial(file.read, CHUNK_BYTES), b"")

    def entry(self) -> Entry:
        found = Cache(self.folder.parents[1]).read(self.kind, self.key)
        assert found is not None, "the lab is made of entries"
        return found

    def receive(self, entry: Entry, files: Iterable[tuple[str, int, int]], chunks: Iterator[bytes]) -> None:
        """Place an entry of another machine into this one's cache, unless another worker has placed it.

        Raises LabError if what arrives has other hashes, or cannot be kept.
        """
        try:
            Cache(cache_root()).build(
                self.kind, entry.inputs, functools.partial(_write, entry, files, chunks)
            )
        except OSError as error:
            raise LabError(
                f"its {self.kind} cannot be kept: {error.strerror}",
                place=str(cache_root()),
                remedy="free some space there, or name another cache for the worker with STRATA_CACHE",
            ) from error
        if not self.is_here():
            raise LabError(f"its {self.kind} is damaged on arrival", place=str(self.folder))


def _write(
    entry: Entry, files: Iterable[tuple[str, int, int]], chunks: Iterator[bytes], folder: Path
) -> dict[str, Any]:
    for name, mode, size_bytes in files:
        path, left_bytes = folder / name, size_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            while left_bytes > 0:
                left_bytes -= file.write(next(chunks))
        path.chmod(mode)
    return dict(entry.manifest)


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
