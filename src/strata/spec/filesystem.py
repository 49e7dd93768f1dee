# SPDX-License-Identifier: Apache-2.0
"""What the filesystem layers have in common: make it, mount it, and unmount it at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field, StrictStr

from strata.spec.layer import Gives, Layer, LayerContext
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

    gives: ClassVar[Gives] = Gives("filesystem")
    owned_options: ClassVar[Mapping[str, str]]
    owned_mount_options: ClassVar[Mapping[str, str]] = {}
    capacity_bytes_min: ClassVar[int]
    checker: ClassVar[tuple[str, ...]]

    mkfs: list[StrictStr] = Field(
        default=[], description="Further options of mkfs, as separate words", examples=[["-m", "0"]]
    )
    mount: MountOptions = Field(default=[], description="Further mount options", examples=[["noatime"]])

    def refusals(self, lower: Gives, smallest_bytes: int) -> Iterable[Refusal]:
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
        if smallest_bytes < self.capacity_bytes_min:
            yield Refusal(
                f"{self.layer} needs devices of at least {describe_size(self.capacity_bytes_min)}, "
                f"and the smallest has {describe_size(smallest_bytes)}",
                remedy="raise the `capacity` of the device",
            )

    def check_argv(self, context: LayerContext) -> tuple[str, ...]:
        """The filesystem's own checker on its first device."""
        return (*self.checker, context.lower_paths[0])

    def make_and_mount(self, context: LayerContext, make: list[str], mount_options: list[str]) -> list[Step]:
        """The two steps.

        Args:
            context: As of `steps`.
            make: mkfs with all its options, without the devices; it holds no variables.
            mount_options: The layer's own; the user's follow them.
        """
        disks = " and ".join(context.lower)
        all_options = [*mount_options, *map(literal, self.mount)]
        options = ["-o", ",".join(all_options)] if all_options else []
        device = context.lower_paths[0]
        return [
            Step(
                id=f"{context.name}-make",
                phase="build",
                title=f"Make the {self.layer} filesystem on {disks}",
                argv=(*map(literal, make), *context.lower_paths),
                destroys=context.lower,
                time_limit_ns=_MAKE_LIMIT_NS,
            ),
            Step(
                id=f"{context.name}-mount",
                phase="build",
                title=f"Mount the {self.layer} filesystem",
                argv=("mount", "--mkdir", "-t", self.layer, *options, device, context.mount_path),
                time_limit_ns=_MOUNT_LIMIT_NS,
                undo=Command(argv=("umount", context.mount_path), time_limit_ns=_UNMOUNT_LIMIT_NS),
            ),
        ]
