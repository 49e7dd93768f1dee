# SPDX-License-Identifier: Apache-2.0
"""A qcow2 image file, which QEMU serves as a block device."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool

from strata.diagnostics.names import Diagnostic
from strata.layers.image.file import EXPORT, FILE_NODE, ImageFile, make_limit_ns
from strata.layers.options import power_of_two
from strata.model.layer import LayerContext, Provided
from strata.model.step import Step
from strata.units import NS_PER_S, SECTOR_BYTES, MemorySize, Size, describe_size

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
