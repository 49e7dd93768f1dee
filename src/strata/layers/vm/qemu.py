# SPDX-License-Identifier: Apache-2.0
"""A virtual machine of QEMU: Debian's kernel under KVM on a host, emulated in the lab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata.layers.vm.uml import LINE, disk_argv, folder_of, read_only, start_step
from strata.model.layer import LayerContext, RealTime
from strata.model.step import (
    QEMU_INITRD,
    QEMU_KERNEL,
    QEMU_OPTIONS,
    Command,
    Prerequisites,
    Step,
)
from strata.units import MIB, SECTOR_BYTES

if TYPE_CHECKING:
    from strata.layers.vm.vm import Vm

# Estimates: fio on a rotating disk took 50 s for 13 virtual seconds, on one core of a busy machine. The
# slowness was not measured; it is a little more than that of User-Mode Linux.
REAL_TIME: Final = RealTime(start_s=30, per_virtual=3, slowness=5)
NEEDS: Final = Prerequisites(
    tools=("mkdir", "qemu-system-x86_64", "rm", "test"), features=("guest:qemu",), packages=("qemu",)
)


def disk(vm: Vm) -> str:
    """The machine's disk, in its /dev."""
    return "sda" if vm.bus == "virtio-scsi" else "vda"


def bring_up(vm: Vm, context: LayerContext, **making: tuple[str, ...]) -> list[Step]:
    """Start the machine; ``making`` are further fields of the step that opens its disk."""
    folder = folder_of(context)
    return [
        context.step(
            "folder",
            "Make the machine's folder",
            *("mkdir", "--parents", folder),
            undo=Command(argv=("rm", "--recursive", "--force", folder)),
        ),
        start_step(
            context,
            disk(vm),
            *_argv(vm, context),
            has_lab_kernel=False,
            options=("--qemu", f"${{{QEMU_OPTIONS}}}"),
            **making,
        ),
    ]


def _argv(vm: Vm, context: LayerContext) -> list[str]:
    root = "/dev/vda" if vm.bus == "virtio-scsi" else "/dev/vdb"
    kernel = f"console=ttyS0 loglevel=5 panic=-1 scsi_mod.scan=sync root={root}"
    return [
        *("qemu-system-x86_64", "-machine", "q35", "-m", f"{vm.memory_bytes // MIB}M", "-smp", f"{vm.cpus}"),
        *("-uuid", str(context.derived_uuid("machine"))),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
        *("-kernel", f"${{{QEMU_KERNEL}}}", "-initrd", f"${{{QEMU_INITRD}}}", "-append", kernel),
        *("-chardev", f"socket,id=line,fd={LINE}"),
        *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=line"),
        *_disk_argv(vm, context),
        *(word for name, file in read_only(context).items() for word in _read_only_argv(name, file)),
    ]


def _read_only_argv(name: str, file: str) -> tuple[str, ...]:
    drive = f"if=none,id={name},format=raw,readonly=on,file={file}"
    return "-drive", drive, "-device", f"virtio-blk-pci,drive={name}"


def _disk_argv(vm: Vm, context: LayerContext) -> list[str]:
    options = f"drive=disk,write-cache={'off' if vm.writes_through else 'on'}"
    if (size := context.provided.sector_bytes) != SECTOR_BYTES:
        options += f",logical_block_size={size},physical_block_size={size}"
    queues = vm.queues or vm.cpus
    device = ["-device", f"virtio-blk-pci,num-queues={queues},{options}"]
    if vm.bus == "virtio-scsi":
        device = ["-device", f"virtio-scsi-pci,num_queues={queues}", "-device", f"scsi-hd,{options}"]
    return [*disk_argv(vm, context, "-mon", "chardev=monitor,mode=control"), *device]
