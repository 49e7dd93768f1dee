# SPDX-License-Identifier: Apache-2.0
"""``strata lab selftest``: how often the method finds a difference between stacks that are alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from strata.actions import run as running
from strata.cli.output import listener, notes, print_json, stdout
from strata.cli.parameters import AsJson, Jobs, OnRunner, Scratch, argument, chosen_cell, option
from strata.cli.run import AllowCommands, AllowContainers
from strata.errors import RunError, StudyError
from strata.model.design import further_seeds
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import skipped
from strata.printable import in_json
from strata.reading.load import load_study
from strata.report.table import Table, columns, terminal
from strata.results.store import ResultsFolder
from strata.runners.name import RunnerName
from strata.statistics.selftest import SHAPES, BestOf, best_of, synthetic_best_of
from strata.statistics.study import gather
from strata.units import NS_PER_S, format_duration, percent

SEEDS: Final = 48
"""Four times the seeds of a comparison; `strata.statistics.selftest` has the reason."""
GROUP_SEEDS: Final = 6
BAD_VERDICT_EXIT: Final = 1
_GOOD: Final = "at most 5 %"
_LEVEL: Final = 0.05
_BUNDLED: Final = Path(__file__).with_name("selftest.toml")
_TOO_OFTEN: Final = "too often"
_REMEDY: Final = (
    "either the trials are not independent (on a host, of drift or disturbance: see "
    "docs/how-to/run-on-a-host.md), or outliers make {n} seeds too few: measure more, or take --group 10"
)


@dataclass(frozen=True)
class Tested:
    of: str  # the metric, stack and workload, or the distribution
    values: int  # their number; 0 for drawn values
    found: BestOf

    @property
    @in_json
    def verdict(self) -> str:
        """Whether either rate is surely above 5 %, by the interval of the rate."""
        rates = (self.found.by_interval, self.found.by_verdict)
        return _TOO_OFTEN if any(rate.interval[0] > _LEVEL for rate in rates) else _GOOD


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
        tested = _synthetic(group, stacks, workloads, spread / 100, slower / 100)
    else:
        one = _one_cell(study, stack, workload, seeds, group)
        if runner is RunnerName.HOST:
            one = one.on_host()
            running.permissions(one, {"commands": allow_commands, "containers": allow_containers})
        place = results or Path("results") / ("selftest" if study is None else f"selftest-{one.name}")
        _measure(one, place, runner, scratch, jobs)
        tested = [_measured(one, place, group, stacks, workloads)]
    if as_json:
        print_json(tests=tested)
    else:
        for each in tested:
            _print(each)
    if any(each.verdict != _GOOD for each in tested) and not synthetic:
        raise typer.Exit(BAD_VERDICT_EXIT)


def _one_cell(file: Path | None, stack: str | None, workload: str | None, seeds: int, group: int) -> Study:
    """The study reduced to one stack and one workload, with this number of seeds."""
    if seeds < 2 * group:
        raise StudyError(
            f"{seeds} seeds are too few for two groups of {group}",
            place="--seeds",
            remedy=f"ask for {8 * group}, four times as many as a comparison takes; or lower --group",
        )
    study = load_study(file or _BUNDLED, catalogue())
    cell = chosen_cell(study, stack, workload)
    if why := skipped(study).get(cell):
        raise StudyError(f"{cell} cannot be run: {why}", place=str(study.file))
    return replace(
        study,
        stacks={cell[0]: study.stacks[cell[0]]},
        workloads={cell[1]: study.workloads[cell[1]]},
        seeds=tuple(islice(chain(study.seeds, further_seeds(study.seeds)), seeds)),
        precision=None,
    )


def _measure(study: Study, place: Path, name: RunnerName, scratch: Path | None, jobs: int | None) -> None:
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


def _measured(study: Study, place: Path, group: int, stacks: int, workloads: int) -> Tested:
    gathered = gather(ResultsFolder.open(place))
    (stack,), (workload,) = study.stacks, study.workloads
    kinds = gathered.metrics(workload)
    values = gathered.cells[stack, workload].series(kinds[0].name).values if kinds else {}
    if len(values) < 2 * group:
        raise RunError(
            f"only {len(values)} trials of {stack}.{workload} are valid: too few for two groups of {group}",
            place=str(place),
            remedy=f"`strata show {place}` says what is wrong with the others",
        )
    if min(values.values()) <= 0:
        raise RunError(f"{kinds[0].name} is not always above 0, so that it has no ratios", place=str(place))
    of = f"{kinds[0].name} of {stack} under {workload}"
    return Tested(of, len(values), best_of(values, group, stacks, workloads))


def _synthetic(group: int, stacks: int, workloads: int, spread: float, slower: float) -> list[Tested]:
    return [
        Tested(
            f"{name} ({shape.means}), ±{percent(spread)}",
            0,
            synthetic_best_of(name, group, stacks, workloads, spread=spread, slower=slower),
        )
        for name, shape in SHAPES.items()
    ]


def _print(tested: Tested) -> None:
    found, console = tested.found, stdout()
    of = f"{tested.of}, {tested.values} seeds" if tested.values else tested.of
    loads = "" if found.workloads == 1 else f" under {found.workloads} workloads"
    how = f"{found.by_verdict.total} studies of {found.stacks} stacks with {found.n} seeds{loads}"
    console.print(Text(f"{of}: {how}", style="bold"), soft_wrap=True)
    rates = [
        ("workloads of which an interval leaves out the truth", found.by_interval, _GOOD),
        ("studies with any false better or worse", found.by_verdict, _GOOD),
    ]
    if found.found is not None:
        rates.append(("workloads whose slower stack is found worse", found.found, "the more the better"))
    rows = [
        (what, percent(rate.share), " to ".join(map(percent, rate.interval)), expected)
        for what, rate, expected in rates
    ]
    heads = columns("found", ("rate", "figure"), "95 %", "expected")
    console.print(terminal(Table(heads, rows)))
    if tested.verdict == _TOO_OFTEN:
        console.print(Text(f"{_TOO_OFTEN}: {_REMEDY.format(n=found.n)}", style="yellow"), soft_wrap=True)
