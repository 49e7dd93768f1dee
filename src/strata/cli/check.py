# SPDX-License-Identifier: Apache-2.0
"""``strata check``: all mistakes of a study file at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from strata.cli.output import print_json
from strata.cli.parameters import argument, option
from strata.errors import DiagnosticsError, StrataError, StudyError
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, skipped, trials
from strata.printable import printable
from strata.spec.load import load_study
from strata.spec.study import Study
from strata.spec.trial import CellKey
from strata.units import format_share
from strata.words import counted


@dataclass(frozen=True)
class _Sound:
    """A study file without a mistake."""

    study: Study
    runnable: int
    skipped: dict[CellKey, str]


def check(
    study: Annotated[Path, argument("A study file, or a folder of study files.", "STUDY")],
    as_json: Annotated[bool, option("The mistakes or the study; for a folder, a list.", "--json")] = False,
) -> None:
    """Find every mistake in a study file: key, line and remedy.

    In a folder, every file ending in .toml is checked; a sound one is one line. It ends with exit code 2 if
    there is a mistake.

    Examples:
        strata check studies/quickstart.toml
        strata check studies
        strata check studies/quickstart.toml --json | jq -r '.mistakes[].remedy'
    """
    found = {file: _checked(file) for file in (sorted(study.glob("*.toml")) if study.is_dir() else [study])}
    errors = [each for each in found.values() if isinstance(each, StrataError)]
    if not found:
        raise StudyError("a folder without a .toml file", place=str(study), remedy="name a study file")
    if as_json:
        plain = [_plain(each) for each in found.values()]
        named = [{"file": str(file), **each} for file, each in zip(found, plain, strict=True)]
        print_json(named if study.is_dir() else plain[0])
    elif errors and not study.is_dir():
        raise errors[0]
    else:
        for file, each in found.items():
            _print(file, each, in_full=not study.is_dir())
    raise typer.Exit(errors[0].exit_code if errors else 0)


def _checked(file: Path) -> _Sound | StrataError:
    """A study file, or all its mistakes; every trial of a sound one is compiled."""
    try:
        read = load_study(file, catalogue())
        left_out, runnable = skipped(read), trials(read)
        for trial in runnable:
            compile_trial(read, trial.stack, trial.workload, trial.seed)
    except StrataError as error:
        return error
    return _Sound(read, len(runnable), dict(left_out))


def _plain(checked: _Sound | StrataError) -> dict[str, Any]:
    if isinstance(checked, _Sound):
        left_out = {str(cell): why for cell, why in checked.skipped.items()}
        head = {"valid": True, "trials": checked.runnable, "skipped": left_out}
        return {**head, "study": checked.study.describe()}
    mistakes = checked.diagnostics if isinstance(checked, DiagnosticsError) else [checked]
    described = []
    for each in mistakes:
        key, line = (each.key, each.line) if isinstance(each, StudyError) else (None, None)
        fields = {"place": each.place, "cause": each.cause, "remedy": each.remedy}
        described.append({"key": key, "line": line, **fields})
    return {"valid": False, "mistakes": described}


def _print(file: Path, checked: _Sound | StrataError, *, in_full: bool) -> None:
    if isinstance(checked, StrataError):
        print(printable(str(checked)))
        return
    study = checked.study
    sizes = ((study.stacks, "stack"), (study.workloads, "workload"), (study.seeds, "seed"))
    factors = " × ".join(counted(len(each), word) for each, word in sizes)
    rest = f", of which {checked.runnable} can be run" if checked.skipped else ""
    print(printable(f"{file}: no mistakes; {factors} = {counted(study.trial_count, 'trial')}{rest}"))
    if in_full and study.precision is not None:
        within = f"±{format_share(study.precision)}"
        print(f"  up to {study.seeds_max} seeds a workload, until ratios are within {within}")
    for cell, why in checked.skipped.items() if in_full else ():
        print(printable(f"  {cell} will be skipped: {why}"))
