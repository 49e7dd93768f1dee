# SPDX-License-Identifier: Apache-2.0
"""``strata selftest``: how often the method finds a difference between a stack and itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from strata.cli.output import notes, print_json, stdout
from strata.cli.parameters import AsJson, Jobs, OnRunner, RunnerName, Scratch, argument, chosen_cell, option
from strata.cli.run import display_of, runner_for
from strata.errors import RunError, StudyError
from strata.execution.run import run_study
from strata.plan.catalogue import catalogue
from strata.plan.compile import skipped
from strata.results.store import ResultsFolder
from strata.spec.design import further_seeds
from strata.spec.load import load_study
from strata.spec.study import Study
from strata.units import NS_PER_S, format_duration, percent

if TYPE_CHECKING:
    from strata.statistics.selftest import FalsePositives, Rate

SEEDS: Final = 48
"""Four times the seeds of a split; `strata.statistics.selftest` has the reason."""
GROUP_SEEDS: Final = 6
BAD_VERDICT_EXIT: Final = 1
_GOOD: Final = "within 5 ± 2 %"
_LEVEL: Final = 0.05
_TOLERANCE: Final = 0.02
_BUNDLED: Final = Path(__file__).with_name("selftest.toml")
_REMEDIES: Final = {
    "too often": "either the trials are not independent (on a host, of drift or disturbance: see "
    "docs/how-to/run-on-a-host.md), or outliers make {n} seeds too few: measure more, or take --group 10",
    "too seldom": "intervals are wider than needed, which is safe but costs seeds; expected with outliers, "
    "or with values that hardly differ",
}


@dataclass(frozen=True)
class Tested:
    of: str  # the metric, stack and workload, or the distribution
    values: int  # their number; 0 for drawn values
    found: FalsePositives

    @property
    def verdict(self) -> str:
        share = self.found.by_interval.share
        if abs(share - _LEVEL) <= _TOLERANCE:
            return _GOOD
        return "too often" if share > _LEVEL else "too seldom"


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
    synthetic: Annotated[
        bool, option("Without a lab: values of known distributions.", "--synthetic")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare a stack with itself: how often is a difference found?

    One stack is measured with many seeds. The values are split at random into A and A', two thousand times,
    and each pair is compared as reports compare two stacks. At a level of 95 %, about one in twenty
    comparisons must find a difference. Measured trials are kept. It ends with exit code 1 if the rate of
    measured values is not within 5 ± 2 %.

    Examples:
        strata selftest
        sudo strata selftest --runner host --scratch /srv/scratch
        strata selftest studies/quickstart.toml --stack xfs --workload oltp
        strata selftest --synthetic --json
    """
    if synthetic:
        tested = _synthetic(group)
    else:
        if seeds < 2 * group:
            raise StudyError(
                f"{seeds} seeds are too few for two groups of {group}",
                place="--seeds",
                remedy=f"ask for {8 * group}, four times as many as a comparison takes; or lower --group",
            )
        one = _one_cell(study, stack, workload, seeds)
        place = results or Path("results") / ("selftest" if study is None else f"selftest-{one.name}")
        _measure(one, place, runner, scratch, jobs)
        tested = [_split(one, place, group)]
    if as_json:
        print_json([_plain(each) for each in tested])
    else:
        for each in tested:
            _print(each)
    if any(each.verdict != _GOOD for each in tested) and not synthetic:
        raise typer.Exit(BAD_VERDICT_EXIT)


def _one_cell(file: Path | None, stack: str | None, workload: str | None, seeds: int) -> Study:
    """The study reduced to one stack and one workload, with this number of seeds."""
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
    carrier = runner_for(name, scratch, place)
    text = f"{study.name}: {study.trial_count} trials of one stack, results in {place}"
    notes().print(text, markup=False, soft_wrap=True)
    done = run_study(study, place, carrier, display_of(carrier, place), jobs=jobs)
    if done.signal_number is not None:
        notes().print("Interrupted; the results are kept, and the same command goes on")
        raise typer.Exit(done.exit_code)
    notes().print(
        f"{len(done.valid)} measured in {format_duration(done.duration_s * NS_PER_S)}, "
        f"{len(done.kept)} kept of earlier runs, {len(done.invalid)} failed"
    )


def _split(study: Study, place: Path, group: int) -> Tested:
    from strata.statistics.selftest import false_positive_rate  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

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
    return Tested(of, len(values), false_positive_rate(values, group))


def _synthetic(group: int) -> list[Tested]:
    from strata.statistics.selftest import SHAPES, synthetic_false_positive_rate  # noqa: PLC0415

    return [
        Tested(f"{name} ({shape.means})", 0, synthetic_false_positive_rate(name, group))
        for name, shape in SHAPES.items()
    ]


def _print(tested: Tested) -> None:
    from strata.report.table import Table, columns, terminal  # noqa: PLC0415

    found, console = tested.found, stdout()
    of = f"{tested.of}, {tested.values} seeds" if tested.values else tested.of
    how = f"{found.by_interval.total} random splits into twice {found.n}, compared in pairs"
    console.print(Text(f"{of}: {how}", style="bold"), soft_wrap=True)
    level = found.p_value_level
    rates = (
        ("the 95 % interval leaves out 1", found.by_interval, "5 ± 2 %"),
        ("Wilcoxon's p is below 0.05", found.by_p_value, f"at most {percent(level)}"),
        ("both", found.by_both, f"at most {percent(min(level, _LEVEL))}"),
        ("the verdict is better or worse", found.by_verdict, "at most 5 %"),
    )
    rows = [
        (what, percent(rate.share), " to ".join(map(percent, rate.interval)), expected)
        for what, rate, expected in rates
    ]
    heads = columns("found", ("rate", "figure"), "95 %", "expected")
    console.print(terminal(Table(heads, rows)))
    share = f"{percent(found.by_interval.share)} of the comparisons found a difference where there is none"
    style = "green" if tested.verdict == _GOOD else "yellow"
    console.print(Text(f"{share}: {tested.verdict}", style=style), soft_wrap=True)
    if tested.verdict in _REMEDIES:
        console.print(Text(f"  {_REMEDIES[tested.verdict].format(n=found.n)}"), soft_wrap=True)


def _plain(tested: Tested) -> dict[str, Any]:
    found = tested.found
    rates = {}
    for name in ("by_interval", "by_p_value", "by_both", "by_verdict"):
        rate: Rate = getattr(found, name)
        low, high = rate.interval
        rates[name] = {"count": rate.count, "share": rate.share, "low": low, "high": high}
    head = {"of": tested.of, "values": tested.values, "group": found.n, "splits": found.by_interval.total}
    return {**head, **rates, "p_value_level": found.p_value_level, "verdict": tested.verdict}
