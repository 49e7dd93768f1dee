# SPDX-License-Identifier: Apache-2.0
"""Results of one study from several folders as one: of shards, of several users, of a store."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from strata.errors import ResultError
from strata.files import explained
from strata.results.findings import merge_findings
from strata.results.reading import Sealed
from strata.results.record import Fingerprint, ResultRecord, joined
from strata.results.records import Attempt
from strata.results.store import ResultsFolder


@dataclass(frozen=True)
class Merged:
    """What was done: attempts copied, attempts that were there, and those that cannot be read."""

    copied: int
    there: int
    unreadable: tuple[str, ...]


@dataclass
class _Target:
    """The records of the folder that is merged into."""

    folder: ResultsFolder
    machines: set[Fingerprint] = field(default_factory=set)  # of results in wall time
    _known: dict[str, dict[str, tuple[Path, ResultRecord]]] = field(default_factory=dict)

    def take(self, attempt: Attempt, sealed: Sealed) -> bool:
        """Copy an attempt; False if it is there. Raises ResultError if it and another one contradict."""
        record = sealed.record
        there = self._known.setdefault(record.spec_sha256, {}) or self._known_of(record.spec_sha256)
        if record.validity.valid and record.time_domain == "wall":
            self.machines.add(record.fingerprint)
            if len(self.machines) > 1:
                cause = "it was measured on another machine: results in wall time of two are never pooled"
                raise ResultError(cause, place=str(attempt.path), remedy="compare the folders instead")
        if sealed.record_sha256 in there:
            return False
        for path, other in there.values():
            if record.time_domain == "virtual" and _both_valid(record, other):
                cause = f"it differs from the record of the same trial in {path}"
                remedy = "a lab trial has one result: run it once more, and remove the one that differs"
                raise ResultError(cause, place=str(attempt.path), remedy=remedy)
        new = self.folder.store.begin(record.spec_sha256)
        for file in attempt.path.iterdir():
            if file.is_file() and not file.is_symlink() and file != attempt.result_path:
                _link(file, new.path / file.name)
        new.write_result(record)
        there[sealed.record_sha256] = (new.path, record)
        return True

    def _known_of(self, identity: str) -> dict[str, tuple[Path, ResultRecord]]:
        store, found = self.folder.store, self._known[identity]
        for attempt in filter(lambda each: each.complete, store.attempts(identity)):
            with suppress(ResultError):
                sealed = store.read(attempt, identity)
                found[sealed.record_sha256] = (attempt.path, sealed.record)
                if sealed.record.time_domain == "wall" and sealed.record.validity.valid:
                    self.machines.add(sealed.record.fingerprint)
        return found


def _link(file: Path, to: Path) -> None:
    """The same file, which never changes; a copy where there can be no link."""
    try:
        to.hardlink_to(file)
    except OSError:
        shutil.copyfile(file, to)


def _both_valid(one: ResultRecord, two: ResultRecord) -> bool:
    return one.fingerprint == two.fingerprint and one.validity.valid and two.validity.valid


def merge(sources: Sequence[ResultsFolder], into: ResultsFolder, *, keep: bool = True) -> Merged:
    """Copy the study and complete attempts of results folders into one, which may have some already.

    Its own study counts, too, unless it is not to ``keep``. Raises ResultError if the studies differ, if two
    records of one lab trial do, and for results of several machines in wall time, which are never pooled.
    """
    folders = [*([into] if keep and into.study_path.is_file() else []), *sources]
    study = folders[0].study()
    for folder in folders[1:]:
        study = joined(study, folder.study(), (folders[0].path, folder.path))
    copied, there, unreadable = 0, 0, list[str]()
    with into.lock(), explained(into.path, "merge into it"):
        into.write_study(study)
        target = _Target(into)
        for folder, identity in ((each, one) for each in sources for one in each.store.identities()):
            for attempt in filter(lambda each: each.complete, folder.store.attempts(identity)):
                try:
                    sealed = folder.store.read(attempt, identity)
                except ResultError as error:
                    unreadable.append(f"{attempt.path}: {error.cause}")
                    continue
                is_new = target.take(attempt, sealed)
                copied, there = copied + is_new, there + (not is_new)
        merge_findings(sources, into, keep=keep)
    return Merged(copied, there, tuple(unreadable))
