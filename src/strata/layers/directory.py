# SPDX-License-Identifier: Apache-2.0
"""A plain folder of a filesystem: the reference for what storage backends do without any help from below."""

from __future__ import annotations

from typing import Literal

from strata.layers.filesystem import act, folder_share
from strata.model.abilities import Outcome
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Share
from strata.model.step import Prerequisites, Step


class CopiedFolder(Layer):
    """The base of the layers whose snapshot is a copy of a folder."""

    requires = LowerInterface("filesystem")
    provides = "filesystem"
    no_free_space = "Its free space is the filesystem's below."
    no_periods = "They are of the filesystem below."

    def folder(self, context: LayerContext) -> str:
        return context.within(f"{context.lower[0]}/{context.name}")

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        return self._copy(context, self.folder(context), self.copy_of(context, name))

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        copy = self.copy_of(context, name)
        return [act(context.of_tenant, "drop", f"Delete the copy {name}", "rm", "-r", copy, outside=True)]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        own = self.folder(context)
        delete = act(context.of_tenant, "delete", "Delete the folder", "rm", "-r", own, outside=True)
        return [delete, *self._copy(context, self.copy_of(context, name), own)]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        clone = self.copy_of(context, f"{name}-clone")
        return Outcome(self._copy(context, self.copy_of(context, name), clone), clone)

    def copy_of(self, context: LayerContext, name: str) -> str:
        return f"{self.folder(context)}.{name}"

    def _copy(self, context: LayerContext, source: str, target: str) -> list[Step]:
        copy = ("cp", "--archive", "--reflink=auto", "--no-target-directory", source, target)
        sync = ("sync", "--file-system", target)
        return [
            act(context.of_tenant, "copy", "Copy the folder", *copy, outside=True),
            # Data still in memory do not count as a copy.
            act(context.of_tenant, "sync", "Write the copy to the disk", *sync, outside=True),
        ]


class Directory(CopiedFolder):
    """A plain folder, as the backend "dir" of container managers.

    A snapshot copies every file, at the full cost in time and space, unless the filesystem below can share
    blocks between files.
    """

    family = "filesystems"
    prerequisites = Prerequisites(tools=("mkdir",))
    kernel_log = KernelLog(silent="It is a folder; the filesystem below has messages.")
    also_called = ("bind", "folder")

    layer: Literal["directory"] = "directory"

    def path(self, context: LayerContext) -> str:
        return f"{context.lower[0]}/{context.name}"

    def build(self, context: LayerContext) -> list[Step]:
        """Make the folder; it goes with the filesystem below."""
        return [context.step("make", "Make the folder", "mkdir", self.path(context))]

    def share(self, context: LayerContext) -> Share | None:
        return folder_share(self, context)

    def assemble(self, context: LayerContext) -> list[Step]:
        return []
