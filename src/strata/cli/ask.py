# SPDX-License-Identifier: Apache-2.0
"""``strata ask``: from a few answers to a choice: writes a study, runs it, advises by it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.padding import Padding
from rich.text import Text

from strata.advice.asked import answer_of
from strata.advice.model import Advice
from strata.advice.uses import bundled_uses
from strata.capabilities.survey import Survey, chosen_probes
from strata.cli.advise import asked_musts
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.new_study import TEMPLATES, Answers, Use, write_study
from strata.cli.output import notes, print_json, print_wrote, stdout, warnings
from strata.cli.parameters import AsJson, Jobs, Musts, RunnerName, argument, option
from strata.cli.run import display_of, finding_bar, runner_for
from strata.cli.sensitivity import experiment_on, seconds_of
from strata.diagnostics.positions import with_values
from strata.errors import ResultError, StrataError, StudyError
from strata.execution.estimate import Estimate, estimate_of, expected_trials, past_trials
from strata.execution.run import run_study
from strata.experiment.run import run_study
from strata.experiment.strategies.sensitivity import Sensitivity
from strata.files import write_durably
from strata.model.asked import Requirement
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.commands import build_commands
from strata.plan.compile import trials
from strata.reading.load import load_study
from strata.report.advice_tables import advices
from strata.report.advice_text import lead
from strata.report.document import Document
from strata.report.findings import sensitivity_sentences
from strata.report.stack_facts import facts_of, facts_table
from strata.report.table import terminal
from strata.results.capabilities import FINDINGS_NAME, read_capabilities, write_capabilities
from strata.results.findings import Finding
from strata.results.store import ResultsFolder
from strata.rules.redundancy import losses_survived
from strata.runners.lab import LabRunner
from strata.statistics.study import StudyResults, gather
from strata.toml import toml_value
from strata.units import NS_PER_S, format_duration
from strata.words import counted
from strata.working import working

SEEDS: Final = 6
_SENSITIVITY: Final = "3m"
_SENSITIVITY_LONG: Final = "20m"
SEEDS_MAX: Final = 100


def ask(  # noqa: PLR0917  typer makes options of them
    name: Annotated[str, argument("The study's name: NAME.toml is written, or continued.", "NAME")],
    use: Annotated[Use | None, option("What the disks are for.", "--use", "USE")] = None,
    disk: Annotated[
        list[str] | None,
        option("A disk's model, one for all or one each; or this-machine.", "--disk", "MODEL"),
    ] = None,
    memory: Annotated[str | None, option("The machine's memory.", "--memory", "SIZE")] = None,
    data: Annotated[str | None, option("The data in use, on all disks.", "--data", "SIZE")] = None,
    price: Annotated[
        list[str] | None,
        option("A disk's price, as '180 EUR'; one for all or one each.", "--price", "AMOUNT"),
    ] = None,
    must: Musts = None,
    seeds: Annotated[
        int | None,
        option(f"How often everything is measured. Default: {SEEDS}.", "--seeds", "N", min=1, max=SEEDS_MAX),
    ] = None,
    sensitivity: Annotated[
        str, option("Real time to look for what would change the answer.", "--sensitivity", "TIME")
    ] = _SENSITIVITY,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Ask which stack should hold a use: from question to answer.

    It writes a study (`strata new study` does only this), says how long it will take, runs it in the lab,
    probes what the stacks must survive, and answers in half a page: the choice, by how much and how sure,
    what it gives up and costs, and what would change it (see `strata sensitivity`). It shows the commands
    that build the choice and does not run them. Without --use it asks, on a terminal, for what no option
    says. After an interruption, or when you have changed the file, `strata ask NAME` goes on. The file keeps
    what was asked (its keys `use` and `must`), and every view of the results begins with the answer; asked
    again with other --use, --must or --seeds it changes the file. --must takes durable and the probes of
    `strata capabilities`.

    Examples:
        strata ask home --use home-server --disk generic-nearline-hdd --memory 8GiB --must disk-loss
        strata ask orders --use database-nvme --disk generic-nvme-data-centre --seeds 3
        strata ask orders --seeds 12    # goes on with six seeds more
    """
    budget_s = seconds_of(sensitivity, "--sensitivity")
    study = question(name, use, Answers(disk, price, memory, data), seeds, asked_musts(must or []))
    with working(f"strata ask {name}"):
        _ask(study, Path(f"{name}.toml"), budget_s, jobs, as_json=as_json)


def question(
    name: str,
    use: Use | None = None,
    answers: Answers = Answers(),  # noqa: B008  it is immutable
    seeds: int | None = None,
    must: Sequence[Requirement] = (),
) -> Study:
    """The study ``NAME.toml``, written, or there already and changed to what is asked of it now."""
    if use is Use.CI_GATE:
        remedy = "name another use; `strata new study` writes a gate"
        raise StudyError("a gate compares two kernels or days, not stacks", place="--use", remedy=remedy)
    file = Path(f"{name}.toml")
    study = _continued(file, use, answers, seeds, must)
    if study is None:
        study = new_study(name, use, answers, must, seeds or SEEDS)
        print_wrote(file)
    return study


def _ask(study: Study, file: Path, budget_s: float, jobs: int | None, *, as_json: bool) -> None:
    """Say how long it will take, run it and answer."""
    forecast(study, jobs, budget_s)
    question = _Question(study, file, budget_s, jobs)
    results = _run(study, jobs, [each for each in study.must if each != "durable"], question.again)
    _answer(question, results, as_json=as_json)


def forecast(study: Study, jobs: int | None = None, budget_s: float = 0) -> float:
    """Say how long the trials and the search after them will take; the real seconds of the trials."""
    estimate = _estimate(study)
    at_once = min(jobs or estimate.jobs, estimate.jobs)
    real_s = estimate.real_s * estimate.jobs / at_once
    took, more = (format_duration(round(each) * NS_PER_S) for each in (real_s, budget_s))
    trials, labs = counted(study.trial_count, "trial"), counted(at_once, "lab")
    then = f"; then at most {more} for what would change the answer" if budget_s else ""
    notes().print(f"{trials}: about {took} with {labs} at once{then}", markup=False)
    return real_s


def new_study(
    name: str, use: Use | None, answers: Answers, must: Sequence[Requirement], seeds: int = SEEDS
) -> Study:
    """Write the study, and read it; one that cannot be answered is deleted."""
    file = write_study(name, use, answers, must=must, seeds=seeds)
    study = load_study(file, catalogue())
    try:
        _refuse_contradictions(study, must, file)
    except StudyError:
        file.unlink()
        raise
    return study


def _continued(
    file: Path, use: Use | None, answers: Answers, seeds: int | None, must: Sequence[Requirement]
) -> Study | None:
    """The study that is there already, with what is asked of it now; None if there is none.

    Raises StudyError for answers that would make another study of it.
    """
    if not file.exists():
        return None
    given = [each for each in (answers.disks, answers.prices, answers.memory, answers.data) if each]
    if given:
        cause = f"the file is there already, and has its own answers, not {given[0]}"
        remedy = "leave the options out to go on, or take another name"
        raise StudyError(cause, place=str(file), remedy=remedy)
    notes().print(f"Going on with {file}", markup=False)
    study = load_study(file, catalogue())
    _refuse_contradictions(study, must or study.must, file)
    asked = {
        "use": TEMPLATES[use].advised if use is not None else study.use or _measured_use(study),
        "must": list(must or study.must),
        "seeds": list(study.seeds if seeds is None else _extended(study.seeds, seeds)),
    }
    has = {"use": study.use, "must": list(study.must), "seeds": list(study.seeds)}
    changed = {key: value for key, value in asked.items() if value != has[key]}
    if not changed:
        return study
    try:
        write_durably(file, with_values(file.read_text(), "study", changed).encode())
    except ValueError as error:
        remedy = f"write them yourself: {'; '.join(_assigned(changed))}"
        raise StudyError("its keys cannot be changed", place=str(file), remedy=remedy) from error
    for line in _assigned(changed):
        notes().print(f"{file}: {line}", markup=False, soft_wrap=True)
    return load_study(file, catalogue())


def _assigned(changed: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key} = {toml_value(value)}" for key, value in changed.items())


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


def _refuse_contradictions(study: Study, must: Sequence[str], file: Path) -> None:
    """Refuse requirements that no stack of the study can meet, before it is run."""
    stacks = study.stacks
    capacities = study.capacities_bytes
    if "disk-loss" in must and not any(losses_survived(each, capacities) for each in stacks.values()):
        disks = max(len(each.all_devices) for each in stacks.values())
        on = "one disk" if disks == 1 else f"{disks} disks"
        raise StudyError(
            f"no stack on {on} survives the loss of any of them, which it must",
            place="--must disk-loss",
            remedy=f"leave it out, or write {file} by `strata new study` and give its stacks a mirror",
        )
    lossy = [
        name for name in stacks if any(study.power_risks(name, workload) for workload in study.workloads)
    ]
    if "durable" in must and len(lossy) == len(stacks):
        raise StudyError(
            "every stack gives away what it acknowledged when the power fails, and must not",
            place="--must durable",
            remedy=f"`strata check {file}` names the settings; leave one stack without them",
        )


def _estimate(study: Study) -> Estimate:
    cells = expected_trials(study, trials(study))
    return estimate_of(study, cells, past_trials(sorted(Path("results").glob("*"))))


def _run(study: Study, jobs: int | None, probes: Sequence[str], again: str) -> StudyResults:
    """Run the missing trials, probe the stacks, gather the results; ``again`` is the command to continue."""
    place = Path("results") / study.name
    runner = runner_for(RunnerName.LAB, None, place)
    summary = run_study(
        study, place, runner, display_of(runner, place), jobs=jobs, command=f"strata run {study.file.name}"
    )
    if summary.signal_number is not None:
        notes().print(f"Interrupted; go on with: {again}", markup=False)
        raise typer.Exit(INTERRUPTED_EXIT)
    folder = ResultsFolder.open(place)
    if probes and isinstance(runner, LabRunner):
        survey = Survey(study, runner, folder.path / FINDINGS_NAME)
        chosen = chosen_probes(probes)
        with finding_bar("probing what the stacks must have", len(study.stacks) * len(chosen)) as count:
            cells = survey.run(list(study.stacks), chosen, jobs=jobs, finished=count)
        write_capabilities(folder, survey.capabilities(cells))
    return gather(folder)


@dataclass(frozen=True)
class _Question:
    """What was asked, with the real time to look for what would change the answer."""

    study: Study
    file: Path
    budget_s: float
    jobs: int | None

    @property
    def again(self) -> str:
        """The command that asks it once more."""
        return f"strata ask {self.file.with_suffix('')}"


def _answer(question: _Question, results: StudyResults, *, as_json: bool) -> None:
    """Print the answer, then look for what would change it, then print that and the commands."""
    study = question.study
    place = Path("results") / study.name
    folder = ResultsFolder.open(place)
    capabilities = read_capabilities(folder)
    advice = answer_of(results, capabilities)
    assert advice is not None, "the file has a use"
    facts = facts_of(study, capabilities)
    if not as_json:
        console = stdout()
        console.print(Document([*advices([advice])]))
        console.print(terminal(facts_table(facts), indent=2))
    chosen = _chosen(advice)
    commands = build_commands(study, chosen) if chosen else []
    changes, interrupted = _changes(question, folder, results, advice)
    if as_json:
        found = {"study": question.file, "results": place, "advice": advice, "facts": facts}
        print_json(found, lead=lead(advice), tipping=changes, stack=chosen, commands=commands)
    else:
        _print_rest(question, advice, changes, commands)
        every = f"strata advise {place} --use {advice.use.name} --evidence; strata report {place}"
        stdout().print(Text(f"\nEvery figure: {every}"), soft_wrap=True)
    if interrupted:
        raise typer.Exit(INTERRUPTED_EXIT)


def _print_rest(
    question: _Question, advice: Advice, changes: Finding | None, commands: Sequence[str]
) -> None:
    console = stdout()
    if changes is not None:
        console.print(Text("\nWhat would change the answer, the nearest first:"))
        for sentence in sensitivity_sentences(changes) or ["Nothing was tried in this time."]:
            console.print(Padding(Text(f"- {sentence}"), (0, 0, 0, 2)))
        if not changes.whole:
            goes_on = f"{question.again} --sensitivity {_SENSITIVITY_LONG}"
            console.print(Text(f"  {goes_on} tries more."), soft_wrap=True)
    if commands:
        is_sure = advice.leader is not None or advice.take_either or not advice.leaders
        leads = "" if is_sure else ", which leads, though that is not settled,"
        shown = (
            f"\nBuild {_chosen(advice)}{leads} on a machine (shown, not run; it destroys the disks' content):"
        )
        console.print(Text(shown))
        for line in commands:
            console.print(Text(f"  {line}", style="cyan"), soft_wrap=True)


def _changes(
    question: _Question, folder: ResultsFolder, results: StudyResults, advice: Advice
) -> tuple[Finding | None, bool]:
    """What would change the answer, as far as the time allows, and whether the user interrupted.

    None without an answer that could change.
    """
    strategy = Sensitivity(folder, results, advice, question.study)
    try:
        strategy.answered  # noqa: B018  it may refuse
    except ResultError:
        return None, False
    try:
        experiment = experiment_on(folder, partial(_same, question.study), question.budget_s, question.jobs)
        return experiment.answer(strategy), experiment.interrupted
    except StudyError:  # the time does not suffice for one value
        pass
    except StrataError as error:  # the answer and the commands stand without this search
        warnings().print(f"What would change the answer was not found: {error}", markup=False, soft_wrap=True)
    return replace(strategy, study=None).finding((), whole=False), False


def _same(study: Study, changes: Mapping[str, Any]) -> Study:
    assert not changes, "a sensitivity changes values alone"
    return study


def _chosen(advice: Advice) -> str | None:
    """The stack to build: the choice, the first of those in front, or the only one that is fit."""
    if advice.leaders:
        return advice.leaders[0]
    return advice.candidates[0] if len(advice.candidates) == 1 else None
