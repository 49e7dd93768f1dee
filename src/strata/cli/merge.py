# SPDX-License-Identifier: Apache-2.0
"""``strata merge``: results of one study from several folders into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.cli.output import notes, print_json, warnings
from strata.cli.parameters import AsJson, argument, results_path
from strata.results.merged import merge as merge_folders
from strata.results.store import ResultsFolder
from strata.words import counted


def merge(
    places: Annotated[
        list[str],
        argument("Results of one study, or stores; the last is the folder for all.", "RESULTS... INTO"),
    ],
    as_json: AsJson = False,
) -> None:
    """Merge results of one study: of shards, users or a store.

    The folders stay as they are. INTO may have results of the study already. Results of several studies, and
    results in wall time of several machines, are refused.

    Examples:
        strata merge results/part-1 results/part-2 results/quickstart
        strata merge ssh://host/srv/strata#quickstart results/quickstart
    """
    *sources, into = places
    if not sources:
        raise typer.BadParameter("give the results to merge, and then a folder for all", param_hint="RESULTS")
    found = [ResultsFolder.open(results_path(each)) for each in sources]
    done = merge_folders(found, ResultsFolder(Path(into)))
    for each in done.unreadable:
        warnings().print(f"left out: {each}", style="red", markup=False, soft_wrap=True)
    if as_json:
        print_json(done, into=into)
    else:
        there = f", {counted(done.there, 'attempt')} there already" if done.there else ""
        text = f"{counted(done.copied, 'attempt')} copied{there}. Next: strata show {into}"
        notes().print(text, markup=False, soft_wrap=True)
