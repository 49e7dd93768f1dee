# SPDX-License-Identifier: Apache-2.0
"""Every probe on every stack of a study, each in labs of its own, over the CPUs; verdicts are kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Final, TypeVar

from strata.capabilities.power_cuts import DrawnCut, drawn_cuts, uncut
from strata.capabilities.probe import Probe, cell_of, worst_of
from strata.capabilities.probe_plan import ProbePlan
from strata.capabilities.probes import PROBES
from strata.devices.device import Device
from strata.diagnostics.names import require_known
from strata.errors import PlanError, RunError
from strata.execution.agenda import fingerprint_of, stack_title
from strata.execution.pool import lab_bytes, stopped_by_signals, worker_cpus
from strata.files import make_folder, read_plain, write_durably
from strata.model.study import Study
from strata.model.survival import Survival
from strata.plan.model import Plan, canonical_json, sha256_hex
from strata.results.capabilities import Capabilities, Capability, PowerCutFinding, ProbeTitle
from strata.results.events import Events, read_events
from strata.runners.base import EVENTS_NAME, PLAN_NAME, TRACE_NAME, Cancelled, Task
from strata.runners.lab import LabRunner
from strata.traces.table import Trace, map_records

# Raised when the same events yield another verdict, or the second boot of a probe that looks first changes:
# a kept cell is identified by the plan of its first boot.
_PROBES_VERSION: Final = 1


_KEYS: Final[dict[type, str]] = {Capability: "cell", PowerCutFinding: "cut"}
_Kept = TypeVar("_Kept", Capability, PowerCutFinding)
_Found = TypeVar("_Found")


def chosen_probes(names: Sequence[str]) -> list[type[Probe]]:
    """The probes of these names, in the matrix' order; all without a name."""
    require_known("probe", names, {probe.name for probe in PROBES}, "--probe")
    return [probe for probe in PROBES if not names or probe.name in names]


class Survey:
    """Probes stacks and keeps the cells in ``folder``: one of the same plan and lab is not probed again."""

    def __init__(self, study: Study, runner: LabRunner, folder: Path) -> None:
        self._study = study
        self._runner = runner
        self._folder = folder
        self._cpus: SimpleQueue[int | None] = SimpleQueue()

    def run(
        self,
        stacks: Sequence[str],
        probes: Sequence[type[Probe]],
        *,
        jobs: int | None = None,
        fresh: bool = False,
        finished: Callable[[Capability], None] = lambda cell: None,
    ) -> list[Capability]:
        """Probe; the cells stack by stack, in the probes' order. `Cancelled` keeps those found until then."""
        wanted = [(stack, probe) for stack in stacks for probe in probes]
        cells = [partial(self._cell, stack, probe, fresh=fresh) for stack, probe in wanted]
        return self._over_cpus(cells, jobs, finished)

    def cut(
        self, survival: Survival, *, jobs: int | None, finished: Callable[[PowerCutFinding], None]
    ) -> list[PowerCutFinding]:
        """Cut the power as a study asks; `Cancelled` keeps the findings until then."""
        cuts = [partial(self._cut, each) for each in drawn_cuts(self._study, survival)]
        return self._over_cpus(cuts, jobs, finished)

    def _over_cpus(
        self, calls: Sequence[Callable[..., _Found]], jobs: int | None, finished: Callable[[_Found], None]
    ) -> list[_Found]:
        """The results of the calls, in their order; each is given ``cancel``, and takes a CPU of `_cpus`."""
        cpus = worker_cpus(self._runner, jobs, lab_bytes(self._study))
        self._cpus = SimpleQueue()
        for cpu in cpus:
            self._cpus.put(cpu)
        with stopped_by_signals() as stop, ThreadPoolExecutor(len(cpus)) as pool:
            futures = [pool.submit(call, cancel=stop.event) for call in calls]
            try:
                for future in as_completed(futures):
                    finished(future.result())
            except BaseException:
                stop.event.set()
                pool.shutdown(cancel_futures=True)
                raise
        return [future.result() for future in futures]

    def _cut(self, cut: DrawnCut, *, cancel: Event) -> PowerCutFinding:
        plan = cut.plan(self._study)
        devices = self._study.of(cut.stack).drawn_devices(cut.stack, cut.seed)
        place = self._folder / f"{plan.trial.id}.cut{cut.number}.json"
        identity = self._identity(plan, devices)
        if (kept := _kept(place, identity, PowerCutFinding)) is not None:
            return kept
        cpu = self._cpus.get()
        try:
            finding = cut.made(self._runner, self._study, self._folder / "attempts", cpu, cancel)
        finally:
            self._cpus.put(cpu)
        _keep(place, identity, finding)
        return finding

    def capabilities(self, cells: Sequence[Capability], cuts: Sequence[PowerCutFinding] = ()) -> Capabilities:
        """The cells with their study, lab and probes, to be kept among the study's results."""
        study = self._study
        return Capabilities(
            study=study.name,
            fingerprint=fingerprint_of(self._runner.identity),
            probes=tuple(
                ProbeTitle(name=each.name, title=each.title, question=each.question) for each in PROBES
            ),
            stacks={name: stack_title(study, stack) for name, stack in study.stacks.items()},
            cells=tuple(cells),
            cuts=tuple(cuts),
            uncut=uncut(study) if cuts else {},
        )

    def _cell(self, stack: str, kind: type[Probe], *, fresh: bool, cancel: Event) -> Capability:
        if unavailable := self._study.stacks[stack].unavailable():
            return Capability(stack=stack, probe=kind.name, verdict="no", note=unavailable)
        probes = kind.tries(self._study.stacks[stack])
        return worst_of([self._try(stack, probe, fresh=fresh, cancel=cancel) for probe in probes], probes)

    def _try(self, stack: str, probe: Probe, *, fresh: bool, cancel: Event) -> Capability:
        kind, name = type(probe), "-".join(filter(None, (probe.name, probe.disk)))
        try:
            own = self._study.of(stack)
            probe_plan = probe.resized(ProbePlan(own, own.stacks[stack], name))
            refused = probe.prepare(probe_plan)
            if refused is not None:
                return Capability(stack=stack, probe=kind.name, verdict="no", note=refused)
            plan = probe_plan.plan()
        except PlanError as error:
            return _undecided(stack, kind, str(error).partition("\n")[0])
        place = self._folder / f"{stack}.{name}.json"
        identity = self._identity(plan, self._devices(plan))
        if not fresh and (kept := _kept(place, identity, Capability)) is not None:
            return kept
        cpu = self._cpus.get()
        try:
            cell = self._probed(probe, probe_plan, plan, cpu, cancel)
        finally:
            self._cpus.put(cpu)
        _keep(place, identity, cell)
        return cell

    def _identity(self, plan: Plan, devices: Mapping[str, Device]) -> str:
        made_of = {
            "probes": _PROBES_VERSION,
            "plan": sha256_hex(plan.to_json()),
            "setting": self._runner.setting(plan, devices),
            "lab": fingerprint_of(self._runner.identity_of(plan)).model_dump(),
        }
        return sha256_hex(canonical_json(made_of))

    def _probed(
        self, probe: Probe, probe_plan: ProbePlan, plan: Plan, cpu: int | None, cancel: Event
    ) -> Capability:
        if probe.looks_first:
            events = self._boot(plan, cpu, cancel, trace=True)
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
        return _ended(probe_plan, probe, self._boot(plan, cpu, cancel))

    def _devices(self, plan: Plan) -> dict[str, Device]:
        return {each.name: self._study.devices[each.name].device for each in plan.devices}

    def _attempt(self, plan: Plan) -> Path:
        return self._folder / "attempts" / plan.trial.id

    def _boot(self, plan: Plan, cpu: int | None, cancel: Event, *, trace: bool = False) -> Events | str:
        """The events of a boot, or why a lab died without any."""
        folder = self._attempt(plan)
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        (folder / PLAN_NAME).write_bytes(plan.to_json())
        if cancel.is_set():
            raise Cancelled
        try:
            self._runner.run(Task(plan, self._devices(plan), folder, trace=trace, cpu=cpu, cancel=cancel))
        except RunError as error:
            return str(error)
        return read_events(folder / EVENTS_NAME)


def _ended(probe_plan: ProbePlan, probe: Probe, events: Events | str) -> Capability:
    if isinstance(events, str):
        return _undecided(probe_plan.stack.name, type(probe), events.partition("\n")[0])
    return cell_of(probe_plan, probe, events)


def _undecided(stack: str, kind: type[Probe], why: str) -> Capability:
    return Capability(stack=stack, probe=kind.name, verdict="failed", note=why)


def _keep(place: Path, identity: str, found: Capability | PowerCutFinding) -> None:
    kept = {"identity": identity, _KEYS[type(found)]: found.model_dump(mode="json")}
    write_durably(place, json.dumps(kept, indent=1).encode())


def _kept(place: Path, identity: str, model: type[_Kept]) -> _Kept | None:
    """A finding that was kept under the same identity; a damaged one is found anew."""
    try:
        kept = json.loads(read_plain(place))
        found = kept[_KEYS[model]]
        if kept["identity"] == identity and found["verdict"] != "failed":
            return model.model_validate_json(json.dumps(found))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
