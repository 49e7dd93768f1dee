# SPDX-License-Identifier: Apache-2.0
"""``strata lab selftest``: how often the method finds a difference between stacks that are alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from strata.actions import run as running
from strata.cli.output import listener, notes, print_json, stdout
from strata.cli.parameters import AsJson, Jobs, OnRunner, Scratch, argument, chosen_cell, option
from strata.cli.run import AllowCommands, AllowContainers
from strata.execution.pool import Labs
from strata.experiment.strategies import selftest as method
from strata.experiment.strategies.selftest import GOOD, TOO_OFTEN
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.report.table import Table, columns, terminal
from strata.results.store import ResultsFolder
from strata.runners.name import RunnerName
from strata.units import NS_PER_S, format_duration, percent

SEEDS: Final = 48
"""Four times the seeds of a comparison; `strata.statistics.selftest` has the reason."""
GROUP_SEEDS: Final = 6
BAD_VERDICT_EXIT: Final = 1
_BUNDLED: Final = Path(__file__).with_name("selftest.toml")
_REMEDY: Final = (
    "either the trials are not independent (on a host, of drift or disturbance: see "
    "docs/how-to/run-on-a-host.md), or outliers make {n} seeds too few: measure more, or take --group 10"
)


def selftest(  # noqa: PLR0917  typer makes options of them
    study: Annotated[Path | None, argument("The stack's study. Default: ext4 on a disk.", "STUDY")] = None,
    stack: Annotated[str | None, option("Its stack. Default: the first.", "STACK")] = None,
    workload: Annotated[str | None, option("Its workload. Default: the first.", "NAME")] = None,
    seeds: Annotated[int, option("How many trials are measured.", "N", min=6, max=10_000)] = SEEDS,
    group: Annotated[int, option("Seeds on each side of a comparison.", "N", min=3, max=1000)] = GROUP_SEEDS,
    results: Annotated[Path | None, option("The folder. Default: results/selftest[-NAME].", "DIR")] = None,
    runner: OnRunner = RunnerName.LAB,
    scratch: Scratch = None,
    jobs: Jobs = None,
    allow_commands: AllowCommands = False,
    allow_containers: AllowContainers = False,
    synthetic: Annotated[
        bool, option("Without a lab: values of known distributions.", "--synthetic")
    ] = False,
    stacks: Annotated[int, option("How many stacks a study compares.", "N", min=2, max=200)] = 2,
    workloads: Annotated[int, option("Under how many workloads.", "N", min=1, max=100)] = 1,
    spread: Annotated[float, option("Of drawn values: how far they scatter, in %.", "PERCENT")] = 5.0,
    slower: Annotated[
        float, option("Of drawn values: one stack is really slower by this, in %.", "PERCENT", max=90)
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Compare equal stacks: how often is a difference found?

    One stack is measured with many seeds. Studies are drawn from its values, in which it stands for each of
    several stacks, and each study is judged as reports judge theirs: the best stack is chosen by its mean,
    and the others are compared with it. At most one in twenty studies may find a difference. Measured trials
    are kept. It ends with exit code 1 if more do.

    Examples:
        strata lab selftest
        strata lab selftest --stacks 44 --workloads 6
        sudo strata lab selftest --runner host --scratch /srv/scratch
        strata lab selftest studies/quickstart.toml --stack xfs --workload oltp
        strata lab selftest --synthetic --stacks 44 --workloads 6 --json
        strata lab selftest --synthetic --stacks 8 --spread 2 --slower 5
    """
    if synthetic or slower:
        tested = method.synthetic(group, stacks, workloads, spread / 100, slower / 100)
    else:
        read = load_study(study or _BUNDLED, catalogue())
        one = method.one_cell(read, chosen_cell(read, stack, workload), seeds, group)
        if runner is RunnerName.HOST:
            one = one.on_host()
            running.permissions(one, {"commands": allow_commands, "containers": allow_containers})
        place = results or Path("results") / ("selftest" if study is None else f"selftest-{one.name}")
        _measure(one, place, runner, scratch, jobs)
        tested = [method.measured(one, ResultsFolder.open(place), group, stacks, workloads)]
    if as_json:
        print_json(tests=tested)
    else:
        for each in tested:
            _print(each)
    if any(each.verdict != GOOD for each in tested) and not synthetic:
        raise typer.Exit(BAD_VERDICT_EXIT)


def _measure(study: Study, place: Path, name: RunnerName, scratch: Path | None, jobs: Labs) -> None:
    carrier = running.runner_for(name, place, scratch, listener=listener())
    text = f"{study.name}: {study.trial_count} trials of one stack, results in {place}"
    notes().print(text, markup=False, soft_wrap=True)
    done = running.carry_out(study, place, carrier, listener(), jobs).summary
    if done.signal_number is not None:
        notes().print("Interrupted; the results are kept, and the same command goes on")
        raise typer.Exit(done.exit_code)
    notes().print(
        f"{len(done.valid)} measured in {format_duration(done.duration_s * NS_PER_S)}, "
        f"{len(done.kept)} kept of earlier runs, {len(done.invalid)} failed"
    )


def _print(tested: method.Tested) -> None:
    found, console = tested.found, stdout()
    of = f"{tested.of}, {tested.values} seeds" if tested.values else tested.of
    loads = "" if found.workloads == 1 else f" under {found.workloads} workloads"
    how = f"{found.by_verdict.total} studies of {found.stacks} stacks with {found.n} seeds{loads}"
    console.print(Text(f"{of}: {how}", style="bold"), soft_wrap=True)
    rates = [
        ("workloads of which an interval leaves out the truth", found.by_interval, GOOD),
        ("studies with any false better or worse", found.by_verdict, GOOD),
    ]
    if found.found is not None:
        rates.append(("workloads whose slower stack is found worse", found.found, "the more the better"))
    rows = [
        (what, percent(rate.share), " to ".join(map(percent, rate.interval)), expected)
        for what, rate, expected in rates
    ]
    heads = columns("found", ("rate", "figure"), "95 %", "expected")
    console.print(terminal(Table(heads, rows)))
    if tested.verdict == TOO_OFTEN:
        console.print(Text(f"{TOO_OFTEN}: {_REMEDY.format(n=found.n)}", style="yellow"), soft_wrap=True)
