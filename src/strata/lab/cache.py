# SPDX-License-Identifier: Apache-2.0
"""The lab's cache: what was built, kept by the hash of what it was built from.

Layout, below one of the roots (see `cache_root` and `shared_root`)::

    <kind>/<key>/inputs.json      what was hashed to the key
    <kind>/<key>/manifest.json    what came out: hashes, versions
    <kind>/<key>/hashes.json      the hash of each file beside it, compared when the entry is used
    <kind>/<key>/…                the thing itself
    work/<name>-<key>/            objects of a build, used again by the next one
    locks/<kind>-<key>            held while the entry is being built

An entry is complete or it is not there: it is built beside its place and renamed into it. One whose bytes are
not those that were written is not used (see `strata.lab.integrity`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import platformdirs

from strata.errors import LabError
from strata.files import refuse_exchangeable_path, sync, try_lock
from strata.lab.integrity import HASHES, MEMORY, damage, say_damage, write_hashes
from strata.lab.process import refuse_ended

KINDS: Final = (
    *("source", "kernel", "module-source", "modules", "image", "agent", "load", "qemu-kernel", "model"),
    *("input", "prepared"),
)
"""In the order in which they depend on one another."""
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Inputs:
    # Stated by the project: hashes of its files, versions, switches. When they change, the entry is stale.
    wanted: Mapping[str, str]
    # Added by this machine: the compiler, the mirror's version of a package. A change makes the next build
    # another entry, but no finished entry stale: an update of the compiler should not cost a kernel build,
    # and a result names the binary's own hash anyway.
    found: Mapping[str, str]

    @property
    def key(self) -> str:
        """The entry's name: 20 hex digits of the SHA-256 over everything stated."""
        text = json.dumps([dict(self.wanted), dict(self.found)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Entry:
    """One finished thing in the cache."""

    kind: str
    key: str
    path: Path
    inputs: Inputs
    manifest: Mapping[str, Any]

    @property
    def size_bytes(self) -> int:
        """The space the entry takes, counting a file of several names once."""
        return size_bytes(self.path)

    @property
    def sha256(self) -> str:
        """One hash over all its files: of the list of their hashes. A copy with the same one is the same."""
        return file_hash(self.path / HASHES)


@dataclass(frozen=True)
class Build:
    """A finished part of the lab: its file and the SHA-256 of its content.

    The further fields of a part are values of the entry's manifest, by the same names.
    """

    FILE: ClassVar[str]
    path: Path
    sha256: str

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The part that a cache entry holds."""
        return cls(entry.path / cls.FILE, *(entry.manifest[each.name] for each in fields(cls)[1:]))


@dataclass(frozen=True)
class Cache:
    """The cache folder of one user, or the one that root shares with everybody; made when first needed."""

    root: Path

    def log(self, kind: str, inputs: Inputs) -> Path:
        """The log of an entry's build."""
        return self.root / "logs" / f"{kind}-{inputs.key}.log"

    def entries(self, kind: str) -> list[Entry]:
        """Every finished entry of a kind, the one last built or chosen first."""
        folder = self.root / kind
        try:
            found = [e for p in folder.iterdir() if (e := self.read(kind, p.name)) is not None]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []
        return sorted(found, key=lambda e: (-e.path.stat().st_mtime_ns, e.key))

    def read(self, kind: str, key: str) -> Entry | None:
        """The entry of a key, whether or not it is sound."""
        path = self.root / kind / key
        try:
            if _can_be_anothers(path) or _can_be_anothers(path.parent):
                return None
            inputs = json.loads((path / "inputs.json").read_text())
            manifest = json.loads((path / "manifest.json").read_text())
            return Entry(kind, path.name, path, Inputs(**inputs), manifest)
        except (OSError, ValueError, KeyError, TypeError):
            return None  # being built or damaged: the same as not there

    def current(self, kind: str, wanted: Mapping[str, str]) -> Entry | None:
        """The entry last built or chosen among those with these stated inputs."""
        alike = (e for e in self.entries(kind) if dict(e.inputs.wanted) == dict(wanted))
        return next(filter(is_sound, alike), None)

    def find(self, kind: str, inputs: Inputs) -> Entry | None:
        """The entry built from exactly these inputs."""
        found = self.read(kind, inputs.key)
        return found if found is not None and is_sound(found) else None

    def choose(self, entry: Entry) -> None:
        """Make an entry the one that `current` prefers."""
        os.utime(entry.path)

    @contextlib.contextmanager
    def kept_work(self, name: str, inputs: Inputs) -> Iterator[Path]:
        """A folder whose content later builds with the same inputs use again, one build at a time.

        After success the folders of the same name for other inputs are deleted.
        """
        folder = self.root / "work" / f"{name}-{inputs.key}"
        with self.locked(folder.name):
            folder.mkdir(parents=True, exist_ok=True)
            yield folder
        for other in folder.parent.glob(f"{name}-*"):
            if other != folder and not self.is_locked(other.name):
                shutil.rmtree(other, ignore_errors=True)

    def build(self, kind: str, inputs: Inputs, make: Callable[[Path], Mapping[str, Any]]) -> Entry:
        """Return the entry for these inputs, building it unless it is there.

        ``make`` fills the folder it is given and returns the manifest. It runs under a lock: of two builds
        of one entry the second waits and then finds it done.
        """
        with self.locked(f"{kind}-{inputs.key}"):
            if (entry := self.find(kind, inputs)) is not None:
                return entry
            with self._staged(kind, inputs.key) as staging:
                manifest = make(staging)
                self._finish(staging, inputs, manifest)
            return Entry(kind, inputs.key, self.root / kind / inputs.key, inputs, manifest)

    @contextlib.contextmanager
    def _staged(self, kind: str, key: str) -> Iterator[Path]:
        """A new folder, renamed to be the entry when it is complete. The caller has the entry's lock."""
        place = self.root / kind / key
        staging = place.with_name(f".{key}.{uuid.uuid4().hex[:8]}")
        # A killed build's; what is in its place is unreadable or damaged, or `find` had returned it.
        for path in (place, *place.parent.glob(f".{key}.*")):
            shutil.rmtree(path, ignore_errors=True)
        staging.mkdir(parents=True)
        try:
            yield staging
            staging.rename(place)
            sync(place.parent)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

    @staticmethod
    def _finish(folder: Path, inputs: Inputs, manifest: Mapping[str, Any]) -> None:
        for name, content in (("inputs.json", asdict(inputs)), ("manifest.json", dict(manifest))):
            path = folder / name
            path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
            path.chmod(0o644)
        write_hashes(folder)
        folder.chmod(0o755)
        for path in folder.iterdir():
            if path.is_file():
                sync(path)
        sync(folder)

    @contextlib.contextmanager
    def locked(self, *names: str) -> Iterator[int]:
        """Hold the first lock of these names that is free, and give its index.

        It is released when the process ends, however it ends.
        """
        folder = self.root / "locks"
        descriptors = []
        try:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for name in names:
                    descriptors.append(os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            except OSError as error:
                raise LabError(
                    f"the cache folder cannot be written: {error.strerror}",
                    place=str(self.root),
                    remedy="make it writable, or name another one with STRATA_CACHE",
                ) from error
            # In pieces: no signal ends a thread that waits in the kernel.
            while (
                taken := next(filter(lambda index: try_lock(descriptors[index]), range(len(names))), None)
            ) is None:
                refuse_ended()
                time.sleep(_POLL_S)
            yield taken
        finally:
            for each in descriptors:
                os.close(each)

    def publish(self, entry: Entry) -> Entry:
        """Put a readable copy of another cache's entry into this one (hard links where possible)."""
        place = self.root / entry.kind / entry.key
        with self.locked(f"{entry.kind}-{entry.key}"):
            there = self.find(entry.kind, entry.inputs)
            if there is None or there.manifest != entry.manifest:
                with self._staged(entry.kind, entry.key) as staging:
                    shutil.copytree(entry.path, staging, copy_function=_link_or_copy, dirs_exist_ok=True)
                    staging.chmod(0o755)
                for folder in (self.root, place.parent) if self.root != cache_root() else ():
                    folder.chmod(0o755)
                there = Entry(entry.kind, entry.key, place, entry.inputs, entry.manifest)
            self.choose(there)
            return there

    def remove(self, entry: Entry) -> int:
        """Delete an entry; returns the bytes it took."""
        freed_bytes = entry.size_bytes
        with self.locked(f"{entry.kind}-{entry.key}"):
            doomed = entry.path.with_name(f".{entry.key}.{uuid.uuid4().hex[:8]}")
            entry.path.rename(doomed)  # so that a half-deleted entry is never found
            shutil.rmtree(doomed)
        return freed_bytes

    def remove_leftovers(self, *, everything: bool) -> int:
        """Delete the leftovers of interrupted builds, but of no running one; returns the bytes freed.

        ``everything`` includes apt's files, git's objects and the logs.
        """
        left = [p for p in (self.root / "work").glob("*") if not self.is_locked(p.name)]
        for kind in KINDS:
            staged = (self.root / kind).glob(".*")
            left += [p for p in staged if not self.is_locked(f"{kind}-{p.name.split('.')[1]}")]
        if everything:
            left += [self.root / name for name in ("apt", "git-objects", "git-indexes", "logs")]
        freed_bytes = sum(size_bytes(p) for p in left)
        for path in left:
            shutil.rmtree(path, ignore_errors=True)
        return freed_bytes

    def is_locked(self, name: str) -> bool:
        """Whether somebody holds the lock of that name."""
        with contextlib.suppress(OSError), (self.root / "locks" / name).open("r+") as file:
            return not try_lock(file.fileno())
        return False


def is_sound(entry: Entry) -> bool:
    """Whether an entry has the bytes that were written; if not, that is said once."""
    if (found := damage_of(entry.path)) is not None:
        say_damage(entry.path, found)
    return found is None


def damage_of(folder: Path) -> str | None:
    """The damage of an entry's folder, as a clause; None for none."""
    root = folder.parents[1]
    # The user's own cache remembers the comparisons of one that is not to be written.
    own = os.access(root, os.W_OK) and root != packaged_root()
    return damage(folder, (root if own else cache_root()) / MEMORY)


def cache_root() -> Path:
    """The user's cache folder: ``STRATA_CACHE``, or the platform's (``~/.cache/strata``)."""
    root = Path(os.environ.get("STRATA_CACHE") or platformdirs.user_cache_dir("strata")).absolute()
    refuse_exchangeable_path(root, LabError, as_anybody=True)
    return root


def shared_root() -> Path:
    """Where root publishes the lab for everybody: ``STRATA_SHARED_CACHE``, or ``/var/cache/strata``."""
    return Path(os.environ.get("STRATA_SHARED_CACHE") or "/var/cache/strata").absolute()


def shared_cache() -> Cache | None:
    """The shared cache, if it is there and only its owner, root or this user, can have filled it."""
    root = shared_root()
    try:
        state = root.stat()
    except OSError:
        return None
    if state.st_uid not in (0, os.geteuid()) or state.st_mode & 0o022:
        return None  # a kernel that anybody could have put there must not be run
    return Cache(root)


def caches() -> list[Cache]:
    """The caches that may have a lab: the user's, root's for everybody, and the installed package's."""
    packaged = packaged_root()
    found = (Cache(cache_root()), shared_cache(), None if packaged is None else Cache(packaged))
    return [each for each in found if each is not None]


@functools.cache
def packaged_root() -> Path | None:
    """The parts that the distribution ``strata-storage-lab`` brings, which are only read; None without it."""
    found = importlib.util.find_spec("strata_lab")
    return Path(found.origin).parent if found is not None and found.origin is not None else None


def find_entries(kind: str) -> list[Entry]:
    """The entries of a kind in all caches."""
    return [entry for cache in caches() for entry in cache.entries(kind)]


def _can_be_anothers(folder: Path) -> bool:
    state = folder.stat()
    return state.st_uid not in (0, os.geteuid()) or bool(state.st_mode & stat.S_IWOTH)


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_hashes(root: Path, *paths: Path) -> dict[str, str]:
    """The SHA-256 of every file at or below the paths that exist, by its path relative to ``root``.

    An executable's name ends in ``*``, because losing the mode can break a build, too.
    """
    hashes: dict[str, str] = {}
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                mark = "*" if os.access(file, os.X_OK) else ""
                hashes[file.relative_to(root).as_posix() + mark] = file_hash(file)
    return hashes


def size_bytes(path: Path) -> int:
    """The space below a path, counting a file of several names once."""
    seen: dict[tuple[int, int], int] = {}
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                state = (Path(folder) / name).lstat()
                seen[state.st_dev, state.st_ino] = state.st_blocks * 512
    return sum(seen.values())


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)
    Path(target).chmod(0o755 if os.access(source, os.X_OK) else 0o644)
