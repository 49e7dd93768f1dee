# SPDX-License-Identifier: Apache-2.0
"""The lab's initial root: a cpio archive with the agent as ``/init``, its plan and its bindings.

The bindings are the values of the plan's variables. The archive's format is "newc" (the kernel's
Documentation/driver-api/early-userspace/buffer-format.rst). Equal content gives equal bytes: no times, no
owners, inode numbers by position.
"""

from __future__ import annotations

import stat
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from strata.devices.device import Device
from strata.lab.disk import ROOT_DISK, LabDisk
from strata.lab.inputs import input_variables
from strata.lab.lab import Lab, module_bindings, module_files, require_qemu_kernel
from strata.lab.machine import (
    BINDINGS_FILE,
    FILES,
    has_machines,
    machine_programs,
    machine_variables,
)
from strata.lab.programs import LoadBuild, load_file, load_programs, load_variables
from strata.lab.qemu_kernel import QemuKernelBuild, module_names, uses_qemu
from strata.model.step import LOAD, MACHINE_INITRD, MACHINE_KERNEL, QEMU_INITRD, QEMU_KERNEL
from strata.plan.model import Plan, canonical_json
from strata.seeds import derive_seed

_MAGIC: Final = b"070701"
_TRAILER: Final = "TRAILER!!!"
_ALIGNMENT: Final = 4
# Without it the first process has no output: no filesystem is mounted yet.
_CONSOLE: Final = (5, 1)
_FOLDERS: Final = ("dev", "newroot", "proc", "run", "strata", "sys", "tmp")
_NOTHING: Final[Mapping[str, bytes]] = {}


@dataclass(frozen=True)
class Member:
    """One file, folder or device of an archive; ``path`` has no leading slash."""

    path: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def lab_initrd(
    agent: bytes,
    plan: bytes,
    bindings: bytes,
    modules: Mapping[str, bytes] = _NOTHING,
    programs: Mapping[str, bytes] = _NOTHING,
) -> bytes:
    """The archive that a lab boots from; modules and programs are given by their paths."""
    files = {"strata/plan.json": plan, "strata/bindings.json": bindings}
    return _archive(agent, files, modules, programs)


def plan_files(plan: Plan, lab: Lab) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The modules and the programs of a plan, by their paths in the initial root."""
    return module_files(plan, lab), load_file(plan, lab.load) | _machine_files(plan, lab)


@dataclass(frozen=True)
class Inside:
    """The parts of every virtual machine of a plan.

    ``places`` are the plan's variables for folders and the load generator, as steps outside have them.
    """

    agent: bytes
    load: LoadBuild | None
    places: Mapping[str, str]


def _machine_files(plan: Plan, lab: Lab) -> dict[str, bytes]:
    """The kernels and the initial roots of the plan's virtual machines."""
    places = {"mount": MOUNT_POINT, "mounts": LOWER_MOUNTS, "scratch": SCRATCH, **load_variables(plan)}
    inside, found = Inside(lab.agent.path.read_bytes(), lab.load, places), {}
    if has_machines(plan):
        found[FILES[MACHINE_KERNEL]] = lab.kernel.path.read_bytes()
        modules = module_files(plan, lab)
        found[FILES[MACHINE_INITRD]] = _machine_initrd(plan, inside, modules, module_bindings(plan))
    if uses_qemu(plan):
        kernel = require_qemu_kernel(plan, lab)
        found[FILES[QEMU_KERNEL]] = kernel.path.read_bytes()
        found[FILES[QEMU_INITRD]] = qemu_initrd(plan, inside, kernel)
    return found


def qemu_initrd(plan: Plan, inside: Inside, kernel: QemuKernelBuild) -> bytes:
    """The initial root of the plan's virtual machines under QEMU."""
    loaded = kernel.loaded_for(plan.inside)
    modules = dict(zip(module_names(loaded), loaded.values(), strict=True))
    return _machine_initrd(plan, inside, modules, [{"path": f"/{path}"} for path in modules])


def _machine_initrd(
    plan: Plan, inside: Inside, modules: Mapping[str, bytes], loadings: list[dict[str, str]]
) -> bytes:
    bindings = {
        "runner": "lab",
        "hostname": "guest",
        "variables": {name: path for name, path in inside.places.items() if name != LOAD},
        "modules": loadings,
        "programs": load_programs(plan, inside.places.get(LOAD, "")),
    }
    files = {BINDINGS_FILE: canonical_json(bindings)}
    return _archive(inside.agent, files, modules, load_file(plan, inside.load))


def _archive(
    agent: bytes, files: Mapping[str, bytes], modules: Mapping[str, bytes], programs: Mapping[str, bytes]
) -> bytes:
    folders = sorted({path.rpartition("/")[0] for path in (*modules, *programs)})
    return cpio(
        [
            *(Member(folder, stat.S_IFDIR | 0o755) for folder in _FOLDERS),
            Member("dev/console", stat.S_IFCHR | 0o600, device=_CONSOLE),
            Member("init", stat.S_IFREG | 0o755, agent),
            *(Member(path, stat.S_IFREG | 0o644, content) for path, content in files.items()),
            *(Member(folder, stat.S_IFDIR | 0o755) for folder in folders),
            *(Member(path, stat.S_IFREG | 0o644, content) for path, content in modules.items()),
            *(Member(path, stat.S_IFREG | 0o755, content) for path, content in programs.items()),
        ]
    )


def cpio(members: list[Member]) -> bytes:
    """An archive of ``members``, in their order; a folder must come before its content."""
    records = [_record(member, inode) for inode, member in enumerate(members, start=1)]
    return b"".join([*records, _record(Member(_TRAILER, 0), 0)])


def _record(member: Member, inode: int) -> bytes:
    name = member.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(member.mode) else 1
    fields = (
        *(inode, member.mode, 0, 0, links, 0, len(member.content)),  # 0: owner, group, time
        *(0, 0, *member.device, len(name), 0),
    )
    header = _MAGIC + b"".join(b"%08x" % field for field in fields) + name
    return header + _padding(len(header)) + member.content + _padding(len(member.content))


def _padding(length: int) -> bytes:
    return b"\0" * (-length % _ALIGNMENT)


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
    modules, programs = module_bindings(plan), [*load_programs(plan), *machine_programs(plan)]
    return {
        "runner": "lab",
        "variables": {
            **paths,
            # Devices of the driver nbd.
            **{name: f"/dev/nbd{index}" for index, name in enumerate(plan.network_devices)},
            **load_variables(plan),
            **input_variables(plan),
            **machine_variables(plan),
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
        **({"programs": programs} if programs else {}),
    }


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
