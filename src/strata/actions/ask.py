# SPDX-License-Identifier: Apache-2.0
"""From a question to an answer: a study is written or continued, run, advised on, and its answer varied."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from strata.actions import run as running
from strata.actions.new_study import (
    SEEDS,
    TEMPLATES,
    Answers,
    NewStudy,
    StudyUse,
    refuse_contradictions,
    write_study,
)
from strata.actions.run import NOBODY, Listener
from strata.actions.vary import experiment_on
from strata.advice.asked import answer_of
from strata.advice.model import Advice
from strata.advice.uses import bundled_uses
from strata.diagnostics.positions import with_values
from strata.errors import ResultError, StrataError, StudyError
from strata.execution.estimate import estimate_of, expected_trials, past_trials
from strata.execution.pool import Labs
from strata.experiment.strategies.sensitivity import Sensitivity
from strata.experiment.survey import Survey, chosen_probes
from strata.files import write_durably
from strata.lab import find_lab
from strata.model.asked import Requirement
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.commands import build_commands
from strata.plan.compile import trials
from strata.reading.load import load_study
from strata.report.stack_facts import StackFacts, facts_of
from strata.results.findings import Finding, read_capabilities
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled
from strata.runners.lab import LabRunner
from strata.runners.name import RunnerName
from strata.statistics.study import StudyResults, gather
from strata.toml import toml_value


@dataclass(frozen=True)
class Asked:
    """A question as a study, with what was written now, or the keys of ``[study]`` that were changed."""

    study: Study
    written: NewStudy | None = None
    changed: Mapping[str, Any] = field(default_factory=dict)


def question(
    name: str,
    use: StudyUse | None = None,
    answers: Answers = Answers(),  # noqa: B008  it is immutable
    seeds: int | None = None,
    must: Sequence[Requirement] = (),
) -> Asked:
    """The study ``NAME.toml``, written, or there already and changed to what is asked of it now.

    Raises StudyError for answers that would make another study of one that is there, for a use that compares
    no stacks, and for requirements that no stack can meet.
    """
    file = Path(f"{name}.toml")
    if use is StudyUse.CI_GATE:
        remedy = "name another use; `strata new study` writes a gate"
        raise StudyError("a gate compares two kernels or days, not stacks", place="--use", remedy=remedy)
    if not file.exists():
        if use is None:
            raise StudyError("no use is named", place="--use", remedy=f"one of {', '.join(StudyUse)}")
        written = write_study(name, use, answers, must, seeds or SEEDS)
        return Asked(written.study, written)
    if given := [each for each in (answers.disks, answers.prices, answers.memory, answers.data) if each]:
        cause = f"the file is there already, and has its own answers, not {given[0]}"
        remedy = "leave the options out to go on, or take another name"
        raise StudyError(cause, place=str(file), remedy=remedy)
    return _continued(load_study(file, catalogue()), use, seeds, must)


def _continued(study: Study, use: StudyUse | None, seeds: int | None, must: Sequence[Requirement]) -> Asked:
    refuse_contradictions(study, must or study.must)
    asked = {
        "use": TEMPLATES[use].advised if use is not None else study.use or _measured_use(study),
        "must": list(must or study.must),
        "seeds": list(study.seeds if seeds is None else _extended(study.seeds, seeds)),
    }
    has = {"use": study.use, "must": list(study.must), "seeds": list(study.seeds)}
    changed = {key: value for key, value in asked.items() if value != has[key]}
    if not changed:
        return Asked(study)
    try:
        write_durably(study.file, with_values(study.file.read_text(), "study", changed).encode())
    except ValueError as error:
        keys = "; ".join(f"{key} = {toml_value(value)}" for key, value in changed.items())
        raise StudyError(
            "its keys cannot be changed", place=str(study.file), remedy=f"write them yourself: {keys}"
        ) from error
    return Asked(load_study(study.file, catalogue()), changed=changed)


def _extended(seeds: Sequence[int], count: int) -> list[int]:
    """This number of seeds: the study's, and then the lowest others."""
    others = (seed for seed in itertools.count(1) if seed not in seeds)
    return [*seeds[:count], *itertools.islice(others, max(0, count - len(seeds)))]


def _measured_use(study: Study) -> str:
    """Of the templates' uses, the one for which a study without a use measures most."""
    uses = bundled_uses(catalogue())
    described = [each.model_dump(mode="json") for each in study.workloads.values()]

    def measured(name: str) -> float:
        return sum(
            weight.weight
            for weight in uses[name].weights
            if any(pattern.fits(each) for pattern in weight.fits for each in described)
        )

    return max(filter(None, (each.advised for each in TEMPLATES.values())), key=measured)


def lab_kernel() -> str | None:
    """The hash of the kernel of this machine's lab; None: there is no lab."""
    lab = find_lab()
    return None if lab is None else lab.kernel.sha256


@dataclass(frozen=True)
class Expected:
    """The real time of a study's trials, with this number of labs at once."""

    trials: int
    real_s: float
    labs: int


def expected(study: Study, jobs: Labs = None) -> Expected:
    """Estimate the real time of a study, by similar trials of the folders in ./results or rules of thumb."""
    past = past_trials(sorted(running.RESULTS.glob("*")))
    estimate = estimate_of(study, expected_trials(study, trials(study)), past)
    if jobs is None or isinstance(jobs, int):
        labs = min(jobs or estimate.jobs, estimate.jobs)
    else:
        labs = jobs.labs(estimate.lab_bytes)
    return Expected(study.trial_count, estimate.real_s * estimate.jobs / labs, labs)


def run_question(study: Study, jobs: Labs = None, listener: Listener = NOBODY) -> ResultsFolder:
    """Run the missing trials, and probe the stacks for what they must have. Raises Cancelled."""
    place = running.RESULTS / study.name
    runner = running.runner_for(RunnerName.LAB, place, listener=listener)
    command = shlex.join(["strata", "run", str(study.file)])
    ran = running.carry_out(study, place, runner, listener, jobs=jobs, command=command)
    if ran.summary.signal_number is not None or not ran.survived:
        raise Cancelled
    folder = ResultsFolder.open(place)
    probes = [each for each in study.must if each != "durable"]
    if probes and isinstance(runner, LabRunner):
        survey = Survey(study, runner, folder, list(study.stacks), chosen_probes(probes))
        running.surveyed(survey, "probing what the stacks must have", listener, jobs)
    return folder


@dataclass(frozen=True)
class AskedChoice:
    """An answer: the advice, each stack's facts, and the stack to build with the commands that build it."""

    results: StudyResults
    advice: Advice
    facts: Sequence[StackFacts]
    stack: str | None
    commands: Sequence[str]


def answer(study: Study, folder: ResultsFolder) -> AskedChoice:
    """Answer the use that the study asks of its results."""
    results, capabilities = gather(folder), read_capabilities(folder)
    advice = answer_of(results, capabilities)
    assert advice is not None, "the file has a use"
    stack = stack_to_build(advice)
    commands = build_commands(study, stack) if stack else []
    return AskedChoice(results, advice, facts_of(study, capabilities), stack, commands)


@dataclass(frozen=True)
class Next:
    """The seeds to measure next, since those so far do not decide, and the real time of the added trials."""

    seeds: int
    real_s: float


def next_step(study: Study, chosen: AskedChoice, jobs: Labs = None) -> Next | None:
    """What would settle an undecided answer: as many seeds as it may take, twice as many as now at the most.

    None: more seeds are not what it lacks.
    """
    wanted = next((each.seeds for each in chosen.advice.settling if each.seeds), 0)
    seeds = _extended(study.seeds, min(wanted, 2 * len(study.seeds)))
    added = tuple(each for each in seeds if each not in study.seeds)
    return Next(len(seeds), expected(replace(study, seeds=added), jobs).real_s) if added else None


def stack_to_build(advice: Advice) -> str | None:
    """The stack to build: the choice, the first of those in front, or the only one that is fit."""
    if advice.leaders:
        return advice.leaders[0]
    return advice.candidates[0] if len(advice.candidates) == 1 else None


@dataclass(frozen=True)
class Changes:
    """What would change an answer; None: nothing could, or it was not found for the reason in ``failure``."""

    finding: Finding | None = None
    interrupted: bool = False
    failure: StrataError | None = None


def changes(  # noqa: PLR0917
    study: Study,
    folder: ResultsFolder,
    chosen: AskedChoice,
    budget_s: float,
    jobs: Labs = None,
    listener: Listener = NOBODY,
) -> Changes:
    """Vary what the answer rests on, as far as the time allows; weights alone if it allows no trial."""
    strategy = Sensitivity(folder, chosen.results, chosen.advice, study)
    failure = None
    try:
        strategy.rivalry  # noqa: B018  it may refuse
    except ResultError:
        return Changes()
    try:
        experiment = experiment_on(folder, partial(_same, study), budget_s, jobs, listener)
        return Changes(experiment.answer(strategy), experiment.interrupted)
    except StudyError:  # the time does not suffice for one value
        pass
    except StrataError as error:  # the answer and the commands stand without this search
        failure = error
    return Changes(replace(strategy, study=None).finding((), whole=False), failure=failure)


def _same(study: Study, changes: Mapping[str, Any]) -> Study:
    assert not changes, "a sensitivity changes values alone"
    return study
