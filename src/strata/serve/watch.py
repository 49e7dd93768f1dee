# SPDX-License-Identifier: Apache-2.0
"""A results folder as it is now: what is done, runs, failed and is left. It takes no lock and writes nothing.

A run never changes a result that is written, and writes it last: so the time and size of ``result.json`` tell
whether it was read already, and a poll of an unchanged folder reads no file.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from strata.durable import explained
from strata.errors import StrataError
from strata.execution.forecast import Countdown, Forecast, words_of
from strata.folders import read_plain
from strata.plan.model import Plan, canonical_json, sha256_hex
from strata.report.precision import precision_notes
from strata.report.wording import metric_title
from strata.results.record import ResultRecord
from strata.results.snapshot import StudySnapshot
from strata.results.store import Attempt, Reading, ResultsFolder
from strata.runners.base import EventTail
from strata.spec.trial import TrialKey
from strata.units import format_value

State = Literal["done", "running", "failed", "damaged", "interrupted", "left"]

LOOK_INTERVAL_S: Final = 1.0
"""However many pages are open, a folder is polled no more often."""
_HEADLINES_MAX: Final = 3
_LOCKS: Final = Path("/proc/locks")


@dataclass(frozen=True)
class TrialNow:
    """A trial as it is now.

    Attributes:
        problem: Why it has no valid result; empty for one that is done, runs or is left.
        headline: Its result in a few words.
        step: What it does, if it runs.
        done_ns: How far it is in its own time, if it runs; ``expected_ns`` of about how much.
        sealed_ns: When its result was written, by the folder's clock.
    """

    id: str
    stack: str
    workload: str
    seed: int
    state: State
    problem: str = ""
    headline: str = ""
    step: str = ""
    done_ns: int = 0
    expected_ns: float | None = None
    sealed_ns: int = 0


@dataclass(frozen=True)
class StudyNow:
    """A study as it is now.

    Attributes:
        problem: Why the folder cannot be read; empty when it can.
        version: Changes with every result, so that a page knows whether to ask for the charts again.
        running: Whether `strata run` is at work in the folder.
        left: The time left in words; empty where it is unknown.
        precision: Which seeds were added, and what has not converged, a sentence each.
    """

    key: str
    place: str
    name: str
    question: str = ""
    problem: str = ""
    version: str = ""
    virtual: bool = True
    running: bool = False
    left: str = ""
    precision: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    trials: tuple[TrialNow, ...] = ()

    @property
    def counts(self) -> Counter[State]:
        """How many trials are in each state."""
        return Counter(each.state for each in self.trials)

    def of(self, *states: State) -> list[TrialNow]:
        """The trials in these states, in the study's order."""
        return [each for each in self.trials if each.state in states]

    def cells(self) -> list[tuple[str, list[list[TrialNow]]]]:
        """A row per workload: for each stack its trials, by seed."""
        found: dict[tuple[str, str], list[TrialNow]] = {}
        for each in sorted(self.trials, key=lambda trial: trial.seed):
            found.setdefault((each.stack, each.workload), []).append(each)
        return [(row, [found.get((stack, row), []) for stack in self.stacks]) for row in self.workloads]

    def newest(self, count: int) -> list[TrialNow]:
        """The trials whose results were written last, the newest first."""
        sealed = [each for each in self.trials if each.sealed_ns]
        return sorted(sealed, key=lambda each: each.sealed_ns, reverse=True)[:count]


Stamp = tuple[tuple[str, int, int], ...]


class WatchedFolder(ResultsFolder):
    """A results folder that reads a trial again only when its results have changed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._known: dict[tuple[TrialKey, str | None], tuple[Stamp, Reading]] = {}
        self._study: tuple[tuple[int, int], StudySnapshot] | None = None

    def stamp(self, attempts: list[Attempt]) -> Stamp:
        """What tells whether results have changed: each attempt's name, and its record's time and size."""
        found = []
        for attempt in attempts:
            try:
                status = attempt.result_path.stat()
            except OSError:
                found.append((attempt.path.name, 0, 0))
            else:
                found.append((attempt.path.name, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def study(self) -> StudySnapshot:
        """Cached: read again only when it has changed."""
        with explained(self.study_path, "read the file"):
            status = self.study_path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if self._study is None or self._study[0] != stamp:
            self._study = (stamp, super().study())
        return self._study[1]

    def read_trial(self, trial: TrialKey, spec_sha256: str | None = None) -> Reading:
        """Cached: read again only when it has changed."""
        stamp = self.stamp(self.attempts(trial))
        known = self._known.get((trial, spec_sha256))
        if known is not None and known[0] == stamp:
            return known[1]
        reading = super().read_trial(trial, spec_sha256)
        self._known[trial, spec_sha256] = (stamp, reading)
        return reading

    def is_being_run(self) -> bool:
        """Whether a process holds the folder's lock, by the kernel's list: to try it could keep a run out."""
        try:
            status = (self.path / ".lock").stat()
            holder = read_plain(self.path / ".lock").decode().strip()
            lines = _LOCKS.read_text().splitlines()
        except (OSError, ValueError):
            return False
        # "1: FLOCK  ADVISORY  WRITE 4711 08:02:131 0 EOF"; some filesystems give files another device number.
        return any(
            "FLOCK" in line and f" {holder} " in line and f":{status.st_ino} " in line
            for line in lines
            if holder
        )


@dataclass
class Watch:
    """Follows one results folder; it may be asked by several threads.

    Attributes:
        key: The study's name in addresses.
        clock: For the time left and the interval between polls.
    """

    key: str
    path: Path
    clock: Callable[[], float] = time.monotonic
    _folder: WatchedFolder = field(init=False)
    _tails: dict[Path, EventTail] = field(default_factory=dict)
    _countdown: Countdown = field(default_factory=Countdown)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked: tuple[float, StudyNow] | None = None

    def __post_init__(self) -> None:
        self._folder = WatchedFolder(self.path)

    @property
    def folder(self) -> WatchedFolder:
        """The folder, with its cache."""
        return self._folder

    def now(self) -> StudyNow:
        """The study as it is; a folder that cannot be read is a study with a problem, not an error."""
        with self._lock:
            at = self.clock()
            if self._looked is None or at - self._looked[0] >= LOOK_INTERVAL_S:
                self._looked = (at, self._look(at))
            return self._looked[1]

    def _look(self, at: float) -> StudyNow:
        try:
            snapshot = self._folder.study()
            running = self._folder.is_being_run()
            forecast, trials = Forecast(), []
            for trial, sha256 in snapshot.trials.items():
                reading = self._folder.read_trial(trial, sha256)
                if reading.record is not None:
                    forecast.learn(reading.record)
                trials.append(self._trial(reading, running=running))
            stamps = [self._folder.stamp(self._folder.attempts(trial)) for trial in snapshot.trials]
        except StrataError as error:
            return StudyNow(self.key, str(self.path), self.key, problem=str(error))
        trials = [_expecting(each, forecast) for each in trials]
        return StudyNow(
            key=self.key,
            place=str(self.path),
            name=snapshot.name,
            question=snapshot.question,
            version=_version(snapshot, stamps),
            virtual=snapshot.time_domain == "virtual",
            running=running,
            left=words_of(self._countdown.left_s(_left_s(trials, forecast) if running else None, at)),
            precision=tuple(precision_notes(snapshot)),
            stacks=tuple(each.name for each in snapshot.stacks),
            workloads=tuple(each.name for each in snapshot.workloads),
            trials=tuple(trials),
        )

    def _trial(self, reading: Reading, *, running: bool) -> TrialNow:
        attempts = self._folder.attempts(reading.trial)
        begun = [each for each in attempts if not each.result_path.exists()]
        known: dict[str, Any] = {"id": reading.trial_id, **reading.trial._asdict()}
        if begun and running:
            tail = self._tail(begun[-1])
            done_ns = tail.last_ns - (tail.first_ns or 0)
            return TrialNow(**known, state="running", step=tail.title, done_ns=done_ns)
        record, problem = reading.record, reading.problem or ""
        sealed_ns = 0
        if reading.attempt is not None:
            sealed_ns = next(iter(stamp[1] for stamp in self._folder.stamp([reading.attempt])))
        if record is None:
            state: State = "interrupted" if begun else "damaged" if attempts else "left"
            return TrialNow(**known, state=state, problem="" if state == "left" else problem)
        state = "done" if record.validity.valid else "failed"
        return TrialNow(
            **known,
            state=state,
            problem="" if state == "done" else problem,
            headline=_headline(record) if state == "done" else "",
            sealed_ns=sealed_ns,
        )

    def _tail(self, attempt: Attempt) -> EventTail:
        tail = self._tails.get(attempt.path)
        if tail is None:
            try:
                plan = Plan.model_validate_json(read_plain(attempt.plan_path))
            except (OSError, ValidationError):  # it has hardly begun
                return EventTail(attempt.events_path, _NO_PLAN)
            tail = self._tails[attempt.path] = EventTail(attempt.events_path, plan)
        tail.read()
        return tail


class _NoSteps:
    """A plan that is not written yet, as an ``EventTail`` needs it."""

    steps = ()


_NO_PLAN: Final[Any] = _NoSteps()


def _headline(record: ResultRecord) -> str:
    found = [metric for metric in record.metrics if metric.headline] or list(record.metrics[:1])
    return ", ".join(
        f"{metric_title(each)} {format_value(each.value, each.unit).removesuffix(' /s')}"
        for each in found[:_HEADLINES_MAX]
    )


def _expecting(trial: TrialNow, forecast: Forecast) -> TrialNow:
    if trial.state != "running":
        return trial
    return TrialNow(**{**vars(trial), "expected_ns": forecast.expected_ns(trial)})


def _left_s(trials: list[TrialNow], forecast: Forecast) -> float | None:
    """Real seconds until the run is done, if as many trials go on running as run now."""
    running = [(each, float(each.done_ns)) for each in trials if each.state == "running"]
    waiting = [each for each in trials if each.state in {"left", "interrupted", "damaged"}]
    return forecast.study_left_s(running, waiting, max(1, len(running)))


def _version(snapshot: StudySnapshot, stamps: list[Stamp]) -> str:
    sealed = [[stamp for stamp in each if stamp[1]] for each in stamps]
    return sha256_hex(canonical_json([snapshot.model_dump(mode="json"), sealed]))[:16]


def find_watches(
    roots: list[Path], known: dict[Path, Watch], clock: Callable[[], float] = time.monotonic
) -> dict[str, Watch]:
    """The results folders among ``roots`` and directly below them, by their names in addresses.

    Args:
        roots: Results folders, and folders that hold results folders.
        known: What was found before, by folder; added to, so that what was read is remembered.
        clock: Of the watches.
    """
    places: dict[Path, None] = {}
    for root in roots:
        below: list[str] = []
        with suppress(OSError):
            below = sorted(each.path for each in os.scandir(root) if each.is_dir())
        found = [root] if (root / "study.json").exists() else []
        found += [Path(each) for each in below if (Path(each) / "study.json").exists()]
        places.update(dict.fromkeys(each.resolve() for each in found))
    named: dict[str, Watch] = {}
    for place in places:
        key = next(
            key
            for key in (place.name, *(f"{place.name}-{count}" for count in range(2, 10_000)))
            if key not in named
        )
        watch = known.get(place)
        if watch is None or watch.key != key:
            watch = known[place] = Watch(key, place, clock)
        named[key] = watch
    return named
