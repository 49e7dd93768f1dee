# SPDX-License-Identifier: Apache-2.0
"""What the filesystem layers have in common: make it, mount it, and unmount it at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field, StrictStr

from strata.spec.joint import JointKind, Offer
from strata.spec.layer import Layer, LayerContext
from strata.spec.names import Refusal
from strata.spec.step import Command, Step, literal
from strata.units import NS_PER_S, describe_size

_MAKE_LIMIT_NS: Final = 600 * NS_PER_S
_MOUNT_LIMIT_NS: Final = 300 * NS_PER_S
# Unmounting writes back what is dirty, which on a rotating disk takes its time.
_UNMOUNT_LIMIT_NS: Final = 1200 * NS_PER_S


def _check_mount_options(options: list[str]) -> list[str]:
    for option in options:
        if not option or any(char in option for char in ", \t\n") or option.startswith("-"):
            raise Refusal(
                f'"{option[:60]}" is not one mount option',
                remedy='write each option by itself and without -o: mount = ["noatime", "commit=30"]',
            )
    return options


MountOptions = Annotated[list[StrictStr], AfterValidator(_check_mount_options)]


class Filesystem(Layer):
    """The base of the filesystem layers.

    Attributes:
        owned_options: The mkfs options that the layer itself gives, each with what to write instead.
        capacity_bytes_min: The smallest device that the filesystem is made on.
        checker: The filesystem's own checker, with the options that let it look and not mend.
    """

    gives: ClassVar[JointKind] = "filesystem"
    owned_options: ClassVar[Mapping[str, str]]
    owned_mount_options: ClassVar[Mapping[str, str]] = {}
    capacity_bytes_min: ClassVar[int]
    checker: ClassVar[tuple[str, ...]]

    mkfs: list[StrictStr] = Field(
        default=[], description="Further options of mkfs, as separate words", examples=[["-m", "0"]]
    )
    mount: MountOptions = Field(default=[], description="Further mount options", examples=[["noatime"]])

    def refusals(self, lower: Offer, named: Mapping[str, int]) -> Iterable[Refusal]:
        """Options that the layer gives itself, and devices that are too small."""
        for option in self.mkfs:
            for owned, remedy in self.owned_options.items():
                short_joined = len(owned) == 2 and option.startswith(owned)
                if option == owned or short_joined or option.startswith(f"{owned}="):
                    yield Refusal(f"Strata gives mkfs the option {owned} itself", remedy=remedy, key="mkfs")
        for option in self.mount:
            if option.partition("=")[0] in self.owned_mount_options:
                remedy = self.owned_mount_options[option.partition("=")[0]]
                yield Refusal(f"Strata gives the mount option {option} itself", remedy=remedy, key="mount")
        if lower.smallest_bytes < self.capacity_bytes_min:
            yield Refusal(
                f"{self.layer} needs devices of at least {describe_size(self.capacity_bytes_min)}, "
                f"and the smallest has {describe_size(lower.smallest_bytes)}",
                remedy="raise the `capacity` of the device",
            )

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        """The filesystem's own checker on its first device."""
        return (*self.checker, context.lower[0])

    def path(self, context: LayerContext) -> str:
        """Its mount point."""
        return context.mount

    def make_options(self, context: LayerContext) -> list[str]:
        """Mkfs with all its options, without the devices; it holds no variables."""
        raise NotImplementedError

    def mount_options(self, context: LayerContext) -> list[str]:
        """The layer's own mount options, with variables; the user's follow them."""
        return []

    def build(self, context: LayerContext) -> list[Step]:
        """Make it and mount it."""
        disks = " and ".join(context.devices) or "what is below"
        make = context.step(
            "make",
            f"Make the {self.layer} filesystem on {disks}",
            *map(literal, self.make_options(context)),
            *context.lower,
            destroys=context.devices,
            time_limit_ns=_MAKE_LIMIT_NS,
        )
        return [make, *self.assemble(context)]

    def assemble(self, context: LayerContext) -> list[Step]:
        """Mount it."""
        all_options = [*self.mount_options(context), *map(literal, self.mount)]
        options = ["-o", ",".join(all_options)] if all_options else []
        mount = ("mount", "--mkdir", "-t", self.layer, *options, context.lower[0], context.mount)
        return [
            context.step(
                "mount",
                f"Mount the {self.layer} filesystem",
                *mount,
                time_limit_ns=_MOUNT_LIMIT_NS,
                undo=Command(argv=("umount", context.mount), time_limit_ns=_UNMOUNT_LIMIT_NS),
            )
        ]
