# SPDX-License-Identifier: Apache-2.0
"""``strata advise``: which stack for which use, from a study's results."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata.cli.application import examples
from strata.cli.output import notes, print_json
from strata.cli.output import results as output
from strata.errors import StudyError
from strata.plan.catalogue import catalogue
from strata.printable import printable
from strata.results.store import ResultsFolder

if TYPE_CHECKING:
    from strata.advice.uses import Use


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "advise",
        epilog=examples(
            "strata advise results/showcase",
            "strata advise results/showcase --use mail-server",
            "strata advise results/showcase --use mail-server --evidence",
            "strata advise results/showcase --use mail-server --weights delivery=90 --weights mailboxes=10",
            "strata advise --list",
            "strata advise --write-uses uses.toml      # to be changed",
            "strata advise results/showcase --uses uses.toml --markdown",
        ),
    )(advise)


def advise(  # noqa: PLR0917  typer makes options of them
    results: Annotated[
        Path | None,
        typer.Argument(help="Folder that `strata run` wrote.", metavar="RESULTS", show_default=False),
    ] = None,
    use: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this use; may be repeated.")
    ] = None,
    uses: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Uses of your own: these, or with --use also Strata's."),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="Set a weight of the use; may be repeated."),
    ] = None,
    evidence: Annotated[
        bool,
        typer.Option("--evidence", help="Also every figure, every warning, and what to measure next."),
    ] = False,
    list_them: Annotated[
        bool, typer.Option("--list", help="Say what the uses are and what they weigh; needs no RESULTS.")
    ] = False,
    write_uses: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write Strata's uses to a file, to be changed.")
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Everything in Markdown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Advise which stack to choose for which use, and why.

    A use, such as a mail server, weighs kinds of measurement; the weights are data and can be changed. The
    stacks are ranked by the weighted geometric mean of what was measured, with an interval over the seeds.
    Of stacks within ±3 % of one another it says to take either. Where evidence is missing it chooses none and
    says which trial would settle it.
    """
    if write_uses is not None:
        _write_uses(write_uses)
        if results is None:
            return
    chosen = _chosen(uses, use or [], weights or [])
    if list_them:
        _print_uses(chosen, as_json=as_json)
        return
    if results is None:
        raise StudyError(
            "there are no results to advise on",
            place="RESULTS",
            remedy="give the folder that `strata run` wrote, or --list to see the uses",
        )
    form = "json" if as_json else "markdown" if as_markdown else "terminal"
    _print_advice(results, chosen, form, evidence=evidence)


def _print_advice(results: Path, chosen: list[Use], form: str, *, evidence: bool) -> None:
    # NumPy takes a third of a second to load, which no other command should pay.
    from strata.advice.advise import advise as advise_on  # noqa: PLC0415
    from strata.report.advice_tables import (  # noqa: PLC0415
        LEGEND,
        advice_markdown,
        advice_plain,
        advices_view,
    )
    from strata.results.capabilities import read_capabilities  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

    folder = ResultsFolder.open(results)
    advices = advise_on(gather(folder), chosen, read_capabilities(folder))
    if form == "json":
        print_json([advice_plain(each) for each in advices])
    elif form == "markdown":
        typer.echo(printable(advice_markdown(advices)), nl=False)
    else:
        output().print(advices_view(advices, in_full=evidence))
        if evidence and any(each.leaders for each in advices):
            notes().print(LEGEND, style="dim")


def _chosen(file: Path | None, names: list[str], weights: list[str]) -> list[Use]:
    """The uses to advise on."""
    from strata.advice.uses import bundled_uses, chosen_uses, read_uses, reweighted  # noqa: PLC0415
    from strata.capabilities.probes import PROBES  # noqa: PLC0415

    bundled = bundled_uses(catalogue())
    own = {} if file is None else read_uses(file, catalogue(), [probe.name for probe in PROBES])
    chosen = chosen_uses({**bundled, **own}, names or own)
    if not weights:
        return chosen
    if len(chosen) != 1:
        raise StudyError(
            "weights are those of one use", place="--weights", remedy="name the use with --use, and only one"
        )
    return [reweighted(chosen[0], weights)]


def _print_uses(uses: list[Use], *, as_json: bool) -> None:
    from strata.report.advice_tables import use_plain, uses_view  # noqa: PLC0415

    if as_json:
        print_json([use_plain(each) for each in uses])
    else:
        output().print(uses_view(uses))


def _write_uses(file: Path) -> None:
    from strata.durable import write_page  # noqa: PLC0415

    if file.exists():
        raise StudyError("the file is there already", place=str(file), remedy="name another one")
    write_page(file, resources.files("strata.advice").joinpath("uses.toml").read_bytes())
    notes().print(f"wrote {file}", soft_wrap=True)
