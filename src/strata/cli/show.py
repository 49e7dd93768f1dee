# SPDX-License-Identifier: Apache-2.0
"""``strata show``: a study's results in a terminal."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from strata.cli.application import examples
from strata.console import Terminal
from strata.errors import ResultError
from strata.printable import json_text, printable
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
    from strata.report import tables  # noqa: PLC0415
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
        tables.chosen_metrics(found, name, wanted)  # refuse an unknown metric in every form of output
    if as_json or as_csv:
        plain = tables.study_plain(found, wanted)
        _print_plain(plain, plain["metrics"], tables.CSV_COLUMNS, as_json=as_json)
    else:
        Terminal(highlight=False).print(study_view(found, wanted))


def _show_trial(folder: ResultsFolder, trial: str, *, as_json: bool, as_csv: bool) -> None:
    from strata.report import tables  # noqa: PLC0415
    from strata.report.terminal import trial_view  # noqa: PLC0415

    known = {str(key): (key, sha256) for key, sha256 in folder.study().trials.items()}
    if trial not in known:
        raise ResultError(
            f'the study has no trial "{trial}"', place="--trial", remedy=f"there are: {', '.join(known)}"
        )
    reading = folder.read_trial(*known[trial])
    if as_json or as_csv:
        rows = tables.trial_metric_rows(reading)
        _print_plain(tables.trial_plain(reading), rows, tables.TRIAL_CSV_COLUMNS, as_json=as_json)
    else:
        Terminal(highlight=False).print(trial_view(reading))


def _print_plain(plain: Any, rows: list[dict[str, Any]], columns: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_text(plain, indent=2))
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    typer.echo(printable(text.getvalue()), nl=False)
