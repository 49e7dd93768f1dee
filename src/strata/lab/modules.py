# SPDX-License-Identifier: Apache-2.0
"""Kernel modules in a lab: what is loaded for a plan, in which order, with which parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strata.errors import LabError
from strata.lab.lab import Lab
from strata.lab.zfs import Module
from strata.plan.model import Plan

FOLDER: Final = "strata/modules"
HOST_ID: Final = 0x57A7A
"""What pools are marked with as their owner; without a parameter ZFS would look for it in /etc/hostid."""


@dataclass(frozen=True)
class Loading:
    """One module of the lab's initial root.

    Attributes:
        name: Of the module.
        file: Its path there, without a leading slash.
        parameters: As on the command line of insmod.
    """

    name: str
    file: str
    parameters: str


# What each module that a plan may ask for needs before it, itself last, with the parameters.
_ORDER: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "zfs": (("spl", f"spl_hostid={HOST_ID}"), ("zfs", "")),
}


def loadings(plan: Plan) -> list[Loading]:
    """What is loaded for a plan before its steps.

    Raises:
        LabError: If the plan asks for a module that the lab has not got.
    """
    unknown = sorted(set(plan.prerequisites.modules) - set(_ORDER))
    if unknown:
        raise LabError(
            f"the lab has no kernel module {', '.join(unknown)}",
            place=plan.trial.id,
            remedy=f"it has {', '.join(_ORDER)}; everything else of its kernel is built in",
        )
    needed = dict(each for name in plan.prerequisites.modules for each in _ORDER[name])
    return [
        Loading(name, f"{FOLDER}/{index:02d}-{name}.ko", parameters)
        for index, (name, parameters) in enumerate(needed.items())
    ]


def module_bindings(plan: Plan) -> list[dict[str, str]]:
    """What the agent is told of them, as JSON types."""
    return [{"path": f"/{each.file}", "parameters": each.parameters} for each in loadings(plan)]


def module_hashes(plan: Plan, lab: Lab) -> dict[str, str]:
    """The hashes of the modules that are loaded for a plan, by name."""
    return {name: module.sha256 for name, module in _modules(plan, lab).items()}


def module_files(plan: Plan, lab: Lab) -> dict[str, bytes]:
    """The files of the modules that are loaded for a plan, by their paths in the initial root."""
    modules = _modules(plan, lab)
    return {each.file: modules[each.name].path.read_bytes() for each in loadings(plan)}


def _modules(plan: Plan, lab: Lab) -> dict[str, Module]:
    there = {module.name: module for module in lab.zfs.modules}
    return {each.name: there[each.name] for each in loadings(plan)}
