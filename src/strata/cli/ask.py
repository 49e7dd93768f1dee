# SPDX-License-Identifier: Apache-2.0
"""``strata ask``: from a few answers to a choice: writes a study, runs it, advises by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.new_study import Use, write_study
from strata.cli.output import notes, print_json, stdout
from strata.cli.parameters import AsJson, Jobs, argument, option
from strata.errors import StudyError
from strata.plan.catalogue import catalogue
from strata.spec.load import load_study
from strata.spec.names import nearest
from strata.spec.study import Study
from strata.units import NS_PER_S, format_duration
from strata.words import counted

if TYPE_CHECKING:
    from strata.advice.model import Advice
    from strata.advice.uses import Use as AdviceUse
    from strata.execution.estimate import Estimate
    from strata.statistics.study import StudyResults

# The use that weighs what a template's study measures.
_ADVISED: Final = {
    Use.HOME_SERVER: "home-server",
    Use.DATABASE_NVME: "postgresql-server",
    Use.FOUR_GUESTS: "vm-host",
}
_SEEDS: Final = 6
_SEEDS_MAX: Final = 100


@dataclass(frozen=True)
class Answers:
    """The disks' models, sizes as text, the number of seeds; None: not given."""

    disks: list[str] | None
    memory: str | None
    data: str | None
    seeds: int | None


def ask(  # noqa: PLR0917  typer makes options of them
    name: Annotated[str, argument("The study's name: NAME.toml is written, or continued.", "NAME")],
    use: Annotated[Use | None, option("What the disks are for.", "--use", "USE")] = None,
    disk: Annotated[
        list[str] | None,
        option("A disk's model, one for all or one each; or this-machine.", "--disk", "MODEL"),
    ] = None,
    memory: Annotated[str | None, option("The machine's memory.", "--memory", "SIZE")] = None,
    data: Annotated[str | None, option("The data in use, on all disks.", "--data", "SIZE")] = None,
    must: Annotated[
        list[str] | None, option("What it must have, such as disk-loss; may be repeated.", "--must", "NAME")
    ] = None,
    seeds: Annotated[
        int | None,
        option(
            f"How often everything is measured. Default: {_SEEDS}.", "--seeds", "N", min=1, max=_SEEDS_MAX
        ),
    ] = None,
    jobs: Jobs = None,
    no_run: Annotated[bool, option("Write the study and say how long it takes.", "--no-run")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask which stack should hold a use: from question to answer.

    It writes a study as `strata new study` does, says how long it will take, runs it in the lab, probes what
    the stacks must survive, and answers in half a page: the choice, how sure it is, what it gives up and
    costs, and the commands that build it, which it does not run. On a terminal it asks for what no option
    says. After an interruption, or when you have changed the file, `strata ask NAME` goes on; repeat --must.
    It takes durable and the probes of `strata capabilities`.

    Examples:
        strata ask home --use home-server --disk generic-nearline-hdd --memory 8GiB --must disk-loss
        strata ask orders --use database-nvme --disk generic-nvme-data-centre --seeds 3
        strata ask guests --use four-guests --disk this-machine --no-run
    """
    wanted, file = _musts(must or []), Path(f"{name}.toml")
    study = _written(file, use, Answers(disk, memory, data, seeds), wanted)
    estimate = _estimate(study)
    took = format_duration(round(estimate.real_s) * NS_PER_S)
    trials = counted(study.trial_count, "trial")
    notes().print(f"{trials}: about {took} with {counted(estimate.jobs, 'lab')} at once", markup=False)
    if no_run:
        if as_json:
            print_json({"study": str(file), "estimate_real_s": round(estimate.real_s, 1)})
        return
    again = " ".join(["strata ask", name, *(f"--must {each}" for each in wanted)])
    results = _run(study, jobs, [each for each in wanted if each != "durable"], again)
    _answer(study, results, _advised(study, use, wanted), file, as_json=as_json)


def _written(file: Path, use: Use | None, answers: Answers, must: Sequence[str]) -> Study:
    """Write the study, unless it is there, and read it; a new one that cannot be answered is deleted."""
    given = [each for each in (answers.disks, answers.memory, answers.data, answers.seeds) if each]
    if is_new := not file.exists():
        _write(str(file).removesuffix(".toml"), use, answers)
    elif given:
        cause = f"the file is there already, and has its own answers, not {given[0]}"
        remedy = "leave the options out to go on, or take another name"
        raise StudyError(cause, place=str(file), remedy=remedy)
    else:
        notes().print(f"Going on with {file}", markup=False)
    study = load_study(file, catalogue())
    try:
        _refuse_contradictions(study, must, file)
    except StudyError:
        if is_new:
            file.unlink()
        raise
    return study


def _write(name: str, use: Use | None, answers: Answers) -> None:
    if use is Use.CI_GATE:
        remedy = f"one of {', '.join(_ADVISED)}; `strata new study` writes a gate"
        raise StudyError("a gate compares two kernels or days, not stacks", place="--use", remedy=remedy)
    seeds = answers.seeds or _SEEDS
    write_study(name, use, answers.disks, answers.memory, answers.data, seeds=seeds, shows=False)


def _musts(names: Sequence[str]) -> list[str]:
    from strata.advice.uses import DURABLE  # noqa: PLC0415  it loads pydantic
    from strata.capabilities.probes import PROBES  # noqa: PLC0415

    known = [DURABLE, *(probe.name for probe in PROBES)]
    for name in names:
        if name not in known:
            raise StudyError(f'there is no capability "{name}"', place="--must", remedy=nearest(name, known))
    return list(dict.fromkeys(names))


def _advised(study: Study, use: Use | None, must: Sequence[str]) -> AdviceUse:
    """The use with the requirements asked for, and with the weights that the study measures."""
    from strata.advice.uses import Need, bundled_uses  # noqa: PLC0415

    uses = bundled_uses(catalogue())
    described = [each.model_dump(mode="json") for each in study.workloads.values()]
    fitting = {
        name: tuple(
            weight
            for weight in found.weights
            if any(pattern.fits(each) for pattern in weight.fits for each in described)
        )
        for name, found in uses.items()
    }
    # A continued study tells by its workloads which use it was written for.
    name = (
        _ADVISED[use]
        if use
        else max(_ADVISED.values(), key=lambda each: sum(w.weight for w in fitting[each]))
    )
    found = uses[name]
    asked = [Need(capability=each, level="required", why="it was asked for") for each in must]
    kept = [need for need in found.needs if need.capability not in must]
    return replace(found, weights=fitting[name], needs=(*asked, *kept))


def _refuse_contradictions(study: Study, must: Sequence[str], file: Path) -> None:
    """Refuse requirements that no stack of the study can meet, before it is run."""
    from strata.spec.redundancy import losses_survived  # noqa: PLC0415

    stacks = study.stacks
    capacities = study.capacities_bytes
    if "disk-loss" in must and not any(losses_survived(each, capacities) for each in stacks.values()):
        disks = max(len(each.all_devices) for each in stacks.values())
        on = "one disk" if disks == 1 else f"{disks} disks"
        raise StudyError(
            f"no stack on {on} survives the loss of any of them, which it must",
            place="--must disk-loss",
            remedy=f"leave it out, or give each stack of {file} a mirror",
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
    from strata.execution.estimate import estimate_of, expected_trials, past_trials  # noqa: PLC0415
    from strata.plan.compile import trials  # noqa: PLC0415

    cells = expected_trials(study, trials(study))
    return estimate_of(study, cells, past_trials(sorted(Path("results").glob("*"))))


def _run(study: Study, jobs: int | None, probes: Sequence[str], again: str) -> StudyResults:
    """Run the missing trials, probe the stacks, gather the results; ``again`` is the command to continue."""
    from strata.capabilities.survey import Survey, chosen_probes  # noqa: PLC0415
    from strata.cli.parameters import RunnerName  # noqa: PLC0415
    from strata.cli.run import display_of, runner_for  # noqa: PLC0415
    from strata.execution.run import run_study  # noqa: PLC0415
    from strata.results.capabilities import FINDINGS_NAME, write_capabilities  # noqa: PLC0415
    from strata.results.store import ResultsFolder  # noqa: PLC0415
    from strata.runners.lab import LabRunner  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

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
        write_capabilities(folder, survey.capabilities(survey.run(list(study.stacks), chosen_probes(probes))))
    return gather(folder)


def _answer(study: Study, results: StudyResults, use: AdviceUse, file: Path, *, as_json: bool) -> None:
    from strata.advice.advise import advise  # noqa: PLC0415
    from strata.plan.commands import build_commands  # noqa: PLC0415
    from strata.report.advice_tables import advice_plain, advices_view  # noqa: PLC0415
    from strata.report.stack_facts import facts_of, facts_table  # noqa: PLC0415
    from strata.report.table import terminal  # noqa: PLC0415
    from strata.results.capabilities import read_capabilities  # noqa: PLC0415
    from strata.results.store import ResultsFolder  # noqa: PLC0415

    place = Path("results") / study.name
    capabilities = read_capabilities(ResultsFolder.open(place))
    [advice] = advise(results, [use], capabilities, evidence=False)
    facts = facts_of(study, capabilities)
    chosen = _chosen(advice)
    commands = build_commands(study, chosen) if chosen else []
    if as_json:
        found: dict[str, Any] = {"study": str(file), "results": str(place), "advice": advice_plain(advice)}
        print_json({**found, "facts": facts, "stack": chosen, "commands": commands})
        return
    console = stdout()
    console.print(advices_view([advice], in_full=False))
    console.print(terminal(facts_table(facts), indent=2))
    if chosen:
        console.print(
            Text(f"\nBuild {chosen} on a machine (shown, not run; it destroys the disks' content):")
        )
        for line in commands:
            console.print(Text(f"  {line}", style="cyan"), soft_wrap=True)
    console.print(
        Text(f"\nEvery figure: strata advise {place} --use {use.name} --evidence; strata report {place}")
    )


def _chosen(advice: Advice) -> str | None:
    """The stack to build: the choice, the first of those to take either of, or the only one that is fit."""
    if advice.leader is not None or advice.take_either:
        return advice.leaders[0]
    return advice.candidates[0] if len(advice.candidates) == 1 else None
