# SPDX-License-Identifier: Apache-2.0
"""Where the workloads of a trial run: one on the whole stack, or several tenants on a share of it each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from strata.plan.alteration import placed_layers
from strata.spec.joint import JointKind
from strata.spec.layer import Placed
from strata.spec.stack import Stack
from strata.spec.step import Step
from strata.spec.study import Study
from strata.spec.workload import Tenant, Workload, WorkloadContext
from strata.units import NS_PER_S

_SYNC_LIMIT_NS: Final = 3600 * NS_PER_S


@dataclass(frozen=True)
class Site:
    """Where one workload runs.

    Attributes:
        tenant: The tenant's name; None for a workload that has the stack for itself.
        shared: The layers that it shares with other tenants, as it sees them.
        share: What makes its share of them.
        own: The layers that it has of its own; all of them, when it has the stack for itself.
        target: The path that it runs on.
        target_kind: What that is.
        memory_bytes: What it may take, or what the machine has.
    """

    name: str
    seed: int
    load: Workload
    tenant: str | None
    shared: tuple[Placed, ...]
    share: tuple[Step, ...]
    own: tuple[Placed, ...]
    target: str
    target_kind: JointKind
    memory_bytes: int

    @property
    def placed(self) -> list[Placed]:
        """All layers that it stands on."""
        return [*self.shared, *self.own]

    def context(self, *, window: str = "") -> WorkloadContext:
        """What the workload needs to know."""
        scratch = "${scratch}" if self.tenant is None else f"${{scratch}}/{self.tenant}"
        return WorkloadContext(
            self.name if self.tenant is None else f"{self.name}.{self.tenant}",
            self.seed,
            target=self.target,
            target_kind=self.target_kind,
            scratch_path=scratch,
            window=window,
            memory_bytes=self.memory_bytes,
            layers=tuple(self.placed),
        )


def sites_of(study: Study, stack: Stack, workload: str, seed: int) -> tuple[list[Placed], list[Site]]:
    """The layers that are built before all others, and where the workloads of a trial run.

    Returns:
        The shared layers, none when one workload has the stack for itself; and a site for each tenant.
    """
    load = study.workloads[workload]
    tenants = load.tenants()
    if not tenants:
        return [], [_alone(study, stack, workload, seed)]
    contexts = stack.common_contexts(study.capacities_bytes, seed, tuple(tenants))
    shared = list(zip(stack.common, contexts, strict=True))
    return shared, [_of_tenant(study, stack, workload, shared, name) for name in tenants]


def _alone(study: Study, stack: Stack, workload: str, seed: int) -> Site:
    placed = placed_layers(study, stack, seed)
    target, kind = _top(placed, (f"${{{stack.devices[0]}}}" if stack.devices else "", "block"))
    return Site(
        name=workload,
        seed=seed,
        load=study.workloads[workload],
        tenant=None,
        shared=(),
        share=(),
        own=tuple(placed),
        target=target,
        target_kind=kind,
        memory_bytes=study.memory_bytes,
    )


def _of_tenant(study: Study, stack: Stack, workload: str, shared: list[Placed], name: str) -> Site:
    tenant = study.workloads[workload].tenants()[name]
    layer, context = shared[-1]
    seed = context.seed
    context = replace(context, tenant=name)
    share = layer.share(context)
    assert share is not None  # `unmet_tenancy` has looked
    own = list(zip(stack.each, stack.tenant_contexts(seed, name, share), strict=True))
    target, kind = _top(own, (share.path, layer.gives))
    return Site(
        name=workload,
        seed=seed,
        load=tenant.load,
        tenant=name,
        shared=(*shared[:-1], (layer, context)),
        share=tuple(share.steps),
        own=tuple(own),
        target=target,
        target_kind=kind,
        memory_bytes=tenant.memory_bytes or study.memory_bytes,
    )


def _top(placed: Sequence[Placed], ground: tuple[str, JointKind]) -> tuple[str, JointKind]:
    """What the uppermost layer gives; without layers the ground itself."""
    if not placed:
        return ground
    layer, context = placed[-1]
    return layer.path(context), layer.gives


def unmet_tenancy(study: Study, stack: Stack, load: Workload) -> str | None:
    """Why tenants cannot run on a stack, as a sentence; None if they can, or if the workload is alone."""
    tenants = load.tenants()
    if not tenants:
        return None
    if not stack.common:
        return "several tenants need a layer that they share, and the stack is a bare disk"
    *_, context = stack.common_contexts(study.capacities_bytes, 1, tuple(tenants))
    layer, first = stack.common[-1], next(iter(tenants))
    if layer.share(replace(context, tenant=first)) is None:
        return f"several tenants cannot share {layer.layer}: put a filesystem, a pool, lvm or lvm-thin on it"
    gives = stack.layers[-1].gives
    for name, tenant in tenants.items():
        parts = [part for part in (tenant.load, tenant.before) if part is not None]
        if part := next((part for part in parts if part.needs_layers), None):
            return f"the tenant {name} ({part.workload}) would take down what others use"
        if gives not in tenant.load.runs_on:
            return f"the tenant {name} ({tenant.load.workload}) cannot run on what the stack ends in: {gives}"
    return None


def workload_steps(sites: Sequence[Site], tenants: Mapping[str, Tenant]) -> Iterator[tuple[Site, Step]]:
    """The steps of the workloads, each with where it runs; tenants run in lanes, beside one another.

    What they do before their loads, and what each does alone, is held apart from that by steps without lane.
    """
    if not tenants:
        yield from ((site, step) for site in sites for step in site.load.steps(site.context()))
        return
    named = [(site, tenants[site.tenant or ""]) for site in sites]
    yield from ((site, _folder(site)) for site in sites)
    for site, tenant in named:
        yield from ((site, step) for step in _before(site, tenant.before))
    if any(tenant.before for tenant in tenants.values()):
        yield sites[0], _SETTLED
    for site in sites:
        tenant_steps = site.load.steps(site.context())
        yield from ((site, of_tenant(step, f"{site.tenant}", lane=site.tenant)) for step in tenant_steps)
    for site, tenant in named:
        yield from ((site, step) for step in _alone_window(site, tenant.alone))


_SETTLED: Final = Step(
    id="settled",
    phase="prepare",
    title="Write back what was done before the loads",
    argv=("sync",),
    cwd="${scratch}",
    time_limit_ns=_SYNC_LIMIT_NS,
)


def _folder(site: Site) -> Step:
    return Step(
        id=f"{site.tenant}-scratch",
        phase="prepare",
        title=f"Make the private folder of {site.tenant}",
        argv=("install", "-d", "-m", "1777", site.context().scratch_path),
        cwd="${scratch}",
    )


def _before(site: Site, before: Workload | None) -> list[Step]:
    """What a tenant runs before its load, at the same time as the other tenants: all in phase ``prepare``."""
    steps = before.steps(site.context(window="before")) if before is not None else []
    laned = [of_tenant(step, f"{site.tenant}-before", lane=site.tenant) for step in steps]
    return [step.model_copy(update={"phase": "prepare"}) for step in laned]


def _alone_window(site: Site, alone: Workload | None) -> list[Step]:
    """A window of a tenant by itself, in phase ``warmup``: without a lane, so that nothing runs beside it."""
    steps = alone.steps(site.context(window="alone")) if alone is not None else []
    measured = [
        of_tenant(step, f"{site.tenant}-alone", lane=None) for step in steps if step.phase == "measure"
    ]
    return [step.model_copy(update={"phase": "warmup"}) for step in measured]


def of_tenant(step: Step, prefix: str, *, lane: str | None) -> Step:
    """A step of a tenant: its id is the tenant's, and it runs in the lane."""
    down = tuple(f"{prefix}-{each}" for each in step.takes_down)
    return step.model_copy(update={"id": f"{prefix}-{step.id}", "takes_down": down, "lane": lane})


def in_group(steps: Iterable[Step], group: str | None) -> list[Step]:
    """The steps inside of a control group: a guest's own."""
    return [*steps] if group is None else [step.model_copy(update={"cgroup": group}) for step in steps]
