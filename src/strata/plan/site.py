# SPDX-License-Identifier: Apache-2.0
"""Where the programs of steps run: the plan's own machine, a virtual machine or a container."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from strata.model.layer import Layer, LayerContext, Placed
from strata.model.step import INPUT_PREFIX, Purpose, Step


class Site(NamedTuple):
    """Where programs of steps run."""

    machine: str | None = None  # the socket of a virtual machine or container; None: the plan's own machine
    cgroup: str | None = None
    is_container: bool = False
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
        return Site(machine, cgroup, layer.is_container, inputs)

    @property
    def is_vm(self) -> bool:
        """Whether it has a kernel, and so dirty data, of its own."""
        return self.machine is not None and not self.is_container

    def _own(self, step: Step) -> Step:
        def inside(text: str) -> str:
            for variable, path in self.inputs:
                text = text.replace(variable, path)
            return text

        return step.mapped(inside) if self.inputs else step

    def hold(self, steps: Iterable[Step]) -> list[Step]:
        """The steps, here; a step that names a machine of its own has left this site."""
        places = {"machine": self.machine, "cgroup": self.cgroup}
        changed = {key: value for key, value in places.items() if value is not None}
        return [
            step
            if step.machine is not None or (step.outside and self.is_container)
            else self._own(step).model_copy(update=changed)
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
