# SPDX-License-Identifier: Apache-2.0
"""Virtual machines inside the lab: the lab's own kernel, root image and agent once more.

The agent outside starts the kernel as a program. The machine's initial root (`strata.lab.initrd`) has the
agent as ``/init``, the plan's modules and programs, and ``/strata/machine.json`` in place of a plan.
"""

from __future__ import annotations

from typing import Final

from strata.lab.disk import ROOT_DISK
from strata.plan.model import Plan
from strata.spec.step import AGENT, MACHINE_INITRD, MACHINE_KERNEL, MACHINE_ROOT, SEVERAL_CPUS

KERNEL_FILE: Final = "strata/programs/machine-kernel"
INITRD_FILE: Final = "strata/programs/machine-initrd"
"""Where a machine's kernel and initial root are in the lab's initial root."""
BINDINGS_FILE: Final = "strata/machine.json"
ROOT_DEVICE: Final = "/dev/vdb"
"""The device of the root image in a machine: its second disk, after the disk of its stack."""

_KERNEL_PATH: Final = "/run/strata/machine/linux"
_INITRD_PATH: Final = "/run/strata/machine/initrd.cpio"


def has_machines(plan: Plan) -> bool:
    return MACHINE_KERNEL in plan.variables


def lacking_cpus(plan: Plan) -> str | None:
    """Why the lab has no machine with the plan's processors, as a clause; None if it has.

    `kernel/config/lab.config` says why the same kernel cannot have several.
    """
    if SEVERAL_CPUS not in plan.prerequisites.features:
        return None
    return (
        "a virtual machine of the lab has one processor: several would wait for one another in loops that do "
        "not enter the lab's kernel, and in these virtual time stands"
    )


def machine_variables(plan: Plan) -> dict[str, str]:
    """The values of the plan's variables for machines and containers."""
    # The agent is no file any more once the lab has moved into its root image.
    values = {AGENT: "/proc/1/exe", MACHINE_ROOT: f"/dev/{ROOT_DISK}"}
    values |= {MACHINE_KERNEL: _KERNEL_PATH, MACHINE_INITRD: _INITRD_PATH}
    return {name: value for name, value in values.items() if name in plan.variables}


def machine_programs(plan: Plan) -> list[dict[str, str]]:
    """The agent's bindings for what a machine starts from, as JSON types."""
    if not has_machines(plan):
        return []
    places = {KERNEL_FILE: _KERNEL_PATH, INITRD_FILE: _INITRD_PATH}
    return [{"path": f"/{path}", "to": to} for path, to in places.items()]
