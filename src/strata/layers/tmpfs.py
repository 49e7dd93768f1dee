# SPDX-License-Identifier: Apache-2.0
"""tmpfs: a filesystem in memory, the reference that stands on nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from pydantic import Field

from strata.diagnostics.names import Diagnostic
from strata.layers.filesystem import MountOptions, act, folder_share, unmount
from strata.layers.options import MOUNT, flags
from strata.model.allowed import Forms, form, given, item_diagnostics, named, one_of
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided, Share
from strata.model.step import Prerequisites, Step, literal
from strata.units import MemorySize

_NODES: Final = r"\d{1,4}(-\d{1,4})?"
_SIZE: Final = given('write size = "512MiB" as a key of the layer instead')

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **flags("inode32 inode64 noswap quota usrquota grpquota"),
    "huge": one_of("always", "advise", "never", "within_size"),
    "mpol": form(
        rf"(default|local|(prefer|bind|interleave)(=static|=relative)?:{_NODES}(,{_NODES})*)",
        "a policy such as interleave:0-1",
    ),
    "nr_inodes": form(r"\d{1,12}[kKmMgG]?", "a number such as 100k"),
    **named("size nr_blocks", _SIZE),
    "mode": given("the folder is root's alone: leave it out"),
}


class Tmpfs(Layer):
    """A filesystem in memory: the cost of a workload without a disk.

    Its content goes when it is taken down: assembled again it is empty.
    """

    family = "filesystems"
    requires = LowerInterface("block", 0, 0)
    provides = "filesystem"
    prerequisites = Prerequisites(tools=("mount", "umount"), features=("filesystem:tmpfs",))
    allowed = {"mount": MOUNT_OPTIONS}
    kernel_log = KernelLog(silent="It is memory, which has no faults here.")
    no_free_space = "Memory is not divided into extents."
    no_periods = "It writes nothing back."
    also_called = ("ramdisk", "ramfs")

    layer: Literal["tmpfs"] = "tmpfs"
    size_bytes: MemorySize = Field(512 << 20, alias="size")
    """How much it can hold"""
    mount: MountOptions = Field([], examples=[["huge=always"]])
    """Further mount options"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from item_diagnostics("mount option", self.mount, self.allowed["mount"], key="mount")
        if self.size_bytes < 4096:
            yield Diagnostic("it holds less than a page", remedy='such as size = "512MiB"', key="size")

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        return self.size_bytes

    def path(self, context: LayerContext) -> str:
        return context.mount

    def share(self, context: LayerContext) -> Share | None:
        return folder_share(self, context)

    def caches_direct_io(self) -> bool:
        return True

    def kernel_memory_bytes(self) -> int:
        return self.size_bytes

    def power_risks(self) -> Iterable[str]:
        yield "it is memory"

    def build(self, context: LayerContext) -> list[Step]:
        return self.assemble(context)

    def assemble(self, context: LayerContext) -> list[Step]:
        # Only root may write to the folder, as on a new filesystem.
        options = ",".join([f"size={self.size_bytes}", "mode=0755", *map(literal, self.mount)])
        mount = ("mount", "--mkdir", "-t", "tmpfs", "-o", options, context.label, context.mount)
        return [context.step("mount", "Mount the tmpfs", *mount, undo=unmount(context))]

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        remount = ("mount", "-o", f"remount,size={capacity_bytes}", context.mount)
        return [act(context, "resize", "Change the size of the tmpfs", *remount)]
