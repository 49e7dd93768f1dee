# SPDX-License-Identifier: Apache-2.0
"""``strata plan``: the explicit steps of a study's trials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.cli.application import examples
from strata.cli.output import print_json
from strata.console import Terminal
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, find_trial, runnable_trials
from strata.plan.model import Trial, sha256_hex
from strata.plan.render import plan_lines
from strata.spec.design import describe_order
from strata.spec.load import load_study
from strata.spec.study import Study


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "plan",
        epilog=examples(
            "strata plan studies/quickstart.toml --list",
            "strata plan studies/quickstart.toml --trial xfs.oltp.s1",
            "strata plan studies/quickstart.toml --trial xfs.oltp.s1 --json | jq '.steps[].id'",
        ),
    )(plan)


def plan(
    study: Annotated[Path, typer.Argument(help="A study file.", metavar="STUDY", show_default=False)],
    trial: Annotated[
        str | None,
        typer.Option(help="The trial to show; without it, the first.", metavar="STACK.WORKLOAD.sSEED"),
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="List the trials in the order in which they run.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the plan of --trial, or an array of all.")
    ] = False,
) -> None:
    """Print what a trial would do, step by step. Nothing is run.

    The JSON of a trial is what the agent executes; docs/reference/plan-format.md describes it.
    """
    read = load_study(study, catalogue())
    if only_list:
        _list_trials(read, trial, as_json=as_json)
    elif as_json:
        _print_json(read, trial)
    else:
        _print_text(read, trial)


def _chosen(study: Study, wanted: str | None) -> list[Trial]:
    return runnable_trials(study) if wanted is None else [find_trial(study, wanted)]


def _list_trials(study: Study, wanted: str | None, *, as_json: bool) -> None:
    listed = []
    for trial in _chosen(study, wanted):
        compiled = compile_trial(study, trial.stack, trial.workload, trial.seed)
        listed.append({**trial.model_dump(), "plan_sha256": sha256_hex(compiled.to_json())})
    if as_json:
        print_json(listed)
    else:
        for row in listed:
            print(row["id"])


def _print_json(study: Study, wanted: str | None) -> None:
    plans = [
        compile_trial(study, trial.stack, trial.workload, trial.seed).model_dump(mode="json")
        for trial in _chosen(study, wanted)
    ]
    print_json(plans if wanted is None else plans[0])


def _print_text(study: Study, wanted: str | None) -> None:
    found = _chosen(study, wanted)
    trial = found[0]
    console = Terminal(highlight=False)
    for line in plan_lines(compile_trial(study, trial.stack, trial.workload, trial.seed)):
        console.print(line, soft_wrap=True)
    if len(found) > 1:
        order = describe_order(study.order, study.order_seed)
        console.print(
            f"\nthe first of {len(found)} trials; --list names them in their order, --trial shows another\n"
            f"order: {order}",
            markup=False,
            soft_wrap=True,
        )
