# SPDX-License-Identifier: Apache-2.0
"""Image files on a filesystem, given as block devices: raw and qcow2.

qemu-img makes the file. A server of QEMU opens it and exports it over a Unix socket, to which the kernel's
network block device connects; a raw file can be given to the kernel's loop driver instead. The QEMU of a
virtual machine directly above opens the file itself: there is no server then, and no device.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self, cast

from pydantic import Field, PrivateAttr, StrictBool

from strata.diagnostics.names import Diagnostic
from strata.layers.options import multiple_of, power_of_two
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided
from strata.model.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, SECTOR_BYTES, MemorySize, Size, describe_size

if TYPE_CHECKING:
    from strata.layers.vm import Vm


Cache = Literal["none", "writeback", "directsync"]

EXPORT: Final = "image"  # the name of the export, and in the storage daemon of the image's node
FILE_NODE: Final = "file"
MACHINE_DISK: Final = "disk"  # the name of the image's node in the QEMU of a virtual machine

_CAPACITY_BYTES_MIN: Final = 1 << 20
_MAKE_LIMIT_NS_MIN: Final = 600 * NS_PER_S
_MAKE_LIMIT_NS_MAX: Final = 7200 * NS_PER_S
# The least that a disk writes of a file that is preallocated in full.
_FULL_BYTES_PER_S_MIN: Final = 20_000_000
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S  # a server writes dirty data back before it stops


class ImageFile(Layer):
    """The base of the layers that provide an image file on a filesystem as a block device."""

    family = "images and guests"
    requires = LowerInterface("filesystem")
    provides = "block"
    prerequisites = Prerequisites(tools=("qemu-img",))
    image_format: ClassVar[str]  # QEMU's name of the format, and the file's extension
    # drivers/block/nbd.c of Linux 7.2; a loop device has I/O errors only.
    kernel_log = KernelLog(
        trouble=(
            r"block nbd\d+: (?:(?:Send|Receive) (?:control|data) failed|Request send failed|Wrong magic"
            r"|Unexpected reply|Suspicious reply|Double reply|Other side returned error|Connection timed out"
            r"|Dead connection).*",
        )
    )
    packages = ("qemu-utils", "nbd-client")

    preallocation: str
    server: str
    size_bytes: Annotated[Size, multiple_of(4 << 10, _CAPACITY_BYTES_MIN)] | None = Field(
        None, alias="size", examples=["8GiB"]
    )
    """Size of the virtual disk; default: three quarters of what the filesystem below can hold"""
    cache: Cache = Field("none", examples=["writeback"])
    """As QEMU means it: `none` bypasses the page cache below (O_DIRECT), `writeback` uses it, `directsync`
    bypasses it and makes every write durable before it is acknowledged. Directly below a `vm` its `cache`
    holds"""
    aio: Literal["native", "threads", "io_uring"] | None = Field(None, examples=["threads"])
    """How the server reads and writes the file; directly below a `vm` its `aio` holds; default: `native`
    (Linux AIO), with the cache `writeback` `threads`"""
    discard: StrictBool = True
    """Whether what is discarded above becomes a hole in the file"""
    sector: Literal[512, 4096] = Field(512, examples=[4096])
    """Logical sectors of the virtual disk, in bytes"""
    nocow: StrictBool = False
    """The file attribute No_COW on btrfs; elsewhere without effect"""

    _machine: Vm | None = PrivateAttr(None)  # directly above

    def under(self, upper: Layer) -> Self:
        if not upper.machine_bytes():
            return self
        opened = self.model_copy()
        opened._machine = cast("Vm", upper)
        return opened

    def caches_direct_io(self) -> bool:
        return self.cache == "writeback"

    def needs(self) -> Prerequisites:
        if self._machine is not None:
            return self.prerequisites
        if self.server == "loop":
            return self.prerequisites | Prerequisites(tools=("losetup",), features=("driver:loop",))
        tools = {"qemu-nbd", "nbd-client", self.server}
        return self.prerequisites | Prerequisites(tools=tuple(sorted(tools)), features=("driver:nbd",))

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
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
        if self._machine is not None:
            yield from self._contradictions(self._machine)
            return
        if self.aio == "native" and self.cache == "writeback":
            yield Diagnostic(
                "Linux AIO is asynchronous on files without page cache only, and QEMU refuses it elsewhere",
                remedy='write aio = "threads", or cache = "none"',
                key="aio",
            )
        if self.server != "loop":
            return
        no_loop = 'write server = "qemu-nbd", or '
        if self.cache == "directsync":
            cause = "a loop device cannot make every write durable"
            yield Diagnostic(cause, remedy=f'{no_loop}cache = "none"', key="cache")
        if self.aio is not None:
            cause = "the loop driver chooses by itself how it reads and writes"
            yield Diagnostic(cause, remedy="leave it out", key="aio")
        if not self.discard:
            cause = "a loop device always passes discards on"
            yield Diagnostic(cause, remedy=f"{no_loop}leave it out", key="discard")

    def _contradictions(self, machine: Vm) -> Iterable[Diagnostic]:
        if self.server != "qemu-storage-daemon":
            cause = "the QEMU of the vm above opens the image by itself"
            yield Diagnostic(cause, remedy="leave it out", key="server")
        for key, holds in (("cache", machine.cache), ("aio", machine.aio_of)):
            if key in self.model_fields_set and getattr(self, key) not in (None, holds):
                yield Diagnostic(
                    f'the vm above opens the image by itself, with {key} = "{holds}"',
                    remedy=f"leave it out, and write the `{key}` of the vm",
                    key=key,
                )

    def provided(self, lower: Provided) -> Provided:
        return super().provided(lower).with_sectors(self.sector)

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The size of the virtual disk; without preallocation the file may be smaller."""
        if self.size_bytes is not None:
            return self.size_bytes
        size_bytes = sum(lower_bytes) * 3 // 4
        return size_bytes - size_bytes % _CAPACITY_BYTES_MIN

    def path(self, context: LayerContext) -> str:
        if self._machine is not None:
            return self.file(context)
        return f"${{loop-{context.name}}}" if self.server == "loop" else f"${{nbd-{context.name}}}"

    def file(self, context: LayerContext) -> str:
        return f"{context.lower[0]}/image.{self.image_format}"

    def socket(self, context: LayerContext) -> str:
        return f"${{scratch}}/{context.name}.sock"

    def make_options(self) -> list[str]:
        """The format's options for qemu-img, as ``name=value``."""
        return [f"preallocation={self.preallocation}", *(["nocow=on"] if self.nocow else [])]

    def opened_with(self) -> dict[str, object]:
        return {}

    def build(self, context: LayerContext) -> list[Step]:
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
        if self._machine is not None:
            return []
        if self.server == "loop":
            return [self._attach(context)]
        argv = self._daemon_argv(context) if self.server == "qemu-storage-daemon" else self._nbd_argv(context)
        serve = context.step(
            "serve",
            f"Serve the {self.image_format} image",
            *argv,
            background=True,
            ready=Command(argv=("qemu-nbd", "--list", f"--socket={self.socket(context)}")),
            stop_limit_ns=_STOP_LIMIT_NS,
        )
        return [serve, self.connect(context)]

    def connect(self, context: LayerContext) -> Step:
        device = self.path(context)
        return context.step(
            "connect",
            f"Connect the {self.image_format} image as a block device",
            *("nbd-client", "-unix", self.socket(context), device),
            *("-name", EXPORT, "-block-size", str(self.sector)),
            undo=Command(argv=("nbd-client", "-d", device)),
        )

    def allocated(self, context: LayerContext) -> Step | None:
        title = f"See what the {self.image_format} image has taken"
        return context.act("allocated", title, "stat", "--format=%b", self.file(context))

    def allocated_bytes(self, stdout: str) -> int:
        return int(stdout) * SECTOR_BYTES

    def nodes(self, path: str) -> tuple[dict[str, object], dict[str, object]]:
        """QEMU's two nodes: of the file at the path, and of the format on it."""
        opening = self._machine or self
        common = {
            "cache": {"direct": opening.is_direct, "no-flush": opening.cache == "unsafe"},
            "discard": "unmap" if self.discard else "ignore",
        }
        file = {"node-name": FILE_NODE, "driver": "file", "filename": path, "aio": opening.aio_of}
        image = {"node-name": self.node, "driver": self.image_format, "file": FILE_NODE}
        return {**file, **common}, {**image, **common, **self.opened_with()}

    @property
    def node(self) -> str:
        return EXPORT if self._machine is None else MACHINE_DISK

    def export(self) -> dict[str, object]:
        names = dict.fromkeys(("id", "node-name", "name"), EXPORT)
        return {"type": "nbd", **names, "writable": True, "writethrough": self.cache == "directsync"}

    @property
    def is_direct(self) -> bool:
        return self.cache != "writeback"

    @property
    def aio_of(self) -> str:
        return self.aio or ("native" if self.is_direct else "threads")

    def _daemon_argv(self, context: LayerContext) -> list[str]:
        file, image = self.nodes(self.file(context))
        return [
            "qemu-storage-daemon",
            *("--blockdev", json.dumps(file), "--blockdev", json.dumps(image)),
            *("--nbd-server", f"addr.type=unix,addr.path={self.socket(context)}"),
            *("--export", json.dumps(self.export())),
            *self.monitor_argv(f"${{scratch}}/{context.name}", "--monitor", "chardev=monitor"),
        ]

    def monitor_argv(self, place: str, *option: str) -> list[str]:
        """QEMU's options for a monitor at ``PLACE.qmp``, if the image needs one; ``option`` is QEMU's own."""
        return []

    def _nbd_argv(self, context: LayerContext) -> list[str]:
        file = {"driver": "file", "filename": self.file(context)}
        image = {"driver": self.image_format, "file": file, **self.opened_with()}
        return [
            *("qemu-nbd", "--persistent", "--shared=1"),
            *(f"--socket={self.socket(context)}", f"--export-name={EXPORT}"),
            *(f"--cache={self.cache}", f"--aio={self.aio_of}"),
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
    limit_ns = _MAKE_LIMIT_NS_MIN + size_bytes * NS_PER_S // _FULL_BYTES_PER_S_MIN
    return min(limit_ns, _MAKE_LIMIT_NS_MAX)


class Raw(ImageFile):
    """A raw image file as a block device.

    With ``server = "loop"`` the kernel's loop driver gives it, without a server.
    """

    image_format = "raw"
    also_called = ("image", "img", "loop")

    layer: Literal["raw"] = "raw"
    preallocation: Literal["off", "falloc", "full"] = Field("off", examples=["falloc"])
    """`off`: a sparse file; `falloc`: its blocks are allocated; `full`: zeros are written"""
    server: Literal["qemu-storage-daemon", "qemu-nbd", "loop"] = Field(
        "qemu-storage-daemon", examples=["qemu-nbd"]
    )
    """What serves the file as a block device: one of QEMU's servers, to which the kernel connects a network
    block device over a Unix socket, or the kernel's loop driver. Directly below a `vm` nothing: its QEMU
    opens the file"""

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """Only of a loop device; a connected NBD device keeps its size."""
        if self.server != "loop":
            return None
        truncate = ("truncate", f"--size={capacity_bytes}", self.file(context))
        follow = ("losetup", "--set-capacity", self.path(context))
        return [
            context.act("truncate", "Change the size of the raw image", *truncate),
            context.act("follow", "Let the loop device follow", *follow),
        ]


_SUBCLUSTERED_BYTES_MIN: Final = 16 << 10
_SNAPSHOT_LIMIT_NS: Final = 600 * NS_PER_S

# Commands of QMP, and names of events to wait for, in their order.
_QMP_CLIENT: Final = """\
import json, socket, sys
monitor = socket.socket(socket.AF_UNIX)
monitor.connect(sys.argv[1])
stream = monitor.makefile("rw")
stream.readline()
seen = set()
def await_key(key):
    while True:
        message = json.loads(stream.readline())
        seen.add(message.get("event"))
        if "error" in message:
            sys.exit(message["error"]["desc"])
        if key in message or key in seen:
            return message
for command in ['{"execute": "qmp_capabilities"}', *sys.argv[2:]]:
    if command.startswith("{"):
        print(command, file=stream, flush=True)
        print(json.dumps(await_key("return")))
    elif command not in seen:
        await_key(command)
"""


class Qcow2(ImageFile):
    """A qcow2 image file, which QEMU serves as a block device.

    With ``backing`` it is an overlay of a raw image, which is filled with zeros first, so that reading it and
    copying clusters from it have their real cost.
    """

    image_format = "qcow2"
    also_called = ("image", "qcow")

    layer: Literal["qcow2"] = "qcow2"
    preallocation: Literal["off", "metadata", "falloc", "full"] = Field("off", examples=["metadata"])
    """`off`: clusters are allocated when they are written; `metadata`: the tables are made; `falloc`: the
    clusters' blocks are allocated, too; `full`: zeros are written"""
    server: Literal["qemu-storage-daemon", "qemu-nbd"] = Field("qemu-storage-daemon", examples=["qemu-nbd"])
    """What serves the image; only the storage daemon takes snapshots while it runs. Directly below a `vm`
    nothing: its QEMU opens the file, and takes snapshots"""
    cluster_bytes: Annotated[Size, power_of_two(SECTOR_BYTES, 2 << 20)] = Field(
        64 << 10, alias="cluster", examples=["2MiB"]
    )
    """Size of a cluster, a power of two from 512B to 2MiB"""
    extended_l2: StrictBool = False
    """Allocate the 32 subclusters of a cluster by themselves; needs clusters of 16KiB or more"""
    lazy_refcounts: StrictBool = False
    """Write reference counts late; after a power cut they are repaired when the image is opened"""
    l2_cache_bytes: MemorySize | None = Field(None, alias="l2_cache", examples=["1MiB"])
    """The server's cache of tables; default: QEMU's, enough for the disk up to 32 MiB"""
    backing: StrictBool = False
    """An overlay: what has not been written is read from a raw image of the same size"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        if self.backing and self.preallocation != "off":
            yield Diagnostic(
                "an overlay that is preallocated would hide its base",
                remedy='write preallocation = "off", or leave `backing` out',
                key="preallocation",
            )
        size_bytes = self.usable_bytes(lower.capacities_bytes)
        if self.backing and size_bytes > lower.smallest_bytes:
            yield Diagnostic(
                f"the base image of {describe_size(size_bytes)} is written in full and does not fit on a "
                f"filesystem of {describe_size(lower.smallest_bytes)}",
                remedy="lower it, or raise the `capacity` of the device",
                key="size",
            )
        if self.extended_l2 and self.cluster_bytes < _SUBCLUSTERED_BYTES_MIN:
            yield Diagnostic(
                f"subclusters need clusters of {describe_size(_SUBCLUSTERED_BYTES_MIN)} at least",
                remedy='write cluster = "128KiB", or leave it out',
                key="extended_l2",
            )
        if self.l2_cache_bytes is not None and self.l2_cache_bytes < 2 * self.cluster_bytes:
            yield Diagnostic(
                f"a cache of {describe_size(self.l2_cache_bytes)} does not hold two tables",
                remedy=f"give it {describe_size(2 * self.cluster_bytes)} at least",
                key="l2_cache",
            )

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """Half as much with a base image, which takes the other half."""
        if self.size_bytes is None and self.backing:
            return super().usable_bytes([sum(lower_bytes) // 2])
        return super().usable_bytes(lower_bytes)

    def make_options(self) -> list[str]:
        options = [*super().make_options(), f"cluster_size={self.cluster_bytes}"]
        switches = {"lazy_refcounts": self.lazy_refcounts, "extended_l2": self.extended_l2}
        options += [f"{name}=on" for name, on in switches.items() if on]
        return [*options, "backing_file=base.raw", "backing_fmt=raw"] if self.backing else options

    def opened_with(self) -> dict[str, object]:
        return {} if self.l2_cache_bytes is None else {"l2-cache-size": self.l2_cache_bytes}

    def build(self, context: LayerContext) -> list[Step]:
        steps = super().build(context)
        if not self.backing:
            return steps
        size_bytes = self.usable_bytes(context.provided.capacities_bytes)
        base = context.step(
            "base",
            "Write the base image with zeros",
            *("qemu-img", "create", "-q", "-f", "raw", "-o", "preallocation=full"),
            *(f"{context.lower[0]}/base.raw", str(size_bytes)),
            time_limit_ns=make_limit_ns(size_bytes),
        )
        return [base, *steps]

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        """The check of qemu-img, which also fails on leaked clusters."""
        return "qemu-img", "check", self.file(context)

    def monitor_argv(self, place: str, *option: str) -> list[str]:
        return ["--chardev", f"socket,id=monitor,path={place}.qmp,server=on,wait=off", *option]

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        """An internal snapshot, in the image's own file.

        The layers above do not notice it, so their dirty data are written first, as the device mapper or the
        agent in a virtual machine would have a filesystem do: by the kernel of the machine, if there is one.
        """
        if self.server != "qemu-storage-daemon":
            return None
        command = _command("blockdev-snapshot-internal-sync", device=self.node, name=name)
        title = "Write back what is above the qcow2 image"
        return [
            context.act("sync", title, "sync", machine=context.machine, time_limit_ns=_SNAPSHOT_LIMIT_NS),
            self._qmp(context, "snapshot", f"Take the snapshot {name} of the qcow2 image", command),
        ]

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        command = _command("blockdev-snapshot-delete-internal-sync", device=self.node, name=name)
        return [self._qmp(context, "drop", f"Drop the snapshot {name} of the qcow2 image", command)]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        """The daemon closes the image meanwhile, because only qemu-img can go back to a snapshot.

        A virtual machine directly above is down.
        """
        if self.server != "qemu-storage-daemon":
            return None
        apply = context.act(
            "apply",
            f"Go back to the snapshot {name} of the qcow2 image",
            *("qemu-img", "snapshot", "-q", "-a", name, self.file(context)),
            time_limit_ns=_SNAPSHOT_LIMIT_NS,
        )
        if self._machine is not None:
            return [apply]
        file, image = self.nodes(self.file(context))
        detach = ("nbd-client", "-d", self.path(context))
        disconnect = context.act("disconnect", "Disconnect the qcow2 image", *detach)
        close = self._qmp(
            context,
            "close",
            "Close the qcow2 image",
            _command("block-export-del", id=EXPORT, mode="hard"),
            "BLOCK_EXPORT_DELETED",
            _command("blockdev-del", **{"node-name": EXPORT}),
            _command("blockdev-del", **{"node-name": FILE_NODE}),
        )
        reopen = self._qmp(
            context,
            "reopen",
            "Open the qcow2 image again",
            _command("blockdev-add", **file),
            _command("blockdev-add", **image),
            _command("block-export-add", **self.export()),
        )
        # The undo of the first connection disconnects this one.
        connect = self.connect(context).model_copy(update={"undo": None, "cwd": "${scratch}"})
        return [disconnect, close, apply, reopen, connect]

    def _qmp(self, context: LayerContext, name: str, title: str, *commands: str) -> Step:
        """A step that sends QEMU commands, or waits for its events, one after the other."""
        place = f"${{scratch}}/{context.name}" if self._machine is None else context.machine
        argv = ("python3", "-c", _QMP_CLIENT, f"{place}.qmp", *commands)
        return context.act(name, title, *argv, time_limit_ns=_SNAPSHOT_LIMIT_NS)


def _command(name: str, /, **arguments: object) -> str:
    return json.dumps({"execute": name, "arguments": arguments})
