# SPDX-License-Identifier: Apache-2.0
"""The state of a results folder and its trials, read without a lock and without writing.

A run writes each result last and never changes it: the time and size of ``result.json`` tell whether it was
read already, and a poll of an unchanged folder reads no file.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from strata.errors import StrataError
from strata.execution.forecast import Countdown, Forecast
from strata.execution.pool import ClusterNow
from strata.files import explained, read_plain
from strata.model.metric import headlines
from strata.model.trial import CellKey
from strata.plan.model import Plan, canonical_json, sha256_hex
from strata.report.origin import precision_notes
from strata.results.record import StudySnapshot
from strata.results.records import Attempt
from strata.results.store import CLUSTER_NAME, Reading, ResultsFolder
from strata.runners.base import EventTail
from strata.words import grouped, time_left

State = Literal["done", "running", "failed", "damaged", "interrupted", "left"]

LOOK_INTERVAL_S: Final = 1.0  # between polls of a folder, however many pages are open
_LOCKS: Final = Path("/proc/locks")


@dataclass(frozen=True)
class TrialNow:
    id: str
    stack: str
    workload: str
    seed: int
    state: State
    problem: str = ""  # why it has no valid result; empty while it is done, running or left
    headline: str = ""  # its result in a few words
    step: str = ""  # the running one
    done_ns: int = 0  # its own time since the start while it runs, of about expected_ns
    expected_ns: float | None = None
    sealed_ns: int = 0  # when its result was written, by the folder's clock

    @property
    def cell(self) -> CellKey:
        return CellKey(self.stack, self.workload)


@dataclass(frozen=True)
class StudyNow:
    key: str
    place: str
    name: str
    question: str = ""
    problem: str = ""  # why the folder cannot be read
    version: str = ""  # changes with every result; a page then requests the charts again
    virtual: bool = True
    running: bool = False  # whether `strata run` is at work in the folder
    left: str = ""  # the time left in words, if known
    cluster: ClusterNow | None = None  # the run's, if it has one
    precision: tuple[str, ...] = ()  # the added seeds, and the cells that have not converged, a sentence each
    stacks: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    trials: tuple[TrialNow, ...] = ()

    @property
    def counts(self) -> Counter[State]:
        return Counter(each.state for each in self.trials)

    def of(self, *states: State) -> list[TrialNow]:
        return [each for each in self.trials if each.state in states]

    def cells(self) -> list[tuple[str, list[list[TrialNow]]]]:
        """A row per workload: for each stack its trials, by seed."""
        found = grouped(
            ((each.stack, each.workload), each) for each in sorted(self.trials, key=lambda trial: trial.seed)
        )
        return [(row, [found.get((stack, row), []) for stack in self.stacks]) for row in self.workloads]

    def newest(self, count: int) -> list[TrialNow]:
        sealed = [each for each in self.trials if each.sealed_ns]
        return sorted(sealed, key=lambda each: each.sealed_ns, reverse=True)[:count]


Stamp = tuple[tuple[str, int, int], ...]


def _stamp(attempts: list[Attempt]) -> Stamp:
    """Each attempt's name, and its record's time and size, which change with the results."""
    found = {attempt.path.name: (0, 0) for attempt in attempts}
    for attempt in attempts:
        with suppress(OSError):
            status = attempt.result_path.stat()
            found[attempt.path.name] = (status.st_mtime_ns, status.st_size)
    return tuple((name, *stamp) for name, stamp in found.items())


class WatchedFolder(ResultsFolder):
    """A results folder that reads study.json again only when it has changed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._study: tuple[tuple[int, int], StudySnapshot] | None = None

    def study(self) -> StudySnapshot:
        """Cached: read again only when it has changed."""
        with explained(self.study_path, "read the file"):
            status = self.study_path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if self._study is None or self._study[0] != stamp:
            self._study = (stamp, super().study())
        return self._study[1]

    def is_being_run(self) -> bool:
        """Whether a process holds the folder's lock, by the kernel's list: taking it could keep a run out."""
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

    def cluster(self) -> ClusterNow | None:
        """The cluster of the run that is at work."""
        with suppress(OSError, ValueError):
            return TypeAdapter(ClusterNow).validate_json(read_plain(self.path / CLUSTER_NAME))
        return None


@dataclass
class Watch:
    """Follows one results folder, for several threads; ``key`` is the study's name in addresses."""

    key: str
    path: Path
    clock: Callable[[], float] = time.monotonic
    folder: WatchedFolder = field(init=False)
    _tails: dict[Path, EventTail] = field(default_factory=dict)
    _countdown: Countdown = field(default_factory=Countdown)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked: tuple[float, StudyNow] | None = None

    def __post_init__(self) -> None:
        self.folder = WatchedFolder(self.path)

    def now(self) -> StudyNow:
        """The study now; a folder that cannot be read is a study with a problem, not an error."""
        with self._lock:
            at = self.clock()
            if self._looked is None or at - self._looked[0] >= LOOK_INTERVAL_S:
                self._looked = (at, self._look(at))
            return self._looked[1]

    def _look(self, at: float) -> StudyNow:
        try:
            snapshot = self.folder.study()
            running = self.folder.is_being_run()
            cluster = self.folder.cluster() if running else None
            # Before the readings: a result that arrives meanwhile must change the version at the next poll.
            stamps = [_stamp(self.folder.store.attempts(each)) for each in snapshot.trials.values()]
            forecast, trials = Forecast(), []
            for trial, sha256 in snapshot.trials.items():
                reading = self.folder.read_trial(trial, sha256)
                if reading.record is not None:
                    forecast.learn(reading.record)
                now = self._trial(reading, running=running)
                if cluster and now.state == "left" and (away := cluster.running.get(now.id)):
                    now = replace(now, state="running", step=away.step, done_ns=away.trial_ns)
                trials.append(now)
        except StrataError as error:
            return StudyNow(self.key, str(self.path), self.key, problem=str(error))
        left_s = _left_s(trials, forecast, cluster) if running else None
        sealed = [[stamp for stamp in each if stamp[1]] for each in stamps]
        trials = [
            replace(each, expected_ns=forecast.expected_ns(each.cell)) if each.state == "running" else each
            for each in trials
        ]
        return StudyNow(
            key=self.key,
            place=str(self.path),
            name=snapshot.name,
            question=snapshot.question,
            version=sha256_hex(canonical_json([snapshot.model_dump(mode="json"), sealed]))[:16],
            virtual=snapshot.time_domain == "virtual",
            running=running,
            left=time_left(self._countdown.left_s(left_s, at)),
            cluster=cluster,
            precision=tuple(precision_notes(snapshot)),
            stacks=tuple(snapshot.stacks),
            workloads=tuple(snapshot.workloads),
            trials=tuple(trials),
        )

    def _trial(self, reading: Reading, *, running: bool) -> TrialNow:
        trial, record, attempts = reading.trial, reading.record, self.folder.attempts(reading.trial)
        begun = [each for each in attempts if not each.result_path.exists()]
        now = TrialNow(str(trial), trial.stack, trial.workload, trial.seed, "left")
        if begun and running:
            tail = self._tail(begun[-1])
            done_ns = tail.last_ns - (tail.first_ns or 0)
            return replace(now, state="running", step=tail.title, done_ns=done_ns)
        if record is None and not attempts:
            return now
        now = replace(now, problem=reading.problem or "")
        if record is None:
            return replace(now, state="interrupted" if begun else "damaged")
        now = replace(now, sealed_ns=_stamp([reading.attempt])[0][1] if reading.attempt else 0)
        if record.validity.valid:
            return replace(now, state="done", problem="", headline=headlines(record.metrics))
        return replace(now, state="failed")

    def _tail(self, attempt: Attempt) -> EventTail:
        tail = self._tails.get(attempt.path)
        if tail is None:
            try:
                plan = Plan.model_validate_json(read_plain(attempt.plan_path))
            except (OSError, ValidationError):  # it has just begun
                return EventTail(attempt.events_path, _NO_PLAN)
            tail = self._tails[attempt.path] = EventTail(attempt.events_path, plan)
        tail.read()
        return tail


_NO_PLAN: Final[Any] = SimpleNamespace(steps=())  # for an `EventTail` whose plan is not written yet


def _left_s(trials: list[TrialNow], forecast: Forecast, cluster: ClusterNow | None) -> float | None:
    """Real seconds until the run is done, at the present number of parallel trials."""
    running = [(each.cell, float(each.done_ns)) for each in trials if each.state == "running"]
    waiting = [each.cell for each in trials if each.state in {"left", "interrupted", "damaged"}]
    return forecast.study_left_s(running, waiting, cluster.labs if cluster else max(1, len(running)))


def find_watches(
    roots: list[Path], known: dict[Path, Watch], clock: Callable[[], float] = time.monotonic
) -> dict[str, Watch]:
    """The results folders at and below ``roots``, by their addresses; new ones are added to ``known``."""
    places: dict[Path, None] = {}
    for root in roots:
        found = [root]
        with suppress(OSError):
            found += sorted(Path(each.path) for each in os.scandir(root) if each.is_dir())
        places.update({each.resolve(): None for each in found if (each / "study.json").exists()})
    named: dict[str, Watch] = {}
    for place in places:
        names = (place.name, *(f"{place.name}-{count}" for count in range(2, 10_000)))
        key = next(name for name in names if name not in named)
        watch = known.get(place)
        if watch is None or watch.key != key:
            watch = known[place] = Watch(key, place, clock)
        named[key] = watch
    return named
