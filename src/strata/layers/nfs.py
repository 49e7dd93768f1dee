# SPDX-License-Identifier: Apache-2.0
"""NFS over the loopback interface: the kernel's server exports a filesystem, and its client mounts that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, StrictBool

from strata.diagnostics.names import Diagnostic
from strata.layers.filesystem import MountOptions, act, folder_share, unmount
from strata.layers.options import MOUNT, flags
from strata.model.allowed import Forms, form, given, item_diagnostics, named, one_of
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided, Share
from strata.model.step import Command, Prerequisites, Step, literal

_GRACE_S: Final = 10  # the least that the kernel takes
_CONTROL: Final = "/proc/fs/nfsd"
_NUMBER: Final = form(r"\d{1,7}", "a number such as 65536")

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **flags("ac noac cto nocto hard soft softerr"),
    **named("actimeo acregmin acregmax acdirmin acdirmax rsize wsize timeo retrans nconnect", _NUMBER),
    "lookupcache": one_of("all", "none", "pos", "positive"),
    "local_lock": one_of("all", "flock", "posix", "none"),
    **named("vers nfsvers minorversion", given("the lab has version 4.2 alone: leave it out")),
}


class Nfs(Layer):
    """NFS 4.2 over the loopback interface, on a filesystem.

    What a share costs without a network: two more caches, a commit for each fsync, and the protocol's work.
    """

    family = "filesystems"
    requires = LowerInterface("filesystem")
    provides = "filesystem"
    prerequisites = Prerequisites(
        tools=("exportfs", "mount", "pidof", "rpc.mountd", "rpc.nfsd", "sleep", "umount"),
        features=("nfs",),
        packages=("nfs",),
    )
    packages = ("nfs-kernel-server",)
    once_in_kernel = True  # its export is the server's root
    allowed = {"mount": MOUNT_OPTIONS}
    # fs/nfs/, fs/nfsd/, net/sunrpc/ of Linux 7.2
    kernel_log = KernelLog(trouble=(r"nfs: server .* not responding.*", r"NFS: .*(?:error|failed).*"))
    no_free_space = "Its free space is the filesystem's below."
    no_periods = "They are of the filesystem below."
    also_called = ("nfs4", "nfsd", "network filesystem")

    layer: Literal["nfs"] = "nfs"
    sync: StrictBool = True
    """Whether the server answers once data are durable, as `sync` of exports(5); false: `async`"""
    threads: Annotated[int, Field(ge=1, le=256, strict=True)] = 16
    """Threads of the server; 16 is the default of nfs-utils 2.8"""
    mount: MountOptions = Field([], examples=[["nconnect=4"]])
    """Further mount options of the client"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from item_diagnostics("mount option", self.mount, self.allowed["mount"], key="mount")

    def power_risks(self) -> Iterable[str]:
        if not self.sync:
            yield "sync = false: the server acknowledges what is in its memory alone"

    def path(self, context: LayerContext) -> str:
        return context.mount

    def share(self, context: LayerContext) -> Share | None:
        return folder_share(self, context)

    def build(self, context: LayerContext) -> list[Step]:
        return self.assemble(context)

    def assemble(self, context: LayerContext) -> list[Step]:
        export = f"127.0.0.1:{context.lower[0]}"
        options = f"rw,{'sync' if self.sync else 'async'},no_root_squash,no_subtree_check,fsid=0"
        grace = ("--grace-time", str(_GRACE_S))
        server = ("rpc.nfsd", "--no-nfs-version", "3", "--no-udp", *grace, str(self.threads))
        given = ",".join(["vers=4.2", *map(literal, self.mount)])
        mount = ("mount", "--mkdir", "-t", "nfs", "-o", given, "127.0.0.1:/", context.mount)
        control = context.step(
            "control",
            "Mount the controls of the NFS server",
            *("mount", "-t", "nfsd", "nfsd", _CONTROL),
            undo=Command(argv=("umount", _CONTROL)),
        )
        exported = context.step(
            "export",
            "Export the filesystem",
            *("exportfs", "-i", "-o", options, export),
            undo=Command(argv=("exportfs", "-u", export)),
        )
        answering = context.step(
            "mountd",
            "Tell the server who may mount the export",
            *("rpc.mountd", "--foreground", "--no-nfs-version", "3"),
            background=True,
            ready=Command(argv=("pidof", "rpc.mountd")),  # the server waits for its answers
        )
        started = context.step(
            "server", "Start the NFS server", *server, undo=Command(argv=("rpc.nfsd", "0"))
        )
        # Until then only clients from before may open files.
        title = "Wait until the server's grace period is over"
        begun = context.step("grace", title, "sleep", str(_GRACE_S + 2))
        mounted = act(context, "mount", "Mount the export", *mount, undo=unmount(context))
        return [control, exported, answering, started, begun, mounted]
