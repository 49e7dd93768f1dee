# SPDX-License-Identifier: Apache-2.0
"""``strata publish``: results as a gallery of static pages, with records that others can check and use."""

from __future__ import annotations

from typing import Annotated

import typer

from strata.actions import publish as publishing
from strata.cli.output import notes, print_json
from strata.cli.parameters import AsJson, argument, option, results_path
from strata.words import counted


def publish(
    places: Annotated[
        list[str], argument("Results folders, and then the gallery: a folder or a URL.", "RESULTS... PLACE")
    ],
    traces: Annotated[bool, option("Publish the disks' traces, too.", "--traces")] = False,
    as_json: AsJson = False,
) -> None:
    """Publish results as static pages, with their records.

    The place, a folder or a URL as of `--store`, gets an index by device, workload, stack and kernel, the
    reports, the studies, and the records, each under its hash. Others check and use them with
    `strata run STUDY --store PLACE`. What is there already stays.

    Examples:
        strata publish results/quickstart public
        strata publish results/quickstart results/showcase s3://bucket/gallery
    """
    if len(places) < 2:
        raise typer.BadParameter("name results, and then the gallery", param_hint="RESULTS... PLACE")
    done = publishing.publish([results_path(each) for each in places[:-1]], places[-1], traces)
    if as_json:
        print_json(done)
    else:
        what = f"{counted(done.records, 'record')}, {counted(len(done.cells), 'cell')} in all"
        notes().print(f"published {what}: {done.url.rstrip('/')}/index.html", soft_wrap=True, markup=False)
