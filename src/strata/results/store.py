# SPDX-License-Identifier: Apache-2.0
"""The results folder: trials, their attempts, and the record of each.

    RESULTS/study.json
    RESULTS/trials/<trial id>/attempt-NNN/
        {plan.json,bindings.json,events.jsonl,console.log,trace.parquet,machine.json,result.json}

``result.json`` is written last and at once, so an attempt that has one is complete.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from strata.errors import ResultError
from strata.files import (
    explained,
    make_folder,
    open_plain,
    opened_inside,
    refuse_exchangeable,
    refuse_exchangeable_path,
    refuse_link,
    refused,
    sync,
    temporary_name,
    write_durably,
)
from strata.model.trial import TrialKey
from strata.printable import in_json
from strata.results.reading import Sealed, read_record, read_snapshot, result_text, write_model
from strata.results.record import Fingerprint, ResultRecord, StudySnapshot
from strata.words import counted
from strata.working import working

_OWN_NAMES: Final = (
    *(".lock", ".journal", "study.json", "trials", "query", "capabilities", "capabilities.json"),
    *("variations", "findings.json"),
)


def refuse_unsafe(folder: Path) -> None:
    """Refuse to write into a results folder, or to make one, where that could reach other files.

    Raises ResultError if one of Strata's files in it is a symbolic link, or another user could put one there
    while root works on it.
    """
    refuse_exchangeable_path(folder)
    try:
        for name in _OWN_NAMES:
            refuse_link(folder / name)
            if (folder / name).is_dir():
                _refuse_below(folder / name)
    except OSError as error:
        raise refused(error, "use it") from error


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


def _refuse_below(path: Path) -> None:
    within: list[Path] = []
    # A folder that cannot be listed cannot be written to, either.
    with suppress(PermissionError), opened_inside(path) as folder:
        if os.geteuid() == 0:
            refuse_exchangeable(folder, ResultError, sticky=False)
        with os.scandir(folder) as found:
            within = [path / each.name for each in found if each.is_symlink() or each.is_dir()]
    for each in within:
        _refuse_below(each)  # a link is refused there


_ATTEMPT: Final = re.compile(r"attempt-(\d{3,})")
# A run and `strata capabilities` may write these before study.json, or be killed while they do.
_FIRST_NAMES: Final = (
    *(".lock", "capabilities.json", "capabilities"),
    *(temporary_name("study.json"), temporary_name("capabilities.json")),
)


@dataclass(frozen=True)
class Attempt:
    """One try at a trial, in a folder of its own."""

    trial: TrialKey
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


@dataclass(frozen=True)
class Reading:
    """A trial in a results folder, whether it was run or not.

    Attributes:
        record: The newest valid result, else the newest; None when none can be read.
        attempt: The source of ``record``.
        record_sha256: The same for every run of one lab trial.
        attempts: The number begun; ``incomplete`` of them have no result.
        problem: Why there is no usable record, or another fault of the attempts; None when all is well.
    """

    trial: TrialKey
    record: ResultRecord | None
    attempt: Attempt | None
    record_sha256: str | None
    attempts: int
    incomplete: int
    problem: str | None

    @property
    def trial_id(self) -> str:
        return str(self.trial)

    @property
    @in_json
    def usable(self) -> bool:
        return self.record is not None and self.record.validity.valid


class ResultsFolder:
    """A results folder on disk. Use ``create`` to write into it and ``open`` to read it."""

    def __init__(self, path: Path) -> None:
        self._named = path
        # A folder that cannot be resolved is no error yet: using it explains the cause.
        self.path = Path(os.path.realpath(path)) if os.path.islink(path) else path  # noqa: PTH114

    def refuse_unsafe(self) -> None:
        """Refuse a folder through which writing or deleting could reach files of others."""
        refuse_unsafe(self._named)

    def safe_path(self, name: str) -> Path:
        self.refuse_unsafe()
        return self.path / name

    @classmethod
    def create(cls, path: Path, snapshot: StudySnapshot) -> ResultsFolder:
        """Create the folder, or continue an existing one, for a run of the study in ``snapshot``.

        Raises ResultError if it cannot be written, or holds another study or another time domain.
        """
        folder = cls(path)
        folder.refuse_unsafe()
        with explained(path, "use the folder"):
            if folder.study_path.exists():
                _refuse_mixing(folder.study(), snapshot, path)
            else:
                folder._refuse_foreign()
        make_folder(folder.path)
        # First, so that a folder without it, as a killed run may leave one, has nothing of value.
        write_model(folder.study_path, snapshot)
        make_folder(folder.trials_path)
        return folder

    @classmethod
    def open(cls, path: Path) -> ResultsFolder:
        """Open a folder to read it. Raises ResultError if it is not there or holds no results."""
        folder = cls(path)
        with explained(path, "open the folder", reading=True):
            if folder.study_path.is_file():
                return folder
            cause, remedy = folder._absence()
        raise ResultError(cause, place=str(path), remedy=remedy)

    def _absence(self) -> tuple[str, str]:
        remedy = "give the folder that `strata run` wrote its results to"
        if self.path.name == "study.json" and self.path.is_file():
            return "this is a file of a results folder", f"give the folder: {self.path.parent}"
        if self.path.exists() and not self.path.is_dir():
            return "this is a file, not a folder", remedy
        if not self.path.is_dir():
            return "there is no such folder", remedy
        if self.trials_path.is_dir():
            remedy = "bring study.json back from a copy, or run the study into another folder"
            return "the folder holds trials, but its study.json is gone", remedy
        return "the folder holds no study.json", remedy

    def _refuse_foreign(self) -> None:
        if self.study_path.exists() or not self.path.is_dir():
            return
        if any(child.name not in _FIRST_NAMES for child in self.path.iterdir()):
            cause = "the folder is not empty and holds no results of Strata"
            raise ResultError(cause, place=str(self.path), remedy="choose another folder with --results")

    @property
    def study_path(self) -> Path:
        return self.path / "study.json"

    @property
    def trials_path(self) -> Path:
        return self.path / "trials"

    def study(self) -> StudySnapshot:
        return read_snapshot(self.study_path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs out of the folder; the lock ends with the process, however it ends.

        Raises ResultError if another run holds it, or the folder holds other things than results.
        """
        self.refuse_unsafe()
        with explained(self.path, "use the folder"):
            self._refuse_foreign()
        make_folder(self.path)
        refuse_exchangeable_path(self._named)  # others may have made it first, in a folder like /tmp
        place = self.path / ".lock"
        with explained(place, "lock the folder"):
            descriptor = open_plain(place, os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(descriptor).st_nlink > 1:
                raise ResultError("it is another file's second name", place=str(place), remedy="remove it")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                who = f"process {holder}" if holder else "another process"
                raise ResultError(
                    f"{who} is running a study into this folder",
                    place=str(self.path),
                    remedy="wait for it to end, or choose another folder with --results",
                ) from error
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def trials(self) -> list[TrialKey]:
        """The trials that were begun, sorted; folders with other names are ignored."""
        found = []
        with explained(self.trials_path, "list the trials", reading=True):
            for path in listed(self.trials_path):
                with suppress(ValueError):
                    found += [TrialKey.parse(path.name)] if path.is_dir() else []
        return sorted(found)

    def attempts(self, trial: TrialKey) -> list[Attempt]:
        folder = self.trials_path / str(trial)
        with explained(folder, "list the attempts", reading=True):
            refuse_link(self.trials_path)
            found = [(match, path) for path in listed(folder) if (match := _ATTEMPT.fullmatch(path.name))]
        return sorted(
            (Attempt(trial, int(match[1]), path) for match, path in found), key=lambda each: each.number
        )

    def new_attempt(self, trial: TrialKey) -> Attempt:
        """Begin another attempt at a trial, in a new folder."""
        before = self.attempts(trial)
        number = before[-1].number + 1 if before else 1
        path = self.trials_path / str(trial) / f"attempt-{number:03d}"
        make_folder(path.parent)
        with explained(path, "create the folder"):
            path.mkdir()  # fails if it exists, so that it holds only files of this run
            sync(path.parent)
        return Attempt(trial, number, path)

    def records(self, trial: TrialKey) -> Iterator[ResultRecord]:
        """The readable results of a trial, newest first; damaged ones are passed over."""
        for attempt in reversed(self.attempts(trial)):
            if attempt.complete:
                with suppress(ResultError):
                    yield attempt.read_result()

    def valid_result(
        self, trial: TrialKey, spec_sha256: str, fingerprint: Fingerprint
    ) -> ResultRecord | None:
        """The newest valid result of this specification on this lab: the reason to skip the trial."""
        for record in self.records(trial):
            if record.validity.valid and record.answers(spec_sha256, fingerprint):
                return record
        return None

    def read_trial(self, trial: TrialKey, spec_sha256: str | None = None) -> Reading:
        """A trial's best result; a damaged one is a ``problem``, not an error.

        With ``spec_sha256`` results of another specification are out of date and left out.
        """
        attempts = self.attempts(trial)
        found: list[tuple[Attempt, Sealed]] = []
        problems: list[str] = []
        for each in reversed(attempts):
            if not each.complete:
                continue
            try:
                read = read_record(each.result_path)
            except ResultError as error:
                problems.append(f"{error.cause} ({each.path.name})")
                continue
            if spec_sha256 is not None and read.record.spec_sha256 != spec_sha256:
                problems.append(f"out of date: the study has changed since {each.path.name}")
                continue
            found.append((each, read))
        valid = [pair for pair in found if pair[1].record.validity.valid]
        attempt, sealed = (valid or found)[0] if found else (None, None)
        record, sha256 = (sealed.record, sealed.record_sha256) if sealed else (None, None)
        incomplete = sum(not attempt.complete for attempt in attempts)
        if record is None and not problems:
            problems.append("interrupted before its end" if incomplete else "not run yet")
        elif record is not None and not record.validity.valid:
            problems = list(record.validity.reasons) + problems
        problem = "; ".join(problems) or None
        return Reading(trial, record, attempt, sha256, len(attempts), incomplete, problem)

    def readings(self) -> list[Reading]:
        """Every trial of the study, in the study's order, whether it was run or not."""
        study = self.study()
        was_enabled = gc.isenabled()
        gc.disable()  # records have no circular references, whose search takes a third of the time
        try:
            with working(f"reading {counted(len(study.trials), 'result')} of {self.path}"):
                readings = [self.read_trial(trial, sha256) for trial, sha256 in study.trials.items()]
        finally:
            if was_enabled:
                gc.enable()
        for index, reading in enumerate(readings):
            record, why = reading.record, study.given_up.get(reading.trial.cell)
            if why is not None and not reading.attempts:
                problem = f"not run, since two trials failed alike: {why}"
                readings[index] = replace(reading, problem=problem)
            if record is not None and record.time_domain != study.time_domain:
                raise ResultError(
                    f"a result in {record.time_domain} time lies among results in {study.time_domain} time",
                    place=str(reading.attempt.path if reading.attempt else self.path),
                    remedy="remove that attempt; the two are never pooled",
                )
        return readings


def _refuse_mixing(existing: StudySnapshot, wanted: StudySnapshot, path: Path) -> None:
    if existing.name != wanted.name:
        cause = f'the folder holds the study "{existing.name}", not "{wanted.name}"'
    elif existing.time_domain != wanted.time_domain:
        cause = (
            f"the folder holds results in {existing.time_domain} time, this run measures "
            f"{wanted.time_domain} time; the two are never pooled"
        )
    else:
        return
    raise ResultError(cause, place=str(path), remedy="choose another folder with --results")
