# SPDX-License-Identifier: Apache-2.0
"""``strata check``: everything that is wrong in a study file, at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from strata.cli.application import examples
from strata.errors import DiagnosticsError, StrataError, StudyError
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, skipped, trials
from strata.printable import json_text, printable
from strata.spec.load import load_study
from strata.spec.study import Study
from strata.units import format_share


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "check",
        epilog=examples(
            "strata check studies/quickstart.toml",
            "strata check studies/quickstart.toml --json | jq -r '.mistakes[].remedy'",
        ),
    )(check)


def check(
    study: Annotated[Path, typer.Argument(help="A study file.", metavar="STUDY", show_default=False)],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the mistakes, or what the study holds, as JSON.")
    ] = False,
) -> None:
    """Find every mistake in a study file: key, line and remedy.

    It ends with exit code 2 if there is a mistake.
    """
    try:
        read = load_study(study, catalogue())
        left_out = skipped(read)
        runnable = trials(read)
        for trial in runnable:
            compile_trial(read, trial.stack, trial.workload, trial.seed)
    except StrataError as error:
        if not as_json:
            raise
        mistakes = error.mistakes if isinstance(error, DiagnosticsError) else [error]
        print(json_text({"valid": False, "mistakes": [_describe(mistake) for mistake in mistakes]}, indent=2))
        raise typer.Exit(error.exit_code) from None
    if as_json:
        plain = {
            "valid": True,
            "trials": len(runnable),
            "skipped": {str(cell): why for cell, why in left_out.items()},
            "study": read.describe(),
        }
        print(json_text(plain, indent=2))
    else:
        rest = f", of which {len(runnable)} can be run" if left_out else ""
        print(printable(f"{study}: no mistakes; {_count(read)}{rest}"))
        if read.precision is not None:
            within = f"±{format_share(read.precision)}"
            print(f"  up to {read.seeds_max} seeds a workload, until ratios are within {within}")
        for (stack, workload), why in left_out.items():
            print(printable(f"  {stack}.{workload} will be skipped: {why}"))


def _count(study: Study) -> str:
    parts = [(len(study.stacks), "stack"), (len(study.workloads), "workload"), (len(study.seeds), "seed")]
    factors = " x ".join(f"{number} {word}{'' if number == 1 else 's'}" for number, word in parts)
    return f"{factors} = {study.trial_count} trial{'' if study.trial_count == 1 else 's'}"


def _describe(mistake: StrataError) -> dict[str, Any]:
    at_key = isinstance(mistake, StudyError)
    return {
        "key": mistake.key if isinstance(mistake, StudyError) and at_key else None,
        "line": mistake.line if isinstance(mistake, StudyError) and at_key else None,
        "place": mistake.place,
        "cause": mistake.cause,
        "remedy": mistake.remedy,
    }
