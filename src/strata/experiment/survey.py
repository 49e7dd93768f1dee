# SPDX-License-Identifier: Apache-2.0
"""Every probe on every stack of a study, each in labs of its own, over the CPUs; verdicts are kept."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

from pydantic import TypeAdapter
from rich.console import Console

from strata.capabilities.probe import Probe, cell_of, worst_of
from strata.capabilities.probe_plan import ProbePlan
from strata.capabilities.probes import PROBES
from strata.devices.device import Device
from strata.diagnostics.names import require_known
from strata.errors import PlanError, RunError
from strata.execution.display import Display
from strata.execution.pool import Labs, Work, WorkSite, lab_bytes, pool_of, stopped_by_signals
from strata.execution.schedule import fingerprint_of
from strata.experiment.strategies.power_cuts import DrawnCut, drawn_cuts, uncut
from strata.files import make_folder, read_plain, write_durably
from strata.lab.machine import lacking_in_lab
from strata.model.study import Study
from strata.plan.model import Plan, canonical_json, sha256_hex
from strata.results.capabilities import Capabilities, Capability, PowerCutFinding, ProbeTitle
from strata.results.events import Events, read_events
from strata.results.findings import refuse_other_study, write_capabilities
from strata.results.store import ResultsFolder
from strata.runners.base import EVENTS_NAME, PLAN_NAME, TRACE_NAME, Cancelled, Task
from strata.runners.lab import LabRunner
from strata.traces.table import Trace, map_records

# Raised when the same events yield another verdict, or the second boot of a probe that looks first changes:
# a kept cell is identified by the plan of its first boot.
_PROBES_VERSION: Final = 1


KEPT_NAME: Final = "capabilities"
"""The folder among the results that keeps each finding, by the hash of what it was made of."""
Found = Capability | PowerCutFinding
_KEPT: Final[TypeAdapter[Found]] = TypeAdapter(Found)


def chosen_probes(names: Sequence[str]) -> list[type[Probe]]:
    """The probes of these names, in the matrix' order; all without a name."""
    require_known("probe", names, {probe.name for probe in PROBES}, "--probe")
    return [probe for probe in PROBES if not names or probe.name in names]


class _Unknown(Exception):  # noqa: N818  not an error
    """A finding is not kept."""


@dataclass(frozen=True)
class Surveyed:
    """A finding, and what another machine must hand on to be kept: by the names of its files."""

    found: Found
    made: Mapping[str, Found] = field(default_factory=dict)


Item = DrawnCut | tuple[str, type[Probe]]


@dataclass(frozen=True)
class Survey(Work[Item, Surveyed]):
    """What stacks can do, found by trial, each probe and each power cut in labs of its own.

    Attributes:
        folder: Where the findings are kept: one of the same plan and lab is not made again.
        fresh: Make it again.
    """

    study: Study
    runner: LabRunner
    folder: ResultsFolder
    stacks: Sequence[str]
    probes: Sequence[type[Probe]]
    cuts: Sequence[DrawnCut] = ()
    fresh: bool = False
    makes: bool = True  # else only finds what is kept
    made: dict[str, Found] = field(default_factory=dict)  # the findings of one call, by their files' names
    cpu: int | None = None  # of one call, as is its end
    cancel: Event | None = None

    @classmethod
    def of_survival(cls, study: Study, runner: LabRunner, folder: ResultsFolder) -> Survey:
        """The failures that ``[survival]`` asks for."""
        assert study.survival is not None
        names = study.survival.probes()
        probes = chosen_probes(names) if names else []
        return cls(study, runner, folder, list(study.stacks), probes, list(drawn_cuts(study, study.survival)))

    @property
    def total(self) -> int:
        return len(self.cuts) + len(self.stacks) * len(self.probes)

    def run(self, jobs: Labs = None, finished: Callable[[Found], None] = lambda found: None) -> Capabilities:
        """Try everything, and keep it among the study's results; `Cancelled` keeps the findings until then.

        Raises ResultError for a folder of another study, before minutes are spent.
        """
        refuse_other_study(self.folder, self.study.name)
        display = Display(Console(quiet=True), virtual=True)
        pool = pool_of(jobs, self.runner, self.folder, display, lab_bytes(self.study))
        items: list[Item] = [*self.cuts, *itertools.product(self.stacks, self.probes)]
        known: dict[Item, Found] = {}

        def take(item: Item, tried: Surveyed) -> None:
            for name, each in tried.made.items():
                self._keep(name, each)
            known[item] = tried.found
            finished(tried.found)

        for item in items:
            with suppress(_Unknown):
                take(item, Surveyed(replace(self, makes=False)._found(item)))
        with stopped_by_signals() as stop:
            travelling = replace(self, folder=ResultsFolder(self.folder.path))  # without records that it read
            pool.run(travelling, [each for each in items if each not in known], stop, take)
        found = [known[item] for item in items]
        capabilities = Capabilities(
            study=self.study.name,
            fingerprint=fingerprint_of(self.runner.identity),
            probes=tuple(
                ProbeTitle(name=each.name, title=each.title, question=each.question) for each in PROBES
            ),
            stacks={name: self.study.stack_title(stack) for name, stack in self.study.stacks.items()},
            cells=tuple(each for each in found if isinstance(each, Capability)),
            cuts=tuple(each for each in found if isinstance(each, PowerCutFinding)),
            uncut=uncut(self.study) if self.cuts else {},
        )
        write_capabilities(self.folder, capabilities)
        return capabilities

    def __call__(self, item: Item, site: WorkSite) -> Surveyed:
        """Try an item in labs of its own."""
        assert isinstance(site.runner, LabRunner)
        here = replace(
            self, runner=site.runner, folder=site.folder, made={}, cpu=site.cpu, cancel=site.cancel
        )
        found = here._found(item)
        return Surveyed(found, here.made if site.is_away else {})

    def lost(self, item: Item, site: WorkSite, error: RunError) -> Surveyed:
        if isinstance(item, DrawnCut):
            return Surveyed(PowerCutFinding(**vars(item), verdict="failed", note=error.cause))
        return Surveyed(_undecided(*item, error.cause))

    def plans(self, item: Item) -> Iterator[Plan]:
        if isinstance(item, DrawnCut):
            yield item.plan(self.study)
            return
        stack, kind = item
        for probe in kind.tries(self.study.stacks[stack]):
            probe_plan = self._probe_plan(stack, probe)
            with suppress(PlanError):
                if probe.prepare(probe_plan) is None:
                    yield probe_plan.plan()

    def identity(self, item: Item) -> str:
        values = vars(item) if isinstance(item, DrawnCut) else {"stack": item[0], "probe": item[1].name}
        return sha256_hex(canonical_json({"study": self.study.name, **values}))

    def _found(self, item: Item) -> Found:
        return self._cut(item) if isinstance(item, DrawnCut) else self._cell(*item)

    def _cut(self, cut: DrawnCut) -> Found:
        plan = cut.plan(self.study)
        devices = self.study.of(cut.stack).drawn_devices(cut.stack, cut.seed)
        make = partial(cut.made, self.runner, self.study, self._place / "attempts", self.cpu, self.cancel)
        kept = self._kept({**self._made_of(plan, devices), "cut": cut.number}, make)
        return kept.model_copy(update={"stack": cut.stack, "workload": cut.workload})

    def _cell(self, stack: str, kind: type[Probe]) -> Found:
        if unavailable := self.study.stacks[stack].unavailable():
            return Capability(stack=stack, probe=kind.name, verdict="no", note=unavailable)
        probes = kind.tries(self.study.stacks[stack])
        return worst_of([self._try(stack, probe) for probe in probes], probes)

    def _try(self, stack: str, probe: Probe) -> Capability:
        kind = type(probe)
        try:
            probe_plan = self._probe_plan(stack, probe)
            refused = probe.prepare(probe_plan)
            if refused is not None:
                return Capability(stack=stack, probe=kind.name, verdict="no", note=refused)
            plan = probe_plan.plan()
        except PlanError as error:
            return _undecided(stack, kind, str(error).partition("\n")[0])
        if lacking := lacking_in_lab(plan):
            return _undecided(stack, kind, lacking)
        make = partial(self._probed, probe, probe_plan, plan)
        found = self._kept(self._made_of(plan, self._devices(plan)), make)
        assert isinstance(found, Capability)
        return found.model_copy(update={"stack": stack})

    def _probe_plan(self, stack: str, probe: Probe) -> ProbePlan:
        own, name = self.study.of(stack), "-".join(filter(None, (probe.name, probe.disk)))
        return probe.resized(ProbePlan(own, own.stacks[stack], name))

    @property
    def _place(self) -> Path:
        return self.folder.path / KEPT_NAME

    def _kept(self, made_of: Mapping[str, object], make: Callable[[], Found]) -> Found:
        """A finding that was kept, by whatever name, or a new one; a failed or damaged one is made anew."""
        name = f"{sha256_hex(canonical_json(made_of))}.json"
        with suppress(OSError, ValueError):
            if not self.fresh:
                return _KEPT.validate_json(read_plain(self._place / name))
        if not self.makes:
            raise _Unknown
        found = make()
        if found.verdict != "failed":
            self._keep(name, found)
            self.made[name] = found
        return found

    def _keep(self, name: str, found: Found) -> None:
        make_folder(self._place)
        write_durably(self._place / name, _KEPT.dump_json(found, indent=1))

    def _made_of(self, plan: Plan, devices: Mapping[str, Device]) -> dict[str, object]:
        return {
            "probes": _PROBES_VERSION,
            "plan": sha256_hex(plan.to_json()),
            "setting": self.runner.setting(plan, devices),
            "lab": fingerprint_of(self.runner.identity_of(plan)).model_dump(),
        }

    def _probed(self, probe: Probe, probe_plan: ProbePlan, plan: Plan) -> Capability:
        if probe.looks_first:
            events = self._boot(plan, trace=True)
            folder = self._attempt(plan)
            if isinstance(events, str) or events.end is None or events.end.outcome != "ok":
                return _ended(probe_plan, probe, events)
            names = ("root", *(device.name for device in plan.devices))
            trace = Trace(map_records(folder / TRACE_NAME, len(names)), names)
            if why := probe.learn(trace, events):
                return _undecided(probe_plan.stack.name, type(probe), why)
            probe_plan = ProbePlan(probe_plan.study, probe_plan.stack, probe.name)
            probe.prepare(probe_plan)
            plan = probe_plan.plan()
        return _ended(probe_plan, probe, self._boot(plan))

    def _devices(self, plan: Plan) -> dict[str, Device]:
        return {each.name: self.study.devices[each.name].device for each in plan.devices}

    def _attempt(self, plan: Plan) -> Path:
        return self._place / "attempts" / plan.trial.id

    def _boot(self, plan: Plan, *, trace: bool = False) -> Events | str:
        """The events of a boot, or why a lab died without any."""
        folder = self._attempt(plan)
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        (folder / PLAN_NAME).write_bytes(plan.to_json())
        cancel = self.cancel or Event()
        if cancel.is_set():
            raise Cancelled
        try:
            self.runner.run(Task(plan, self._devices(plan), folder, trace=trace, cpu=self.cpu, cancel=cancel))
        except RunError as error:
            return str(error)
        return read_events(folder / EVENTS_NAME)


def _ended(probe_plan: ProbePlan, probe: Probe, events: Events | str) -> Capability:
    if isinstance(events, str):
        return _undecided(probe_plan.stack.name, type(probe), events.partition("\n")[0])
    return cell_of(probe_plan, probe, events)


def _undecided(stack: str, kind: type[Probe], why: str) -> Capability:
    return Capability(stack=stack, probe=kind.name, verdict="failed", note=why)
