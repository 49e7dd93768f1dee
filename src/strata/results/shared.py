# SPDX-License-Identifier: Apache-2.0
"""Records that machines and people share: a folder, an SSH server, S3 or GCS, by fsspec.

    URL/records/<identity>/<lab>.zip       an attempt: its record, plan, events and console
    URL/records/<identity>/<lab>.parquet   its trace, on request
    URL/studies/<name>.json                the study.json of a run, and the lab of each of its records

``lab`` is the hash of the fingerprint. A lab trial is a function of its identity and fingerprint, so whoever
measures it first serves all others, and a second record of the same that differs is an error. What a store
holds is checked when it is read, so it may be untrusted in all but the truth of a record that fits its hash.
"""

from __future__ import annotations

import io
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from strata.errors import ResultError, StrataError
from strata.files import read_plain
from strata.plan.model import canonical_json, sha256_hex
from strata.results.reading import Sealed, unsealed
from strata.results.record import Fingerprint, ResultRecord, StudySnapshot, joined

_RESULT: Final = "result.json"
_EVENTS: Final = "events.jsonl"
_PREPARED: Final = "prepared.jsonl"
_TRACE: Final = "trace.parquet"
_KEPT: Final = ("plan.json", "bindings.json", _EVENTS, _PREPARED, "console.log", _RESULT)
_CONTENT_BYTES_MAX: Final = 1 << 30  # of an attempt without its trace: more is no record, but an attack
_EXTRAS: Final = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "ssh": "ssh", "sftp": "ssh"}
_WHOLE: Final = ("s3", "s3a", "gs", "gcs", "memory")  # an object appears when it is whole


class StoreError(ResultError):
    """A store that cannot be reached, or may not be used: not the fault of one record."""


class StoredStudy(BaseModel):
    """A study in a store: the state of its results, and for each identity what measured it."""

    study: StudySnapshot
    labs: dict[str, Fingerprint]


def is_url(place: str | Path) -> bool:
    return "://" in str(place)


@dataclass
class SharedStore:
    """Records behind a URL. Its methods may be called by several threads and processes at once.

    Attributes:
        url: A folder, or ``file://``, ``ssh://[USER@]HOST[:PORT]/``, ``s3://`` or ``gs://`` with a path.
        traces: Whether traces are sent and fetched, too.
        say: Takes a sentence on what the store could not do; measuring goes on without it.
        found: The identities of records that were fetched.
    """

    url: str
    traces: bool = False
    say: Callable[[str], None] = lambda text: None
    found: set[str] = field(default_factory=set)
    _gone: bool = False
    _asked: set[tuple[str, Fingerprint]] = field(default_factory=set)

    def __post_init__(self) -> None:
        from fsspec import get_filesystem_class  # noqa: PLC0415  no other command should pay for it

        try:
            get_filesystem_class(self._protocol)
        except ImportError as error:
            extra = _EXTRAS.get(self._protocol, self._protocol)
            cause = f"a store behind {self._protocol}:// needs a package that is not installed"
            remedy = f"pip install 'strata-storage[{extra}]'"
            raise StoreError(cause, place=self.url, remedy=remedy) from error
        except ValueError as error:
            remedy = "give a folder, or a URL with file, ssh, s3 or gs"
            raise StoreError(f"{error}", place=self.url, remedy=remedy) from error

    @property
    def _protocol(self) -> str:
        return self.url.partition("://")[0] if is_url(self.url) else "file"

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The files behind the URL, and the path there; a connection is made with the first use."""
        from fsspec import url_to_fs  # noqa: PLC0415  as above

        # asyncssh would check known hosts by itself, if sshfs did not turn that off.
        options: dict[str, Any] = {"known_hosts": ()} if _EXTRAS.get(self._protocol) == "ssh" else {}
        with self._explained(self.url, "open the store"):
            files, root = url_to_fs(self.url, **options)
        return files, root.rstrip("/")

    def get(self, identity: str, fingerprint: Fingerprint) -> dict[str, bytes] | None:
        """The files of an attempt, checked; None if the store has none.

        Raises ResultError for a record that is damaged, or another one than its place says.
        """
        name = _name(identity, fingerprint)
        content = self.read(name)
        if content is None:
            return None
        files, sealed = _unpacked(content, self._place(name))
        record = sealed.record
        if (record.spec_sha256, record.fingerprint) != (identity, fingerprint):
            raise _unfit("this is the record of another trial", self._place(name))
        if self.traces and record.trace is not None:
            trace = self.read(name.removesuffix(".zip") + ".parquet")
            files |= {} if trace is None else {_TRACE: trace}
        return files

    def put(self, attempt: Path) -> None:
        """Send a complete attempt of the lab, unless it is there or invalid; a host's is its own.

        Raises ResultError if there is another record of the trial.
        """
        files = {name: read_plain(attempt / name) for name in _KEPT if (attempt / name).is_file()}
        sealed = unsealed(files[_RESULT], attempt / _RESULT)
        record = sealed.record
        if record.time_domain != "virtual" or not record.validity.valid:
            return
        name = record_name(record)
        if not self._has(name, sealed, attempt):
            if self.traces and (attempt / _TRACE).is_file():  # before its record, which says that it is whole
                self.write(name.removesuffix(".zip") + ".parquet", read_plain(attempt / _TRACE, 1 << 40))
            self.write(name, _packed(files))
            self._has(name, sealed, attempt)  # another one may have written at the same time

    def _has(self, name: str, sealed: Sealed, attempt: Path) -> bool:
        content = self.read(name)
        if content is None:
            return False
        there = _unpacked(content, self._place(name))[1].record_sha256
        if there != sealed.record_sha256:
            raise ResultError(
                f"the store has another record of this trial than {attempt}: {there[:16]}… there, "
                f"{sealed.record_sha256[:16]}… here",
                place=self._place(name),
                remedy="a lab trial has one: run it once more (--fresh), and remove the one that differs",
            )
        return True

    def studies(self) -> list[str]:
        """The names of the studies that were run with the store."""
        files, root = self._opened
        with self._explained(self._place("studies"), "list the store"):
            files.invalidate_cache()
            try:
                found = files.ls(f"{root}/studies", detail=False)
            except FileNotFoundError:
                return []
            return sorted(each.rpartition("/")[2].removesuffix(".json") for each in found)

    def get_study(self, name: str) -> StoredStudy | None:
        place = f"studies/{name}.json"
        content = self.read(place)
        try:
            return None if content is None else StoredStudy.model_validate_json(content)
        except ValidationError as error:
            cause = "the study is damaged, or of another version"
            raise ResultError(
                cause, place=self._place(place), remedy="run it again with this store"
            ) from error

    def put_study(self, study: StudySnapshot, labs: Mapping[str, Fingerprint]) -> None:
        """Name the records of a study. Raises ResultError if the store has another one of its name."""
        there = self.get_study(study.name)
        if there is not None:
            study = joined(there.study, study, (self._place(f"studies/{study.name}.json"), "this run"))
            labs = {**there.labs, **labs}
        kept = StoredStudy(study=study, labs=dict(labs))
        self.write(f"studies/{study.name}.json", kept.model_dump_json().encode())

    def named(self, study: StudySnapshot, labs: Mapping[str, Fingerprint]) -> None:
        """`put_study`; a failure is said."""
        with self._going_on("filled"):
            if labs and not self._gone:
                self.put_study(study, labs)

    def fetched(
        self, identity: str, fingerprint: Fingerprint, keep: Callable[[dict[str, bytes]], object]
    ) -> bool:
        """Whether a record was found, and given to ``keep``; it is asked for once.

        A failure is said, and measuring goes on.
        """
        if self._gone or (identity, fingerprint) in self._asked:
            return False
        self._asked.add((identity, fingerprint))
        with self._going_on("asked"):
            if (files := self.get(identity, fingerprint)) is not None:
                keep(files)
                self.found.add(identity)
                return True
        return False

    def sent(self, attempt: Path) -> None:
        """`put`; a failure is said, and measuring goes on."""
        with self._going_on("filled"):
            if not self._gone:
                self.put(attempt)

    @contextmanager
    def _going_on(self, what: str) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if not self._gone:  # of several threads one says so
                self._gone = True
                self.say(f"{error}\n  the store is not {what} any more; results are kept here")
        except ResultError as error:
            self.say(f"{error}")

    def read(self, name: str) -> bytes | None:
        """A file of the store; None if there is none. Raises StoreError."""
        files, root = self._opened
        with self._explained(self._place(name), "read the store"):
            try:
                content: bytes = files.cat_file(f"{root}/{name}")
            except FileNotFoundError:
                return None
            return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which appears when it is whole. Raises StoreError."""
        files, root = self._opened
        place = f"{root}/{name}"
        with self._explained(self._place(name), "write to the store"):
            if self._protocol in _WHOLE:
                files.pipe_file(place, content)
                return
            files.makedirs(place.rpartition("/")[0], exist_ok=True)
            aside = f"{place}.{uuid.uuid4().hex}"
            try:
                files.pipe_file(aside, content)
                files.mv(aside, place)
            except BaseException:
                with suppress(Exception):
                    files.rm_file(aside)
                raise

    def _place(self, name: str) -> str:
        return f"{self.url.rstrip('/')}/{name}"

    @contextmanager
    def _explained(self, place: str, doing: str) -> Iterator[None]:
        """Every library has errors of its own: each is a store that cannot be used."""
        try:
            yield
        except StrataError:
            raise
        except Exception as error:
            said = " ".join(f"{getattr(error, 'strerror', None) or error}".split()) or type(error).__name__
            remedy = "look at its address, your rights and its free space"
            raise StoreError(f"cannot {doing}: {said[:200]}", place=place, remedy=remedy) from error


def record_name(record: ResultRecord) -> str:
    """The place of a record in any store."""
    return _name(record.spec_sha256, record.fingerprint)


def _name(identity: str, fingerprint: Fingerprint) -> str:
    lab = sha256_hex(canonical_json(fingerprint.model_dump(mode="json")))[:32]
    return f"records/{identity}/{lab}.zip"


def _packed(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _unpacked(content: bytes, place: str) -> tuple[dict[str, bytes], Sealed]:
    """The files of an attempt and its record. Raises ResultError if they do not fit their hashes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            found = [each for each in archive.infolist() if each.filename in _KEPT]
            if sum(each.file_size for each in found) > _CONTENT_BYTES_MAX:
                raise _unfit("it is too large to be a record", place)
            files = {each.filename: archive.read(each) for each in found}
        sealed = unsealed(files[_RESULT], place)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, ValueError) as error:
        raise _unfit("the record is truncated or damaged", place) from error
    except ResultError as error:
        raise _unfit(error.cause, place) from error
    stated = {_EVENTS: sealed.record.events_sha256, _PREPARED: sealed.record.prepared_sha256}
    for name, sha256 in stated.items():
        if sha256 is not None and sha256_hex(files.get(name, b"")) != sha256:
            raise _unfit(f"{name} does not match the record's hash", place)
    return files, sealed


def _unfit(cause: str, place: str) -> ResultError:
    return ResultError(cause, place=place, remedy="it is not used; remove it from the store")
