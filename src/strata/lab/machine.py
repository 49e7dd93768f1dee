# SPDX-License-Identifier: Apache-2.0
"""Virtual machines inside the lab: a kernel, the root image and the agent once more.

The agent outside starts the machine as a program: the lab's own kernel, or QEMU with Debian's. The machine's
initial root (`strata.lab.initrd`) has the agent as ``/init``, the plan's modules and programs, and
``/strata/machine.json`` in place of a plan.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from strata.lab.disk import ROOT_DISK
from strata.model.step import (
    AGENT,
    IMAGE_MACHINE,
    MACHINE_INITRD,
    MACHINE_KERNEL,
    MACHINE_ROOT,
    QEMU_INITRD,
    QEMU_KERNEL,
    QEMU_OPTIONS,
    SEVERAL_CPUS,
)
from strata.plan.model import Plan
from strata.servers.postgresql import EXTENSIONS
from strata.words import listed

FILES: Final = {
    name: f"strata/programs/{name}" for name in (MACHINE_KERNEL, MACHINE_INITRD, QEMU_KERNEL, QEMU_INITRD)
}
"""The place of each of these variables' files in the lab's initial root."""
BINDINGS_FILE: Final = "strata/machine.json"

_PLACE: Final = "/run/strata/machine"


class QemuProcessor(StrEnum):
    """QEMU's options about the processor of its virtual machines."""

    KVM = "-accel kvm -cpu host"
    EMULATED = "-accel tcg -cpu max"
    # A nanosecond an instruction, and the lab's time while the machine waits.
    BY_VIRTUAL_CLOCK = (
        "-machine hpet=off -accel tcg,thread=single,tb-size=64 -icount shift=0,sleep=on,align=on"
    )


def has_machines(plan: Plan) -> bool:
    """Whether a plan starts the lab's kernel as a virtual machine."""
    return MACHINE_KERNEL in plan.variables


def lacking_in_lab(plan: Plan) -> str | None:
    """Why the lab has no such machine, or none with the plan's processors or extensions, as a clause.

    None if it has. `kernel/config/lab.config` says why the same kernel cannot have several.
    """
    if IMAGE_MACHINE in plan.prerequisites.features:
        return (
            "a machine from an image runs on a host (`--runner host`): the lab has neither KVM nor ssh, and "
            "a whole system that boots by emulation inside it would take hours"
        )
    needed = {
        each.removeprefix("postgresql:") for each in plan.prerequisites.features if "postgresql:" in each
    }
    if missing := sorted(needed - EXTENSIONS):
        return (
            f"the lab's PostgreSQL has no extension {listed(missing)}: leave out what needs it, "
            "or run the study on a host that has it"
        )
    if "cgroup:cpu" in plan.prerequisites.features and not plan.processor:
        return 'with cpu = "free" computing takes no time, so that no group of programs can have `cpus`'
    if SEVERAL_CPUS not in plan.prerequisites.features:
        return None
    return (
        "a virtual machine has one processor unless its emulator is QEMU: in User-Mode Linux several would "
        "wait for one another in loops that do not enter the lab's kernel, and virtual time stands still then"
    )


def machine_variables(plan: Plan) -> dict[str, str]:
    """The values of the plan's variables for machines and containers."""
    # The agent is no file any more once the lab has moved into its root image.
    values = {AGENT: "/proc/1/exe", MACHINE_ROOT: f"/dev/{ROOT_DISK}"}
    values[QEMU_OPTIONS] = QemuProcessor.BY_VIRTUAL_CLOCK.value
    values |= {name: f"{_PLACE}/{name}" for name in FILES}
    return {name: value for name, value in values.items() if name in plan.variables}


def machine_programs(plan: Plan) -> list[dict[str, str]]:
    """The agent's bindings for the files that machines start from, as JSON types."""
    return [
        {"path": f"/{path}", "to": f"{_PLACE}/{name}"}
        for name, path in FILES.items()
        if name in plan.variables
    ]
