# SPDX-License-Identifier: Apache-2.0
"""overlayfs as container engines use it: an image's read-only layers below, one writable layer above."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, Self

from pydantic import Field, PrivateAttr, StrictBool

from strata.diagnostics.names import Diagnostic
from strata.layers.filesystem import MountOptions, act, folder_share, unmount
from strata.layers.nspawn import Nspawn
from strata.layers.options import MOUNT
from strata.model.allowed import Forms, given, item_diagnostics, named, one_of
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided, Share
from strata.model.step import Prerequisites, Step, literal

_EITHER: Final = one_of("on", "off")
_WORK_COMMITTED: Final = "work-committed"

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **named("index metacopy", _EITHER),
    "redirect_dir": one_of("on", "off", "follow", "nofollow"),
    "xino": one_of("on", "off", "auto"),
    **named("lowerdir upperdir workdir", given("the layer makes these folders: leave it out")),
}


class Overlay(Layer):
    """overlayfs on a filesystem, as Docker and Podman use it.

    The first write to a file of the image copies the whole file up. The image holds the files that were
    written before the machine started anew: with `prepare = "once"` the workload's own data.
    """

    family = "containers"
    requires = LowerInterface("filesystem")
    provides = "filesystem"
    prerequisites = Prerequisites(tools=("mkdir", "mount", "mv", "umount"), features=("filesystem:overlay",))
    allowed = {"mount": MOUNT_OPTIONS}
    # fs/overlayfs/copy_up.c, dir.c, namei.c and readdir.c of Linux 7.2
    kernel_log = KernelLog(
        trouble=(r"overlayfs: (?:failed|bad|invalid|orphan|suspected|cleanup of|lookup|refusing) .*",)
    )
    no_free_space = "Its free space is the filesystem's below."
    no_periods = "They are of the filesystem below."
    also_called = ("overlayfs", "overlay2", "docker", "podman")

    layer: Literal["overlay"] = "overlay"
    commit: StrictBool = True
    """Whether the files written before the machine first starts anew (`prepare = "once"`) become a layer of
    the image, as of `docker commit`: afterwards the first write to one of them copies it up; false: they stay
    in the writable layer"""
    mount: MountOptions = Field([], examples=[["metacopy=on"]])
    """Further mount options"""
    _upper: Layer | None = PrivateAttr(None)

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from item_diagnostics("mount option", self.mount, self.allowed["mount"], key="mount")
        if isinstance(self._upper, Overlay):
            yield Diagnostic("overlayfs cannot write to another overlayfs", remedy="leave one out")
        if isinstance(self._upper, Nspawn):
            cause = "overlayfs cannot map the users of a container of systemd-nspawn"
            yield Diagnostic(cause, remedy='write { layer = "incus-dir" }, or leave one out')

    def under(self, upper: Layer) -> Self:
        placed = self.model_copy()
        placed._upper = upper
        return placed

    def path(self, context: LayerContext) -> str:
        return context.mount

    def share(self, context: LayerContext) -> Share | None:
        return folder_share(self, context)

    def build(self, context: LayerContext) -> list[Step]:
        folders = (f"{_folder(context)}/{name}" for name in ("image", "upper", "work"))
        made = context.step("make", "Make the folders of the overlay", "mkdir", "--parents", *folders)
        return [made, self._mounted(context, "image")]

    def assemble(self, context: LayerContext) -> list[Step]:
        if not self.commit:
            return [self._mounted(context, "image")]
        folder = _folder(context)
        # Once: a committed layer stays, and the writable one keeps what came later.
        moved = ("mv", "--update=none", "--no-target-directory", f"{folder}/upper", f"{folder}/committed")
        # With index=on the work folder holds an index, which is of its first writable layer alone.
        fresh = (f"{folder}/upper", f"{folder}/{_WORK_COMMITTED}")
        return [
            context.step("commit", "Make the writable layer one of the image", *moved),
            context.step("upper", "Make a writable layer", "mkdir", "--parents", *fresh),
            self._mounted(context, "committed", "image", work=_WORK_COMMITTED),
        ]

    def _mounted(self, context: LayerContext, *image: str, work: str = "work") -> Step:
        folder = _folder(context)
        below = ":".join(f"{folder}/{name}" for name in image)
        folders = (f"lowerdir={below}", f"upperdir={folder}/upper", f"workdir={folder}/{work}")
        options = ",".join([*folders, *map(literal, self.mount)])
        mount = ("mount", "--mkdir", "-t", "overlay", "-o", options, context.label, context.mount)
        return act(context, "mount", "Mount the overlay", *mount, undo=unmount(context))


def _folder(context: LayerContext) -> str:
    return f"{context.lower[0]}/{context.name}"
