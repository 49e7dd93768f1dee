# SPDX-License-Identifier: Apache-2.0
"""``strata confirm``: the lab's prediction against this machine's disks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from strata.actions.confirm import RealMachine, device_files
from strata.actions.confirm import confirm as act
from strata.cli.output import listener, print_json, print_wrote, stdout
from strata.cli.parameters import AsJson, FromResults, Jobs, Scratch, option
from strata.cli.run import AllowCommands, AllowContainers, AsDisks, Erase, Retries
from strata.cli.sensitivity import conclude
from strata.execution.schedule import RETRIES
from strata.files import refuse_folder, write_page
from strata.report.confirm import confirmation
from strata.report.document import Document
from strata.report.page import page_of
from strata.results.findings import SEEDS
from strata.results.store import ResultsFolder


def confirm(  # noqa: PLR0917  typer makes options of them
    results: FromResults,
    disk: AsDisks = None,
    erase: Erase = None,
    scratch: Scratch = None,
    cpu: Annotated[
        Path | None, option("This machine's processor file; it is measured if it is not there.", "FILE")
    ] = None,
    device: Annotated[
        list[str] | None, option("A calibrated device file, for all disks or for one.", "[NAME=]FILE")
    ] = None,
    best: Annotated[int, option("How many of the best stacks, beside the worst.", "N", min=1, max=10)] = 2,
    seeds: Annotated[int, option("Seeds of each cell.", "N", min=1, max=1000)] = SEEDS,
    study: Annotated[Path | None, option("The study, if it needs files beside it.", "FILE")] = None,
    retries_disturbed: Retries = RETRIES,
    page: Annotated[Path | None, option("Write the report with its section on this.", "FILE")] = None,
    allow_commands: AllowCommands = False,
    allow_containers: AllowContainers = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Hold the lab's prediction against this machine's disks.

    For each question the best stacks of a lab study and the worst run on the disks, as `strata run --runner
    host` does; before it, in the lab with this machine's processor (--cpu) and disks (--device), if they are
    given. Prediction and measurement stand side by side: how far off it is, by which share (the disk, the
    processor, the kernel's number of requests), and whether the ranking holds. Where the prediction fails, it
    says what to measure again. After an interruption the same command goes on.

    Examples:
        sudo strata confirm results/home --disk disk0=/dev/disk/by-id/ata-MODEL_SERIAL --device my-disk.toml
        sudo strata confirm results/home --scratch /srv/scratch --cpu this-machine.toml
    """
    allowed = {"commands": allow_commands, "containers": allow_containers}
    this = RealMachine(disk or (), erase or (), scratch, cpu, device or (), allowed, retries_disturbed)
    if page is not None:
        refuse_folder(page)
    folder = ResultsFolder.open(results)
    found, experiment = act(folder, this, listener(), best, seeds, study, jobs)
    if as_json:
        print_json(findings=found)
    else:
        disks = {cell.disk for each in found for cell in each.confirmed}
        paths, files = dict(each.split("=", 1) for each in this.disks), device_files(this.devices, disks)
        for each in (each for each in found if each.confirmed):
            stdout().print(Document([*confirmation(each, paths, files)]))
    conclude(experiment, whole=True)
    if page is not None:
        write_page(page, page_of(folder, None))
        print_wrote(page)
