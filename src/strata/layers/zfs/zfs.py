# SPDX-License-Identifier: Apache-2.0
"""A filesystem of a ZFS pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool

from strata.layers.keys import power_of_two
from strata.layers.zfs.dataset import MAKE_LIMIT_NS, Dataset
from strata.layers.zfs.options import FILESYSTEM
from strata.spec.abilities import Outcome
from strata.spec.allowed import Forms
from strata.spec.layer import Interface, LayerContext, Share
from strata.spec.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, SECTOR_BYTES, Size

_UNMOUNT_LIMIT_NS: Final = 1200 * NS_PER_S
# Mounted like any other filesystem, so that only its steps mount and unmount it.
_LEGACY: Final = ("-o", "mountpoint=legacy")


class Zfs(Dataset):
    """A filesystem of a ZFS pool, which takes as much of it as it needs.

    A property that is not set has ZFS's own default.
    """

    provides: ClassVar[Interface] = "filesystem"
    prerequisites: ClassVar[Prerequisites] = Prerequisites(tools=("mount", "umount", "zfs"), modules=("zfs",))
    allowed: ClassVar[Mapping[str, Forms]] = {"properties": FILESYSTEM}
    own_properties: ClassVar[str] = f"recordsize atime xattr dnodesize {Dataset.own_properties}"

    layer: Literal["zfs"] = "zfs"
    recordsize_bytes: Annotated[Size, power_of_two(SECTOR_BYTES, 16 << 20)] | None = Field(
        None, alias="recordsize", examples=["16KiB"]
    )
    """Largest block of a file, a power of two from 512B to 16MiB; default: 128KiB"""
    atime: StrictBool | None = Field(None, examples=[False])
    """Whether reading a file changes its access time; default: true"""
    xattr: Literal["on", "off", "sa", "dir"] | None = Field(None, examples=["sa"])
    """Where extended attributes are kept; default: sa"""
    dnodesize: Literal["legacy", "auto", "1k", "2k", "4k", "8k", "16k"] | None = Field(
        None, examples=["auto"]
    )
    """Size of a file's dnode; default: legacy"""

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        return sum(lower_bytes) // (self.copies or 1)

    def path(self, context: LayerContext) -> str:
        return context.mount

    def build(self, context: LayerContext) -> list[Step]:
        make = self.create_step(context, "make", "Make the filesystem in the pool", *_LEGACY)
        return [make, *self.assemble(context)]

    def share(self, context: LayerContext) -> Share | None:
        """A filesystem within it, with the same properties."""
        own, mount = context.of_tenant, context.within(context.mount)
        make = self.create_step(own, "make", f"Make the filesystem of {context.tenant} in it", *_LEGACY)
        mounted = self._mounted(own, "mount", "", mount)
        return Share([make, mounted], mount, context.fair(self.provided(context.provided)))

    def assemble(self, context: LayerContext) -> list[Step]:
        return [self._mounted(context, "mount", "", context.mount)]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        # A clone inherits from the pool, not from its origin.
        clone = self.clone_step(context, name, *_LEGACY, *self.options())
        mount = f"${{mounts}}/{context.name}-{name}"
        return Outcome([clone, self._mounted(context, "mount-clone", f"-{name}", mount)], mount)

    def receive(self, context: LayerContext, base: str, file: str) -> Outcome | None:
        received = self.receive_into(context, base, file, *_LEGACY)
        mount = f"${{mounts}}/{context.name}-received"
        return Outcome([received, self._mounted(context, "mount-received", "-received", mount)], mount)

    def quota(self, context: LayerContext, limit_bytes: int) -> Outcome | None:
        """A filesystem within it, whose content is counted after each txg."""
        title, options = "Make a filesystem with a quota in it", (*_LEGACY, "-o", f"quota={limit_bytes}")
        fields = {"suffix": "/limited", "cwd": "${scratch}"}
        limited = self.create_step(context, "limit", title, *options, **fields)
        mount = f"{context.mount}/limited"
        return Outcome([limited, self._mounted(context, "mount-limited", "/limited", mount)], mount)

    def _mounted(self, context: LayerContext, step: str, suffix: str, mount: str) -> Step:
        return context.step(
            step,
            "Mount the filesystem" if not suffix else f"Mount {context.name}{suffix}",
            *("mount", "--mkdir", "-t", "zfs", self.dataset(context, suffix), mount),
            cwd=context.cwd,
            time_limit_ns=MAKE_LIMIT_NS,
            undo=Command(argv=("umount", mount), time_limit_ns=_UNMOUNT_LIMIT_NS),
        )
