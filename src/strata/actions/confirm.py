# SPDX-License-Identifier: Apache-2.0
"""A lab's prediction held against this machine's disks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from strata.actions import run as running
from strata.actions.price import measure_processor
from strata.actions.real_disks import real_disks, scratch_beside
from strata.actions.run import Listener
from strata.actions.vary import experiment_on
from strata.advice.asked import answer_of
from strata.devices.device import bundled_devices
from strata.devices.processor import bundled_processors
from strata.errors import DiagnosticsError, ResultError, RunError, StudyError, ToolError
from strata.execution.pool import lab_bytes, memory_available_bytes
from strata.execution.schedule import RETRIES
from strata.experiment.experiment import Cells, Experiment, Interrupted
from strata.experiment.run import run_study
from strata.experiment.strategies.confirm import confirmations
from strata.files import write_page
from strata.machine.reading import Sampler
from strata.machine.state import state_of
from strata.model.study import Study
from strata.pricing.benchmark import machine
from strata.pricing.files import processor_toml
from strata.results.declared import declared_study
from strata.results.findings import Finding, read_capabilities
from strata.results.record import StudySnapshot
from strata.results.store import ResultsFolder
from strata.runners.base import Runner
from strata.runners.disks import RealDisks
from strata.runners.name import RunnerName
from strata.statistics.study import StudyResults, gather
from strata.units import describe_size, format_size
from strata.words import listed

ON_HOST: Final = "on-host"
"""The folder, among the results, of the measurements: a results folder for each question."""

_CPU: Final = "study.cpu"
_MEMORY: Final = "study.memory"


@dataclass(frozen=True)
class RealMachine:
    """This machine, as the user described it.

    Attributes:
        disks: ``NAME=PATH`` each; ``erase`` has the serial numbers of the disks that may lose their content.
        scratch: The folder of files in place of other disks.
        processor: A processor file, which is measured if it is not there.
        devices: Calibrated device files, ``NAME=FILE`` or one for all disks.
        retries: How often a disturbed trial is measured again.
    """

    disks: Sequence[str] = ()
    erase: Sequence[str] = ()
    scratch: Path | None = None
    processor: Path | None = None
    devices: Sequence[str] = ()
    allowed: Mapping[str, bool] = field(default_factory=dict)
    retries: int = RETRIES


@dataclass(frozen=True)
class _Host:
    """Measures parts of a study on this machine's disks."""

    study: Study
    place: Path
    runner: Runner
    listener: Listener
    retries: int

    def measured(self, subject: str, cells: Cells) -> StudyResults:
        """The results of a question, in a folder of its own. Raises Interrupted."""
        folder = ResultsFolder(self.place / subject)
        display = self.listener.display(self.runner, folder.path)
        done = run_study(cells.of(self.study), folder, self.runner, display, retries=self.retries)
        if done.signal_number is not None:
            raise Interrupted
        return gather(folder)


def confirm(  # noqa: PLR0917
    folder: ResultsFolder,
    this: RealMachine,
    listener: Listener,
    best: int,
    seeds: int,
    file: Path | None = None,
    jobs: int | None = None,
) -> tuple[list[Finding], Experiment]:
    """Run the best stacks and the worst in the lab and on this machine. Trials that are there are not run.

    Raises ResultError without a prediction, DiagnosticsError of unfit disks and of data that do not fit,
    RunError if a question has no answer.
    """
    _require_toml(this.processor)
    snapshot = folder.study()
    if snapshot.time_domain != "virtual":
        cause, remedy = "they are of a real machine: they predict nothing", "name results of the lab"
        raise ResultError(cause, place=str(folder.path), remedy=remedy)
    results = gather(folder)
    asked = confirmations(results, answer_of(results, read_capabilities(folder)), best, seeds)
    if not asked:
        remedy = "run the study in the lab with `strata run`"
        raise ResultError("no stack has a result to confirm", place=str(folder.path), remedy=remedy)
    source = partial(declared_study, snapshot, file=file or _beside(snapshot))
    as_it_is = source()
    known = _models(this.devices, as_it_is)
    named = {stack for each in asked for stack in each.cells.stacks}
    chosen = _disks(_part(source(changes=known), named), this, folder)
    sizes = _sizes(source(changes=known), chosen)
    known |= sizes
    _fitting(partial(source, changes=known), sizes)
    on_disks = _part(source(changes=known, disks=chosen.devices).on_host(), named)
    running.permissions(on_disks, this.allowed)
    place, scratch = folder.path / ON_HOST, scratch_beside(chosen, on_disks, this.scratch)
    runner = running.runner_for(RunnerName.HOST, place, scratch, chosen, listener=listener)
    runner.check([])  # before the lab predicts
    known |= _processor(this.processor, listener)  # it takes minutes: all else is in order
    study = source(changes=known)
    memory = _memory(study) if known else {}
    for text in _unlike(source(changes=known | memory), this, chosen):
        listener.warn(text)
    host = _Host(on_disks, place, runner, listener, this.retries)
    experiment = experiment_on(folder, source, math.inf, jobs, listener)
    found = []
    for each in asked:
        experiment.on_host = partial(host.measured, each.subject)
        its = _known_of(each.cells, study, known)
        changes = its | memory if experiment.is_other(its, each.cells) else {}
        found.append(experiment.answer(replace(each, changes=changes)))
        if experiment.interrupted:
            break
        if not found[-1].confirmed:
            why = next((tried.note for tried in found[-1].tried if tried.note), "no cell has a valid result")
            remedy = f"mend it, and go on with the same command; see {place / each.subject}"
            raise RunError(f"{each.subject} cannot be confirmed: {why}", remedy=remedy)
    return found, experiment


def _beside(snapshot: StudySnapshot) -> Path | None:
    """The study's file, if it lies in this folder: device files may lie beside it."""
    file = Path(snapshot.file)
    return file if file.is_file() and file.read_text(errors="replace") == snapshot.text else None


def _part(study: Study, stacks: Collection[str]) -> Study:
    return replace(study, stacks={name: each for name, each in study.stacks.items() if name in stacks})


def _disks(study: Study, this: RealMachine, folder: ResultsFolder) -> RealDisks:
    """The disks, of any size: whether the data fit is seen when the study is read with their sizes."""
    roomy = {name: replace(each, capacity_bytes=0) for name, each in study.devices.items()}
    anywhere = replace(study, devices=roomy, file=folder.path)
    where: dict[str, Any] = {"host": True, "scratch": this.scratch, "place": folder.path}
    return real_disks(anywhere, [*this.disks], [*this.erase], **where)


def _sizes(study: Study, chosen: RealDisks) -> dict[str, str]:
    """A modelled disk is made as small as the real one."""
    return {
        f"devices.{name}.capacity": describe_size(disk.capacity_bytes)
        for name, disk in chosen.devices.items()
        if disk.capacity_bytes < study.devices[name].capacity_bytes
    }


def _fitting(source: Callable[[], Study], sizes: Mapping[str, str]) -> None:
    """Raises StudyError if the study's stacks or its data do not fit on disks of these sizes."""
    try:
        source()
    except DiagnosticsError as error:
        if not sizes:
            raise
        held = listed([f"{key.split('.')[1]} ({size})" for key, size in sizes.items()])
        cause = f"the study does not fit on {held}: {error.diagnostics[0].cause}"
        raise StudyError(cause, place="--disk", remedy="name a larger disk") from error


def device_files(files: Sequence[str], disks: Collection[str]) -> dict[str, str]:
    """Each disk's calibrated file, of ``NAME=FILE``; one without a name is of all these disks."""
    found: dict[str, str] = {}
    for each in files:
        name, _, path = each.rpartition("=")
        found |= {name: path} if name else dict.fromkeys(disks, path)
    return found


def _models(files: Sequence[str], study: Study) -> dict[str, str]:
    found = device_files(files, study.devices)
    return {f"devices.{name}.model": str(Path(path).resolve()) for name, path in found.items()}


def _known_of(cells: Cells, study: Study, known: Mapping[str, str]) -> dict[str, str]:
    """What is known of the processor, and of the disks that these cells use."""
    used = {f"devices.{name}" for stack in cells.stacks for name in study.stacks[stack].all_devices}
    return {key: value for key, value in known.items() if key == _CPU or key.rpartition(".")[0] in used}


def _require_toml(file: Path | None) -> None:
    if file is not None and file.suffix != ".toml":
        raise ToolError("a processor's file ends in .toml", place=f"--cpu {file}", remedy="rename it")


def _processor(file: Path | None, listener: Listener) -> dict[str, str]:
    """This machine's processor, measured if its file is not there."""
    if file is None:
        return {}
    if not file.exists():
        write_page(file, processor_toml(f"Measured on {machine()}", measure_processor(listener).parameters))
    return {_CPU: str(file.resolve())}


def _memory(study: Study) -> dict[str, str]:
    """The memory of this machine that a lab can have now: it decides which reads hit and when writers wait.

    A power of two, so that the same command later mostly has the same lab, and finds its trials there.
    """
    beside_bytes = lab_bytes(study) - study.memory_bytes
    here_bytes = min(state_of(Sampler()).memory_bytes, memory_available_bytes() - beside_bytes)
    most_bytes = 1 << max(1, here_bytes.bit_length()) - 1
    return {_MEMORY: describe_size(most_bytes)} if most_bytes > study.memory_bytes else {}


def _unlike(study: Study, this: RealMachine, chosen: RealDisks) -> Iterator[str]:
    """What the prediction takes for granted, though this machine is another; and what will be erased."""
    for name, lost in chosen.losses:
        yield f"{name}: will be erased: {lost}"
    if study.processor.name in bundled_processors():
        yield (
            f"The prediction is of the processor {study.processor.name}, not of this machine's: add --cpu "
            "this-machine.toml, which is measured first if it is not there"
        )
    for name, disk in chosen.chosen.items():
        if (model := study.devices[name].device.name) in bundled_devices():
            yield (
                f"{name} is predicted as {model}, not as this disk: `strata calibrate {disk.path} --output "
                "my-disk.toml`, then add --device my-disk.toml"
            )
    here_bytes, lab_bytes = state_of(Sampler()).memory_bytes, study.memory_bytes
    cached = [
        name
        for name, load in study.workloads.items()
        if (load.data_bytes or 0) > lab_bytes and (load.data_bytes or 0) <= here_bytes
    ]
    if cached:
        yield (
            f"The data of {listed(cached)} fit into this machine's memory, and not into the lab's "
            f"{format_size(lab_bytes)}: reads will differ"
        )
