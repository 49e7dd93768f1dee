# SPDX-License-Identifier: Apache-2.0
"""A virtual machine: a second kernel with its own page cache, whose virtual disk lies on the layers below.

As User-Mode Linux the agent starts the lab's kernel once more, as a program of the lab; its disk is
virtio-blk, served over vhost-user by QEMU's storage daemon. Under QEMU it runs Debian's kernel: with KVM on a
host, emulated in the lab. From a user's image it runs what is there (`strata.layers.own_image`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from string import ascii_lowercase
from typing import Final, Literal, Self

from pydantic import Field, StrictBool, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.layers import own_image
from strata.layers.image import MACHINE_DISK, ImageFile
from strata.model.layer import KernelLog, LayerContext, LowerInterface, Provided, RealTimeCost
from strata.model.memory_limit import MemoryLimit, MemoryLimited
from strata.model.step import (
    AGENT,
    INPUT_PREFIX,
    MACHINE_INITRD,
    MACHINE_KERNEL,
    MACHINE_ROOT,
    QEMU_INITRD,
    QEMU_KERNEL,
    QEMU_OPTIONS,
    SEVERAL_CPUS,
    Command,
    Prerequisites,
    StartedMachine,
    Step,
)
from strata.seeds import derive_seed
from strata.units import MIB, NS_PER_S, SECTOR_BYTES, describe_size

_CPUS_MAX: Final = 64


# Estimates: pgbench took 65 s of a core for 60 virtual seconds on a rotating disk, an installation 149 s
# instead of 35 s outside.
_UML_REAL_TIME: Final = RealTimeCost(start_s=1.3, per_virtual=0.6, slowness=4.3)
_UML_NEEDS: Final = Prerequisites(
    tools=("mount", "qemu-storage-daemon", "tee", "test", "umount"), features=("guest:uml",)
)
_DISK: Final = "vda"
_CACHE_TYPE: Final = f"/sys/block/{_DISK}/cache_type"
_VIRTIO_BLK: Final = 2  # its device id (Virtual I/O Device Version 1.2, 5)
_LINE: Final = 64  # the descriptor that the agent gives the kernel, or QEMU, for the machine's line
_PRICES: Final = 65  # the one for the price of its computing
_BOOT_LIMIT_NS: Final = 300 * NS_PER_S
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S  # it writes dirty data back before it stops
_FILE_BYTES: Final = 16 << 20  # of the tmpfs, beside the machine's memory


def _socket(context: LayerContext) -> str:
    """The socket of the machine, for those who run programs in it."""
    return f"{_folder(context)}/machine.sock"


def _uml_steps(vm: Vm, context: LayerContext, **making: tuple[str, ...]) -> list[Step]:
    """Start the machine; ``making`` are further fields of the step that opens its disk."""
    folder = _folder(context)
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
        _start_step(context, _DISK, *_kernel_argv(vm, context), has_lab_kernel=True),
    ]
    if not vm.writes_through:
        # QEMU's export claims to write through although it does not: the machine would never flush.
        title = "Let the machine flush its disk"
        flushing = context.step("flushing", title, "tee", _CACHE_TYPE, stdin="write back\n")
        steps.append(flushing.model_copy(update={"machine": _socket(context)}))
    return steps


def _start_step(
    context: LayerContext,
    disk: str,
    *argv: str,
    has_lab_kernel: bool,
    options: tuple[str, ...] = (),
    **making: tuple[str, ...],
) -> Step:
    """The step that starts a machine by its program, with ``options`` of the agent."""
    line = _socket(context)
    return context.step(
        "start",
        "Start the machine",
        *(f"${{{AGENT}}}", "machine", "start", *options, line, "--", *argv),
        environment={"TMPDIR": _folder(context)},
        background=True,
        ready=Command(argv=("test", "-S", line)),
        time_limit_ns=_BOOT_LIMIT_NS,
        stop_limit_ns=_STOP_LIMIT_NS,
        starts=StartedMachine(layer=context.name, socket=line, disk=disk, has_lab_kernel=has_lab_kernel),
        **making,
    )


_IO_THREAD: Final = "iothread,id=io"


def _disk_argv(vm: Vm, context: LayerContext, *monitor: str) -> list[str]:
    """Options of QEMU or its storage daemon for the block node ``disk``: the device or image file below.

    ``monitor`` is its option for a monitor.
    """
    path, image = context.lower[0], context.below
    if isinstance(image, ImageFile):
        nodes = [word for node in image.nodes(path) for word in ("--blockdev", json.dumps(node))]
        return [*image.monitor_argv(_socket(context), *monitor), *nodes]
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
    folder = _folder(context)
    writing: dict[str, object] = {
        "writable": True,
        "writethrough": vm.writes_through,
        "logical-block-size": context.provided.sector_bytes,
    }
    served = _disk_argv(vm, context, "--monitor", "chardev=monitor")
    if vm.iothread:
        served = ["--object", _IO_THREAD, *served]
        writing["iothread"] = "io"
    exports = [_export(MACHINE_DISK, folder, writing)]
    # The root comes last: its socket says that all are there.
    for name, file in reversed(_read_only(context).items()):
        cache = {"direct": True, "no-flush": False}
        node = {"node-name": name, "driver": "host_device", "filename": file, "aio": "native"}
        served += ["--blockdev", json.dumps({**node, "cache": cache, "read-only": True})]
        exports.append(_export(name, folder, {}))
    return ["qemu-storage-daemon", *served, *(word for export in exports for word in ("--export", export))]


def _kernel_argv(vm: Vm, context: LayerContext) -> list[str]:
    folder, entropy = _folder(context), derive_seed(context.seed, context.name, "entropy")
    names = ("disk", *_read_only(context))
    disks = [f"virtio_uml.device={folder}/{name}.sock:{_VIRTIO_BLK}" for name in names]
    return [
        f"${{{MACHINE_KERNEL}}}",
        *(f"mem={vm.memory_bytes}", f"initrd=${{{MACHINE_INITRD}}}", *disks),
        *("norandmaps", "seccomp=on", f"entropy_seed={entropy}"),
        # Its clock is the lab's: a calibration loop measured against it would give another number.
        "lpj=1000",
        f"strata.cpu={_PRICES}",
        *("con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{_LINE}", "loglevel=5"),
        *(f"uml_dir={folder}", "umid=machine", "panic=-1", "noreboot", "root=/dev/vdb"),
    ]


def _folder(context: LayerContext) -> str:
    """The folder of the machine's socket."""
    return f"${{scratch}}/{context.name}"


def _read_only(context: LayerContext) -> dict[str, str]:
    """The files or devices of the machine's read-only disks by the disk's name, in the machine's order."""
    inputs = {f"{INPUT_PREFIX}{name}": f"${{{INPUT_PREFIX}{name}}}" for name in context.inputs}
    return {"root": f"${{{MACHINE_ROOT}}}", **inputs}


def _export(name: str, folder: str, writing: Mapping[str, object]) -> str:
    socket = {"type": "unix", "path": f"{folder}/{name}.sock"}
    export = {"type": "vhost-user-blk", "id": name, "node-name": name, "addr": socket}
    return json.dumps({**export, **writing})


# Estimates: fio on a rotating disk took 50 s for 13 virtual seconds, on one core of a busy machine. The
# slowness was not measured; it is a little more than that of User-Mode Linux.
_QEMU_REAL_TIME: Final = RealTimeCost(start_s=30, per_virtual=3, slowness=5)
_QEMU_NEEDS: Final = Prerequisites(
    tools=("mkdir", "qemu-system-x86_64", "rm", "test"), features=("guest:qemu",), packages=("qemu",)
)


def _qemu_disk(vm: Vm) -> str:
    """The machine's disk, in its /dev."""
    return "sda" if vm.bus == "virtio-scsi" else "vda"


def _qemu_steps(vm: Vm, context: LayerContext, **making: tuple[str, ...]) -> list[Step]:
    """Start the machine; ``making`` are further fields of the step that opens its disk."""
    folder = _folder(context)
    return [
        context.step(
            "folder",
            "Make the machine's folder",
            *("mkdir", "--parents", folder),
            undo=Command(argv=("rm", "--recursive", "--force", folder)),
        ),
        _start_step(
            context,
            _qemu_disk(vm),
            *_qemu_argv(vm, context),
            has_lab_kernel=False,
            options=("--qemu", f"${{{QEMU_OPTIONS}}}"),
            **making,
        ),
    ]


def _qemu_argv(vm: Vm, context: LayerContext) -> list[str]:
    root = "/dev/vda" if vm.bus == "virtio-scsi" else "/dev/vdb"
    kernel = f"console=ttyS0 loglevel=5 panic=-1 scsi_mod.scan=sync root={root}"
    return [
        *("qemu-system-x86_64", "-machine", "q35", *_size_argv(vm, context)),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
        *("-kernel", f"${{{QEMU_KERNEL}}}", "-initrd", f"${{{QEMU_INITRD}}}", "-append", kernel),
        *("-chardev", f"socket,id=line,fd={_LINE}"),
        *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=line"),
        *_qemu_disk_argv(vm, context),
        *(word for name, file in _read_only(context).items() for word in _read_only_argv(name, file)),
    ]


def _size_argv(vm: Vm, context: LayerContext) -> list[str]:
    own = ["-m", f"{vm.memory_bytes // MIB}M", "-smp", f"{vm.cpus}"]
    return [*own, "-uuid", str(context.derived_uuid("machine"))]


def _read_only_argv(name: str, file: str) -> tuple[str, ...]:
    drive = f"if=none,id={name},format=raw,readonly=on,file={file}"
    return "-drive", drive, "-device", f"virtio-blk-pci,drive={name}"


def _qemu_disk_argv(vm: Vm, context: LayerContext) -> list[str]:
    options = f"drive=disk,write-cache={'off' if vm.writes_through else 'on'}"
    if (size := context.provided.sector_bytes) != SECTOR_BYTES:
        options += f",logical_block_size={size},physical_block_size={size}"
    queues = vm.queues or vm.cpus
    thread, served_by = (["-object", _IO_THREAD], ",iothread=io") if vm.iothread else ([], "")
    device = ["-device", f"virtio-blk-pci,num-queues={queues},{options}{served_by}"]
    if vm.bus == "virtio-scsi":
        bus = f"virtio-scsi-pci,num_queues={queues}{served_by}"
        device = ["-device", bus, "-device", f"scsi-hd,{options}"]
    return [*thread, *_disk_argv(vm, context, "-mon", "chardev=monitor,mode=control"), *device]


class Vm(MemoryLimited):
    """A virtual machine: the layers above run under a second kernel.

    The second kernel has memory, a page cache and a block layer of its own; its virtual disk is virtio-blk or
    virtio-scsi, which QEMU serves from the block device below, or from the file of an image directly below.
    All steps above run in the machine.
    """

    family = "images and guests"
    requires = LowerInterface("block")
    provides = "block"
    prerequisites = _UML_NEEDS
    packages = ("qemu-system-x86", "qemu-utils")
    kernel_log = KernelLog(silent="The messages of its kernel are the output of the step that starts it.")
    also_called = ("kvm", "libvirt", "proxmox", "qemu", "virtual-machine")

    layer: Literal["vm"] = "vm"
    emulator: Literal["uml", "qemu"] | None = Field(None, examples=["qemu"])
    """`uml` runs the lab's own kernel as a program of the lab, `qemu` Debian's kernel under QEMU: on a host
    with KVM, in the lab emulated and thus slow; default: `uml` in the lab, `qemu` on a host"""
    bus: Literal["virtio-blk", "virtio-scsi"] = Field("virtio-blk", examples=["virtio-scsi"])
    """The driver of the virtual disk; `virtio-scsi` needs `emulator = "qemu"`"""
    memory_bytes: MemoryLimit = Field(256 << 20, alias="memory", examples=["512MiB"])
    """Memory of the machine, which is a part of the study's `memory`; it has no swap"""
    cache: Literal["none", "writeback", "writethrough", "directsync", "unsafe"] = Field(
        "none", examples=["writeback"]
    )
    """As QEMU means it. `none` bypasses the page cache of the machine below (O_DIRECT), `writeback` uses it;
    `directsync` and `writethrough` are the same with every write made durable before it is acknowledged;
    `unsafe` is `writeback` that ignores flushes"""
    aio: Literal["native", "threads", "io_uring"] | None = Field(None, examples=["threads"])
    """How QEMU reads and writes what is below; default: `native` (Linux AIO) where the page cache is
    bypassed, `threads` elsewhere"""
    cpus: int = Field(1, ge=1, le=_CPUS_MAX, examples=[2])
    """Processors of the machine. With `uml` it has one, and trials with more are skipped"""
    queues: int | None = Field(None, ge=1, le=_CPUS_MAX, examples=[1])
    """Request queues of the virtual disk; default: one for each processor, which is as many as Linux uses"""
    iothread: StrictBool = Field(False, examples=[True], exclude_if=lambda value: not value)
    """Whether a thread of its own serves the disk, instead of QEMU's main one"""

    image: StrictStr | None = Field(
        None, pattern=own_image.FORM, examples=["freebsd-15.qcow2"], exclude_if=lambda value: value is None
    )
    """A disk image beside the study, `.qcow2` or `.raw`, with a system of its own: the machine runs
    that instead of Strata's kernel and programs. It must read a seed of cloud-init; only on a host"""
    disk: StrictStr | None = Field(
        None, pattern=own_image.DISK_FORM, examples=["/dev/vtbd1"], exclude_if=lambda value: value is None
    )
    """With `image`: the name that its system gives the machine's virtual disk; default: Linux's `/dev/vdb`,
    with `virtio-scsi` `/dev/sda`"""

    def needs(self) -> Prerequisites:
        if self.image:
            return own_image.NEEDS
        if self._is_qemu:
            return _QEMU_NEEDS
        return _UML_NEEDS | Prerequisites(features=(SEVERAL_CPUS,) if self.cpus > 1 else ())

    def on_host(self) -> Self:
        return self if self.emulator else self.model_copy(update={"emulator": "qemu"})

    @property
    def _is_qemu(self) -> bool:
        return self.emulator == "qemu"

    @property
    def aio_of(self) -> str:
        """How QEMU reads and writes what is below."""
        return self.aio or ("native" if self.is_direct else "threads")

    @property
    def writes_through(self) -> bool:
        """Whether every write is durable before it is acknowledged."""
        return self.cache in ("writethrough", "directsync")

    def stated(self) -> Mapping[str, str]:
        return {**super().stated(), "cache": self.cache}

    @property
    def is_direct(self) -> bool:
        return self.cache in ("none", "directsync")

    def real_time(self) -> RealTimeCost:
        return _QEMU_REAL_TIME if self._is_qemu else _UML_REAL_TIME

    def caches_direct_io(self) -> bool:
        return not self.is_direct

    def image_source(self) -> str | None:
        return self.image

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from self._image_diagnostics()
        if self.bus == "virtio-scsi" and self.emulator != "qemu" and not self.image:
            yield Diagnostic(
                "User-Mode Linux has no virtio-scsi", remedy='write emulator = "qemu"', key="bus"
            )
        if self.aio == "native" and not self.is_direct:
            yield Diagnostic(
                "Linux AIO is asynchronous without the page cache only, and QEMU refuses it elsewhere",
                remedy='write aio = "threads", or cache = "none"',
                key="aio",
            )
        if self.queues is not None and self.queues > self.cpus:
            yield Diagnostic(
                f"Linux uses one request queue for each processor, and the machine has {self.cpus}",
                remedy=f"write queues = {self.cpus}, or give the machine more `cpus`",
                key="queues",
            )

    def _image_diagnostics(self) -> Iterable[Diagnostic]:
        if self.image and self.emulator == "uml":
            cause = "User-Mode Linux starts no disk image"
            yield Diagnostic(cause, remedy="leave the key out", key="emulator")
        if self.image and self.memory_bytes < own_image.MEMORY_BYTES_MIN:
            yield Diagnostic(
                f"a whole system does not start in {describe_size(self.memory_bytes)}",
                remedy=f'write memory = "{describe_size(own_image.MEMORY_BYTES_MIN)}" or more',
                key="memory",
            )
        if self.disk and not self.image:
            cause = "the name of the machine's disk is known without an `image`"
            yield Diagnostic(cause, remedy="leave the key out", key="disk")

    def power_risks(self) -> Iterable[str]:
        if self.cache == "unsafe":
            yield "cache = unsafe: it ignores flushes, and the machine's last writes are lost"

    def machine_bytes(self) -> int:
        return self.memory_bytes

    def path(self, context: LayerContext) -> str:
        if self.image:  # its own disk comes first
            return self.disk or ("/dev/sda" if self.bus == "virtio-scsi" else "/dev/vdb")
        return f"/dev/{_qemu_disk(self)}"

    def machine(self, context: LayerContext) -> str:
        return own_image.configuration(context) if self.image else _socket(context)

    def inputs_inside(self, context: LayerContext) -> Mapping[str, str]:
        letters = ascii_lowercase[1 if self.bus == "virtio-scsi" else 2 :]
        return {name: f"/dev/vd{letter}" for name, letter in zip(context.inputs, letters, strict=False)}

    def build(self, context: LayerContext) -> list[Step]:
        # The machine may write anything anywhere.
        return self._bring_up(context, destroys=context.devices)

    def assemble(self, context: LayerContext) -> list[Step]:
        return self._bring_up(context)

    def _bring_up(self, context: LayerContext, **making: tuple[str, ...]) -> list[Step]:
        if self.image:
            disk = _qemu_disk_argv(self, context)
            return own_image.start_steps(context, _size_argv(self, context), disk, self.image, **making)
        if self._is_qemu:
            return _qemu_steps(self, context, **making)
        return _uml_steps(self, context, **making)
