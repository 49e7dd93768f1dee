# SPDX-License-Identifier: Apache-2.0
"""The golden cases as layers in their places, and all steps that a layer can be asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from golden_studies import LAYER_CASES, study_of, subject_of
from strata.model.layer import Layer, LayerContext
from strata.model.step import BROUGHT, Step
from strata.plan.catalogue import catalogue
from strata.plan.placement import placed_layers

SPARE: Final = "${spare}"
CASES_BY_LAYER: Final[dict[str, list[str]]] = {
    name: [case for case in LAYER_CASES if subject_of(case) == name] for name in catalogue().layers
}


@dataclass(frozen=True)
class Placed:
    """A layer in its place in the stack of a case, of seed 1."""

    case: str
    layer: Layer
    context: LayerContext

    @property
    def build(self) -> list[Step]:
        return self.layer.build(self.context)

    @property
    def assemble(self) -> list[Step]:
        """Its steps when it is assembled within a plan that has built it."""
        return self.layer.assemble(self.context.during("build", f"{self.context.name}-again"))

    @property
    def known_variables(self) -> set[str]:
        """Variables that the layer's steps and path may use before one of its own steps binds any."""
        below = {name for path in self.context.lower for name in variables_of(path)}
        return {*self.context.devices, *below, "mount", "mounts", "scratch", "stack", *BROUGHT}

    def abilities(self) -> Mapping[str, list[Step]]:
        """The steps of everything that the layer says it can do, by what it is."""
        found = {name: steps for name, steps in _asked(self.layer, self) if steps is not None}
        if "snapshot" in found:
            found["drop"] = self.layer.drop_snapshot(self._acting("drop"), "before")
        return found

    def outcomes(self) -> Mapping[str, str]:
        """The paths that its abilities make."""
        layer = self.layer
        made = {
            "clone": layer.clone(self._acting("clone"), "before"),
            "quota": layer.quota(self._acting("quota"), 64 << 20),
            "receive": layer.receive(self._acting("receive"), "before", "${scratch}/stream"),
        }
        return {name: outcome.path for name, outcome in made.items() if outcome is not None}

    def _acting(self, name: str) -> LayerContext:
        return self.context.during("alter", f"{self.context.name}-{name}")


def _asked(layer: Layer, placed: Placed) -> Iterable[tuple[str, list[Step] | None]]:
    act, capacity_bytes = placed._acting, placed.context.provided.smallest_bytes
    file = "${scratch}/stream"
    yield "snapshot", layer.snapshot(act("snapshot"), "before")
    yield "restore", layer.restore(act("restore"), "before")
    yield "grow", layer.resize(act("grow"), capacity_bytes, grow=True)
    yield "shrink", layer.resize(act("shrink"), capacity_bytes // 2, grow=False)
    yield "send", layer.send(act("send"), "before", "after", file)
    yield "scrub", layer.scrub(act("scrub"))
    lost = placed.context.lower[-1] if placed.context.lower else ""
    yield "rebuild", layer.rebuild(act("rebuild"), lost, SPARE)
    yield "rebuilt", layer.rebuilt(act("rebuilt"))
    allocated = layer.allocated(act("allocated"))
    yield "allocated", None if allocated is None else [allocated]
    for name, outcome in (
        ("clone", layer.clone(act("clone"), "before")),
        ("quota", layer.quota(act("quota"), 64 << 20)),
        ("receive", layer.receive(act("receive"), "before", file)),
    ):
        yield name, None if outcome is None else outcome.steps


@cache
def placed_in(case: str) -> list[Placed]:
    """The layers of a case's stack, from the lowest on."""
    with tempfile.TemporaryDirectory() as folder:
        study = study_of(case, Path(folder))
    return [Placed(case, *each) for each in placed_layers(study, study.stacks["stack"])]


def own_layer(case: str) -> Placed:
    """The layer that a case is about, in its place."""
    name = subject_of(case)
    return next(each for each in placed_in(case) if each.layer.layer == name)


def variables_of(text: str) -> set[str]:
    """The names of the variables in a text."""
    return Step(id="x", phase="build", title="x", argv=("true", text)).variables


def programs(steps: Iterable[Step]) -> set[str]:
    """The programs of the machine that steps run, also by the agent."""
    brought = {f"${{{name}}}" for name in BROUGHT}
    argvs = [command.argv for step in steps for command in step.commands]
    by_agent = {argv[argv.index("--") + 1] for argv in argvs if argv[0] in brought and "--" in argv}
    return ({argv[0] for argv in argvs} | by_agent) - brought
