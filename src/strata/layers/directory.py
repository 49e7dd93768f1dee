# SPDX-License-Identifier: Apache-2.0
"""A plain folder of a filesystem: the reference for what storage backends do without any help from below."""

from __future__ import annotations

from typing import ClassVar, Literal

from strata.spec.abilities import Outcome
from strata.spec.filesystem import act
from strata.spec.joint import JointKind, Takes
from strata.spec.layer import Layer, LayerContext
from strata.spec.step import Requires, Step


class Directory(Layer):
    """A plain folder of a filesystem, as the backend "dir" of container managers uses it.

    A snapshot of it is a copy of every file, which takes the time and the space that copying takes, unless
    the filesystem below can share blocks between files.
    """

    takes: ClassVar[Takes] = Takes("filesystem")
    gives: ClassVar[JointKind] = "filesystem"
    requires: ClassVar[Requires] = Requires(tools=("mkdir",))

    layer: Literal["directory"] = "directory"

    def path(self, context: LayerContext) -> str:
        """The folder."""
        return f"{context.lower[0]}/{context.name}"

    def build(self, context: LayerContext) -> list[Step]:
        """Make the folder; it goes with the filesystem below."""
        return [context.step("make", "Make the folder", "mkdir", self.path(context))]

    def assemble(self, context: LayerContext) -> list[Step]:
        """Nothing: it is there when the filesystem below is."""
        return []

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        """Copy it."""
        return self._copy(context, self.path(context), self._beside(context, name))

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        """Delete the copy."""
        return [act(context, "drop", f"Delete the copy {name}", "rm", "-r", self._beside(context, name))]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        """Delete the folder, and copy the copy back."""
        delete = act(context, "delete", "Delete the folder", "rm", "-r", self.path(context))
        return [delete, *self._copy(context, self._beside(context, name), self.path(context))]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        """Copy the copy."""
        clone = self._beside(context, f"{name}-clone")
        return Outcome(self._copy(context, self._beside(context, name), clone), clone)

    def _beside(self, context: LayerContext, name: str) -> str:
        return f"{self.path(context)}.{name}"

    def _copy(self, context: LayerContext, source: str, target: str) -> list[Step]:
        copy = ("cp", "--archive", "--reflink=auto", "--no-target-directory", source, target)
        return [
            act(context, "copy", "Copy the folder", *copy),
            # What is only in memory yet is no copy.
            act(context, "sync", "Write the copy to the disk", "sync", "--file-system", target),
        ]
