# SPDX-License-Identifier: Apache-2.0
"""A virtual machine: a second kernel with its own page cache, whose virtual disk lies on the layers below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import ascii_lowercase
from typing import Final, Literal, Self

from pydantic import Field

from strata.diagnostics.names import Diagnostic
from strata.layers.vm import qemu, uml
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided, RealTime
from strata.model.memory_limit import MemoryLimit
from strata.model.step import SEVERAL_CPUS, Prerequisites, Step
from strata.units import describe_size

_CPUS_MAX: Final = 64


class Vm(Layer):
    """A virtual machine: the layers above run under a second kernel.

    The second kernel has memory, a page cache and a block layer of its own; its virtual disk is virtio-blk or
    virtio-scsi, which QEMU serves from the block device below, or from the file of an image directly below.
    All steps above run in the machine.
    """

    family = "images and guests"
    requires = LowerInterface("block")
    provides = "block"
    prerequisites = uml.NEEDS
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

    def needs(self) -> Prerequisites:
        if self._is_qemu:
            return qemu.NEEDS
        return uml.NEEDS | Prerequisites(features=(SEVERAL_CPUS,) if self.cpus > 1 else ())

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
        return {"memory": describe_size(self.memory_bytes), "cache": self.cache}

    @property
    def is_direct(self) -> bool:
        return self.cache in ("none", "directsync")

    def real_time(self) -> RealTime:
        return qemu.REAL_TIME if self._is_qemu else uml.REAL_TIME

    def caches_direct_io(self) -> bool:
        return not self.is_direct

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        if self.bus == "virtio-scsi" and self.emulator != "qemu":
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

    def power_risks(self) -> Iterable[str]:
        if self.cache == "unsafe":
            yield "cache = unsafe: it ignores flushes, and the machine's last writes are lost"

    def machine_bytes(self) -> int:
        return self.memory_bytes

    def memory_limit_bytes(self) -> int | None:
        return self.memory_bytes

    def limited(self, memory_bytes: int) -> Self:
        return self.model_copy(update={"memory_bytes": memory_bytes})

    def path(self, context: LayerContext) -> str:
        return f"/dev/{qemu.disk(self)}"

    def machine(self, context: LayerContext) -> str:
        return uml.socket(context)

    def inputs_inside(self, context: LayerContext) -> Mapping[str, str]:
        letters = ascii_lowercase[1 if self.bus == "virtio-scsi" else 2 :]
        return {name: f"/dev/vd{letter}" for name, letter in zip(context.inputs, letters, strict=False)}

    def build(self, context: LayerContext) -> list[Step]:
        # The machine may write anything anywhere.
        return self._bring_up(context, destroys=context.devices)

    def assemble(self, context: LayerContext) -> list[Step]:
        return self._bring_up(context)

    def _bring_up(self, context: LayerContext, **making: tuple[str, ...]) -> list[Step]:
        if self._is_qemu:
            return qemu.bring_up(self, context, **making)
        return uml.bring_up(self, context, **making)
