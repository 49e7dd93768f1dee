# SPDX-License-Identifier: Apache-2.0
"""A virtual machine: a second kernel with its own page cache, whose virtual disk lies on what is below.

In the lab the machine is User-Mode Linux once more, started by the agent as a program of the lab. Its disk is
virtio-blk, served over vhost-user by QEMU's storage daemon.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, Literal, Self

from pydantic import Field

from strata.spec.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided
from strata.spec.memory_limit import MemoryLimit
from strata.spec.names import Diagnostic
from strata.spec.step import AGENT, MACHINE_INITRD, MACHINE_KERNEL, MACHINE_ROOT, Command, Prerequisites, Step
from strata.spec.trial import derive_seed
from strata.units import NS_PER_S, describe_size

_DISK: Final = "/dev/vda"  # in the machine: the first of the kernel's arguments
_CACHE_TYPE: Final = "/sys/block/vda/cache_type"
_VIRTIO_BLK: Final = 2  # its device id (Virtual I/O Device Version 1.2, 5)
_LINE: Final = "fd:64"  # the descriptor that the agent gives the kernel for its serial line
_BOOT_LIMIT_NS: Final = 300 * NS_PER_S
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S  # it writes dirty data back before it stops
_FILE_BYTES: Final = 16 << 20  # of the tmpfs, beside the machine's memory


class Vm(Layer):
    """A virtual machine: what is above it runs under a second kernel, on a virtual disk.

    The second kernel has memory, a page cache and a block layer of its own; its virtual disk is virtio-blk,
    which QEMU serves from the block device below. All steps above run in the machine.
    """

    requires = LowerInterface("block")
    provides = "block"
    prerequisites = Prerequisites(
        tools=("mount", "qemu-storage-daemon", "tee", "test", "umount"), features=("guest:uml",)
    )
    packages = ("qemu-utils",)
    kernel_log = KernelLog(silent="The messages of its kernel are the output of the step that starts it.")

    layer: Literal["vm"] = "vm"
    memory_bytes: MemoryLimit = Field(256 << 20, alias="memory", examples=["512MiB"])
    """Memory of the machine, which is a part of the study's `memory`; it has no swap"""
    cache: Literal["none", "writeback", "writethrough", "directsync", "unsafe"] = Field(
        "none", examples=["writeback"]
    )
    """As QEMU means it. `none` bypasses the page cache of the machine below (O_DIRECT), `writeback` uses it;
    `directsync` and `writethrough` are the same with every write made durable before it is acknowledged;
    `unsafe` is `writeback` that ignores flushes"""
    aio: Literal["native", "threads", "io_uring"] | None = Field(None, examples=["threads"])
    """How QEMU reads and writes the block device; default: `native` (Linux AIO) where the page cache is
    bypassed, `threads` elsewhere"""

    def stated(self) -> Mapping[str, str]:
        return {"memory": describe_size(self.memory_bytes), "cache": self.cache}

    @property
    def _is_direct(self) -> bool:
        return self.cache in ("none", "directsync")

    def caches_direct_io(self) -> bool:
        return not self._is_direct

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        if self.aio == "native" and not self._is_direct:
            yield Diagnostic(
                "Linux AIO is asynchronous without the page cache only, and QEMU refuses it elsewhere",
                remedy='write aio = "threads", or cache = "none"',
                key="aio",
            )

    def power_risks(self) -> Iterable[str]:
        if self.cache == "unsafe":
            yield "cache = unsafe: it ignores flushes, and what the machine wrote last is lost"

    def machine_bytes(self) -> int:
        return self.memory_bytes

    def memory_limit_bytes(self) -> int | None:
        return self.memory_bytes

    def limited(self, memory_bytes: int) -> Self:
        return self.model_copy(update={"memory_bytes": memory_bytes})

    def path(self, context: LayerContext) -> str:
        return _DISK

    def machine(self, context: LayerContext) -> str:
        return f"{_folder(context)}/machine.sock"

    def build(self, context: LayerContext) -> list[Step]:
        # The machine may write anything anywhere.
        return self._bring_up(context, destroys=context.devices)

    def assemble(self, context: LayerContext) -> list[Step]:
        return self._bring_up(context)

    def _bring_up(self, context: LayerContext, **making: tuple[str, ...]) -> list[Step]:
        folder, socket = _folder(context), self.machine(context)
        size = f"size={self.memory_bytes + _FILE_BYTES}"
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
                *self._daemon_argv(context),
                background=True,
                ready=Command(argv=("test", "-S", f"{folder}/root.sock")),
                stop_limit_ns=_STOP_LIMIT_NS,
                **making,
            ),
            context.step(
                "start",
                "Start the machine",
                *(f"${{{AGENT}}}", "machine", "start", socket, "--", *self._kernel_argv(context)),
                environment={"TMPDIR": folder},
                background=True,
                ready=Command(argv=("test", "-S", socket)),
                time_limit_ns=_BOOT_LIMIT_NS,
                stop_limit_ns=_STOP_LIMIT_NS,
            ),
        ]
        if self.cache in ("none", "writeback", "unsafe"):
            # QEMU's export claims to write through although it does not: the machine would never flush.
            title = "Let the machine flush its disk"
            flushing = context.step("flushing", title, "tee", _CACHE_TYPE, stdin="write back\n")
            steps.append(flushing.model_copy(update={"machine": socket}))
        return steps

    def _daemon_argv(self, context: LayerContext) -> list[str]:
        folder = _folder(context)
        disk = {
            "node-name": "disk",
            "driver": "host_device",
            "filename": context.lower[0],
            "aio": self.aio or ("native" if self._is_direct else "threads"),
            "cache": {"direct": self._is_direct, "no-flush": self.cache == "unsafe"},
            "discard": "unmap",
        }
        root = {
            "node-name": "root",
            "driver": "host_device",
            "filename": f"${{{MACHINE_ROOT}}}",
            "aio": "native",
            "cache": {"direct": True, "no-flush": False},
            "read-only": True,
        }
        writethrough = self.cache in ("writethrough", "directsync")
        return [
            "qemu-storage-daemon",
            *("--blockdev", json.dumps(disk), "--blockdev", json.dumps(root)),
            *("--export", _export("disk", folder, context.provided.sector_bytes, writethrough)),
            *("--export", _export("root", folder, None, None)),
        ]

    def _kernel_argv(self, context: LayerContext) -> list[str]:
        folder, entropy = _folder(context), derive_seed(context.seed, context.name, "entropy")
        disks = [f"virtio_uml.device={folder}/{name}.sock:{_VIRTIO_BLK}" for name in ("disk", "root")]
        return [
            f"${{{MACHINE_KERNEL}}}",
            *(f"mem={self.memory_bytes}", f"initrd=${{{MACHINE_INITRD}}}", *disks),
            *("norandmaps", "seccomp=on", f"entropy_seed={entropy}"),
            # Its clock is that of the machine below; a loop measured against it would give another number.
            "lpj=1000",
            *("con=null", "con0=null,fd:1", "ssl=null", f"ssl0={_LINE}", "loglevel=5"),
            *(f"uml_dir={folder}", "umid=machine", "panic=-1", "noreboot"),
        ]


def _folder(context: LayerContext) -> str:
    return f"${{scratch}}/{context.name}"


def _export(name: str, folder: str, sector_bytes: int | None, writethrough: bool | None) -> str:
    export: dict[str, object] = {"type": "vhost-user-blk", "id": name, "node-name": name}
    export["addr"] = {"type": "unix", "path": f"{folder}/{name}.sock"}
    if sector_bytes is not None:
        export |= {"writable": True, "writethrough": writethrough, "logical-block-size": sector_bytes}
    return json.dumps(export)
