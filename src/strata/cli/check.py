# SPDX-License-Identifier: Apache-2.0
"""``strata check``: all mistakes of a study file at once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from strata.actions.check import CheckedStudy, check_files
from strata.cli.output import print_json
from strata.cli.parameters import (
    WHOLE,
    AtFullSize,
    AtScale,
    AtShard,
    argument,
    asked_scale,
    asked_shard,
    option,
)
from strata.errors import DiagnosticsError, StrataError
from strata.execution.cluster.connection import Cluster
from strata.execution.estimate import Estimate
from strata.execution.pool import lab_jobs
from strata.execution.schedule import chosen_trials
from strata.lab.limits import lies_on_disk
from strata.model.find import find_of
from strata.model.trial import CellKey
from strata.printable import printable
from strata.units import NS_PER_S, format_duration, format_share, format_size
from strata.words import counted, listed

_LONGEST: Final = 3
_MACHINES_MAX: Final = 100_000


def check(  # noqa: PLR0917  typer makes options of them
    study: Annotated[Path, argument("A study file, or a folder of study files.", "STUDY")],
    scale: AtScale = WHOLE,
    full: AtFullSize = False,
    shard: AtShard = None,
    cluster: Annotated[
        str | None, option("Also the time on a cluster, or on these numbers of machines.", "WHERE|N,N")
    ] = None,
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
        strata check studies/showcase.toml --shard 2/3
        strata check home.toml --full
        strata check studies/published/kvm.toml --cluster 1,40,400
        strata check studies/quickstart.toml --json | jq -r '.mistakes[][].remedy'
    """
    part = asked_shard(shard)
    found = check_files(study, asked_scale(scale, full=full))
    errors = [each for each in found.values() if isinstance(each, StrataError)]
    if as_json:
        print_json(
            studies={file: each for file, each in found.items() if isinstance(each, CheckedStudy)},
            mistakes={file: _mistakes(each) for file, each in found.items() if isinstance(each, StrataError)},
        )
    elif errors and not study.is_dir():
        raise errors[0]
    else:
        for file, each in found.items():
            _print(file, each, cluster, in_full=not study.is_dir())
            if part is not None and isinstance(each, CheckedStudy):
                keys = chosen_trials(each.study, None, part).keys
                print(f"  part {part}: {counted(len(keys), 'trial')}: {', '.join(sorted(map(str, keys)))}")
    raise typer.Exit(errors[0].exit_code if errors else 0)


def _mistakes(error: StrataError) -> list[dict[str, Any]]:
    """The mistakes of a file as records: cause, place, remedy, and where they are known key and line."""
    found = error.diagnostics if isinstance(error, DiagnosticsError) else [error]
    return [vars(each) for each in found]


def _print(file: Path, checked: CheckedStudy | StrataError, cluster: str | None, *, in_full: bool) -> None:
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
    if cluster is not None:
        _print_cluster(checked.estimate, cluster)


def _print_more(checked: CheckedStudy) -> None:
    study = checked.study
    if study.precision is not None:
        within = f"±{format_share(study.precision)}"
        print(f"  up to {study.seeds_max} seeds a workload, until ratios are within {within}")
    for name, load in study.workloads.items():
        if (find := find_of(load)) is not None:
            text = f"{name}: on each stack with each seed the highest rate with {find}: several trials each"
            print(printable(f"  {text}"))
    for text in checked.smaller:
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


def _print_left_out(checked: CheckedStudy) -> None:
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


def _print_cluster(estimate: Estimate, where: str) -> None:
    """The real time on a cluster, or on numbers of machines like this one."""
    if not where.replace(",", "").isdecimal():
        labs = Cluster(where).labs(estimate.lab_bytes)
        _print_time(estimate, labs, f"{where} with {counted(labs, 'lab')}")
        return
    of_each = lab_jobs(estimate.lab_bytes, len(os.sched_getaffinity(0)))
    for machines in map(int, filter(None, where.split(","))):
        if not 0 < machines <= _MACHINES_MAX:
            raise typer.BadParameter(f"1 to {_MACHINES_MAX} machines", param_hint="--cluster")
        like = f"{counted(machines, 'machine')} like this one, {counted(machines * of_each, 'lab')} at once"
        _print_time(estimate, machines * of_each, like)


def _print_time(estimate: Estimate, labs: int, where: str) -> None:
    took = format_duration(round(estimate.real_s_with(labs)) * NS_PER_S)
    print(printable(f"  about {took} on {where}"))


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
