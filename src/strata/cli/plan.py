# SPDX-License-Identifier: Apache-2.0
"""``strata plan``: the explicit steps of a study's trials, and its stacks drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from rich.text import Text

from strata.cli.output import print_json, print_wrote, stdout
from strata.cli.parameters import StudyFile, chosen_stacks, option
from strata.console import Terminal
from strata.errors import StudyError
from strata.files import write_page
from strata.model.design import describe_order
from strata.model.study import Study
from strata.plan.aspects.restart import sharing
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, find_trial, runnable_trials
from strata.plan.model import Trial, sha256_hex
from strata.plan.render import plan_lines
from strata.reading.load import load_study
from strata.report import stack as drawings
from strata.report.stack_facts import facts_of, facts_table
from strata.report.table import terminal

_LINE: Final = 1000
"""A level of a drawn stack is one line in a narrow terminal, too: rich would cut it."""


def plan(  # noqa: PLR0917  typer makes options of them
    study: StudyFile,
    trial: Annotated[str | None, option("The trial. Default: the first.", "STACK.WORKLOAD.sSEED")] = None,
    only_list: Annotated[bool, option("List the trials in the order in which they run.", "--list")] = False,
    stacks: Annotated[bool, option("Draw the stacks instead, level by level.", "--stacks")] = False,
    stack: Annotated[list[str] | None, option("Draw only this stack; may be repeated.", "NAME")] = None,
    svg: Annotated[Path | None, option("Draw each stack into DIR/NAME.svg.", "--svg", "DIR")] = None,
    commands: Annotated[
        bool, option("The commands that build the stacks on a real machine.", "--commands")
    ] = False,
    as_json: Annotated[
        bool, option("As JSON: the plan of --trial, or all; or the stacks.", "--json")
    ] = False,
) -> None:
    """Print what a trial would do, or draw its stacks. Runs nothing.

    The JSON of a trial is what the agent executes; docs/reference/plan-format.md describes it.

    With --stacks, --stack, --svg or --commands: what each level of a stack is, what it gives, and how it is
    aligned to what is below it; then, of all stacks, their capacity, price, memory and what a lost disk or
    power failure takes, by their declarations.

    Examples:
        strata plan studies/quickstart.toml --list
        strata plan studies/quickstart.toml --trial xfs.oltp.s1
        strata plan studies/quickstart.toml --trial xfs.oltp.s1 --json | jq '.plans[].steps[].id'
        strata plan studies/layers.toml --stacks
        strata plan studies/home-server.toml --stack hdds --commands
        strata plan studies/layers.toml --stack ext4-lvm --svg drawings
    """
    read = load_study(study, catalogue())
    if stacks or stack or svg or commands:
        if trial is not None or only_list:
            place = "--trial" if trial else "--list"
            raise StudyError("stacks are drawn without a trial", place=place, remedy="leave one of them out")
        _draw(read, chosen_stacks(read, stack), svg, commands=commands, as_json=as_json)
        return
    chosen = runnable_trials(read) if trial is None else [find_trial(read, trial)]
    if not as_json and not only_list:
        _print_text(read, chosen)
        return
    plans = [compile_trial(read, *each.key) for each in chosen]
    if not only_list:
        print_json(plans=[{**each.model_dump(mode="json"), "trial": _named(each.trial)} for each in plans])
    elif as_json:
        hashes = (sha256_hex(each.to_json()) for each in plans)
        listed = [{**each.model_dump(), "plan_sha256": sha} for each, sha in zip(chosen, hashes, strict=True)]
        print_json(trials=listed)
    else:
        for each in chosen:
            print(each.id)


def _named(trial: Trial) -> dict[str, object]:
    """A trial in the plan's form, in which a probe's rate is in its names alone."""
    return {**trial.model_dump(exclude={"rate"}), "workload": trial.key.named_workload}


def _print_text(study: Study, found: list[Trial]) -> None:
    trial = found[0]
    console = stdout()
    plan = compile_trial(study, *trial.key)
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
    plans = (compile_trial(study, *each.key) for each in same_seed)
    group = next(group for group in sharing(plans) if trial.key.cell in group)
    return ", ".join(str(cell) for cell in group if cell != trial.key.cell)


def _draw(read: Study, names: list[str], svg: Path | None, *, commands: bool, as_json: bool) -> None:
    """Draw the stacks. Raises StrataError."""
    drawn = [drawings.draw(read, name) for name in names]
    facts = [each for each in facts_of(read, None) if each.stack in [one.name for one in drawn]]
    if as_json:
        print_json(stacks=drawn, facts=facts)
    elif commands:
        print("\n\n".join("\n".join([f"# {each.name}", *each.commands]) for each in drawn))
    elif svg is None:
        console = Terminal(highlight=False, width=_LINE)
        for each in drawn:
            console.print(drawings.text_tree(each))
        console.print(Text(), terminal(facts_table(facts)))
    if svg is not None:
        for each in drawn:
            path = svg / f"{each.name}.svg"
            write_page(path, drawings.svg(each))
            print_wrote(path)
