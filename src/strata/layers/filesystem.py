# SPDX-License-Identifier: Apache-2.0
"""The base of the filesystem layers: make one, mount it, and unmount it at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.model.abilities import Outcome
from strata.model.allowed import (
    given_items,
    given_words,
    item_diagnostics,
    rule_diagnostics,
    word_diagnostics,
)
from strata.model.layer import Layer, LayerContext, Provided, Share
from strata.model.step import Command, Prerequisites, Step, literal
from strata.units import NS_PER_S, describe_size
from strata.words import listed

_MAKE_LIMIT_NS: Final = 600 * NS_PER_S
_MOUNT_LIMIT_NS: Final = 300 * NS_PER_S
# Unmounting writes dirty data back, which takes long on a rotating disk.
_UNMOUNT_LIMIT_NS: Final = 1200 * NS_PER_S
_ACT_LIMIT_NS: Final = 3600 * NS_PER_S

_WITHOUT_FLUSHES: Final = ("nobarrier", "barrier=0", "fsync_mode=nobarrier")
# The kernel's defaults: vm.dirty_expire_centisecs.
WRITE_BACK: Final = {"write-back of dirty pages": 30 * NS_PER_S}
_PROJECT: Final = "18273"  # an arbitrary number, above the usual ones of projects


def _check_mount_options(options: list[str]) -> list[str]:
    for option in options:
        if not option or any(char in option for char in ", \t\n") or option.startswith("-"):
            raise Diagnostic(
                f'"{option[:60]}" is not one mount option',
                remedy='write each option by itself and without -o: mount = ["noatime", "commit=30"]',
            )
    return options


MountOptions = Annotated[list[StrictStr], AfterValidator(_check_mount_options)]


def unmount(context: LayerContext) -> Command:
    return Command(argv=("umount", context.mount), time_limit_ns=_UNMOUNT_LIMIT_NS)


def act(context: LayerContext, name: str, title: str, *argv: str, **fields: Any) -> Step:
    return context.act(name, title, *argv, **{"time_limit_ns": _ACT_LIMIT_NS, **fields})


def filesystem_prerequisites(name: str, *tools: str) -> Prerequisites:
    return Prerequisites(
        tools=tuple(sorted((*tools, f"mkfs.{name}", "mount", "umount"))), features=(f"filesystem:{name}",)
    )


def log_structures(size_bytes: int | None, what: str) -> Iterable[Structure]:
    """The log or journal of a filesystem, of a size that the study sets."""
    if size_bytes:
        why = "it does not wrap, so that nothing waits for its tail to be written back"
        yield Structure(what, size_bytes, why, is_log=True)


def folder_share(layer: Layer, context: LayerContext) -> Share:
    folder = context.within(layer.path(context))
    made = context.of_tenant.step("folder", f"Make the folder of {context.tenant}", "mkdir", folder)
    return Share([made], folder, context.fair(layer.provided(context.provided)))


class Filesystem(Layer):
    """The base of the filesystem layers."""

    family = "filesystems"
    provides = "filesystem"
    capacity_bytes_min: ClassVar[int]  # the smallest device that the filesystem is made on
    checker: ClassVar[tuple[str, ...]] = ()
    """The filesystem's own checker, with options that keep it from changing anything; (): none."""
    external_log: ClassVar[tuple[str, str, str]] = ("", "", "")
    """With a log on the device of its `device_keys`: the words of mkfs and of its checker, and the mount
    option; each is followed by the device."""
    make_limit_ns: ClassVar[int] = _MAKE_LIMIT_NS
    periods_ns: ClassVar[Mapping[str, int]] = WRITE_BACK

    mkfs: list[StrictStr] = Field([], examples=[["-L", "strata"]])
    """Further options of mkfs, as separate words"""
    mount: MountOptions = Field([], examples=[["noatime"]])
    """Further mount options"""
    barriers: StrictBool = True
    """Flush the disks' write caches; false mounts with nobarrier"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from word_diagnostics("mkfs option", self.mkfs, self.allowed["mkfs"], key="mkfs")
        yield from item_diagnostics("mount option", self.mount, self.allowed["mount"], key="mount")
        words = given_words(self.mkfs, self.allowed["mkfs"])
        yield from rule_diagnostics(self.rules, {"mkfs": words, "mount": given_items(self.mount)})
        if lower.smallest_bytes < self.capacity_bytes_min:
            yield Diagnostic(
                f"{self.layer} needs devices of at least {describe_size(self.capacity_bytes_min)}, "
                f"and the smallest has {describe_size(lower.smallest_bytes)}",
                remedy="raise the `capacity` of the device",
            )

    def mkfs_without(self, option: str) -> tuple[list[str], list[str]]:
        """The words of `mkfs` without an option such as ``-E``, and that option's comma-separated values."""
        others: list[str] = []
        values: list[str] = []
        remaining = iter(self.mkfs)
        for word in remaining:
            if word == option:
                values += [value for value in next(remaining, "").split(",") if value]
            elif word.startswith(option):
                values += [value for value in word[len(option) :].split(",") if value]
            else:
                others.append(word)
        return others, values

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        return (*self.checker, *self._log_words(1), context.lower[0]) if self.checker else None

    def _log_words(self, which: int) -> list[str]:
        """The words about a log on a device of its own, without the device if there is none."""
        named = [name for names in self.named_devices().values() for name in names]
        words = self.external_log[which]
        return [f"{word}" for name in named[:1] if words for word in f"{words}${{{name}}}".split()]

    def path(self, context: LayerContext) -> str:
        return context.mount

    def share(self, context: LayerContext) -> Share | None:
        return folder_share(self, context)

    def make_options(self, context: LayerContext) -> list[str]:
        """The command of mkfs without the devices and without variables."""
        raise NotImplementedError

    def mount_options(self, context: LayerContext) -> list[str]:
        return [] if self.barriers else ["nobarrier"]

    def power_risks(self) -> Iterable[str]:
        given = [*([] if self.barriers else ["barriers = false"]), *self.mount]
        for option in given:
            if option in ("barriers = false", *_WITHOUT_FLUSHES):
                yield f"{option}: it does not flush the disks' write caches"

    def build(self, context: LayerContext) -> list[Step]:
        named = {name for names in self.named_devices().values() for name in names}
        disks = listed([name for name in context.devices if name not in named]) or "what is below"
        make = context.step(
            "make",
            f"Make the {self.layer} filesystem on {disks}",
            *map(literal, self.make_options(context)),
            *self._log_words(0),
            *context.lower,
            destroys=context.devices,
            time_limit_ns=self.make_limit_ns,
        )
        return [make, *self.assemble(context)]

    def assemble(self, context: LayerContext) -> list[Step]:
        all_options = [*self._log_words(2), *self.mount_options(context), *map(literal, self.mount)]
        options = ["-o", ",".join(all_options)] if all_options else []
        mount = ("mount", "--mkdir", "-t", self.layer, *options, context.lower[0], context.mount)
        return [
            context.step(
                "mount",
                f"Mount the {self.layer} filesystem",
                *mount,
                time_limit_ns=_MOUNT_LIMIT_NS,
                undo=unmount(context),
            )
        ]


class AlignedFilesystem(Filesystem):
    """The base of the filesystems that align themselves to the stripes of a RAID below."""

    align: StrictBool = True
    """Align to the stripes of the RAID below; false keeps mkfs from doing so by itself, too"""


class ProjectQuotaFilesystem(Filesystem):
    """The base of the filesystems that limit a folder by a project quota, if a study pays for accounting."""

    quota_feature: ClassVar[str] = "quota:v2"  # the feature of the kernel for it

    project_quota: StrictBool = False
    """Account for folders, so that their size can be limited"""

    def needs(self) -> Prerequisites:
        quota = Prerequisites(features=(self.quota_feature,)) if self.project_quota else Prerequisites()
        return super().needs() | quota

    def mount_options(self, context: LayerContext) -> list[str]:
        options = super().mount_options(context)
        return [*options, "prjquota"] if self.project_quota else options

    def capable(self) -> Self:
        return self.model_copy(update={"project_quota": True})

    def quota(self, context: LayerContext, limit_bytes: int) -> Outcome | None:
        """A folder that is a project of its own, which its files inherit."""
        if not self.project_quota:
            return None
        folder = f"{self.path(context)}/limited"
        mark = ("chattr", "+P", "-p", _PROJECT, folder)
        # Soft and hard limit of the blocks in KiB, then of the inodes; 0 is none.
        limits = ("0", str(limit_bytes >> 10), "0", "0")
        steps = [
            act(context, "folder", "Make the folder", "mkdir", folder),
            act(context, "project", "Make it a project", *mark),
            act(context, "limit", "Limit the project", "setquota", "-P", _PROJECT, *limits, context.mount),
        ]
        return Outcome(steps, folder)
