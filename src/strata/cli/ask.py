# SPDX-License-Identifier: Apache-2.0
"""``strata ask``: from a few answers to a choice."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.padding import Padding
from rich.text import Text

from strata.actions import ask as asking
from strata.actions.new_study import SEEDS, Answers, NewStudy, StudyUse
from strata.actions.run import RESULTS
from strata.advice.atlas import AtlasAnswer, atlas_answer
from strata.cli.advise import asked_musts
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import listener, notes, print_json, print_wrote, stdout, warnings
from strata.cli.parameters import AsJson, Jobs, Musts, argument, option
from strata.cli.questions import answered_by_person
from strata.cli.sensitivity import seconds_of
from strata.execution.pool import Labs
from strata.model.study import Study
from strata.report.advice_tables import advices
from strata.report.advice_text import lead
from strata.report.atlas import atlas_blocks
from strata.report.document import Document
from strata.report.findings import sensitivity_sentences
from strata.report.stack_facts import facts_table
from strata.report.table import terminal
from strata.results.store import ResultsFolder
from strata.rules.full_size import smaller
from strata.runners.base import Cancelled
from strata.toml import toml_value
from strata.units import NS_PER_S, describe_duration, format_duration, format_size
from strata.words import counted
from strata.working import working

SEEDS_MAX: Final = 100
_SENSITIVITY: Final = "3m"
_SENSITIVITY_LONG: Final = "20m"


_More = Annotated[str, option("Real time for more seeds while it is undecided.", "--more", "TIME")]


def ask(  # noqa: PLR0917  typer makes options of them
    name: Annotated[str, argument("The study's name: NAME.toml is written, or continued.", "NAME")],
    use: Annotated[StudyUse | None, option("What the disks are for.", "--use", "USE")] = None,
    disk: Annotated[
        list[str] | None,
        option("A disk's model, one for all or one each; or this-machine.", "--disk", "MODEL"),
    ] = None,
    memory: Annotated[str | None, option("The machine's memory.", "--memory", "SIZE")] = None,
    data: Annotated[str | None, option("The data in use, on all disks.", "--data", "SIZE")] = None,
    price: Annotated[
        list[str] | None,
        option("A disk's price, as '180 EUR'; one for all or one each.", "--price", "AMOUNT"),
    ] = None,
    must: Musts = None,
    seeds: Annotated[
        int | None,
        option(f"How often everything is measured. Default: {SEEDS}.", "--seeds", "N", min=1, max=SEEDS_MAX),
    ] = None,
    quick: Annotated[
        bool, option("Stop at the answer from the atlas, which takes a second.", "--quick")
    ] = False,
    sensitivity: Annotated[
        str, option("Real time to look for what would change the answer.", "--sensitivity", "TIME")
    ] = _SENSITIVITY,
    more: _More = "0s",
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Ask which stack should hold a use: from question to answer.

    It writes a study (`strata new study` does only this), answers from the atlas, the records of common
    stacks that come with Strata (--quick stops there), says how long the study will take, runs it in the lab,
    probes what the stacks must survive, and answers in half a page: the choice, by how much and how sure,
    what it gives up and costs, and what would change it (see `strata sensitivity`). Undecided, it says the
    next step and its time, which --more allows it. It shows the commands that build the choice, and does not
    run them. Without --use it asks, on a terminal, for what no option says. `strata ask NAME` goes on after
    an interruption, or a change of the file, which keeps what was asked (`use` and `must`): every view of the
    results begins with the answer, and other --use, --must or --seeds change it. --must takes durable and the
    probes of `strata capabilities`.

    Examples:
        strata ask home --use home-server --disk generic-nearline-hdd --memory 8GiB --must disk-loss
        strata ask orders --use database-nvme --seeds 3 --more 4h    # more seeds until it is decided
        strata ask wiki --use database-nvme --disk samsung-970-pro-1tb --quick
    """
    budgets_s = seconds_of(sensitivity, "--sensitivity"), seconds_of(more, "--more")
    file, answers = Path(f"{name}.toml"), Answers(disk, price, memory, data)
    if not file.exists():
        use, answers = answered_by_person(use, answers)
    asked = asking.question(name, use, answers, seeds, asked_musts(must or []))
    if asked.written is not None:
        say_written(asked.written)
    else:
        notes().print(f"Going on with {file}", markup=False)
    for key, value in asked.changed.items():
        notes().print(f"{file}: {key} = {toml_value(value)}", markup=False, soft_wrap=True)
    with working(f"strata ask {name}"):
        known = _from_atlas(asked.study, quick=quick, as_json=as_json)
        if not quick:
            _answer(asked.study, budgets_s, jobs, known, as_json=as_json)


def _from_atlas(study: Study, *, quick: bool, as_json: bool) -> AtlasAnswer | None:
    """The atlas's answer, printed; a study that has results of its own has a better one."""
    known = atlas_answer(study) if quick or not (RESULTS / study.name).exists() else None
    if as_json and quick:
        print_json({"study": study.file, "atlas": known})
    elif known is not None and not as_json:
        stdout().print(Document([*atlas_blocks(known, asking.lab_kernel())]))
    elif quick:
        notes().print("The atlas has no answer: too few of its records are of such a use and device")
    return known


def say_written(written: NewStudy) -> None:
    """Print the models that stand for this machine's disks, the study's file, and what is smaller in it."""
    for disk, model in written.resembling:
        kind = "rotating" if disk.rotational else "solid-state"
        text = f"{disk.name} ({format_size(disk.size_bytes)}, {kind}) resembles {model.name} most"
        notes().print(text, markup=False)
    print_wrote(written.study.file)
    for text in smaller(written.study):
        notes().print(f"  {text}", markup=False)


def forecast(study: Study, jobs: Labs = None, budget_s: float = 0) -> float:
    """Say how long the trials and the search after them will take; the real seconds of the trials."""
    expected = asking.expected(study, jobs)
    took, more = (format_duration(round(each) * NS_PER_S) for each in (expected.real_s, budget_s))
    trials, labs = counted(expected.trials, "trial"), counted(expected.labs, "lab")
    then = f"; then at most {more} for what would change the answer" if budget_s else ""
    notes().print(f"{trials}: about {took} with {labs} at once{then}", markup=False)
    return expected.real_s


def _answer(
    study: Study,
    budgets_s: tuple[float, float],
    jobs: Labs,
    known: AtlasAnswer | None,
    *,
    as_json: bool,
) -> None:
    """Run the study and print the answer, then look for what would change it, then print the rest."""
    (budget_s, more_s), file = budgets_s, study.file
    name = str(file.with_suffix(""))
    again = shlex.join(["strata", "ask", name])
    forecast(study, jobs, budget_s)
    folder, chosen = _answered(study, jobs, again, more_s)
    while (following := asking.next_step(study, chosen, jobs)) and following.real_s <= more_s:
        more_s -= following.real_s
        notes().print(f"Undecided: {_next_words(following)}", markup=False)
        study = asking.question(name, seeds=following.seeds).study
        folder, chosen = _answered(study, jobs, again, more_s)
    place, advice = RESULTS / study.name, chosen.advice
    if not as_json:
        console = stdout()
        console.print(Document([*advices([advice])]))
        console.print(terminal(facts_table(chosen.facts), indent=2))
        if following is not None:
            text = f"\nNext: {again} --seeds {following.seeds}: {_next_words(following)}"
            console.print(Text(text), soft_wrap=True)
    changes = asking.changes(study, folder, chosen, budget_s, jobs, listener())
    if changes.failure is not None:
        text = f"What would change the answer was not found: {changes.failure}"
        warnings().print(text, markup=False, soft_wrap=True)
    if as_json:
        found = {"study": file, "results": place, "atlas": known, "advice": advice, "facts": chosen.facts}
        rest = {"sensitivity": changes.finding, "stack": chosen.stack, "commands": chosen.commands}
        print_json(found, lead=lead(advice), next=following, **rest)
    else:
        _print_rest(chosen, changes, again)
        every = f"strata advise {place} --use {advice.use.name} --evidence; strata report {place}"
        stdout().print(Text(f"\nEvery figure: {every}"), soft_wrap=True)
    if changes.interrupted:
        raise typer.Exit(INTERRUPTED_EXIT)


def _answered(
    study: Study, jobs: Labs, again: str, more_s: float
) -> tuple[ResultsFolder, asking.AskedChoice]:
    """The results of a study, of which the missing trials are run, and the answer to it."""
    try:
        folder = asking.run_question(study, jobs, listener())
    except Cancelled:
        more_ns = round(more_s) * NS_PER_S
        more = f" --more {describe_duration(more_ns)}" if more_ns else ""
        notes().print(f"Interrupted; go on with: {again}{more}", markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED_EXIT) from None
    return folder, asking.answer(study, folder)


def _next_words(following: asking.Next) -> str:
    took = format_duration(round(following.real_s) * NS_PER_S)
    return f"{following.seeds} seeds of every stack take about {took} more"


def _print_rest(chosen: asking.AskedChoice, changes: asking.Changes, again: str) -> None:
    console, advice = stdout(), chosen.advice
    if changes.finding is not None:
        console.print(Text("\nWhat would change the answer, the nearest first:"))
        for sentence in sensitivity_sentences(changes.finding) or ["Nothing was tried in this time."]:
            console.print(Padding(Text(f"- {sentence}"), (0, 0, 0, 2)))
        if not changes.finding.whole:
            goes_on = f"{again} --sensitivity {_SENSITIVITY_LONG}"
            console.print(Text(f"  {goes_on} tries more."), soft_wrap=True)
    if chosen.commands:
        is_sure = advice.leader is not None or advice.take_either or not advice.leaders
        leads = "" if is_sure else ", which leads, though that is not settled,"
        shown = (
            f"\nBuild {chosen.stack}{leads} on a machine (shown, not run; it destroys the disks' content):"
        )
        console.print(Text(shown))
        for line in chosen.commands:
            console.print(Text(f"  {line}", style="cyan"), soft_wrap=True)
