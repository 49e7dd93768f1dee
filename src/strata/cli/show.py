# SPDX-License-Identifier: Apache-2.0
"""``strata show``: a study's results in a terminal."""

from __future__ import annotations

from typing import Annotated

from strata.advice.asked import answer_of
from strata.cli.output import print_json, print_text, refuse_both, stdout
from strata.cli.parameters import AsCsv, AsJson, FromResults, option
from strata.errors import ResultError
from strata.report.answer import chosen_metrics
from strata.report.data import cells_table, study_data, trial_metrics
from strata.report.report import Report
from strata.report.sections import document
from strata.report.table import csv_text
from strata.report.trial import trial_document
from strata.results.findings import read_capabilities
from strata.results.store import ResultsFolder
from strata.statistics.study import gather


def show(  # noqa: PLR0917  typer makes options of them
    results: FromResults,
    trial: Annotated[
        str | None, option("One trial: metrics, disks' time, versions.", "STACK.WORKLOAD.sSEED")
    ] = None,
    metric: Annotated[list[str] | None, option("This metric, not the headlines; may be repeated.")] = None,
    counts: Annotated[
        bool, option("Also what one operation cost: requests, flushes, bytes, processor time.", "--counts")
    ] = False,
    paths: Annotated[bool, option("The folder of each trial's files.", "--paths")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show a study's results: stacks compared per workload.

    Examples:
        strata show results/quickstart
        strata show results/quickstart --metric latency_ns_p99
        strata show results/quickstart --counts
        strata show results/quickstart --trial xfs.oltp.s1
        strata show results/quickstart --paths
        strata show results/quickstart --json | jq '.cells[] | select(.headline)'
    """
    refuse_both(json=as_json, csv=as_csv)
    folder = ResultsFolder.open(results)
    if trial is not None:
        _show_trial(folder, trial, as_json=as_json, as_csv=as_csv)
        return
    if paths:
        for reading in folder.readings():
            print_text(f"{reading.trial}  {reading.attempt.path if reading.attempt else reading.problem}\n")
        return
    found = gather(folder)
    wanted = metric or []
    for name in found.workloads:
        chosen_metrics(found, name, wanted)  # refuse an unknown metric in every form of output
    capabilities = read_capabilities(folder)
    asked = answer_of(found, capabilities)
    if as_json:
        print_json(study_data(found, capabilities, wanted))
    elif as_csv:
        print_text(csv_text(cells_table(found, wanted, asked=asked)))
    else:
        advice = [asked] if asked is not None else []
        stdout().print(document(Report(found, capabilities, advice, metrics=wanted, has_counts=counts)))


def _show_trial(folder: ResultsFolder, trial: str, *, as_json: bool, as_csv: bool) -> None:
    known = {str(key): (key, sha256) for key, sha256 in folder.study().trials.items()}
    if trial not in known:
        raise ResultError(
            f'the study has no trial "{trial}"', place="--trial", remedy=f"there are: {', '.join(known)}"
        )
    reading = folder.read_trial(*known[trial])
    if as_json:
        print_json(reading)
    elif as_csv:
        print_text(csv_text(trial_metrics(folder.study().name, reading)))
    else:
        stdout().print(trial_document(reading))
