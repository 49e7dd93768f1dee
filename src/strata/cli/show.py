# SPDX-License-Identifier: Apache-2.0
"""``strata show``: a study's results in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.cli.application import examples
from strata.cli.output import print_json
from strata.console import Terminal
from strata.errors import ResultError
from strata.printable import printable
from strata.results.store import ResultsFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "show",
        epilog=examples(
            "strata show results/quickstart",
            "strata show results/quickstart --metric latency_ns_p99",
            "strata show results/quickstart --trial xfs.oltp.s1",
            "strata show results/quickstart --json | jq '.metrics[] | select(.headline)'",
        ),
    )(show)


def show(
    results: Annotated[Path, typer.Argument(help="Folder that `strata run` wrote.", metavar="RESULTS")],
    trial: Annotated[
        str | None,
        typer.Option(
            help="Show one trial: metrics, where its disks' time went, versions.",
            metavar="STACK.WORKLOAD.sSEED",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Show this metric instead of the headlines; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Everything as CSV.")] = False,
) -> None:
    """Show a study's results: stacks compared per workload."""
    # NumPy takes a third of a second to load, which no other command should pay.
    from strata.report.data import cells_table, study_plain  # noqa: PLC0415
    from strata.report.selection import chosen_metrics  # noqa: PLC0415
    from strata.report.table import csv_text  # noqa: PLC0415
    from strata.report.terminal import study_view  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

    if as_json and as_csv:
        raise ResultError("both were asked for", place="--json, --csv", remedy="give one of them")
    folder = ResultsFolder.open(results)
    if trial is not None:
        _show_trial(folder, trial, as_json=as_json, as_csv=as_csv)
        return
    found = gather(folder)
    wanted = metric or []
    for name in found.workloads:
        chosen_metrics(found, name, wanted)  # refuse an unknown metric in every form of output
    if as_json:
        print_json(study_plain(found, wanted))
    elif as_csv:
        typer.echo(printable(csv_text(cells_table(found, wanted))), nl=False)
    else:
        Terminal(highlight=False).print(study_view(found, wanted))


def _show_trial(folder: ResultsFolder, trial: str, *, as_json: bool, as_csv: bool) -> None:
    from strata.report.data import trial_metrics, trial_plain  # noqa: PLC0415
    from strata.report.table import csv_text  # noqa: PLC0415
    from strata.report.terminal import trial_view  # noqa: PLC0415

    known = {str(key): (key, sha256) for key, sha256 in folder.study().trials.items()}
    if trial not in known:
        raise ResultError(
            f'the study has no trial "{trial}"', place="--trial", remedy=f"there are: {', '.join(known)}"
        )
    reading = folder.read_trial(*known[trial])
    if as_json:
        print_json(trial_plain(reading))
    elif as_csv:
        typer.echo(printable(csv_text(trial_metrics(reading))), nl=False)
    else:
        Terminal(highlight=False).print(trial_view(reading))
