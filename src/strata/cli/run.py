# SPDX-License-Identifier: Apache-2.0
"""``strata run``: carry out a study."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from strata.actions.real_disks import real_disks, scratch_beside
from strata.advice.asked import answer_of
from strata.capabilities.power_cuts import drawn_cuts
from strata.capabilities.survey import Survey, chosen_probes
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import notes, print_json, setup_progress, stdout, task_bar, warnings
from strata.cli.parameters import (
    WHOLE,
    AsJson,
    AtScale,
    Jobs,
    OnRunner,
    RunnerName,
    Scratch,
    StudyFile,
    asked_scale,
    option,
)
from strata.errors import LabError, StrataError, StudyError, ToolError
from strata.execution.agenda import RETRIES
from strata.execution.display import Display, display_for
from strata.experiment.run import Summary, run_study
from strata.lab import ESSENTIAL, ensure_lab, find_entry, find_lab, project_root, require_lab
from strata.lab.programs import AgentBuild, LoadBuild
from strata.lab.variant import lock_packages
from strata.model.consent import consent
from strata.model.study import Study
from strata.model.workload import loads_of
from strata.plan.catalogue import catalogue
from strata.plan.compile import trials
from strata.reading.load import load_study
from strata.report.survival import survival_tables
from strata.report.table import terminal
from strata.report.terminal import study_view
from strata.results.capabilities import (
    FINDINGS_NAME,
    Capability,
    PowerCutFinding,
    read_capabilities,
    write_capabilities,
)
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled, Runner
from strata.runners.disks import RealDisks
from strata.runners.host import HostRunner
from strata.runners.lab import STALL_LIMIT_S, LabRunner
from strata.statistics.study import gather
from strata.units import NS_PER_S, format_duration, format_share, parse_duration, percent
from strata.words import counted, listed

_STALL_LIMIT: Final = f"{STALL_LIMIT_S:g}s"


Retries = Annotated[int, option("Host: how often a disturbed trial is repeated.", "N", min=0, max=100)]
AllowCommands = Annotated[
    bool, option("Host: run the programs that the study names, as nobody.", "--allow-commands")
]
AllowContainers = Annotated[
    bool, option("Host: start the study's containers, outside of the sandbox's filter.", "--allow-containers")
]
StallLimit = Annotated[str, option("Lab: end it after this processor time without virtual progress.", "TIME")]

AsDisks = Annotated[
    list[str] | None, option("Host: a real disk for a study's device.", "--disk", "NAME=DISK")
]
Erase = Annotated[
    list[str] | None, option("Host: erase the named disk with this serial.", "--erase", "SERIAL")
]


def run(  # noqa: PLR0917  typer makes options of them
    study: StudyFile,
    results: Annotated[Path | None, option("Folder for the results. Default: results/NAME.", "DIR")] = None,
    runner: OnRunner = RunnerName.LAB,
    scratch: Scratch = None,
    jobs: Jobs = None,
    trial: Annotated[str | None, option("Only trials whose id matches, such as 'xfs.*.s1'.", "GLOB")] = None,
    fresh: Annotated[bool, option("Also run trials that have a valid result.", "--fresh")] = False,
    retries_disturbed: Retries = RETRIES,
    build: Annotated[bool, option("Build the lab first if it is not there.", "--build")] = False,
    stall_limit: StallLimit = _STALL_LIMIT,
    scale: AtScale = WHOLE,
    disk: AsDisks = None,
    erase: Erase = None,
    allow_commands: AllowCommands = False,
    allow_containers: AllowContainers = False,
    as_json: AsJson = False,
) -> None:
    """Run a study, or what is missing of its results.

    Trials that have a valid result of the same specification and the same lab are skipped. After an
    interruption the same command goes on where it stopped.

    Examples:
        strata run studies/quickstart.toml
        strata run studies/quickstart.toml --trial 'ext4.*'
        strata run studies/quickstart.toml --scale 10%
        sudo strata run studies/quickstart.toml --runner host --scratch /srv/scratch
        sudo strata run study.toml --runner host --disk disk0=/dev/disk/by-id/ata-MODEL_SERIAL
    """
    read, words = _read(study, runner, scale, commands=allow_commands, containers=allow_containers)
    place = results or Path("results") / read.name
    disks = real_disks(read, disk, erase, host=runner is RunnerName.HOST, scratch=scratch, place=place)
    for name, lost in disks.losses:
        warnings().print(Text(f"{name}: will be erased: {lost}", "red"), soft_wrap=True)
    read = load_study(study, catalogue(), disks.devices, scale=read.scale).on_host() if disks.chosen else read
    where, limit_s = scratch_beside(disks, read, scratch), _stall_limit_s(stall_limit)
    carrier = runner_for(runner, where, place, disks=disks, stall_limit_s=limit_s, build=build)
    notes().print(_begun(read, runner, place), markup=False, soft_wrap=True)
    summary = run_study(
        *(read, place, carrier, display_of(carrier, place)),
        jobs=jobs,
        only=trial,
        fresh=fresh,
        retries=retries_disturbed,
        # Reports name the command, without this machine's paths, so that they are the same everywhere.
        command=shlex.join(["strata", "run", study.name, *words]),
    )
    ended = trial is not None or summary.signal_number is not None or _survive(read, carrier, place, jobs)
    if as_json:
        print_json(summary, results=place)
    else:
        given = {"disk": disk, "erase": erase, "results": results, "scratch": scratch, "jobs": jobs}
        limits = {"trial": trial, "stall-limit": stall_limit, "retries-disturbed": retries_disturbed}
        _conclude(read, summary, place, _again(study, words, {**given, **limits}))
    raise typer.Exit(summary.exit_code if ended else INTERRUPTED_EXIT)


def _begun(study: Study, runner: RunnerName, place: Path) -> str:
    how = "in virtual time" if runner is RunnerName.LAB else "on this machine's kernel, in wall time"
    return f"{study.name}: {counted(len(trials(study)), 'trial')} {how}, results in {place}"


def _read(file: Path, runner: RunnerName, scale: str, **allowed: bool) -> tuple[Study, list[str]]:
    """A study as the runner can carry it out, and the options that this takes."""
    share = asked_scale(scale)
    study = load_study(file, catalogue(), scale=share)
    words = [*consent().words(), *([] if share == 1 else ["--scale", scale])]
    if runner is RunnerName.HOST:
        _refuse_survival(study)
        study = study.on_host()
        return study, [*words, "--runner", "host", *permissions(study, allowed)]
    if lock_packages(study, setup_progress()):
        study = load_study(file, catalogue(), scale=share)
    return study, words


def _refuse_survival(study: Study) -> None:
    if study.survival is not None:
        raise ToolError(
            "survival is measured in the lab alone: a host's power and disks cannot fail and return",
            place="survival",
            remedy="leave the table out, or leave out --runner host",
        )


def _survive(study: Study, carrier: Runner, place: Path, jobs: int | None) -> bool:
    """Try the failures of ``[survival]`` and keep the findings; whether it came to its end."""
    wanted = study.survival
    if wanted is None or not isinstance(carrier, LabRunner):
        return True

    folder = ResultsFolder.open(place)
    survey = Survey(study, carrier, folder.path / FINDINGS_NAME)
    probes = chosen_probes(wanted.probes()) if wanted.probes() else []
    total = len(probes) * len(study.stacks) + len(list(drawn_cuts(study, wanted)))
    try:
        with finding_bar("trying the failures of [survival]", total) as count:
            cuts = survey.cut(wanted, jobs=jobs, finished=count)
            cells = survey.run(list(study.stacks), probes, jobs=jobs, finished=count)
    except Cancelled:
        warnings().print("Interrupted; the findings are kept, and the same command goes on.")
        return False
    write_capabilities(folder, survey.capabilities(cells, cuts))
    return True


@contextmanager
def finding_bar(description: str, total: int) -> Iterator[Callable[[Capability | PowerCutFinding], None]]:
    """A progress bar, and the function that says what a probe or a power cut found."""
    with task_bar(description, total) as update:
        yield lambda found: update(advance=1, description=_found_words(found))


def _found_words(found: Capability | PowerCutFinding) -> str:
    if isinstance(found, Capability):
        return f"{found.stack}, {found.probe}: {found.verdict}"
    return f"{found.stack} under {found.workload}, power cut {found.number}: {found.verdict}"


def permissions(study: Study, allowed: Mapping[str, bool]) -> list[str]:
    """The options that the study needs on a host. Raises ToolError if one is needed and not given."""
    running = [
        name
        for name, workload in study.workloads.items()
        if any(each.needs_permission for each in loads_of(workload))
    ]
    contained = [
        name
        for name, stack in study.stacks.items()
        if any("container:nspawn" in layer.needs().features for layer in stack.every_layer)
    ]
    asked = {
        "commands": (running, "runs programs of its own on this machine: workloads"),
        "containers": (contained, "has systemd-nspawn started as root on this machine: stacks"),
    }
    for what, (names, does) in asked.items():
        if names and not allowed[what]:
            raise ToolError(
                f"the study {does} {listed(names)}",
                place="--runner host",
                remedy=f"read `strata plan`; then add --allow-{what}, or leave out --runner host",
            )
    return [f"--allow-{what}" for what, (names, _) in asked.items() if names]


def _again(study: Path, words: list[str], options: Mapping[str, object]) -> str:
    """The command that continues a run, without ``--fresh``, which would run finished trials again."""
    defaults = {"stall-limit": _STALL_LIMIT, "retries-disturbed": RETRIES}
    for name, value in options.items():
        for each in value if isinstance(value, list) else [] if value == defaults.get(name) else [value]:
            words = [*words, f"--{name}", str(each)]
    return shlex.join(["strata", "run", str(study), *words])


def display_of(carrier: Runner, place: Path) -> Display:
    """The display of a run, with the durations of earlier trials in the folder."""
    return display_for(notes(), virtual=carrier.time_domain == "virtual", known=_known(place))


def runner_for(
    name: RunnerName,
    scratch: Path | None,
    results: Path,
    *,
    disks: RealDisks | None = None,
    stall_limit_s: float = STALL_LIMIT_S,
    build: bool = False,
) -> Runner:
    """The runner; on a host its journal stands among the results. Raises ToolError, LabError."""
    if name is RunnerName.HOST:
        if scratch is None:
            raise ToolError(
                "the host runner needs a folder for the files behind its loop devices",
                place="--scratch",
                remedy="add for example --scratch /srv/scratch, on the disk that is to be measured; or name "
                "real disks by --disk",
            )
        agent = _agent(build=build)
        load = find_entry("load", project_root())
        return HostRunner(
            agent,
            scratch=scratch,
            journal=results,
            disks=disks,
            load=None if load is None else LoadBuild.of(load),
            progress=setup_progress(),
        )
    if scratch is not None:
        raise ToolError(
            "--scratch is for the host runner", place="--scratch", remedy="add --runner host, or leave it out"
        )
    lab = find_lab()
    if build and lab is None:
        lab = ensure_lab(setup_progress(), only=ESSENTIAL)
    return LabRunner(lab or require_lab(), stall_limit_s=stall_limit_s, progress=setup_progress())


def _agent(*, build: bool) -> AgentBuild:
    """The agent; the host runner needs neither kernel nor image."""
    entry, load = (find_entry(part, project_root()) for part in ("agent", "load"))
    if build and (entry is None or load is None):
        ensure_lab(setup_progress(), only=("agent", "load"))
        entry = find_entry("agent", project_root())
    if entry is None:
        raise LabError("the agent must be built first", remedy="run `strata lab build --only agent`")
    return AgentBuild.of(entry)


def _stall_limit_s(text: str) -> float:
    remedy = 'write for example "--stall-limit 120s"'
    try:
        limit_ns = parse_duration(text)
    except ValueError as error:
        raise StudyError(str(error), place="--stall-limit", remedy=remedy) from error
    if limit_ns < NS_PER_S:
        raise StudyError(f"{text} is too short; the least is 1s", place="--stall-limit", remedy=remedy)
    return limit_ns / NS_PER_S


def _known(place: Path) -> Iterator[ResultRecord]:
    """One earlier result of every cell, for the expected duration of its trials."""
    with suppress(StrataError):  # the run itself reports a bad folder
        for reading in ResultsFolder.open(place).one_of_each_cell():
            if reading.record is not None:
                yield reading.record


def _conclude(study: Study, summary: Summary, place: Path, command: str) -> None:
    """Print the table, the place of the results, and what to type next."""
    console, errors = notes(), warnings()
    folder = ResultsFolder.open(place)
    results, capabilities = gather(folder), read_capabilities(folder)
    stdout().print(study_view(results, [], answer_of(results, capabilities)))
    for table in survival_tables(capabilities, results) if study.survival is not None else ():
        stdout().print(terminal(table))
    for trial, reasons in summary.invalid.items():
        errors.print(Text(f"{trial}: invalid: {reasons[0]}", style="red"), soft_wrap=True)
    for cell, why in summary.skipped.items():
        console.print(Text(f"{cell}: skipped: {why}", style="yellow"), soft_wrap=True)
    _print_precision(console, study, summary)
    parts = [f"{len(summary.valid)} measured in {format_duration(summary.duration_s * NS_PER_S)}"]
    kept = "skipped, as their results are there already (--fresh runs them again)"
    if summary.prepared or summary.found_prepared:
        parts.append(
            f"disks prepared {summary.prepared} times, found prepared {summary.found_prepared} times"
        )
    counts = ((summary.kept, kept), (summary.invalid, "failed"), (summary.unrun, "not run"))
    parts += [f"{len(several)} {what}" for several, what in counts if several]
    console.print(Text(f"{'; '.join(parts)}. Results: {place}"), soft_wrap=True)
    if summary.signal_number is not None:
        errors.print(Text(f"Interrupted; go on with: {command}"), soft_wrap=True)
    elif summary.invalid:
        console.print(Text(f"Try the failed trials again: {command}"), soft_wrap=True)
    else:
        console.print(Text(f"Next: strata report {shlex.quote(str(place))}"), soft_wrap=True)


def _print_precision(console: Console, study: Study, summary: Summary) -> None:
    """Print the added seeds, and the cells that are less precise than the study asks."""
    for workload, seeds in summary.added_seeds.items():
        why = f"added for a precision of ±{format_share(study.precision or 0)}"
        console.print(Text(f"{workload}: {why}: seeds {', '.join(map(str, seeds))}"), soft_wrap=True)
    for cell, width in summary.not_converged.items():
        seeds_used = len(study.seeds) + len(summary.added_seeds.get(cell.workload, ()))
        reached = "no interval" if math.isinf(width) else f"±{percent(width)}"
        text = f"{cell}: not converged: {reached} after {seeds_used} seeds"
        console.print(Text(text, style="yellow"), soft_wrap=True)
    if summary.not_converged and summary.signal_number is None:
        remedy = f"  raise study.seeds_max ({study.seeds_max}) or study.precision, and run it again"
        console.print(Text(remedy, style="yellow"), soft_wrap=True)
