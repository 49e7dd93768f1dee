# SPDX-License-Identifier: Apache-2.0
"""The results folder: a study's names, which lead to records in a store.

``RESULTS/study.json`` has the study, with the identity of each trial; ``RESULTS/records`` is the store
(`strata.results.records`), unless the folder shares that of another one.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from strata.errors import ResultError
from strata.files import (
    explained,
    make_folder,
    refuse_exchangeable_path,
    refused,
    temporary_name,
)
from strata.model.trial import TrialKey
from strata.plan.model import Trial
from strata.printable import in_json
from strata.results.reading import Sealed, read_snapshot, write_model
from strata.results.record import ResultRecord, StudySnapshot
from strata.results.records import Attempt, RecordStore, Store, locked, refuse_links_below
from strata.results.shared import SharedStore
from strata.words import counted
from strata.working import working

CLUSTER_NAME: Final = ".cluster.json"
"""While a cluster is at work: its state, for those who watch the folder (`strata.execution.pool`)."""
_RECORDS: Final = "records"
_OWN_NAMES: Final = (
    *(".lock", CLUSTER_NAME, ".journal", "study.json", _RECORDS, "query", "capabilities"),
    *("variations", "findings.json", "on-host"),
)


def refuse_unsafe(folder: Path) -> None:
    """Refuse to write into a results folder, or to make one, where that could reach other files.

    Raises ResultError if one of Strata's files in it is a symbolic link, or another user could put one there
    while root works on it.
    """
    refuse_exchangeable_path(folder)
    try:
        for name in _OWN_NAMES:
            refuse_links_below(folder / name)
    except OSError as error:
        raise refused(error, "use it") from error


def one_folder(place: str) -> str | None:
    """The remedy where several folders or a store are given to a command that takes a folder."""
    if any(mark in place for mark in (",", ":/")):
        return "it takes one folder: `strata merge` makes one of several, and of a store"
    return None


# A run and `strata capabilities` may write these before study.json, or be killed while they do.
_FIRST_NAMES: Final = (
    *(".lock", CLUSTER_NAME, "findings.json", "capabilities"),
    *(temporary_name("study.json"), temporary_name("findings.json")),
)


@dataclass(frozen=True)
class Reading:
    """A trial in a results folder, whether it was run or not.

    Attributes:
        record: The newest valid result, else the newest; None when none can be read.
        attempt: The source of ``record``.
        record_sha256: The same for every run of one lab trial.
        attempts: The number begun; ``incomplete`` of them have no result.
        problem: Why there is no usable record, or a fault of the attempts after it; None when all is well.
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
    """A results folder on disk. Use ``create`` to write into it and ``open`` to read it.

    Its records are in a folder within it, unless it shares the ``store`` of another one. Records that are
    missing are taken from the ``shared`` store, and new ones given to it.
    """

    def __init__(self, path: Path, store: Store | None = None, shared: SharedStore | None = None) -> None:
        self._named = path
        # A folder that cannot be resolved is no error yet: using it explains the cause.
        self.path = Path(os.path.realpath(path)) if os.path.islink(path) else path  # noqa: PTH114
        self._owns_store = store is None
        self.store: Store = store or RecordStore(self.path / _RECORDS, shared)

    def refuse_unsafe(self) -> None:
        """Refuse a folder through which writing or deleting could reach files of others."""
        refuse_unsafe(self._named)

    def safe_path(self, name: str) -> Path:
        self.refuse_unsafe()
        return self.path / name

    @classmethod
    def create(cls, path: Path, snapshot: StudySnapshot, store: Store | None = None) -> ResultsFolder:
        """Create the folder, or continue an existing one, for a run of the study in ``snapshot``.

        Raises ResultError if it cannot be written, or holds another study or another time domain.
        """
        folder = cls(path, store)
        folder.write_study(snapshot)
        return folder

    def write_study(self, snapshot: StudySnapshot) -> None:
        """The same for this folder."""
        self.refuse_unsafe()
        with explained(self.path, "use the folder"):
            if self.study_path.exists():
                _refuse_mixing(self.study(), snapshot, self.path)
            else:
                self._refuse_foreign()
        make_folder(self.path)
        # First, so that a folder without it, as a killed run may leave one, has nothing of value.
        write_model(self.study_path, snapshot)

    @classmethod
    def open(cls, path: Path, store: Store | None = None) -> ResultsFolder:
        """Open a folder to read it. Raises ResultError if it is not there or holds no results."""
        folder = cls(path, store)
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
            return "there is no such folder", one_folder(str(self._named)) or remedy
        if (self.path / _RECORDS).is_dir():
            remedy = "bring study.json back from a copy, or run the study into another folder"
            return "the folder holds records, but its study.json is gone", remedy
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

    def study(self) -> StudySnapshot:
        return read_snapshot(self.study_path)

    @cached_property
    def name(self) -> str:
        """The study's, which stays."""
        return self.study().name

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs out of the folder; the lock ends with the process, however it ends.

        A shared store is locked too: by the folder that owns it.

        Raises ResultError if another run holds it, or the folder holds other things than results.
        """
        self.refuse_unsafe()
        with explained(self.path, "use the folder"):
            self._refuse_foreign()
        make_folder(self.path)
        refuse_exchangeable_path(self._named)  # others may have made it first, in a folder like /tmp
        with locked(self.path), nullcontext() if self._owns_store else self.store.locked():
            yield

    def attempts(self, trial: TrialKey) -> list[Attempt]:
        """The attempts at a trial of the study."""
        return self.store.attempts(self.study().trials[trial])

    def one_of_each_cell(self) -> Iterator[Reading]:
        """The first trial with a result of each cell."""
        seen = set()
        for trial, identity in self.study().trials.items():
            if trial.cell not in seen and (reading := self.read_trial(trial, identity)).record is not None:
                seen.add(trial.cell)
                yield reading

    def read_trial(self, trial: TrialKey, identity: str | None = None) -> Reading:
        """A trial's best result, with its name; a damaged one is a ``problem``, not an error.

        Without an ``identity`` it is the study's. The attempts are read from the newest back to a valid one.
        """
        identity = identity or self.study().trials[trial]
        attempts = self.store.attempts(identity)
        incomplete = sum(not attempt.complete for attempt in attempts)
        best, problems = self._best(attempts, identity)
        if best is None:
            problems = problems or ["interrupted before its end" if incomplete else "not run yet"]
            return Reading(trial, None, None, None, len(attempts), incomplete, "; ".join(problems))
        chosen, sealed = best
        record = sealed.record.model_copy(update={"trial": Trial.of(self.name, trial)})
        if not record.validity.valid:
            problems = [*record.validity.reasons, *problems]
        problem = "; ".join(problems) or None
        return Reading(trial, record, chosen, sealed.record_sha256, len(attempts), incomplete, problem)

    def _best(
        self, attempts: Sequence[Attempt], identity: str
    ) -> tuple[tuple[Attempt, Sealed] | None, list[str]]:
        """The newest valid record, else the newest, and the faults of the attempts after it."""
        best: tuple[Attempt, Sealed] | None = None
        problems: list[str] = []
        for attempt in reversed(attempts):
            if not attempt.complete:
                continue
            try:
                sealed = self.store.read(attempt, identity)
            except ResultError as error:
                problems.append(f"{error.cause} ({attempt.path.name})")
                continue
            if best is None or sealed.record.validity.valid:
                best = attempt, sealed
            if sealed.record.validity.valid:
                break
        return best, problems

    def readings(self) -> list[Reading]:
        """Every trial of the study, in the study's order, whether it was run or not."""
        study = self.study()
        was_enabled = gc.isenabled()
        gc.disable()  # records have no circular references, whose search takes a third of the time
        try:
            with working(f"reading {counted(len(study.trials), 'result')} of {self.path}"):
                readings = [self.read_trial(trial, identity) for trial, identity in study.trials.items()]
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
