# SPDX-License-Identifier: Apache-2.0
"""The load generator: an input of those plans only whose steps run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from strata.errors import LabError
from strata.lab.cache import Build
from strata.plan.model import Plan
from strata.spec.step import LOAD

PATH: Final = "/run/strata/load"
"""Where the steps find it in the lab."""
_INITIAL_PATH: Final = "strata/programs/load"


@dataclass(frozen=True)
class LoadBuild(Build):
    """A finished load generator."""

    FILE: ClassVar[str] = "strata-load"


def uses_load(plan: Plan) -> bool:
    """Whether a step of the plan runs the load generator."""
    return LOAD in plan.variables


def load_bindings(plan: Plan) -> dict[str, Any]:
    """The agent's bindings for it, as JSON types; empty for a plan without it."""
    return {"programs": [{"path": f"/{_INITIAL_PATH}", "to": PATH}]} if uses_load(plan) else {}


def load_variables(plan: Plan, path: str = PATH) -> dict[str, str]:
    """The value of the plan's variable for it; empty for a plan without it."""
    return {LOAD: path} if uses_load(plan) else {}


def load_setting(plan: Plan, load: LoadBuild | None) -> dict[str, str]:
    """Its hash, part of the identity of trials that run it; empty for a plan without it."""
    return {LOAD: require_load(plan, load).sha256} if uses_load(plan) else {}


def load_file(plan: Plan, load: LoadBuild | None) -> dict[str, bytes]:
    """The program, by its path in the lab's initial root; empty for a plan without it."""
    return {_INITIAL_PATH: require_load(plan, load).path.read_bytes()} if uses_load(plan) else {}


def require_load(plan: Plan, load: LoadBuild | None) -> LoadBuild:
    """The load generator; a `LabError` if it is not built."""
    if load is None:
        raise LabError(
            "the load generator must be built first",
            place=plan.trial.id,
            remedy="run `strata lab build --only load`",
        )
    return load
