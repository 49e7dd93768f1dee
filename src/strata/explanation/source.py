# SPDX-License-Identifier: Apache-2.0
"""The trial that a command line names, with its result, plan and trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from strata.errors import ResultError, StrataError
from strata.files import read_plain
from strata.model.duties import LogsThroughput
from strata.model.trial import TrialKey
from strata.plan.model import Plan
from strata.results.build import measured_window_ns
from strata.results.declared import declared_study
from strata.results.differences import Naming, differences
from strata.results.events import read_events
from strata.results.record import ResultRecord, StudySnapshot
from strata.results.records import Attempt
from strata.results.store import Reading, ResultsFolder, one_folder
from strata.results.trace import read_trace
from strata.traces.table import Trace

_NAMING = (
    "name it RESULTS/TRIAL, such as results/quickstart/ext4.oltp.s1; `strata show RESULTS --json` lists them"
)


@dataclass(frozen=True)
class Source:
    """A trial's result, its plan, and when it was measured.

    Attributes:
        window_ns: The span of the disks' accounts in the record, on the lab's monotonic clock; None without
            accounts, as on a host.
        workload_title: The workload's declaration in one line.
        study: The study as the results keep it.
        reading: The trial as it was read.
    """

    trial_id: str
    attempt: Attempt
    record: ResultRecord
    plan: Plan
    window_ns: tuple[int, int] | None
    workload_title: str
    study: StudySnapshot | None = None
    reading: Reading | None = None

    def trace(self) -> Trace:
        """The trial's trace; raises `ResultError` if there is none, or it is damaged."""
        return read_trace(self.attempt, self.record.trace)


def find_trials(words: Sequence[str]) -> list[tuple[ResultsFolder, TrialKey]]:
    """The trials that words name: ``RESULTS/TRIAL``, or a results folder and then ids of its trials.

    Raises ResultError if a word names none.
    """
    found: list[tuple[ResultsFolder, TrialKey]] = []
    current: ResultsFolder | None = None
    for word in words:
        path = Path(word)
        if (path / "study.json").is_file():
            current = ResultsFolder.open(path)
            continue
        above = path.parent
        names_folder = (above / "study.json").is_file() and (path.name != word or current is None)
        folder = ResultsFolder.open(above) if names_folder else current
        if folder is None:
            remedy = one_folder(word) or _NAMING
            raise ResultError("this names no trial of a results folder", place=word, remedy=remedy)
        known = {str(trial): trial for trial in folder.study().trials}
        if path.name not in known:
            raise ResultError(
                f'the study has no trial "{path.name}"', place=word, remedy=f"there are: {', '.join(known)}"
            )
        found.append((folder, known[path.name]))
    if not found:
        raise ResultError("no trial was named", place=" ".join(words), remedy=_NAMING)
    return found


def read_source(folder: ResultsFolder, trial: TrialKey) -> Source:
    """A trial's valid result with its plan and window.

    Raises ResultError if it has none, or its files are damaged.
    """
    study = folder.study()
    reading = folder.read_trial(trial, study.trials[trial])
    if reading.record is None or reading.attempt is None or not reading.usable:
        cause = f"the trial has no valid result: {reading.problem}"
        raise ResultError(cause, place=f"{folder.path}/{trial}", remedy="run it with `strata run`")
    plan = _plan(reading.attempt).model_copy(update={"trial": reading.record.trial})
    window_ns = measured_window_ns(plan, read_events(reading.attempt.events_path))
    title = study.workloads[plan.trial.workload].title
    return Source(str(trial), reading.attempt, reading.record, plan, window_ns, title, study, reading)


def spans_ns(source: Source) -> list[tuple[int, int]]:
    """When each operation of the window began and ended, on the clock of the trace; none without a log."""
    if source.study is None:
        return []
    try:
        study = declared_study(source.study, has_inputs=False)
        trial = source.record.trial
        load = study.load(trial.stack, trial.workload, trial.rate)
        if not isinstance(load, LogsThroughput):
            return []
        events = read_events(source.attempt.events_path)
        offset_ns = events.epoch_ns
        return [(begin - offset_ns, end - offset_ns) for begin, end in load.spans_ns(events.outputs())]
    except (StrataError, ValueError, KeyError):
        return []  # the study is not kept, or the load's log is not in these events


def differing(one: Source, two: Source) -> list[str]:
    """What differs in the declarations of two trials, defaults included: ``key: its value → the other's``."""
    if one.study is None or two.study is None or one.reading is None or two.reading is None:
        return []
    first, second = one.reading.trial, two.reading.trial
    naming = Naming({first.stack: second.stack}, {first.workload: second.workload})
    found = differences(one.study, two.study, [(one.reading, two.reading)], naming)
    said = [
        f"{each.name}: {each.first or 'none'} → {each.second or 'none'}"
        for each in found
        if each.area not in {"plans", "host"}
    ]
    return said + ([f"seed: {first.seed} → {second.seed}"] if first.seed != second.seed else [])


def _plan(attempt: Attempt) -> Plan:
    try:
        return Plan.model_validate(json.loads(read_plain(attempt.plan_path)))
    except (OSError, ValueError, ValidationError) as error:
        raise ResultError(
            "the trial's plan cannot be read",
            place=str(attempt.plan_path),
            remedy="run the trial again with `strata run --fresh`",
        ) from error
