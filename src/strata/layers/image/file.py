# SPDX-License-Identifier: Apache-2.0
"""Image files on a filesystem, given as block devices, and the raw format.

qemu-img makes the file. A server of QEMU opens it and exports it over a Unix socket, to which the kernel's
network block device connects; a raw file can be given to the kernel's loop driver instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, StrictBool

from strata.spec.interface import Interface, LowerInterface, Provided
from strata.spec.layer import KernelLog, Layer, LayerContext
from strata.spec.names import Diagnostic
from strata.spec.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, SECTOR_BYTES, Size, describe_size

Cache = Literal["none", "writeback", "directsync"]

EXPORT: Final = "image"
"""The name of the export, and in the storage daemon of the image's node."""
FILE_NODE: Final = "file"

_ALIGNMENT_BYTES: Final = 4096
_CAPACITY_BYTES_MIN: Final = 1 << 20
_MAKE_LIMIT_NS_MIN: Final = 600 * NS_PER_S
_MAKE_LIMIT_NS_MAX: Final = 7200 * NS_PER_S
# What a disk writes at least of a file that is preallocated in full.
_FULL_BYTES_PER_S_MIN: Final = 20_000_000
# A server that stops writes back what is dirty below it.
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S


def _aligned(size_bytes: int) -> int:
    if size_bytes % _ALIGNMENT_BYTES or size_bytes < _CAPACITY_BYTES_MIN:
        raise Diagnostic(
            f"{describe_size(size_bytes)} is not the size of a virtual disk",
            remedy='give a multiple of 4KiB, 1MiB at least: size = "8GiB"',
        )
    return size_bytes


DiskSize = Annotated[Size, AfterValidator(_aligned)]


class ImageFile(Layer):
    """The base of the layers that make an image file on a filesystem and give it as a block device.

    Attributes:
        image_format: The format, as QEMU calls it; the file is called after it, too.
    """

    requires: ClassVar[LowerInterface] = LowerInterface("filesystem")
    provides: ClassVar[Interface] = "block"
    prerequisites: ClassVar[Prerequisites] = Prerequisites(tools=("qemu-img",))
    image_format: ClassVar[str]
    # drivers/block/nbd.c of Linux 7.2; a loop device has I/O errors only.
    kernel_log: ClassVar[KernelLog] = KernelLog(
        trouble=(
            r"block nbd\d+: (?:(?:Send|Receive) (?:control|data) failed|Request send failed|Wrong magic"
            r"|Unexpected reply|Suspicious reply|Double reply|Other side returned error|Connection timed out"
            r"|Dead connection).*",
        )
    )
    packages: ClassVar[tuple[str, ...]] = ("qemu-utils", "nbd-client")

    preallocation: str
    server: str
    size_bytes: DiskSize | None = Field(
        default=None,
        alias="size",
        description="Size of the virtual disk; default: three quarters of what the filesystem below can hold",
        examples=["8GiB"],
    )
    cache: Cache = Field(
        default="none",
        description="As QEMU means it: `none` bypasses the page cache below (O_DIRECT), `writeback` uses it, "
        "`directsync` bypasses it and makes every write durable before it is acknowledged",
        examples=["writeback"],
    )
    aio: Literal["native", "threads", "io_uring"] | None = Field(
        default=None,
        description="How the server reads and writes the file; default: `native` (Linux AIO), with the cache "
        "`writeback` `threads`",
        examples=["threads"],
    )
    discard: StrictBool = Field(
        default=True, description="Whether what is discarded above becomes a hole in the file"
    )
    sector: Literal[512, 4096] = Field(
        default=512, description="Logical sectors of the virtual disk, in bytes", examples=[4096]
    )
    nocow: StrictBool = Field(
        default=False, description="The file attribute No_COW on btrfs; elsewhere without effect"
    )

    def caches_direct_io(self) -> bool:
        """In the page cache below, if it uses that."""
        return self.cache == "writeback"

    def needs(self) -> Prerequisites:
        """Programs and driver of the server."""
        if self.server == "loop":
            return self.prerequisites | Prerequisites(tools=("losetup",), features=("driver:loop",))
        tools = {"qemu-nbd", "nbd-client", self.server}
        return self.prerequisites | Prerequisites(tools=tuple(sorted(tools)), features=("driver:nbd",))

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        """A file that is larger than its filesystem, and keys that contradict each other."""
        size_bytes = self.usable_bytes(lower.capacities_bytes)
        if self.preallocation in ("falloc", "full") and size_bytes > lower.smallest_bytes:
            yield Diagnostic(
                f"a preallocated image of {describe_size(size_bytes)} does not fit on a filesystem of "
                f"{describe_size(lower.smallest_bytes)}",
                remedy='lower it, raise the `capacity` of the device, or write preallocation = "off"',
                key="size",
            )
        if size_bytes < _CAPACITY_BYTES_MIN:
            yield Diagnostic(
                f"the filesystem below holds {describe_size(lower.smallest_bytes)}, too little for an image",
                remedy="raise the `capacity` of the device",
            )
        if self.aio == "native" and self.cache == "writeback":
            yield Diagnostic(
                "Linux AIO is asynchronous on files without page cache only, and QEMU refuses it elsewhere",
                remedy='write aio = "threads", or cache = "none"',
                key="aio",
            )
        if self.server == "loop" and self.cache == "directsync":
            yield Diagnostic(
                "a loop device cannot make every write durable",
                remedy='write server = "qemu-nbd", or cache = "none"',
                key="cache",
            )
        if self.server == "loop" and self.aio is not None:
            yield Diagnostic(
                "the loop driver chooses by itself how it reads and writes",
                remedy="leave it out",
                key="aio",
            )
        if self.server == "loop" and not self.discard:
            yield Diagnostic(
                "a loop device always passes discards on",
                remedy='write server = "qemu-nbd", or leave it out',
                key="discard",
            )

    def provided(self, lower: Provided) -> Provided:
        """One block device with the sectors that were asked for."""
        return super().provided(lower).with_sectors(self.sector)

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The size of the virtual disk, which a file that is not preallocated need not have room for."""
        if self.size_bytes is not None:
            return self.size_bytes
        size_bytes = sum(lower_bytes) * 3 // 4
        return size_bytes - size_bytes % _CAPACITY_BYTES_MIN

    def path(self, context: LayerContext) -> str:
        """The network block device or the loop device."""
        return f"${{loop-{context.name}}}" if self.server == "loop" else f"${{nbd-{context.name}}}"

    def file(self, context: LayerContext) -> str:
        """The image file."""
        return f"{context.lower[0]}/image.{self.image_format}"

    def socket(self, context: LayerContext) -> str:
        """Where the server listens."""
        return f"${{scratch}}/{context.name}.sock"

    def make_options(self) -> list[str]:
        """The options of the format, for qemu-img, as ``name=value``."""
        return [f"preallocation={self.preallocation}", *(["nocow=on"] if self.nocow else [])]

    def opened_with(self) -> dict[str, object]:
        """The options of the format's driver with which the server opens the image."""
        return {}

    def build(self, context: LayerContext) -> list[Step]:
        """Make the file and serve it."""
        size_bytes = self.usable_bytes(context.provided.capacities_bytes)
        make = context.step(
            "make",
            f"Make the {self.image_format} image",
            *("qemu-img", "create", "-q", "-f", self.image_format, "-o", ",".join(self.make_options())),
            *(self.file(context), str(size_bytes)),
            time_limit_ns=make_limit_ns(size_bytes),
        )
        return [make, *self.assemble(context)]

    def assemble(self, context: LayerContext) -> list[Step]:
        """Serve it."""
        if self.server == "loop":
            return [self._attach(context)]
        socket, device = self.socket(context), self.path(context)
        argv = self._daemon_argv(context) if self.server == "qemu-storage-daemon" else self._nbd_argv(context)
        serve = context.step(
            "serve",
            f"Serve the {self.image_format} image",
            *argv,
            background=True,
            ready=Command(argv=("qemu-nbd", "--list", f"--socket={socket}")),
            stop_limit_ns=_STOP_LIMIT_NS,
        )
        return [serve, self.connect(context, device)]

    def connect(self, context: LayerContext, device: str) -> Step:
        """Connect the network block device to the server."""
        return context.step(
            "connect",
            f"Connect the {self.image_format} image as a block device",
            *("nbd-client", "-unix", self.socket(context), device),
            *("-name", EXPORT, "-block-size", str(self.sector)),
            undo=Command(argv=("nbd-client", "-d", device)),
        )

    def allocated(self, context: LayerContext) -> Step | None:
        """What the file has taken: in sectors."""
        return context.step(
            "allocated",
            f"See what the {self.image_format} image has taken",
            *("stat", "--format=%b", self.file(context)),
            cwd="${scratch}",
        )

    def allocated_bytes(self, stdout: str) -> int:
        return int(stdout) * SECTOR_BYTES

    def nodes(self, context: LayerContext) -> tuple[dict[str, object], dict[str, object]]:
        """The storage daemon's two nodes: of the file, and of the format on it."""
        common = {
            "cache": {"direct": self.cache != "writeback", "no-flush": False},
            "discard": "unmap" if self.discard else "ignore",
        }
        file = {"node-name": FILE_NODE, "driver": "file", "filename": self.file(context), "aio": self._aio}
        image = {"node-name": EXPORT, "driver": self.image_format, "file": FILE_NODE}
        return {**file, **common}, {**image, **common, **self.opened_with()}

    def export(self) -> dict[str, object]:
        """The storage daemon's export of the image."""
        return {
            "type": "nbd",
            "id": EXPORT,
            "node-name": EXPORT,
            "name": EXPORT,
            "writable": True,
            "writethrough": self.cache == "directsync",
        }

    @property
    def _aio(self) -> str:
        return self.aio or ("threads" if self.cache == "writeback" else "native")

    def _daemon_argv(self, context: LayerContext) -> list[str]:
        file, image = self.nodes(context)
        return [
            "qemu-storage-daemon",
            *("--blockdev", json.dumps(file), "--blockdev", json.dumps(image)),
            *("--nbd-server", f"addr.type=unix,addr.path={self.socket(context)}"),
            *("--export", json.dumps(self.export())),
            *self.monitor_argv(context),
        ]

    def monitor_argv(self, context: LayerContext) -> list[str]:
        """The options of the storage daemon by which it can be spoken to while it runs."""
        return []

    def _nbd_argv(self, context: LayerContext) -> list[str]:
        file = {"driver": "file", "filename": self.file(context)}
        image = {"driver": self.image_format, "file": file, **self.opened_with()}
        return [
            *("qemu-nbd", "--persistent", "--shared=1"),
            *(f"--socket={self.socket(context)}", f"--export-name={EXPORT}"),
            *(f"--cache={self.cache}", f"--aio={self._aio}"),
            f"--discard={'unmap' if self.discard else 'ignore'}",
            f"json:{json.dumps(image)}",
        ]

    def _attach(self, context: LayerContext) -> Step:
        variable = f"loop-{context.name}"
        return context.step(
            "attach",
            f"Attach the {self.image_format} image as a block device",
            *("losetup", "--find", "--show", f"--direct-io={'off' if self.cache == 'writeback' else 'on'}"),
            *(f"--sector-size={self.sector}", self.file(context)),
            binds=variable,
            undo=Command(argv=("losetup", "--detach", f"${{{variable}}}")),
        )


def make_limit_ns(size_bytes: int) -> int:
    """How long making a file of this size may take, when all of it is written."""
    limit_ns = _MAKE_LIMIT_NS_MIN + size_bytes * NS_PER_S // _FULL_BYTES_PER_S_MIN
    return min(limit_ns, _MAKE_LIMIT_NS_MAX)


class Raw(ImageFile):
    """A raw image file: a block device whose blocks are those of a file.

    With ``server = "loop"`` the kernel's loop driver gives it, without a server.
    """

    image_format: ClassVar[str] = "raw"

    layer: Literal["raw"] = "raw"
    preallocation: Literal["off", "falloc", "full"] = Field(
        default="off",
        description="`off`: a sparse file; `falloc`: its blocks are allocated; `full`: zeros are written",
        examples=["falloc"],
    )
    server: Literal["qemu-storage-daemon", "qemu-nbd", "loop"] = Field(
        default="qemu-storage-daemon",
        description="What serves the file as a block device: one of QEMU's servers, to which the kernel "
        "connects a network block device over a Unix socket, or the kernel's loop driver",
        examples=["qemu-nbd"],
    )

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """Of a loop device; those of NBD keep their size as long as they are connected."""
        if self.server != "loop":
            return None
        return [
            context.step(
                "truncate",
                "Change the size of the raw image",
                *("truncate", f"--size={capacity_bytes}", self.file(context)),
                cwd="${scratch}",
            ),
            context.step(
                "follow",
                "Let the loop device follow",
                *("losetup", "--set-capacity", self.path(context)),
                cwd="${scratch}",
            ),
        ]
