# SPDX-License-Identifier: Apache-2.0
"""``strata check``: all mistakes of a study file at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from strata.cli.output import print_json
from strata.cli.parameters import WHOLE, AtScale, argument, asked_scale, option
from strata.errors import DiagnosticsError, StrataError, StudyError
from strata.execution.estimate import Estimate, Past, estimate_of, expected_trials, past_trials
from strata.experiment.strategies.power_cuts import uncut
from strata.lab.limits import lies_on_disk
from strata.lab.machine import lacking_cpus
from strata.model.find import find_of
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.model.warning import ResultWarning
from strata.plan.aspects.restart import sharing
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, skipped, trials
from strata.plan.model import Plan
from strata.plan.unpriced import unpriced_warnings
from strata.printable import in_json, printable
from strata.reading.claims import SUFFIX
from strata.reading.load import load_study
from strata.rules.direct_io import direct_io_warnings
from strata.rules.redundancy import stack_warnings
from strata.rules.untouched import exhausted_warnings, untouched_warnings
from strata.runners.kernel import lab_only
from strata.units import NS_PER_S, format_duration, format_share, format_size
from strata.words import counted, listed

RESULTS: Final = Path("results")
"""Where runs put their results, and where an estimate looks for similar trials."""
_LONGEST: Final = 3


@dataclass(frozen=True)
class _Sound:
    """A study file without a mistake."""

    study: Study = field(repr=False)
    trials: int  # that can be run
    skipped: dict[CellKey, str]
    warnings: list[ResultWarning]
    estimate: Estimate
    shared: list[list[CellKey]]  # the cells that share what is prepared once
    lab_only: dict[str, list[str]]  # the stacks that no host can run, by the reason
    host_only: dict[str, list[str]]  # the stacks that the lab cannot run

    @property
    @in_json
    def declared(self) -> dict[str, Any]:
        return self.study.describe().options()

    @property
    @in_json
    def remarks(self) -> dict[str, list[str]]:
        """What workloads and tenants say of themselves, with their names."""
        found: dict[str, dict[str, None]] = {}
        for name, workload in self.study.workloads.items():
            loads = {f"{name}.{tenant}": each.load for tenant, each in workload.tenants().items()}
            for stack in self.study.stacks.values():
                on = stack.at(workload.place).provides
                for whose, load in (loads or {name: workload}).items():
                    for text in load.remarks(on):
                        found.setdefault(text, {})[whose] = None
        return {text: [*names] for text, names in found.items()}

    @property
    @in_json
    def uncut(self) -> dict[str, str]:
        """The workloads under which the power is not cut, with the reason."""
        return dict(uncut(self.study))


def check(
    study: Annotated[Path, argument("A study file, or a folder of study files.", "STUDY")],
    scale: AtScale = WHOLE,
    as_json: Annotated[bool, option("The studies and the mistakes, by their files.", "--json")] = False,
) -> None:
    """Find every mistake in a study file: key, line and remedy.

    A sound study is followed by an estimate of real time and memory in the lab, by similar trials of the
    folders in ./results, or by rules of thumb. In a folder, every file ending in .toml is checked, but
    claims (`strata claims`); a sound one is one line. It ends with exit code 2 if there is a mistake.

    Examples:
        strata check studies/quickstart.toml
        strata check studies
        strata check studies/showcase.toml --scale 10%
        strata check studies/quickstart.toml --json | jq -r '.mistakes[][].remedy'
    """
    beside = (each for each in sorted(study.glob("*.toml")) if not each.name.endswith(SUFFIX))
    if study.name.endswith(SUFFIX):
        remedy = f"check them with their study: strata claims STUDY --claims {study}"
        raise StudyError("these are claims about a study, not a study", place=str(study), remedy=remedy)
    files = list(beside) if study.is_dir() else [study]
    past = cache(lambda: past_trials(sorted(RESULTS.glob("*"))))  # read once, and only for a sound study
    share = asked_scale(scale)
    found = {file: _checked(file, past, share) for file in files}
    errors = [each for each in found.values() if isinstance(each, StrataError)]
    if not found:
        raise StudyError("a folder without a .toml file", place=str(study), remedy="name a study file")
    if as_json:
        print_json(
            studies={file: each for file, each in found.items() if isinstance(each, _Sound)},
            mistakes={file: _mistakes(each) for file, each in found.items() if isinstance(each, StrataError)},
        )
    elif errors and not study.is_dir():
        raise errors[0]
    else:
        for file, each in found.items():
            _print(file, each, in_full=not study.is_dir())
    raise typer.Exit(errors[0].exit_code if errors else 0)


def _checked(file: Path, past: Callable[[], list[Past]], scale: float) -> _Sound | StrataError:
    """A study file, or all its mistakes; of a sound one, a trial of each cell is compiled.

    Another seed changes values within a cell's steps, and none of the rules that steps are checked by.
    """
    try:
        read = load_study(file, catalogue(), scale=scale)
        left_out, runnable = skipped(read), trials(read)
        for stack, seed in {(trial.stack, trial.seed) for trial in runnable}:
            read.drawn_devices(stack, seed)
        firsts = list({trial.key.cell: trial for trial in reversed(runnable)}.values())
        plans = [compile_trial(read, *trial.key) for trial in firsts]
    except StrataError as error:
        return error
    cells = expected_trials(read, runnable)
    shared = sharing(plans)
    estimate = estimate_of(read, cells, past(), {cell: len(group) for group in shared for cell in group})
    warnings = [
        *stack_warnings(read),
        *untouched_warnings(read),
        *exhausted_warnings(read),
        *direct_io_warnings(read),
        *unpriced_warnings(plans, read.processor),
    ]
    host = read.on_host()
    there = [
        plan if host.stacks[each.stack] == read.stacks[each.stack] else compile_trial(host, *each.key)
        for plan, each in zip(plans, firsts, strict=True)
    ]
    only = _by_reason(there, lambda plan: lab_only(plan.prerequisites))
    apart = _by_reason(plans, lambda plan: filter(None, [lacking_cpus(plan)]))
    return _Sound(read, len(runnable), dict(left_out), warnings, estimate, shared, only, apart)


def _by_reason(plans: Iterable[Plan], unmet: Callable[[Plan], Iterable[str]]) -> dict[str, list[str]]:
    """The stacks that cannot be run somewhere, by the reason, in the order of the plans."""
    found: dict[str, dict[str, None]] = {}
    for plan in plans:
        for why in unmet(plan):
            found.setdefault(why, {})[plan.trial.stack] = None
    return {why: [*stacks] for why, stacks in found.items()}


def _mistakes(error: StrataError) -> list[dict[str, Any]]:
    """The mistakes of a file as records: cause, place, remedy, and where they are known key and line."""
    found = error.diagnostics if isinstance(error, DiagnosticsError) else [error]
    return [vars(each) for each in found]


def _print(file: Path, checked: _Sound | StrataError, *, in_full: bool) -> None:
    if isinstance(checked, StrataError):
        print(printable(str(checked)))
        return
    study = checked.study
    sizes = ((study.stacks, "stack"), (study.workloads, "workload"), (study.seeds, "seed"))
    factors = " × ".join(counted(len(each), word) for each, word in sizes)
    rest = f", of which {checked.trials} can be run" if checked.skipped else ""
    print(printable(f"{file}: no mistakes; {factors} = {counted(study.trial_count, 'trial')}{rest}"))
    if in_full:
        _print_more(checked)


def _print_more(checked: _Sound) -> None:
    study = checked.study
    if study.precision is not None:
        within = f"±{format_share(study.precision)}"
        print(f"  up to {study.seeds_max} seeds a workload, until ratios are within {within}")
    for name, load in study.workloads.items():
        if (find := find_of(load)) is not None:
            text = f"{name}: on each stack with each seed the highest rate with {find}: several trials each"
            print(printable(f"  {text}"))
    for text, names in checked.remarks.items():
        print(printable(f"  {listed(names)} {text}"))
    for name, kept in study.matrix.same.items():
        print(printable(f"  {name} is the same as {kept}, which is run for both"))
    _print_left_out(checked)
    _print_only("not with --runner host", checked.lab_only)
    _print_only("not in the lab", checked.host_only)
    if checked.shared:
        _print_shared(checked.shared)
    if checked.estimate.cells:
        _print_estimate(checked.estimate)
    for warning in checked.warnings:
        print(printable(f"  {warning.text}\n    {warning.remedy}"))


def _print_left_out(checked: _Sound) -> None:
    for cell, why in checked.skipped.items():
        print(printable(f"  {cell} will be skipped: {why}"))
    for name, why in checked.uncut.items():
        print(printable(f"  the power is not cut under {name}: {why}"))


def _print_only(where: str, stacks: dict[str, list[str]]) -> None:
    for why, names in stacks.items():
        more = len(names) - _LONGEST
        shown = [*names[:_LONGEST], *([counted(more, "other stack")] if more > 0 else [])]
        print(printable(f"  {where}: {listed(shown)}: {why}"))


def _print_shared(groups: list[list[CellKey]]) -> None:
    cells = sum(map(len, groups))
    largest = max(groups, key=len)
    shown = [*map(str, largest[:_LONGEST]), *(["…"] if len(largest) > _LONGEST else [])]
    example = f", such as one for {', '.join(shown)}" if len(largest) > 1 else ""
    print(
        printable(
            f"  prepared once for each seed: {counted(len(groups), 'set')} of disks "
            f"for {counted(cells, 'cell')}{example}"
        )
    )


def _print_estimate(estimate: Estimate) -> None:
    """The real time of a run in the lab, on what it rests, the longest cells, and the memory."""
    counts = Counter(each.basis for each in estimate.cells)
    bases = ", ".join(f"{basis} {count}" for basis, count in counts.items())
    took = format_duration(round(estimate.real_s) * NS_PER_S)
    labs = counted(estimate.jobs, "lab")
    print(f"  about {took} in the lab with {labs} at once (cells by what that rests on: {bases})")
    longest = [
        f"{each.cell} {format_duration(round(each.real_s) * NS_PER_S)}"
        for each in estimate.cells[:_LONGEST]
        if estimate.cells[1:]
    ]
    if longest:
        print(printable(f"  longest: {', '.join(longest)}"))
    memory, available = format_size(estimate.lab_bytes), format_size(estimate.available_bytes)
    print(f"  {memory} of memory for each lab, of {available} that are available")
    if lies_on_disk(estimate.lab_bytes):
        print("    this machine has less: the lab's memory is a file in its cache, and trials take longer")
    elif not estimate.fits:
        print(
            "    less memory is available than one lab takes: lower `memory` under [study], or end programs"
        )
