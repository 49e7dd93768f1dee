# SPDX-License-Identifier: Apache-2.0
"""``strata plan``: the explicit steps of a study's trials."""

from __future__ import annotations

from typing import Annotated

from strata.cli.output import print_json, stdout
from strata.cli.parameters import StudyFile, option
from strata.model.design import describe_order
from strata.model.study import Study
from strata.plan.aspects.restart import sharing
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, find_trial, runnable_trials
from strata.plan.model import Trial, sha256_hex
from strata.plan.render import plan_lines
from strata.reading.load import load_study


def plan(
    study: StudyFile,
    trial: Annotated[str | None, option("The trial. Default: the first.", "STACK.WORKLOAD.sSEED")] = None,
    only_list: Annotated[bool, option("List the trials in the order in which they run.", "--list")] = False,
    as_json: Annotated[bool, option("As JSON: the plan of --trial, or an array of all.", "--json")] = False,
) -> None:
    """Print what a trial would do, step by step. Nothing is run.

    The JSON of a trial is what the agent executes; docs/reference/plan-format.md describes it.

    Examples:
        strata plan studies/quickstart.toml --list
        strata plan studies/quickstart.toml --trial xfs.oltp.s1
        strata plan studies/quickstart.toml --trial xfs.oltp.s1 --json | jq '.steps[].id'
    """
    read = load_study(study, catalogue())
    chosen = runnable_trials(read) if trial is None else [find_trial(read, trial)]
    if not as_json and not only_list:
        _print_text(read, chosen)
        return
    plans = [compile_trial(read, each.stack, each.workload, each.seed) for each in chosen]
    if not only_list:
        plain = [each.model_dump(mode="json") for each in plans]
        print_json(plain if trial is None else plain[0])
    elif as_json:
        hashes = (sha256_hex(each.to_json()) for each in plans)
        print_json(
            [{**each.model_dump(), "plan_sha256": sha} for each, sha in zip(chosen, hashes, strict=True)]
        )
    else:
        for each in chosen:
            print(each.id)


def _print_text(study: Study, found: list[Trial]) -> None:
    trial = found[0]
    console = stdout()
    plan = compile_trial(study, trial.stack, trial.workload, trial.seed)
    for line in plan_lines(plan, study.of(trial.stack).drawn_devices(trial.stack, trial.seed)):
        console.print(line, soft_wrap=True)
    if others := _sharing_with(study, trial):
        console.print(f"\nup to the restart shared with: {others}", markup=False, soft_wrap=True)
    if len(found) > 1:
        order = describe_order(study.order, study.order_seed)
        console.print(
            f"\nthe first of {len(found)} trials; --list names them in their order, --trial shows another\n"
            f"order: {order}",
            markup=False,
            soft_wrap=True,
        )


def _sharing_with(study: Study, trial: Trial) -> str:
    """The cells that share what is prepared once for a trial; empty if there are none."""
    if study.prepare == "each":
        return ""
    same_seed = [each for each in runnable_trials(study) if each.seed == trial.seed]
    plans = (compile_trial(study, each.stack, each.workload, each.seed) for each in same_seed)
    group = next(group for group in sharing(plans) if trial.key.cell in group)
    return ", ".join(str(cell) for cell in group if cell != trial.key.cell)
