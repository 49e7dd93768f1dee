# SPDX-License-Identifier: Apache-2.0
"""A virtual machine as User-Mode Linux: the agent starts the lab's kernel once more, as a program of the lab.

Its disk is virtio-blk, served over vhost-user by QEMU's storage daemon.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from strata.layers.image.file import MACHINE_DISK, ImageFile
from strata.model.layer import LayerContext, RealTime
from strata.model.step import (
    AGENT,
    INPUT_PREFIX,
    MACHINE_INITRD,
    MACHINE_KERNEL,
    MACHINE_ROOT,
    Command,
    Prerequisites,
    StartedMachine,
    Step,
)
from strata.seeds import derive_seed
from strata.units import NS_PER_S

if TYPE_CHECKING:
    from strata.layers.vm.vm import Vm

# Estimates: pgbench took 65 s of a core for 60 virtual seconds on a rotating disk, an installation 149 s
# instead of 35 s outside.
REAL_TIME: Final = RealTime(start_s=1.3, per_virtual=0.6, slowness=4.3)
NEEDS: Final = Prerequisites(
    tools=("mount", "qemu-storage-daemon", "tee", "test", "umount"), features=("guest:uml",)
)
_DISK: Final = "vda"
_CACHE_TYPE: Final = f"/sys/block/{_DISK}/cache_type"
_VIRTIO_BLK: Final = 2  # its device id (Virtual I/O Device Version 1.2, 5)
LINE: Final = 64  # the descriptor that the agent gives the kernel, or QEMU, for the machine's line
_PRICES: Final = 65  # the one for the price of its computing
_BOOT_LIMIT_NS: Final = 300 * NS_PER_S
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S  # it writes dirty data back before it stops
_FILE_BYTES: Final = 16 << 20  # of the tmpfs, beside the machine's memory


def socket(context: LayerContext) -> str:
    """The socket of the machine, for those who run programs in it."""
    return f"{folder_of(context)}/machine.sock"


def bring_up(vm: Vm, context: LayerContext, **making: tuple[str, ...]) -> list[Step]:
    """Start the machine; ``making`` are further fields of the step that opens its disk."""
    folder = folder_of(context)
    size = f"size={vm.memory_bytes + _FILE_BYTES}"
    steps = [
        context.step(
            "memory",
            "Make room for the machine's memory",
            *("mount", "--mkdir", "-t", "tmpfs", "-o", size, "tmpfs", folder),
            undo=Command(argv=("umount", folder)),
        ),
        context.step(
            "serve",
            "Serve the machine's disks",
            *_daemon_argv(vm, context),
            background=True,
            ready=Command(argv=("test", "-S", f"{folder}/root.sock")),
            stop_limit_ns=_STOP_LIMIT_NS,
            **making,
        ),
        start_step(context, _DISK, *_kernel_argv(vm, context), has_lab_kernel=True),
    ]
    if not vm.writes_through:
        # QEMU's export claims to write through although it does not: the machine would never flush.
        title = "Let the machine flush its disk"
        flushing = context.step("flushing", title, "tee", _CACHE_TYPE, stdin="write back\n")
        steps.append(flushing.model_copy(update={"machine": socket(context)}))
    return steps


def start_step(
    context: LayerContext,
    disk: str,
    *argv: str,
    has_lab_kernel: bool,
    options: tuple[str, ...] = (),
    **making: tuple[str, ...],
) -> Step:
    """The step that starts a machine by its program, with ``options`` of the agent."""
    line = socket(context)
    return context.step(
        "start",
        "Start the machine",
        *(f"${{{AGENT}}}", "machine", "start", *options, line, "--", *argv),
        environment={"TMPDIR": folder_of(context)},
        background=True,
        ready=Command(argv=("test", "-S", line)),
        time_limit_ns=_BOOT_LIMIT_NS,
        stop_limit_ns=_STOP_LIMIT_NS,
        starts=StartedMachine(layer=context.name, socket=line, disk=disk, has_lab_kernel=has_lab_kernel),
        **making,
    )


def disk_argv(vm: Vm, context: LayerContext, *monitor: str) -> list[str]:
    """Options of QEMU or its storage daemon for the block node ``disk``: the device or image file below.

    ``monitor`` is its option for a monitor.
    """
    path, image = context.lower[0], context.below
    if isinstance(image, ImageFile):
        nodes = [word for node in image.nodes(path) for word in ("--blockdev", json.dumps(node))]
        return [*image.monitor_argv(socket(context), *monitor), *nodes]
    cache = {"direct": vm.is_direct, "no-flush": vm.cache == "unsafe"}
    node = {
        "node-name": MACHINE_DISK,
        "driver": "host_device",
        "filename": path,
        "aio": vm.aio_of,
        "cache": cache,
        "discard": "unmap",
    }
    return ["--blockdev", json.dumps(node)]


def _daemon_argv(vm: Vm, context: LayerContext) -> list[str]:
    folder = folder_of(context)
    writing = {
        "writable": True,
        "writethrough": vm.writes_through,
        "logical-block-size": context.provided.sector_bytes,
    }
    served = disk_argv(vm, context, "--monitor", "chardev=monitor")
    exports = [_export(MACHINE_DISK, folder, writing)]
    # The root comes last: its socket says that all are there.
    for name, file in reversed(read_only(context).items()):
        cache = {"direct": True, "no-flush": False}
        node = {"node-name": name, "driver": "host_device", "filename": file, "aio": "native"}
        served += ["--blockdev", json.dumps({**node, "cache": cache, "read-only": True})]
        exports.append(_export(name, folder, {}))
    return ["qemu-storage-daemon", *served, *(word for export in exports for word in ("--export", export))]


def _kernel_argv(vm: Vm, context: LayerContext) -> list[str]:
    folder, entropy = folder_of(context), derive_seed(context.seed, context.name, "entropy")
    names = ("disk", *read_only(context))
    disks = [f"virtio_uml.device={folder}/{name}.sock:{_VIRTIO_BLK}" for name in names]
    return [
        f"${{{MACHINE_KERNEL}}}",
        *(f"mem={vm.memory_bytes}", f"initrd=${{{MACHINE_INITRD}}}", *disks),
        *("norandmaps", "seccomp=on", f"entropy_seed={entropy}"),
        # Its clock is the lab's: a calibration loop measured against it would give another number.
        "lpj=1000",
        f"strata.cpu={_PRICES}",
        *("con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{LINE}", "loglevel=5"),
        *(f"uml_dir={folder}", "umid=machine", "panic=-1", "noreboot", "root=/dev/vdb"),
    ]


def folder_of(context: LayerContext) -> str:
    """The folder of the machine's socket."""
    return f"${{scratch}}/{context.name}"


def read_only(context: LayerContext) -> dict[str, str]:
    """The files or devices of the machine's read-only disks by the disk's name, in the machine's order."""
    inputs = {f"{INPUT_PREFIX}{name}": f"${{{INPUT_PREFIX}{name}}}" for name in context.inputs}
    return {"root": f"${{{MACHINE_ROOT}}}", **inputs}


def _export(name: str, folder: str, writing: Mapping[str, object]) -> str:
    socket = {"type": "unix", "path": f"{folder}/{name}.sock"}
    export = {"type": "vhost-user-blk", "id": name, "node-name": name, "addr": socket}
    return json.dumps({**export, **writing})
