# SPDX-License-Identifier: Apache-2.0
"""``strata history``: many runs of one study, and where its metrics changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.actions.gate import side_of
from strata.cli.compare import ZONE, Globs, Threshold, asked_zone
from strata.cli.output import print_json, print_text, print_wrote, refuse_both, stdout
from strata.cli.parameters import AsJson, AsMarkdown, argument, option, results_path
from strata.files import refuse_folder, write_page
from strata.report.document import Document, markdown_of
from strata.report.history import change_blocks, history_page, run_name
from strata.results.counts import COUNT_NAMES
from strata.statistics.history import tracks
from strata.statistics.pair import ComparisonOptions


def history(  # noqa: PLR0917  typer makes options of them
    results: Annotated[
        list[Path], argument("The results of each run, the oldest first.", "RESULTS...", parser=results_path)
    ],
    stack: Annotated[Globs, option("Only these stacks; may be repeated.", "GLOB")] = None,
    workload: Annotated[Globs, option("Only these workloads; may be repeated.", "GLOB")] = None,
    metric: Annotated[
        Globs, option("These metrics, not the headlines and counts; may be repeated.", "GLOB")
    ] = None,
    threshold: Threshold = ZONE,
    page: Annotated[Path | None, option("Write a page with charts.", "--page", "FILE")] = None,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Find the runs at which a metric changed.

    Each run is compared with the first, seed by seed; change points are those of the runs' levels (the
    package ruptures). A level that differs by less than the threshold is no change.

    Examples:
        strata history results/2026-11-*
        strata history results/2026-11-* --page history.html
        strata history results/2026-11-* --metric 'flushes_per_operation'
    """
    refuse_both(json=as_json, markdown=as_markdown)
    if len(results) < 2:
        raise typer.BadParameter("two runs or more make a history", param_hint="RESULTS")
    if page is not None:
        refuse_folder(page)
    runs = [side_of(path) for path in results]
    also = () if metric else COUNT_NAMES
    found = tracks(
        runs, ComparisonOptions({}, stack or [], workload or [], metric or [], also, asked_zone(threshold))
    )
    if page is not None:
        write_page(page, history_page(runs, found))
        print_wrote(page)
    if as_json:
        print_json(runs=[run_name(each) for each in runs], tracks=found)
    elif as_markdown:
        print_text(markdown_of(change_blocks(runs, found)))
    else:
        stdout().print(Document(change_blocks(runs, found)))
