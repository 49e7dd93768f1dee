# SPDX-License-Identifier: Apache-2.0
"""The values of a plan's variables in a lab."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any, Final

from strata.lab.disk import ROOT_DISK, LabDisk
from strata.lab.inputs import input_variables
from strata.lab.lab import module_bindings
from strata.lab.programs import load_bindings, load_variables
from strata.plan.model import Plan
from strata.spec.device import Device
from strata.spec.trial import derive_seed

MOUNT_POINT: Final = "/mnt/stack"
LOWER_MOUNTS: Final = "/mnt/lower"
STACK: Final = "strata"
SCRATCH: Final = "/tmp"  # noqa: S108  the lab's own, a tmpfs that ends with it
HOSTNAME: Final = "lab"


def block_names(plan: Plan) -> dict[str, str]:
    """The block device of each of the plan's devices: ``sda`` and so on, in the plan's order."""
    devices = zip(plan.devices, string.ascii_lowercase, strict=False)
    return {device.name: f"sd{letter}" for device, letter in devices}


def lab_bindings(plan: Plan, *, interactive: bool = False) -> dict[str, Any]:
    """The content of ``bindings.json``: a function of the plan alone.

    If ``interactive``, a shell replaces the steps after phase ``build``.
    """
    names = block_names(plan)
    paths = {name: f"/dev/{block}" for name, block in names.items()}
    modules = module_bindings(plan)
    return {
        "runner": "lab",
        "variables": {
            **paths,
            **network_block_devices(plan),
            **load_variables(plan),
            **input_variables(plan),
            "mount": MOUNT_POINT,
            "mounts": LOWER_MOUNTS,
            "scratch": SCRATCH,
            "stack": STACK,
        },
        "stat_names": names,
        "hostname": HOSTNAME,
        "root_device": f"/dev/{ROOT_DISK}",
        "shell": interactive,
        **({"modules": modules} if modules else {}),
        **load_bindings(plan),
    }


def network_block_devices(plan: Plan) -> dict[str, str]:
    """A device of the driver nbd for each variable that asks for one."""
    return {name: f"/dev/nbd{index}" for index, name in enumerate(plan.network_devices)}


def lab_disks(plan: Plan, devices: Mapping[str, Device]) -> list[LabDisk]:
    """The modelled disks of a plan, given the model of each of its devices by name."""
    names = block_names(plan)
    return [
        LabDisk(names[used.name], devices[used.name], used.capacity_bytes, disk_seed(plan, used.name))
        for used in plan.devices
    ]


def disk_seed(plan: Plan, device: str) -> int:
    """The seed of a disk model's random draws, such as the latencies of a volume in the network."""
    return derive_seed(plan.trial.seed, "disk", device)
