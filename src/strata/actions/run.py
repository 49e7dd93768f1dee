# SPDX-License-Identifier: Apache-2.0
"""Carrying out a study: the runner it needs, what the user must allow, its trials, and its failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from strata.actions.sharing import name_records, shared_store
from strata.bundled import project_root
from strata.errors import LabError, StrataError, ToolError
from strata.execution.display import Display, display_for
from strata.execution.pool import Labs
from strata.experiment.run import RunSummary, run_study
from strata.experiment.survey import Survey
from strata.lab import ensure_lab, find_entry, require_lab
from strata.lab.programs import AgentBuild, LoadBuild
from strata.lab.progress import SILENCE, SetupProgress
from strata.lab.variant import lock_packages
from strata.model.packages import read_lock
from strata.model.study import Study
from strata.model.workload import loads_of
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.results.capabilities import Capabilities, Capability, PowerCutFinding
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled, Runner
from strata.runners.disks import RealDisks
from strata.runners.host import HostRunner
from strata.runners.lab import STALL_LIMIT_S, LabRunner
from strata.runners.name import RunnerName
from strata.words import listed

RESULTS: Final = Path("results")
"""Where results lie by default: a folder for each study."""


@contextmanager
def _uncounted(description: str, total: int | None) -> Iterator[Callable[[str], None]]:
    yield lambda text: None


@dataclass(frozen=True)
class Listener:
    """Follows an action; by default nobody does.

    Attributes:
        console: Shows the progress of trials.
        setup: Follows the parts of the lab that are built first.
        counting: Follows a number of like things: of their description and number it makes the function that
            is called with a sentence about each.
        say: Is given the sentences of a search.
        warn: Is given what goes wrong, but ends nothing.
    """

    console: Console = Console(quiet=True)  # noqa: RUF009  it shows nothing
    setup: SetupProgress = SILENCE
    counting: Callable[[str, int | None], AbstractContextManager[Callable[[str], None]]] = _uncounted
    say: Callable[[str], None] = lambda text: None
    warn: Callable[[str], None] = lambda text: None

    def display(self, runner: Runner, place: Path) -> Display:
        """The display of a run, with the durations of earlier trials in the folder."""
        return display_for(self.console, virtual=runner.time_domain == "virtual", known=_known(place))


NOBODY: Final = Listener()


@dataclass(frozen=True)
class Ran:
    """A run's summary and results, and whether the failures of ``[survival]`` were tried to the end."""

    summary: RunSummary
    folder: ResultsFolder
    survived: bool = True


def readied(
    file: Path, runner: RunnerName, scale: float, allowed: Mapping[str, bool], listener: Listener
) -> tuple[Study, list[str]]:
    """A study as the runner can carry it out, and the options by which the user allows what it needs.

    Raises DiagnosticsError, and ToolError for a permission that is not given.
    """
    study = load_study(file, catalogue(), scale=scale)
    if runner is RunnerName.HOST:
        _refuse_survival(study)
        study = study.on_host()
        return study, ["--runner", "host", *permissions(study, allowed)]
    if lock_packages(study, listener.setup):
        study = replace(study, packages=read_lock(file))
    return study, []


def _refuse_survival(study: Study) -> None:
    if study.survival is not None:
        raise ToolError(
            "survival is measured in the lab alone: a host's power and disks cannot fail and return",
            place="survival",
            remedy="leave the table out, or leave out --runner host",
        )


def permissions(study: Study, allowed: Mapping[str, bool]) -> list[str]:
    """The options that the study needs on a host. Raises ToolError if one is needed and not given."""
    running = [
        name
        for name, workload in study.workloads.items()
        if any(each.needs_permission for each in loads_of(workload))
    ]
    contained = [
        name
        for name, stack in study.stacks.items()
        if any("container:nspawn" in layer.needs().features for layer in stack.every_layer)
    ]
    asked = {
        "commands": (running, "runs programs of its own on this machine: workloads"),
        "containers": (contained, "has systemd-nspawn started as root on this machine: stacks"),
    }
    for what, (names, does) in asked.items():
        if names and not allowed[what]:
            raise ToolError(
                f"the study {does} {listed(names)}",
                place="--runner host",
                remedy=f"read `strata plan`; then add --allow-{what}, or leave out --runner host",
            )
    return [f"--allow-{what}" for what, (names, _) in asked.items() if names]


def carry_out(  # noqa: PLR0917  every caller names a few
    study: Study,
    place: Path,
    runner: Runner,
    listener: Listener = NOBODY,
    jobs: Labs = None,
    only: str | None = None,
    store: str | None = None,
    **more: Any,
) -> Ran:
    """Run the missing trials of a study, and try the failures of its ``[survival]``.

    ``store`` is the URL of a store to share (None: the configured one); ``more`` has further arguments of
    `run_study`. After an interruption the same call goes on.
    """
    shared = shared_store(store, listener.warn)
    folder = ResultsFolder(place, shared=shared)  # whose store keeps what it reads, for all that follows
    display = listener.display(runner, place)
    summary = run_study(study, folder, runner, display, jobs=jobs, only=only, **more)
    name_records(folder)
    survival = study.survival
    if only is not None or summary.signal_number is not None or survival is None:
        return Ran(summary, folder)
    if isinstance(runner, LabRunner):
        try:
            survey = Survey.of_survival(study, runner, folder)
            surveyed(survey, "trying the failures of [survival]", listener, jobs)
        except Cancelled:
            return Ran(summary, folder, survived=False)
    return Ran(summary, folder)


def surveyed(survey: Survey, description: str, listener: Listener, jobs: Labs = None) -> Capabilities:
    """The findings of probes and power cuts, which are kept among the results.

    Raises `Cancelled`; what was found by then is kept, and the same call goes on.
    """
    with listener.counting(description, survey.total) as count:
        return survey.run(jobs, lambda finding: count(_finding_words(finding)))


def _finding_words(finding: Capability | PowerCutFinding) -> str:
    if isinstance(finding, Capability):
        return f"{finding.stack}, {finding.probe}: {finding.verdict}"
    return f"{finding.stack} under {finding.workload}, power cut {finding.number}: {finding.verdict}"


def runner_for(  # noqa: PLR0917
    name: RunnerName,
    results: Path,
    scratch: Path | None = None,
    disks: RealDisks | None = None,
    stall_limit_s: float = STALL_LIMIT_S,
    build: bool = False,
    *,
    listener: Listener = NOBODY,
) -> Runner:
    """The runner; on a host its journal stands among the results. Raises ToolError, LabError."""
    if name is RunnerName.HOST:
        if scratch is None:
            raise ToolError(
                "the host runner needs a folder for the files behind its loop devices",
                place="--scratch",
                remedy="add for example --scratch /srv/scratch, on the disk that is to be measured; or name "
                "real disks by --disk",
            )
        agent = _agent(listener, build=build)
        load = find_entry("load", project_root())
        return HostRunner(
            agent,
            scratch=scratch,
            journal=results,
            disks=disks,
            load=None if load is None else LoadBuild.of(load),
            progress=listener.setup,
        )
    if scratch is not None:
        raise ToolError(
            "--scratch is for the host runner", place="--scratch", remedy="add --runner host, or leave it out"
        )
    lab = require_lab(listener.setup, build=build)
    return LabRunner(lab, stall_limit_s=stall_limit_s, progress=listener.setup)


def _agent(listener: Listener, *, build: bool) -> AgentBuild:
    """The agent; the host runner needs neither kernel nor image."""
    entry, load = (find_entry(part, project_root()) for part in ("agent", "load"))
    if build and (entry is None or load is None):
        ensure_lab(listener.setup, only=("agent", "load"))
        entry = find_entry("agent", project_root())
    if entry is None:
        raise LabError("the agent must be built first", remedy="run `strata lab build --only agent`")
    return AgentBuild.of(entry)


def _known(place: Path) -> Iterator[ResultRecord]:
    """One earlier result of every cell, for the expected duration of its trials."""
    with suppress(StrataError):  # the run itself reports a bad folder
        for reading in ResultsFolder.open(place).one_of_each_cell():
            if reading.record is not None:
                yield reading.record
