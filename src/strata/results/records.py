# SPDX-License-Identifier: Apache-2.0
"""Records in a store, found by the hash of what they measure, never by a name.

    STORE/<identity>/attempt-NNN/
        {plan.json,bindings.json,events.jsonl,console.log,trace.parquet,machine.json,result.json}

The identity is a trial's ``spec_sha256``. Names of trials lead to identities in a study's ``study.json``, so
several studies can share a store. ``result.json`` is written last and at once: an attempt that has one is
complete.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from strata.errors import ResultError
from strata.files import (
    closing,
    explained,
    make_folder,
    open_plain,
    opened_inside,
    refuse_exchangeable,
    refuse_link,
    sync,
    try_lock,
    write_durably,
)
from strata.results.reading import Sealed, read_record, result_text
from strata.results.record import Fingerprint, ResultRecord
from strata.results.shared import SharedStore

_AT_ONCE: Final = 16  # requests to a shared store: a distant one answers in tens of milliseconds
_ATTEMPT: Final = re.compile(r"attempt-(\d{3,})")
_IDENTITY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Attempt:
    """One try at a trial, in a folder of its own."""

    number: int
    path: Path

    @property
    def plan_path(self) -> Path:
        return self.path / "plan.json"

    @property
    def events_path(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def console_path(self) -> Path:
        return self.path / "console.log"

    @property
    def trace_path(self) -> Path:
        """The requests of the modelled disks; written when the attempt is sealed."""
        return self.path / "trace.parquet"

    @property
    def result_path(self) -> Path:
        return self.path / "result.json"

    @property
    def complete(self) -> bool:
        with explained(self.path, "look into the attempt", reading=True):
            return self.result_path.is_file()

    def write(self, name: str, content: bytes) -> Path:
        path = self.path / name
        write_durably(path, content)
        return path

    def write_result(self, record: ResultRecord) -> None:
        """Seal the attempt: make its files durable, then write its record."""
        with explained(self.path, "make the attempt durable"):
            for path in sorted(self.path.iterdir()):
                if path.is_file():
                    sync(path)
            sync(self.path)
        self.write(self.result_path.name, result_text(record))

    def read_result(self) -> ResultRecord:
        """The attempt's record. Raises ResultError if it is missing, damaged or of an unknown version."""
        return read_record(self.result_path).record


class Store(Protocol):
    """Where records are kept, by identity. `RecordStore` keeps them in a folder.

    Attributes:
        shared: A store that others use, too, if there is one.
    """

    shared: SharedStore | None

    def has(self, identity: str, fingerprint: Fingerprint | None = None) -> bool:
        """Whether `get` finds a record."""

    def ask(self, wanted: Iterable[tuple[str, Fingerprint]]) -> None:
        """Take what a shared store has of these, many at once; `get` then finds it here."""

    def get(self, identity: str, fingerprint: Fingerprint | None = None) -> ResultRecord | None:
        """The newest valid record; with a ``fingerprint`` the newest of this lab or host.

        Only with a fingerprint a shared store is asked, too.
        """

    def records(self, identity: str, fingerprint: Fingerprint | None = None) -> Iterator[ResultRecord]:
        """The readable records, the newest first; damaged ones are passed over."""

    def begin(self, identity: str) -> Attempt:
        """Begin another attempt, in a new folder."""

    def put(self, attempt: Attempt, record: ResultRecord) -> None:
        """Seal an attempt with its record; it is complete only then."""

    def attempts(self, identity: str) -> list[Attempt]:
        """All attempts, complete or not, the oldest first."""

    def read(self, attempt: Attempt, identity: str) -> Sealed:
        """The record of a complete attempt, checked against its hash.

        Raises ResultError if it is damaged, or of another identity.
        """

    def identities(self) -> list[str]:
        """The identities with an attempt, sorted."""

    def discard_unfinished(self, identity: str) -> int:
        """Remove the attempts without a record, left by killed or cancelled runs; returns their number."""

    def locked(self) -> AbstractContextManager[None]:
        """Keep other runs out; only one begins and discards attempts. Raises ResultError if one does."""


class RecordStore:
    """A store in a folder, which is made with the first attempt.

    A record never changes once it is written, so each is read once. A missing record is taken from the
    ``shared`` store, and a new one given to it.

    >>> store = RecordStore(Path("results/quickstart/records"), SharedStore("s3://bucket/strata"))
    >>> record = store.get(identity, fingerprint)  # measured here, or by anybody
    >>> attempt = store.begin(identity)  # none was: the runner fills its folder
    >>> store.put(attempt, record)  # sealed here, and sent
    """

    def __init__(self, path: Path, shared: SharedStore | None = None) -> None:
        self.path, self.shared = path, shared
        self._known: dict[Path, tuple[tuple[int, int], Sealed]] = {}

    def has(self, identity: str, fingerprint: Fingerprint | None = None) -> bool:
        return self.get(identity, fingerprint) is not None

    def get(self, identity: str, fingerprint: Fingerprint | None = None) -> ResultRecord | None:
        known = (each for each in self.records(identity, fingerprint) if each.validity.valid)
        if (found := next(known, None)) is not None or fingerprint is None or self.shared is None:
            return found
        was_there = self.shared.fetched(identity, fingerprint, partial(self._keep, identity))
        return self.get(identity, fingerprint) if was_there else None

    def ask(self, wanted: Iterable[tuple[str, Fingerprint]]) -> None:
        if self.shared is not None:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(lambda each: self.get(*each), dict.fromkeys(wanted)))

    def _keep(self, identity: str, files: Mapping[str, bytes]) -> None:
        """Keep an attempt of a shared store; its record is written last."""
        attempt = self.begin(identity)
        for name in sorted(files, key=lambda name: name == attempt.result_path.name):
            attempt.write(name, files[name])

    def records(self, identity: str, fingerprint: Fingerprint | None = None) -> Iterator[ResultRecord]:
        for attempt in reversed(self.attempts(identity)):
            if attempt.complete:
                with suppress(ResultError):
                    record = self.read(attempt, identity).record
                    if fingerprint in {None, record.fingerprint}:
                        yield record

    def read(self, attempt: Attempt, identity: str) -> Sealed:
        path = attempt.result_path
        with explained(path, "read the file", reading=True):
            status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:  # a person may have exchanged or edited it
            sealed = read_record(path)
            if sealed.record.spec_sha256 != identity:
                cause, remedy = "this is the record of another trial", "remove the attempt"
                raise ResultError(cause, place=str(path), remedy=remedy)
            known = self._known[path] = (stamp, sealed)
        return known[1]

    def begin(self, identity: str) -> Attempt:
        before = self.attempts(identity)
        number = before[-1].number + 1 if before else 1
        path = self._place(identity) / f"attempt-{number:03d}"
        make_folder(path.parent)
        with explained(path, "create the folder"):
            path.mkdir()  # fails if it exists, so that it holds only files of this run
            sync(path.parent)
        return Attempt(number, path)

    def put(self, attempt: Attempt, record: ResultRecord) -> None:
        attempt.write_result(record)
        if self.shared is not None:
            self.shared.sent(attempt.path)

    def attempts(self, identity: str) -> list[Attempt]:
        folder = self._place(identity)
        with explained(folder, "list the attempts", reading=True):
            refuse_link(self.path)
            found = [(match, path) for path in listed(folder) if (match := _ATTEMPT.fullmatch(path.name))]
        return sorted((Attempt(int(match[1]), path) for match, path in found), key=lambda each: each.number)

    def identities(self) -> list[str]:
        with explained(self.path, "list the records", reading=True):
            return sorted(path.name for path in listed(self.path) if _IDENTITY.fullmatch(path.name))

    def discard_unfinished(self, identity: str) -> int:
        unfinished = [attempt for attempt in self.attempts(identity) if not attempt.complete]
        for attempt in unfinished:
            with explained(attempt.path, "remove the unfinished attempt"):
                shutil.rmtree(attempt.path)
                if not any(attempt.path.parent.iterdir()):
                    attempt.path.parent.rmdir()
        return len(unfinished)

    def locked(self) -> AbstractContextManager[None]:
        return locked(self.path.parent)

    def _place(self, identity: str) -> Path:
        assert _IDENTITY.fullmatch(identity), "an identity must not lead out of the store"
        return self.path / identity


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder; the lock ends with the process, however it ends.

    Raises ResultError if another run holds it.
    """
    place = folder / ".lock"
    with explained(place, "lock the folder"):
        descriptor = open_plain(place, os.O_RDWR | os.O_CREAT)
    with closing(descriptor):
        if os.fstat(descriptor).st_nlink > 1:
            raise ResultError("the lock file is a hard link", place=str(place), remedy="remove it")
        if not try_lock(descriptor):
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            who = f"process {holder}" if holder else "another process"
            raise ResultError(
                f"{who} is running a study into this folder",
                place=str(folder),
                remedy="wait for it to end, or choose another folder with --results",
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield


def listed(folder: Path) -> list[Path]:
    """The content of a folder of Strata's; nothing if it is not there.

    Raises OSError if it cannot be listed, or it or something in it is a symbolic link.
    """
    refuse_link(folder)
    if not folder.is_dir():
        return []
    found = list(folder.iterdir())
    for path in found:
        refuse_link(path)
    return found


def refuse_links_below(path: Path) -> None:
    """Refuse a folder of Strata's that holds a symbolic link, or into which another user could put one."""
    refuse_link(path)
    if not path.is_dir():
        return
    within: list[Path] = []
    # A folder that cannot be listed cannot be written to, either.
    with suppress(PermissionError), opened_inside(path) as folder:
        if os.geteuid() == 0:
            refuse_exchangeable(folder, ResultError, sticky=False)
        with os.scandir(folder) as found:
            within = [path / each.name for each in found if each.is_symlink() or each.is_dir()]
    for each in within:
        refuse_links_below(each)
