# SPDX-License-Identifier: Apache-2.0
"""``strata run``: carry out a study."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from strata.actions import run as running
from strata.actions.real_disks import real_disks, scratch_beside
from strata.advice.asked import answer_of
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import listener, notes, print_json, stdout, warnings
from strata.cli.parameters import (
    WHOLE,
    AsJson,
    AtFullSize,
    AtScale,
    AtShard,
    AtStore,
    Jobs,
    OnRunner,
    Scratch,
    StudyFile,
    asked_scale,
    asked_shard,
    option,
    size_words,
)
from strata.errors import StudyError
from strata.execution.cluster.connection import Cluster
from strata.execution.schedule import RETRIES
from strata.experiment.run import RunSummary
from strata.model.consent import consent
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import trials
from strata.reading.load import load_study
from strata.report.report import Report
from strata.report.sections import document
from strata.results.findings import read_capabilities
from strata.results.store import ResultsFolder
from strata.runners.disks import RealDisks
from strata.runners.lab import STALL_LIMIT_S
from strata.runners.name import RunnerName
from strata.statistics.study import gather
from strata.units import NS_PER_S, format_duration, format_share, parse_duration, percent
from strata.words import counted

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
    full: AtFullSize = False,
    disk: AsDisks = None,
    erase: Erase = None,
    allow_commands: AllowCommands = False,
    allow_containers: AllowContainers = False,
    store: AtStore = None,
    shard: AtShard = None,
    as_json: AsJson = False,
) -> None:
    """Run a study, or what is missing of its results.

    Trials that have a valid result of the same specification and the same lab are skipped, and so are those
    that a store has. After an interruption the same command goes on where it stopped.

    Examples:
        strata run studies/quickstart.toml
        strata run home.toml --full --trial '*.files.s1' --store ssh://host/srv/strata
        strata run studies/quickstart.toml --cluster tcp://10.0.0.1:8786
        sudo strata run study.toml --runner host --disk disk0=/dev/disk/by-id/ata-MODEL_SERIAL
    """
    share, part = asked_scale(scale, full=full), asked_shard(shard)
    allowed = {"commands": allow_commands, "containers": allow_containers}
    read, needed = running.readied(study, runner, share, allowed, listener())
    words = [*consent().words(), *size_words(scale, full=full), *needed]
    place = results or running.RESULTS / read.name
    given = {"disk": disk, "erase": erase, "results": results, "scratch": scratch, "jobs": jobs}
    limits = {"trial": trial, "stall-limit": stall_limit, "retries-disturbed": retries_disturbed}
    asked = given | limits | {"store": store, "shard": shard}
    if runner is RunnerName.HOST and isinstance(jobs, Cluster):
        flags = [f"--{name}" for name, is_asked in (("fresh", fresh), ("build", build)) if is_asked]
        raise typer.Exit(_on_each_machine(read, jobs, place, [*words, *flags], asked, as_json=as_json))
    read, disks = _on_disks(read, disk, erase, host=runner is RunnerName.HOST, scratch=scratch, place=place)
    carrier = running.runner_for(
        *(runner, place, scratch_beside(disks, read, scratch), disks, _stall_limit_s(stall_limit), build),
        listener=listener(),
    )
    notes().print(_begun(read, runner, place), markup=False, soft_wrap=True)
    ran = running.carry_out(
        *(read, place, carrier, listener(), jobs, trial, store),
        # Without this machine's paths, so that reports are the same everywhere.
        command=shlex.join(["strata", "run", study.name, *words]),
        fresh=fresh,
        retries=retries_disturbed,
        shard=part,
    )
    again = ["strata", "run", str(study), *_options(words, asked)]
    _conclude(read, ran, place, shlex.join(again), as_json=as_json)
    raise typer.Exit(ran.summary.exit_code if ran.survived else INTERRUPTED_EXIT)


def _on_disks(study: Study, *asked: list[str] | None, **where: Any) -> tuple[Study, RealDisks]:
    """The study on the chosen disks of the machine, which it may erase: this is said."""
    disks = real_disks(study, *asked, **where)
    for name, lost in disks.losses:
        warnings().print(Text(f"{name}: will be erased: {lost}", "red"), soft_wrap=True)
    if not disks.chosen:
        return study, disks
    return load_study(study.file, catalogue(), disks.devices, scale=study.scale).on_host(), disks


def _begun(study: Study, runner: RunnerName, place: Path) -> str:
    how = "in virtual time" if runner is RunnerName.LAB else "on this machine's kernel, in wall time"
    return f"{study.name}: {counted(len(trials(study)), 'trial')} {how}, results in {place}"


def _options(words: list[str], options: Mapping[str, object]) -> list[str]:
    """The options that continue a run, without ``--fresh``, which would run finished trials again."""
    defaults = {"stall-limit": _STALL_LIMIT, "retries-disturbed": RETRIES}
    for name, value in options.items():
        option = "cluster" if isinstance(value, Cluster) else name
        for each in value if isinstance(value, list) else [] if value == defaults.get(name) else [value]:
            words = [*words, f"--{option}", str(each)]
    return words


def _on_each_machine(
    study: Study,
    cluster: Cluster,
    place: Path,
    words: list[str],
    asked: Mapping[str, object],
    *,
    as_json: bool,
) -> int:
    """Have each machine of a cluster run a host study, and show their results beside one another."""
    from strata.execution.cluster import whole  # noqa: PLC0415  after Dask was found

    options = _options(words, {**asked, "results": None, "jobs": None})
    runs = whole.run_on_each(cluster.client, study, options, place, listener().say)
    for folder, each in runs.items():
        notes().print(Text(f"\n{folder.name}: exit code {each.exit_code}, results in {folder}", "bold"))
        if each.said:
            warnings().print(Text(each.said, "red"), soft_wrap=True)
        if "study.json" in each.files and not as_json:
            results = ResultsFolder(folder)
            stdout().print(document(Report(gather(results), read_capabilities(results))))
    if as_json:
        print_json(machines={str(folder): each.exit_code for folder, each in runs.items()})
    elif len(runs) > 1:
        two = shlex.join(str(folder) for folder in [*runs][:2])
        notes().print(f"Next: strata compare {two}", markup=False, soft_wrap=True)
    return max(each.exit_code for each in runs.values())


def _stall_limit_s(text: str) -> float:
    remedy = 'write for example "--stall-limit 120s"'
    try:
        limit_ns = parse_duration(text)
    except ValueError as error:
        raise StudyError(str(error), place="--stall-limit", remedy=remedy) from error
    if limit_ns < NS_PER_S:
        raise StudyError(f"{text} is too short; the least is 1s", place="--stall-limit", remedy=remedy)
    return limit_ns / NS_PER_S


def _conclude(study: Study, ran: running.Ran, place: Path, command: str, *, as_json: bool) -> None:
    if not ran.survived:
        warnings().print("Interrupted; the findings are kept, and the same command goes on.")
    if as_json:
        print_json(ran.summary, results=place)
    else:
        _print_all(study, ran, place, command)


def _print_all(study: Study, ran: running.Ran, place: Path, command: str) -> None:
    """Print the table, the place of the results, and what to type next."""
    console, errors = notes(), warnings()
    summary, folder = ran.summary, ran.folder
    results, capabilities = gather(folder), read_capabilities(folder)
    asked = answer_of(results, capabilities)
    stdout().print(document(Report(results, capabilities, [asked] if asked is not None else [])))
    for trial, reasons in summary.invalid.items():
        errors.print(Text(f"{trial}: invalid: {reasons[0]}", style="red"), soft_wrap=True)
    for cell, why in summary.skipped.items():
        console.print(Text(f"{cell}: skipped: {why}", style="yellow"), soft_wrap=True)
    _print_precision(console, study, summary)
    parts = [f"{len(summary.valid)} measured in {format_duration(summary.duration_s * NS_PER_S)}"]
    if summary.machines:
        parts[0] += f" on {counted(sum(not each.left_out for each in summary.machines.values()), 'machine')}"
    if folder.store.shared is not None:
        parts.append(f"{summary.from_store} taken from {folder.store.shared.url}")
    kept = "skipped, as their results are there already (--fresh runs them again)"
    if summary.prepared or summary.found_prepared:
        parts.append(
            f"disks prepared {summary.prepared} times, found prepared {summary.found_prepared} times"
        )
    counts = ((summary.kept, kept), (summary.invalid, "failed"), (summary.unrun, "not run"))
    parts += [f"{len(several)} {what}" for several, what in counts if several]
    console.print(Text(f"{'; '.join(parts)}. Results: {place}"), soft_wrap=True)
    for name, tally in summary.machines.items():
        if tally.trouble:
            errors.print(Text(f"{name}: {tally.trouble}", style="yellow"), soft_wrap=True)
    if summary.signal_number is not None:
        errors.print(Text(f"Interrupted; go on with: {command}"), soft_wrap=True)
    elif summary.invalid:
        console.print(Text(f"Try the failed trials again: {command}"), soft_wrap=True)
    else:
        console.print(Text(f"Next: strata report {shlex.quote(str(place))}"), soft_wrap=True)


def _print_precision(console: Console, study: Study, summary: RunSummary) -> None:
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
