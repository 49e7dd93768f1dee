# SPDX-License-Identifier: Apache-2.0
"""``strata rebuild``: how long the rebuild of a lost disk takes at its full size."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from strata.actions.rebuild import RebuildAsked
from strata.actions.run import RESULTS
from strata.actions.vary import experiment_on
from strata.cli.output import listener, print_json, stdout
from strata.cli.parameters import AsJson, Jobs, OnlyStacks, StudyFile, option
from strata.cli.sensitivity import conclude, seconds_of
from strata.errors import StudyError
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.report.document import Document
from strata.report.findings import rebuilds
from strata.results.store import ResultsFolder
from strata.units import parse_share, parse_size


def rebuild(  # noqa: PLR0917  typer makes options of them
    study: StudyFile,
    stack: OnlyStacks = None,
    fill: Annotated[str, option("The share of the filesystem that files take.", "PERCENT")] = "60%",
    overwrites: Annotated[float, option("How often they were replaced.", "N", min=0, max=100)] = 1,
    rate: Annotated[
        int, option("Requests per second of the load beside it.", "N", min=1, max=1_000_000)
    ] = 20,
    size: Annotated[str | None, option("Of each disk. Default: all of the smallest.", "SIZE")] = None,
    part: Annotated[str, option("The part that is rebuilt, and twice as much.", "SIZE")] = "2GiB",
    seeds: Annotated[int, option("Seeds, and so plausible drives.", "N", min=1, max=100)] = 3,
    whole: Annotated[bool, option("Rebuild the whole in the lab, too.", "--whole")] = False,
    budget: Annotated[str, option("Real time for the trials.", "TIME")] = "2h",
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Estimate how long a lost disk takes to rebuild at full size.

    Every stack of the study that survives the loss of a disk gets a spare one. A small part of each disk is
    filled, aged, and rebuilt in the lab, idle and beside a load, and then twice as much. The growth tells
    the time for the whole disk, zone by zone, with its uncertainty: over plausible drives, over where data
    lie, and over longer seeks. With --whole the lab rebuilds the whole, too, which takes long unless --size
    is small.

    Examples:
        strata rebuild home.toml
        strata rebuild home.toml --stack btrfs --stack zfs --fill 85% --overwrites 3
        strata rebuild home.toml --size 16GiB --whole
    """
    try:
        share, part_bytes = parse_share(fill), parse_size(part)
        full_bytes = None if size is None else parse_size(size)
    except ValueError as error:
        raise StudyError(str(error), place="--fill, --part, --size", remedy="write 60%, and 2GiB") from error
    asked = RebuildAsked(
        tuple(stack or ()), share, overwrites, rate, part_bytes, full_bytes, seeds, whole=whole
    )
    read = load_study(study, catalogue())
    strategy = asked.strategy(read)
    folder = ResultsFolder(RESULTS / read.name)  # whose report then has the section
    source = partial(asked.study, strategy.chosen)
    experiment = experiment_on(folder, source, seconds_of(budget, "--budget"), jobs, listener())
    found = experiment.answer(strategy)
    if as_json:
        print_json(found)
    else:
        stdout().print(Document([*rebuilds([found])]))
    conclude(experiment, whole=found.whole)
