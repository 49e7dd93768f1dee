# SPDX-License-Identifier: Apache-2.0
"""``strata run``: carry out a study."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from strata.cli.application import examples
from strata.cli.disks import AsDisks, Erase, real_disks, scratch_beside
from strata.cli.output import notes, print_json, results, setup_progress
from strata.console import Terminal
from strata.errors import LabError, StrataError, StudyError, ToolError
from strata.execution.display import Display, display_for
from strata.execution.disturbed import RETRIES
from strata.execution.precision import Unconverged, stated
from strata.execution.run import Summary, run_study
from strata.lab import ESSENTIAL, ensure_lab, find_entry, find_lab, project_root, require_lab
from strata.lab.agent import AgentBuild
from strata.lab.load import LoadBuild
from strata.plan.catalogue import catalogue
from strata.plan.compile import trials
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.base import Runner
from strata.runners.disks import RealDisks
from strata.runners.host import HostRunner
from strata.runners.lab import STALL_LIMIT_S, LabRunner
from strata.spec.load import load_study
from strata.spec.study import Study
from strata.units import NS_PER_S, format_duration, format_share, parse_duration, percent

_STALL_LIMIT: Final = f"{STALL_LIMIT_S:g}s"


class RunnerName(StrEnum):
    """Where trials are carried out."""

    LAB = "lab"
    HOST = "host"


OnRunner = Annotated[RunnerName, typer.Option(help="In the lab, or on this machine.")]
Scratch = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Host: folder for the files behind loop devices.")
]
Jobs = Annotated[
    int | None, typer.Option(min=1, max=1024, metavar="N", help="Labs at once. Default: one per CPU.")
]

Retries = Annotated[
    int,
    typer.Option(min=0, max=100, metavar="N", help="Host: how often a disturbed trial is measured again."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "run",
        epilog=examples(
            "strata run studies/quickstart.toml",
            "strata run studies/quickstart.toml --trial 'ext4.*'",
            "sudo strata run studies/quickstart.toml --runner host --scratch /srv/scratch",
            "sudo strata run study.toml --runner host --disk disk0=/dev/disk/by-id/ata-MODEL_SERIAL",
        ),
    )(run)


def run(  # noqa: PLR0917  typer makes options of them
    study: Annotated[Path, typer.Argument(help="A study file.", metavar="STUDY")],
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results. Default: results/NAME.")
    ] = None,
    runner: OnRunner = RunnerName.LAB,
    scratch: Scratch = None,
    jobs: Jobs = None,
    trial: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Only the trials whose id matches, such as 'xfs.*.s1'.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run also what has a valid result.")] = False,
    retries_disturbed: Retries = RETRIES,
    build: Annotated[bool, typer.Option("--build", help="Build the lab first if it is not there.")] = False,
    stall_limit: Annotated[
        str, typer.Option(metavar="TIME", help="Lab: end it when virtual time stands still for so long.")
    ] = _STALL_LIMIT,
    disk: AsDisks = None,
    erase: Erase = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was done, as JSON.")] = False,
) -> None:
    """Run a study, or what is missing of its results.

    Trials that have a valid result of the same specification and the same lab are skipped. Interrupted at any
    point, the same command goes on where it stopped.
    """
    read = load_study(study, catalogue())
    place = results or Path("results") / read.name
    console = notes()
    limit_s = _stall_limit_s(stall_limit)
    host = runner is RunnerName.HOST
    disks = real_disks(read, disk, erase, host=host, scratch=scratch, place=place)
    if disks.chosen:
        read = load_study(study, catalogue(), disks.devices)
    where = scratch_beside(disks, read, scratch)
    carrier = runner_for(runner, where, place, disks=disks, stall_limit_s=limit_s, build=build)
    display = display_of(carrier, place)
    _announce(console, read, place, carrier)
    # Reports name the command; it leaves out what is this machine's, so that they are the same everywhere.
    command = shlex.join(["strata", "run", study.name, *_host_words(runner)])
    chosen: dict[str, Any] = {"jobs": jobs, "only": trial, "fresh": fresh, "retries": retries_disturbed}
    chosen |= {"command": command, "unconverged": _unconverged(read)}
    summary = run_study(read, place, carrier, display, **chosen)
    if as_json:
        print_json(_plain(summary, place))
    else:
        options: dict[str, object] = {"--disk": disk, "--erase": erase, "--results": results}
        options |= {"--scratch": scratch, "--jobs": jobs, "--trial": trial}
        options["--stall-limit"] = stall_limit if stall_limit != _STALL_LIMIT else None
        options["--retries-disturbed"] = retries_disturbed if retries_disturbed != RETRIES else None
        again = _same_again(study, *_host_words(runner), **options)
        _conclude(console, read, summary, place, again)
    raise typer.Exit(summary.exit_code)


def _unconverged(study: Study) -> Unconverged | None:
    """The rule that a study with a precision stops on; it looks at results as a table would."""
    target = study.precision
    if target is None:
        return None
    # Statistics take a moment to load, which no other command should pay.
    from strata.statistics.precision import unconverged  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

    return lambda folder: unconverged(gather(folder), target)


def display_of(carrier: Runner, place: Path) -> Display:
    """The display of a run, which knows what an earlier one into the same folder took."""
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
    """The runner of this name.

    Args:
        name: Its name.
        scratch: Where the host runner keeps the files behind its loop devices; it needs one.
        results: The results folder, where the host runner keeps its journal.
        disks: Real disks for the host runner.
        stall_limit_s: After how many seconds without virtual time a lab is ended.
        build: Build the lab first if it is not there.

    Raises:
        ToolError: If the scratch folder is missing, or of no use.
        LabError: If the lab is not there, or cannot be built.
    """
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
        generator = None if load is None else LoadBuild.of(load)
        return HostRunner(
            agent,
            scratch=scratch,
            journal=results,
            disks=disks,
            load=generator,
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
    """The agent, with what plans may run: the host runner needs neither kernel nor image."""
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
        raise StudyError(
            f"{text} would end every lab; the least is 1s",
            place="--stall-limit",
            remedy=remedy,
        )
    return limit_ns / NS_PER_S


def _known(place: Path) -> Iterator[ResultRecord]:
    """A result of every cell that an earlier run into the folder has one of: how long such a trial takes."""
    seen = set()
    with suppress(StrataError):  # the run itself says what is wrong with the folder
        folder = ResultsFolder.open(place)
        for trial in folder.trials():
            cell = trial.cell
            record = None if cell in seen else folder.read_trial(trial).record
            if record is not None:
                seen.add(cell)
                yield record


def _host_words(runner: RunnerName) -> list[str]:
    return ["--runner", "host"] if runner is RunnerName.HOST else []


def _same_again(study: Path, *words: str, **options: object) -> str:
    """The command that goes on where this one ended, to be pasted where it was typed.

    Without ``--fresh``, which would run again what is finished.
    """
    values = {name: value if isinstance(value, list) else [value] for name, value in options.items()}
    given = [(name, str(each)) for name, several in values.items() for each in several if each is not None]
    return shlex.join(["strata", "run", str(study), *words, *itertools.chain(*given)])


def _announce(console: Console, study: Study, place: Path, runner: Runner) -> None:
    count = len(trials(study))
    counted = f"{count} trial{'s' if count != 1 else ''}"
    how = "in virtual time" if runner.time_domain == "virtual" else "on this machine's kernel, in wall time"
    console.print(Text(f"{study.name}: {counted} {how}, results in {place}"), soft_wrap=True)


def _conclude(console: Console, study: Study, summary: Summary, place: Path, command: str) -> None:
    """The table, where the results are, and what to type next."""
    # Statistics take a moment to load, which no other command should pay.
    from strata.report.terminal import study_view  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

    errors = Terminal(stderr=True, highlight=False)
    results().print(study_view(gather(ResultsFolder.open(place)), []))
    for trial, reasons in summary.invalid.items():
        errors.print(Text(f"{trial}: invalid: {reasons[0]}", style="red"), soft_wrap=True)
    for cell, why in summary.skipped.items():
        console.print(Text(f"{cell}: skipped: {why}", style="yellow"), soft_wrap=True)
    _tell_precision(console, study, summary)
    parts = [f"{len(summary.valid)} measured in {format_duration(summary.duration_s * NS_PER_S)}"]
    if summary.kept:
        parts.append(
            f"{len(summary.kept)} skipped, as their results are there already (--fresh runs them again)"
        )
    if summary.invalid:
        parts.append(f"{len(summary.invalid)} failed")
    if summary.unrun:
        parts.append(f"{len(summary.unrun)} not run")
    console.print(Text(f"{'; '.join(parts)}. Results: {place}"), soft_wrap=True)
    if summary.signal_number is not None:
        errors.print(Text(f"Interrupted; go on with: {command}"), soft_wrap=True)
    elif summary.invalid:
        console.print(Text(f"What failed is tried again by: {command}"), soft_wrap=True)
    else:
        console.print(Text(f"Next: strata report {shlex.quote(str(place))}"), soft_wrap=True)


def _tell_precision(console: Console, study: Study, summary: Summary) -> None:
    """Which seeds were added, and what is not as precise as the study asks in spite of them."""
    for workload, seeds in summary.added_seeds.items():
        listed = ", ".join(map(str, seeds))
        text = f"{workload}: added for a precision of ±{format_share(study.precision or 0)}: seeds {listed}"
        console.print(Text(text), soft_wrap=True)
    for cell, width in summary.not_converged.items():
        count = len(study.seeds) + len(summary.added_seeds.get(cell.workload, ()))
        reached = "no interval" if math.isinf(width) else f"±{percent(width)}"
        text = f"{cell}: not converged: {reached} after {count} seeds"
        console.print(Text(text, style="yellow"), soft_wrap=True)
    if summary.not_converged and summary.signal_number is None:
        remedy = f"  raise study.seeds_max ({study.seeds_max}) or study.precision, and run it again"
        console.print(Text(remedy, style="yellow"), soft_wrap=True)


def _plain(summary: Summary, place: Path) -> dict[str, Any]:
    return {
        "results": str(place),
        "kept": list(map(str, summary.kept)),
        "valid": list(map(str, summary.valid)),
        "invalid": {str(trial): list(reasons) for trial, reasons in summary.invalid.items()},
        "unrun": list(map(str, summary.unrun)),
        "skipped": {str(cell): why for cell, why in summary.skipped.items()},
        "added_seeds": {workload: list(seeds) for workload, seeds in summary.added_seeds.items()},
        "not_converged": {str(cell): width for cell, width in stated(summary.not_converged).items()},
        "interrupted": summary.signal_number is not None,
        "duration_s": round(summary.duration_s, 3),
    }
