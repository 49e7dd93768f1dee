# SPDX-License-Identifier: Apache-2.0
"""Where the programs of a trial run: on a stack, or a share of it; on the machine, or in one of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from strata.model.duties import RunsPrograms
from strata.model.layer import Interface, Layer, LayerContext, Placed, Provided
from strata.model.memory_limit import (
    MEMORY_PREREQUISITES,
    NO_LIMITS,
    GroupLimits,
    control_group,
    limit_memory,
)
from strata.model.page_cache import synced
from strata.model.stack import Stack
from strata.model.step import INPUT_PREFIX, LOAD_USER, Command, Phase, Prerequisites, Purpose, Step, Window
from strata.model.study import Study
from strata.model.trial import TrialKey
from strata.model.workload import Tenant, Workload, WorkloadContext, loads_of
from strata.plan.by_ssh import all_by_ssh
from strata.rules.fit import snapshotting


class Site(NamedTuple):
    """Where programs of steps run."""

    machine: str | None = None  # the socket of a virtual machine or container; None: the plan's own machine
    cgroup: str | None = None
    is_container: bool = False
    has_agent: bool = True
    inputs: tuple[tuple[str, str], ...] = ()  # the paths of inputs in the machine, by variable

    def above(self, layer: Layer, context: LayerContext) -> Site:
        """The site of everything above a layer that is brought up here."""
        machine, cgroup = layer.machine(context), layer.cgroup(context)
        if machine is None and cgroup is None:
            return self
        if machine is None:
            return self._replace(cgroup=cgroup)
        inside = layer.inputs_inside(context)
        inputs = tuple((f"${{{INPUT_PREFIX}{name}}}", path) for name, path in inside.items())
        return Site(machine, cgroup, layer.is_container, layer.image_source() is None, inputs)

    @property
    def is_vm(self) -> bool:
        """Whether it has a kernel, and so dirty data, of its own."""
        return self.machine is not None and not self.is_container

    def hold(self, steps: Iterable[Step]) -> list[Step]:
        """The steps, here; a step that names a machine of its own has left this site."""
        if self.machine is not None and not self.has_agent:
            return all_by_ssh(steps, self.machine, self.cgroup)

        def inside(text: str) -> str:
            for variable, path in self.inputs:
                text = text.replace(variable, path)
            return text

        places = {"machine": self.machine, "cgroup": self.cgroup}
        changed = {key: value for key, value in places.items() if value is not None}
        return [
            step
            if step.machine is not None or (step.outside and self.is_container)
            else (step.mapped(inside) if self.inputs else step).model_copy(update=changed)
            for step in steps
        ]


HERE: Final = Site()
"""The plan's own machine, in no control group."""


class LayerPlace(NamedTuple):
    """A layer of a stack where it stands."""

    layer: Layer
    context: LayerContext
    """Its name there is unique in the stack: that of a tenant's own layer begins with the tenant's."""
    name: str  # its name without that
    tenant: str | None  # the tenant whose own layer it is; None: everyone's
    site: Site  # of its steps: that of the guest it stands on

    def build(self) -> list[Step]:
        return self.site.hold(self.layer.build(self.context))

    def acting(self, steps: Iterable[Step], purpose: Purpose, **fields: Any) -> list[Step]:
        """Steps of the layer with a purpose, and with further fields of `Step`."""
        return [step.model_copy(update={"purpose": purpose, **fields}) for step in self.site.hold(steps)]


def sites(placed: Iterable[Placed], base: Site = HERE) -> list[Site]:
    """The site of each layer's steps, from the lowest on, and then that of everything above.

    Steps above a guest run in it, whenever they do. ``base`` is the site below all.
    """
    found = [base]
    for layer, context in placed:
        found.append(found[-1].above(layer, context))
    return found


def stand(
    placed: Sequence[Placed], names: Sequence[str], tenant: str | None = None, base: Site = HERE
) -> tuple[list[LayerPlace], Site]:
    *below, above = sites(placed, base)
    return [
        LayerPlace(layer, context, name, tenant, site)
        for (layer, context), name, site in zip(placed, names, below, strict=False)
    ], above


_BEFORE: Final[Window] = "before"  # its steps have folders of their own: both loads may be of one kind


@dataclass(frozen=True)
class Placement:
    seed: int
    load: Workload
    layers: tuple[LayerPlace, ...]  # the layers that it stands on, as it sees them; shared ones come first
    target: str  # the path that it runs on
    target_kind: Interface  # the kind of that path
    memory_bytes: int  # its memory limit, or the machine's memory
    load_site: Site  # of its load
    tenant: str | None = None  # the tenant's name; None for a workload that has the stack for itself
    shared: int = 0  # how many of the layers are shared
    share: tuple[Step, ...] = ()  # the steps that make its share of them, and its memory limit
    base: Site = HERE  # above the layers that are shared
    places: Mapping[str, str] = field(default_factory=dict, hash=False)  # further filesystems' mount points
    restarts: bool = False  # whether the machine starts anew between preparing and measuring
    is_read_alike: bool = False  # see `is_read_alike`
    is_cut: bool = False  # whether the power will be cut during its load
    limits: GroupLimits = NO_LIMITS  # of its own control group
    is_limited: bool = False  # whether the control group of `load_site` is its own, which limits its memory

    @property
    def prerequisites(self) -> Prerequisites:
        tools = Prerequisites(tools=tuple(step.argv[0] for step in self.share))
        tools |= self.limits.needs()
        return tools | MEMORY_PREREQUISITES if self.is_limited else tools

    @property
    def placed(self) -> list[Placed]:
        return [(each.layer, each.context) for each in self.layers]

    @property
    def snapshotting(self) -> LayerPlace:
        """The uppermost layer that takes snapshots; only of a stack that has one."""
        found = snapshotting(self.placed)
        assert found is not None, "unmet aspects are left out"
        return next(place for place in self.layers if place.context.name == found[1].name)

    def build(self) -> list[Step]:
        own = [step for each in self.layers[self.shared :] for step in each.build()]
        return [*self.base.hold(self.share), *own]

    def of_load(self, steps: Iterable[Step]) -> list[Step]:
        return self.load_site.hold(steps)

    def context(self, *, window: Window = "") -> WorkloadContext:
        """The workload's context; a tenant's steps before its load have folders of their own."""
        scratch = "${scratch}" if self.tenant is None else f"${{scratch}}/{self.tenant}"
        target = self.target
        if window == _BEFORE:
            scratch = f"{scratch}/{_BEFORE}"
            target = f"{target}/{_BEFORE}" if self.target_kind == "filesystem" else target
        return WorkloadContext(
            self._drawn_by,
            self.seed,
            target=target,
            target_kind=self.target_kind,
            scratch_path=scratch,
            window=window,
            places=self.places,
            memory_bytes=self.memory_bytes,
            layers=tuple(self.placed),
            restarts=self.restarts,
            is_read_alike=self.is_read_alike,
            is_cut=self.is_cut,
        )

    @property
    def _drawn_by(self) -> str:
        """The name that everything random of the load derives from: loads of one kind can share data."""
        return self.load.workload if self.tenant is None else f"{self.load.workload}.{self.tenant}"


def is_read_alike(study: Study, stack: str) -> bool:
    """Whether a stack is a disk that costs a read the same, whether or not something was written there.

    Not on a host: of the file of a loop device nothing is read then.
    """
    disks = [used.device for used in study.stack_devices(stack)]
    return not study.stacks[stack].layers and not study.is_on_host and all(d.reads_alike for d in disks)


def places_by_name(placements: Iterable[Placement]) -> dict[str, LayerPlace]:
    """All layers by their names in their contexts."""
    return {place.context.name: place for each in placements for place in each.layers}


def placed_layers(study: Study, stack: Stack, seed: int = 1) -> list[Placed]:
    contexts = _on_queues(study, stack.contexts(study.capacities_bytes, seed))
    return list(zip(stack.layers, contexts, strict=True))


def _on_queues(study: Study, contexts: Iterable[LayerContext]) -> list[LayerContext]:
    """The contexts, in which the disks with bfq are named."""
    bfq = tuple(name for name, each in study.devices.items() if each.queue.scheduler == "bfq")
    return [replace(each, bfq=bfq) for each in contexts]


def placements_of(study: Study, key: TrialKey) -> tuple[list[LayerPlace], list[Placement]]:
    """The layers that tenants share, and a placement for each tenant or for the only workload."""
    stack, seed = study.stacks[key.stack], key.seed
    load = study.load(key.stack, key.workload, key.rate)
    tenants = load.tenants()
    if not tenants:
        alone = _alone(study, stack, key, load)
        if not stack.filesystems:
            return [], [alone]
        here, common = stack.at(alone.load.place), stack.common_base
        bases = {part.own: part.base if part.own else common for part in stack.parts}
        below = _places(study, stack, seed, load)[0][:common]
        others = [
            place
            for part in stack.parts
            if part is not here
            for place in _places(study, part, seed, load)[0][bases[part.own] :]
        ]
        return [*below, *others], [replace(alone, shared=bases[here.own])]
    contexts = _on_queues(study, stack.common_contexts(study.capacities_bytes, seed, tuple(tenants)))
    placed = _with_inputs(zip(stack.common, contexts, strict=True), load)
    shared, base = stand(placed, stack.layer_names)
    return shared, [_of_tenant(study, key, *tenant, (shared, base)) for tenant in tenants.items()]


def _places(study: Study, part: Stack, seed: int, load: Workload) -> tuple[list[LayerPlace], Site]:
    return stand(_with_inputs(placed_layers(study, part, seed), load), part.layer_names)


def _with_inputs(placed: Iterable[Placed], *loads: Workload | None) -> list[Placed]:
    """The layers, in whose contexts the inputs of the loads above are named."""
    named = {name for load in loads if load for each in loads_of(load) for name in each.inputs()}
    return [(layer, replace(context, inputs=tuple(sorted(named)))) for layer, context in placed]


def _alone(study: Study, stack: Stack, key: TrialKey, load: Workload) -> Placement:
    places = {name: each.mount for name, each in stack.filesystems.items()}
    if stack.is_bare:
        places |= {name: f"${{{name}}}" for name in stack.devices}
    stack = stack.at(load.place)
    layers, site = _places(study, stack, key.seed, load)
    placed = [(each.layer, each.context) for each in layers]
    target, kind = _top(placed, (f"${{{stack.devices[0]}}}" if stack.devices else "", "block"))
    memory_bytes = load.memory_limit_bytes() if isinstance(load, RunsPrograms) else None
    limits, limited = _limits(study, "load", key.seed, GroupLimits(memory_bytes), stack)
    return Placement(
        seed=key.seed,
        load=load,
        places=places,
        restarts=study.prepare == "once",
        is_read_alike=is_read_alike(study, stack.name),
        layers=tuple(layers),
        target=target,
        target_kind=kind,
        share=tuple(limits),
        memory_bytes=min(memory_bytes or study.memory_bytes, _memory_bytes(study, stack.layers)),
        load_site=site if limited is None else site._replace(cgroup=limited),
        is_limited=limited is not None,
    )


def _limits(
    study: Study, name: str, seed: int, limits: GroupLimits, stack: Stack
) -> tuple[list[Step], str | None]:
    """The steps that limit a load, and its control group: none of them in a guest."""
    if limits == NO_LIMITS or is_limited(stack.layers):
        return [], None
    alone = LayerContext(name, seed, lower=(), provided=Provided("block", ()), disks=stack.all_devices)
    [context] = _on_queues(study, [alone])
    return limit_memory(context, limits, name), control_group(context)


def _of_tenant(
    study: Study, key: TrialKey, name: str, tenant: Tenant, common: tuple[list[LayerPlace], Site]
) -> Placement:
    (shared, base), stack = common, study.stacks[key.stack]
    lowest, memory_bytes = shared[-1], tenant.memory_bytes
    layer, seed = lowest.layer, lowest.context.seed
    layer = layer if memory_bytes is None else layer.limited(memory_bytes)
    context = replace(lowest.context, tenant=name)
    share = layer.share(context)
    assert share is not None  # `unmet_tenancy` has looked
    each = stack.each if memory_bytes is None else [one.limited(memory_bytes) for one in stack.each]
    contexts = _on_queues(study, stack.tenant_contexts(seed, name, share))
    own = _with_inputs(zip(each, contexts, strict=True), tenant.load, tenant.before)
    site = base.above(layer, context)
    layers, site = stand(own, stack.layer_names[len(stack.common) :], name, site)
    target, kind = _top(own, (share.path, layer.provides))
    limits = GroupLimits(memory_bytes, tenant.io, tenant.cpus)
    limiting, limited = _limits(study, name, seed, limits, replace(stack, layers=(layer, *each)))
    return Placement(
        seed=seed,
        load=tenant.load,
        tenant=name,
        layers=(*shared[:-1], lowest._replace(layer=layer, context=context), *layers),
        shared=len(shared),
        share=(*share.steps, *limiting),
        target=target,
        target_kind=kind,
        memory_bytes=memory_bytes or _memory_bytes(study, stack.layers),
        base=base,
        load_site=site if limited is None else site._replace(cgroup=limited),
        limits=limits,
        is_limited=limited is not None,
    )


def _memory_bytes(study: Study, layers: Iterable[Layer]) -> int:
    """The memory of a workload on these layers: a guest's, or the machine's."""
    limits = [limit for layer in layers if (limit := layer.memory_limit_bytes()) is not None]
    return min([*limits, study.memory_bytes])


def _top(placed: Sequence[Placed], base: tuple[str, Interface]) -> tuple[str, Interface]:
    if not placed:
        return base
    layer, context = placed[-1]
    return layer.path(context), layer.provides


def is_limited(layers: Iterable[Layer]) -> bool:
    return any(layer.memory_limit_bytes() is not None for layer in layers)


def workload_steps(placements: Sequence[Placement], tenants: Mapping[str, Tenant]) -> list[Step]:
    """The steps of the workloads; tenants run in lanes, beside one another.

    Steps without a lane stand between what tenants do before their loads, what each does alone, and the
    loads: they write back dirty data, so that no tenant waits for another's writes. The common window begins
    as the windows alone did: a load that spans warm-up and window is started anew for each.
    """
    if not tenants:
        return [step for each in placements for step in each.of_load(each.load.steps(each.context()))]
    named = [(placement, tenants[placement.tenant or ""]) for placement in placements]
    steps, before = list[Step](), list[Step]()
    for each, tenant in named:
        steps += each.of_load(_folders(each, tenant.before))
        before += each.of_load(_before(each, tenant.before))
    steps += before
    if before:
        title = "Write back the data of the steps before the loads"
        # Servers would take memory and processors from the loads until the end.
        steps += _written_back(placements, "settled", "prepare", title, _left_running(before))
    spanning: list[Step] = []
    for each in placements:
        own = each.of_load(of_tenant(each, each.load.steps(each.context())))
        late = [step for step in own if each.load.spans_window and step.phase == "warmup"]
        steps += [step for step in own if step not in late]
        spanning += late
    if any(tenant.alone for tenant in tenants.values()):
        steps += _alone_windows(placements, named)
    return [*steps, *spanning]


def _alone_windows(
    placements: Sequence[Placement], named: Iterable[tuple[Placement, Tenant]]
) -> Iterator[Step]:
    """The windows in which each tenant is alone, each after dirty data were written back."""
    for each, tenant in named:
        title = f"Write back dirty data before {each.tenant} is alone"
        yield from _written_back(placements, f"{each.tenant}-settled", "warmup", title)
        yield from each.of_load(_alone_window(each, tenant.alone))
    title = "Write back dirty data before all run together"
    yield from _written_back(placements, "settled-together", "warmup", title)


def _written_back(
    placements: Sequence[Placement], step_id: str, phase: Phase, title: str, down: tuple[str, ...] = ()
) -> list[Step]:
    """Write back the dirty data of each tenant's virtual machine, and then of the kernel that all share."""
    base = placements[0].base
    apart = [each for each in placements if each.load_site.is_vm and each.load_site.machine != base.machine]
    steps = [
        step
        for each in apart
        for step in each.of_load(
            [synced(None, f"{step_id}-in-{each.tenant}", phase, f"{each.tenant}: {title}")]
        )
    ]
    steps += base.hold([synced(None, step_id, phase, title)])
    return [steps[0].model_copy(update={"takes_down": down}), *steps[1:]]


def given_to_load(placement: Placement) -> Step:
    """The step that makes the loads' user the owner of the target, who could not write there otherwise."""
    step = Step(
        id="-".join(filter(None, (placement.tenant, "owner"))),
        phase="prepare",
        title=f"Let {LOAD_USER} own what the load runs on",
        argv=("chown", LOAD_USER, placement.target),
        cwd="${scratch}",
    )
    if placement.target_kind != "block":
        return step  # it is kept with the content
    # A filesystem's folder goes with it; the device is the machine's.
    undo = Command(argv=("chown", "root", placement.target), cwd="${scratch}")
    return step.model_copy(update={"undo": undo, "again": True})


def _left_running(steps: Iterable[Step]) -> tuple[str, ...]:
    running: list[str] = []
    for step in steps:
        running = [each for each in running if each not in step.takes_down]
        running += [step.id] if step.background else []
    return tuple(running)


def _folders(placement: Placement, before: Workload | None) -> Iterator[Step]:
    own, ahead = placement.context(), placement.context(window=_BEFORE)
    private = [own.scratch_path] if before is None else [own.scratch_path, ahead.scratch_path]
    yield Step(
        id=f"{placement.tenant}-scratch",
        phase="prepare",
        title=f"Make the private folder of {placement.tenant}",
        argv=("install", "-d", "-m", "1777", *private),
        cwd="${scratch}",
    )
    if before is not None and placement.target_kind == "filesystem":
        yield Step(
            id=f"{placement.tenant}-{_BEFORE}-folder",
            phase="prepare",
            title=f"Make the folder of what {placement.tenant} runs before its load",
            argv=("install", "-d", "-o", LOAD_USER, ahead.target),
            cwd="${scratch}",
        )


def _before(placement: Placement, before: Workload | None) -> list[Step]:
    """A tenant's steps before its load, beside those of the other tenants: all in phase ``prepare``."""
    steps = [] if before is None else before.steps(placement.context(window=_BEFORE))
    laned = of_tenant(placement, steps, _BEFORE)
    return [step.model_copy(update={"phase": "prepare"}) for step in laned]


def _alone_window(placement: Placement, alone: Workload | None) -> list[Step]:
    """A window of a tenant by itself, in phase ``warmup``: without a lane, so that nothing runs beside it."""
    steps = alone.steps(placement.context(window="alone")) if alone is not None else []
    phases = ("warmup", "measure", "inspect") if placement.load.spans_window else ("measure",)
    steps = [step for step in steps if step.phase in phases]
    measured = of_tenant(placement, steps, "alone")
    return [step.model_copy(update={"phase": "warmup"}) for step in measured]


def of_tenant(placement: Placement, steps: Sequence[Step], window: Window = "") -> list[Step]:
    """The steps of a tenant's window; their ids, and the variables that they bind, become its own."""
    bound = {step.binds for step in steps if step.binds is not None}
    return [step.of_tenant(placement.tenant or "", window, bound) for step in steps]
