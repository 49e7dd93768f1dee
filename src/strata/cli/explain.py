# SPDX-License-Identifier: Apache-2.0
"""``strata explain``: where a trial's time went, and why one trial is faster than another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from strata.cli.output import print_json, print_wrote, stdout
from strata.cli.parameters import AsJson, argument, option
from strata.errors import ResultError
from strata.explanation import analysis, slow, source, tables
from strata.explanation.analysis import Explanation
from strata.explanation.comparison import compare
from strata.explanation.page import render
from strata.explanation.sentences import sentences
from strata.explanation.source import Source
from strata.files import write_page
from strata.model.trial import TrialKey
from strata.results.store import ResultsFolder
from strata.traces.table import Trace


def explain(
    trials: Annotated[
        list[str],
        argument(
            "One trial or two: RESULTS/TRIAL each, or the results folder and then the trials' ids.", "TRIAL"
        ),
    ],
    tenant: Annotated[
        str | None,
        option("Divide the time by the work of this tenant; default: by that of all.", "--tenant"),
    ] = None,
    percentile: Annotated[
        float | None,
        option("Say what the operations above this percentile waited for.", "--percentile", min=1, max=100),
    ] = None,
    as_json: AsJson = False,
    output: Annotated[
        Path | None, option("Write an HTML page with plots.", "--html", "--output", "-o")
    ] = None,
) -> None:
    """Explain where a trial's time went; of two, why one is faster.

    Examples:
        strata explain results/quickstart/ext4.oltp.s1
        strata explain results/quickstart ext4.oltp.s1 btrfs.oltp.s1
        strata explain results/four-guests lvm.four.s1 thin-lvm.four.s1 --tenant web
        strata explain results/quickstart/ext4.oltp.s1 --html ext4.html
        strata explain results/quickstart/ext4.oltp.s1 --percentile 99
    """
    named = source.find_trials(trials)
    _refuse_names(named)
    sources = [source.read_source(folder, trial) for folder, trial in named]
    traces = [each.trace() if each.record.trace is not None else None for each in sources]
    found = [analysis.explain(each, trace, tenant) for each, trace in zip(sources, traces, strict=True)]
    if len(found) == 2 and found[0].trial_id == found[1].trial_id:
        folders = folder_names([folder.path for folder, _ in named])
        found = [replace(each, folder=name) for each, name in zip(found, folders, strict=True)]
    comparison = None
    if len(found) == 2 and percentile is None:
        comparison = compare(found[0], found[1], source.differing(sources[0], sources[1]))
    if output is not None:
        windows = [each.window_ns for each in sources]
        write_page(output, render(list(zip(found, traces, windows, strict=True)), comparison))
        print_wrote(output)
    if percentile is not None:
        _print_slow(sources, traces, found, percentile, as_json=as_json)
    elif as_json:
        print_json(comparison or found[0], sentences=sentences(comparison) if comparison else [])
    elif output is None:
        view = tables.comparison_view(comparison) if comparison else tables.explanation_view(found[0])
        stdout().print(view)


def _refuse_names(named: Sequence[tuple[ResultsFolder, TrialKey]]) -> None:
    if len(named) > 2:
        raise ResultError(
            f"{len(named)} trials were named", place="strata explain", remedy="name one trial, or two"
        )
    if len({(folder.path.resolve(), trial) for folder, trial in named}) < len(named):
        folder, trial = named[0]
        raise ResultError(
            "the same trial is named twice",
            place=f"{folder.path}/{trial}",
            remedy="name another one to compare it with, or name it once",
        )


def _print_slow(
    sources: list[Source],
    traces: list[Trace | None],
    found: list[Explanation],
    percentile: float,
    *,
    as_json: bool,
) -> None:
    """Say of each trial, in the order of their names, what its slow operations waited for."""
    made = {}
    for each, trace, trial in zip(sources, traces, found, strict=True):
        if trace is None or each.window_ns is None:
            remedy = "only the lab keeps one: run it there, without `trace = false` in [study]"
            raise ResultError("the trial has no trace of its requests", place=trial.name, remedy=remedy)
        disks = [disk.name for disk in trial.disks]
        slowest = slow.slow_operations(trace, disks, each.window_ns, source.spans_ns(each), percentile)
        if slowest is None:
            raise ResultError("no request was complete in the window", place=trial.name)
        sentences = slow.slow_sentences(slowest, trial)
        made[trial.name] = {"slow": slowest, "sentences": sentences}
        if not as_json:
            stdout().print(f"{trial.name}: {' '.join(sentences)}")
    if as_json:
        print_json(trials=made)


def folder_names(paths: Sequence[Path]) -> list[str]:
    """The shortest distinct endings of the paths of results folders."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-length:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
