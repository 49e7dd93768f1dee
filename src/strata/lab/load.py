# SPDX-License-Identifier: Apache-2.0
"""The load generator: only plans whose steps run it depend on it, and carry it with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from strata.errors import LabError
from strata.lab.agent import ProgramBuild
from strata.plan.model import Plan
from strata.spec.step import LOAD

PATH: Final = "/run/strata/load"
"""Where the steps find it in the lab."""
_INITIAL_PATH: Final = "strata/programs/load"


@dataclass(frozen=True)
class LoadBuild(ProgramBuild):
    """A finished load generator."""


def uses_load(plan: Plan) -> bool:
    """Whether a step of the plan runs the load generator."""
    return LOAD in plan.variables


def load_bindings(plan: Plan) -> dict[str, Any]:
    """What the lab's agent is told of it, as JSON types; empty for a plan without it."""
    if not uses_load(plan):
        return {}
    return {"programs": [{"path": f"/{_INITIAL_PATH}", "to": PATH}]}


def load_variables(plan: Plan, path: str = PATH) -> dict[str, str]:
    """What the plan's variable for it stands for; empty for a plan without it."""
    return {LOAD: path} if uses_load(plan) else {}


def load_setting(plan: Plan, load: LoadBuild | None) -> dict[str, str]:
    """Its hash, which is part of the identity of trials that run it; empty for a plan without it.

    Raises:
        LabError: If the plan needs it and it is not built.
    """
    return {LOAD: require_load(plan, load).sha256} if uses_load(plan) else {}


def load_file(plan: Plan, load: LoadBuild | None) -> dict[str, bytes]:
    """The program, by its path in the lab's initial root; empty for a plan without it.

    Raises:
        LabError: If the plan needs it and it is not built.
    """
    return {_INITIAL_PATH: require_load(plan, load).path.read_bytes()} if uses_load(plan) else {}


def require_load(plan: Plan, load: LoadBuild | None) -> LoadBuild:
    """The load generator, which must be built for this plan.

    Raises:
        LabError: If it is not.
    """
    if load is None:
        raise LabError(
            "the load generator must be built first",
            place=plan.trial.id,
            remedy="run `strata lab build --only load`",
        )
    return load
