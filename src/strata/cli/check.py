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
class _Checked:
    """A study file: either sound, or with an error."""

    file: Path
    study: Study | None = None
    runnable: int = 0
    skipped: dict[CellKey, str] | None = None
    error: StrataError | None = None

    @property
    def exit_code(self) -> int:
        return 0 if self.error is None else self.error.exit_code


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
    if not study.is_dir():
        checked = _checked(study)
        if as_json:
            print_json(_plain(checked))
        elif checked.error is not None:
            raise checked.error
        else:
            _print_sound(checked)
        raise typer.Exit(checked.exit_code)
    found = [_checked(file) for file in sorted(study.glob("*.toml"))]
    if not found:
        raise StudyError("a folder without a .toml file", place=str(study), remedy="name a study file")
    if as_json:
        print_json([{"file": str(each.file), **_plain(each)} for each in found])
    else:
        for each in found:
            print(printable(str(each.error) if each.error else _sentence(each)))
    raise typer.Exit(next((each.exit_code for each in found if each.exit_code), 0))


def _checked(file: Path) -> _Checked:
    """A study file with all its mistakes; every trial of a sound one is compiled."""
    try:
        read = load_study(file, catalogue())
        left_out, runnable = skipped(read), trials(read)
        for trial in runnable:
            compile_trial(read, trial.stack, trial.workload, trial.seed)
    except StrataError as error:
        return _Checked(file, error=error)
    return _Checked(file, read, len(runnable), dict(left_out))


def _plain(checked: _Checked) -> dict[str, Any]:
    if checked.error is not None:
        error = checked.error
        mistakes = error.diagnostics if isinstance(error, DiagnosticsError) else [error]
        described = []
        for each in mistakes:
            key, line = (each.key, each.line) if isinstance(each, StudyError) else (None, None)
            fields = {"place": each.place, "cause": each.cause, "remedy": each.remedy}
            described.append({"key": key, "line": line, **fields})
        return {"valid": False, "mistakes": described}
    assert checked.study is not None
    return {
        "valid": True,
        "trials": checked.runnable,
        "skipped": {str(cell): why for cell, why in (checked.skipped or {}).items()},
        "study": checked.study.describe(),
    }


def _sentence(checked: _Checked) -> str:
    study = checked.study
    assert study is not None
    sizes = ((study.stacks, "stack"), (study.workloads, "workload"), (study.seeds, "seed"))
    factors = " × ".join(counted(len(each), word) for each, word in sizes)
    rest = f", of which {checked.runnable} can be run" if checked.skipped else ""
    return f"{checked.file}: no mistakes; {factors} = {counted(study.trial_count, 'trial')}{rest}"


def _print_sound(checked: _Checked) -> None:
    print(printable(_sentence(checked)))
    study = checked.study
    if study is not None and study.precision is not None:
        within = f"±{format_share(study.precision)}"
        print(f"  up to {study.seeds_max} seeds a workload, until ratios are within {within}")
    for cell, why in (checked.skipped or {}).items():
        print(printable(f"  {cell} will be skipped: {why}"))
