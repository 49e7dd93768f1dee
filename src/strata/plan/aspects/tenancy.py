# SPDX-License-Identifier: Apache-2.0
"""Where loads can run: tenants beside one another, in a virtual machine or container, on several devices."""

from __future__ import annotations

from strata.model.stack import Stack
from strata.model.workload import Tenant, loads_of
from strata.plan.aspects.aspect import Aspect, Combination
from strata.plan.placement import is_limited


class Tenancy(Aspect):
    """Several workloads at once, each on its share of the stack."""

    def unmet(self, combination: Combination) -> str | None:
        stack, tenants = combination.stack, combination.load.tenants()
        if not tenants:
            return None
        if stack.filesystems:
            return "several tenants cannot run on a stack with further filesystems"
        if not stack.common:
            return "several tenants need a layer that they share, and the stack is a bare disk"
        if stack.share(combination.study.capacities_bytes, tuple(tenants)) is None:
            shared = stack.common[-1].layer
            return f"several tenants cannot share {shared}: put a filesystem, a pool, lvm or lvm-thin on it"
        limits_all = [layer for layer in stack.common if not layer.is_container]
        if any(tenant.memory_bytes for tenant in tenants.values()) and is_limited(limits_all):
            return "a guest that several tenants share cannot limit each: write it in `each`"
        return next((why for name, tenant in tenants.items() if (why := _unfit(stack, name, tenant))), None)


def _unfit(stack: Stack, name: str, tenant: Tenant) -> str | None:
    provides = stack.layers[-1].provides
    if (tenant.io or tenant.cpus) and is_limited(stack.layers):
        return f"the tenant {name} is in a guest or a container: write its limits `io` and `cpus` there"
    for part in filter(None, (tenant.load, tenant.before)):
        if part.needs_layers:
            return f"the tenant {name} ({part.workload}) would take down layers that others use"
        if provides not in part.runs_on:
            return f"the tenant {name} ({part.workload}) cannot run on what the stack ends in: {provides}"
    return None


class Apart(Aspect):
    """The virtual machine or container of a stack, which sees nothing else of the lab."""

    def unmet(self, combination: Combination) -> str | None:
        stack = combination.stack
        apart = next((layer for layer in stack.every_layer if layer.is_apart), None)
        if apart is None:
            return None
        what = "container" if apart.is_container else "virtual machine"
        own = (part.layers[part.base if part.own else stack.common_base :] for part in stack.parts)
        if stack.filesystems and any(layer.is_apart for layers in own for layer in layers):
            return f"a {what} sees none of the filesystems outside it"
        for load in loads_of(combination.load):
            if apart.is_container and load.inputs():
                return f"{load.workload} reads a file that the {what} does not have"
        return None


class Places(Aspect):
    """The devices beside the first one, which some loads run on, too."""

    def unmet(self, combination: Combination) -> str | None:
        stack, layers = combination.stack, combination.here.layers
        if layers and layers[-1].provides == "filesystem":
            return None
        further = stack.devices[1:] if stack.is_bare and not combination.load.tenants() else ()
        for load in loads_of(combination.load):
            if further and not load.places_beside:
                return f"{load.workload} runs on one device, and the stack ends in {len(stack.devices)}"
            if missing := next((place for place in load.places_beside if place not in further), None):
                return f'the stack has no further device "{missing}"'
        return None
