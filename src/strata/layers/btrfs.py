# SPDX-License-Identifier: Apache-2.0
"""btrfs on one or several block devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, Literal

from pydantic import Field, StrictBool

from strata.spec.filesystem import Filesystem
from strata.spec.joint import Offer, Takes
from strata.spec.layer import LayerContext
from strata.spec.names import Refusal
from strata.spec.step import Requires

Profile = Literal["single", "dup", "raid0", "raid1", "raid1c3", "raid1c4", "raid10", "raid5", "raid6"]

# What mkfs.btrfs accepts since 5.14; below it wanted two disks more for raid0, raid10.
DEVICES_MIN: Final[dict[str, int]] = {
    "single": 1,
    "dup": 1,
    "raid0": 1,
    "raid1": 2,
    "raid1c3": 3,
    "raid1c4": 4,
    "raid10": 2,
    "raid5": 2,
    "raid6": 3,
}

_COPIES: Final = {"raid1": 2, "raid10": 2, "raid1c3": 3, "raid1c4": 4}
_PARITIES: Final = {"raid5": 1, "raid6": 2}


class Btrfs(Filesystem):
    """btrfs on one or several block devices.

    ``cow = false`` mounts with ``nodatacow``: files are overwritten in place, and have no checksums.
    """

    takes: ClassVar[Takes] = Takes("block", maximum=None)
    requires: ClassVar[Requires] = Requires(
        tools=("mkfs.btrfs", "mount", "umount"), features=("filesystem:btrfs",)
    )
    capacity_bytes_min: ClassVar[int] = 256 << 20
    checker: ClassVar[tuple[str, ...]] = ("btrfs", "check", "--readonly")
    owned_options: ClassVar[dict[str, str]] = {
        "-U": "the UUID derives from the trial's seed: leave it out",
        "--uuid": "the UUID derives from the trial's seed: leave it out",
        "--device-uuid": "the version of Debian 12 lacks it: leave it out",
        "-d": 'write data = "raid1" instead',
        "--data": 'write data = "raid1" instead',
        "-m": 'write metadata = "raid1" instead',
        "--metadata": 'write metadata = "raid1" instead',
        "-f": "it is given already: leave it out",
        "-K": "it is given already: leave it out",
        "-q": "it is given already: leave it out",
    }
    owned_mount_options: ClassVar[dict[str, str]] = {
        "nodatacow": "write cow = false instead",
        "datacow": "write cow = true instead",
        "device": "name the disks in the stack's `devices` instead",
    }

    layer: Literal["btrfs"] = "btrfs"
    cow: StrictBool = Field(default=True, description="Copy on write; false mounts with nodatacow")
    data: Profile = Field(default="single", description="Profile of the data", examples=["raid1"])
    metadata: Profile | None = Field(
        default=None,
        description="Profile of the metadata; default: dup on one disk, raid1 on several",
        examples=["raid1"],
    )

    def refusals(self, lower: Offer, named: Mapping[str, int]) -> Iterable[Refusal]:
        """Profiles that need more disks than there are, besides what holds for every filesystem."""
        yield from super().refusals(lower, named)
        for key, profile in (("data", self.data), ("metadata", self.metadata)):
            if profile is not None and DEVICES_MIN[profile] > lower.count:
                fitting = [name for name, count in DEVICES_MIN.items() if count <= lower.count]
                yield Refusal(
                    f"the profile {profile} needs {DEVICES_MIN[profile]} disks, the stack has {lower.count}",
                    remedy=f"add disks to the stack's `devices`, or take one of {', '.join(fitting)}",
                    key=key,
                )

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """What the profile of the data leaves; as mkfs.btrfs allocates, space on unequal disks included."""
        if self.data in _COPIES:
            return _mirrored_bytes(lower_bytes, _COPIES[self.data])
        if self.data in _PARITIES:
            return _striped_bytes(lower_bytes, _PARITIES[self.data], DEVICES_MIN[self.data])
        return sum(lower_bytes) // (2 if self.data == "dup" else 1)

    def make_options(self, context: LayerContext) -> list[str]:
        """As of `Filesystem`."""
        metadata = self.metadata or ("dup" if len(context.lower) == 1 else "raid1")
        make = ["mkfs.btrfs", "-q", "-f", "-K", "-U", str(context.derived_uuid("uuid"))]
        return [*make, "-d", self.data, "-m", metadata, *self.mkfs]

    def mount_options(self, context: LayerContext) -> list[str]:
        """As of `Filesystem`."""
        # Without udev nothing scans for the other disks: the mount names them.
        options = [f"device={path}" for path in context.lower[1:]]
        return options if self.cow else [*options, "nodatacow"]


def _mirrored_bytes(disks_bytes: Sequence[int], copies: int) -> int:
    """Each block lies on ``copies`` different disks, so a disk larger than the rest cannot be filled.

    What bounds it, for each number of disks that are full of one copy: the others must hold the rest.
    """
    ascending = sorted(disks_bytes)
    return min(sum(ascending[: len(ascending) - full]) // (copies - full) for full in range(copies))


def _striped_bytes(disks_bytes: Sequence[int], parities: int, disks_min: int) -> int:
    """Stripes go over all disks that have space left; each gives up ``parities`` of its parts."""
    usable_bytes = filled_bytes = 0
    ascending = sorted(disks_bytes)
    for index, disk_bytes in enumerate(ascending):
        width = len(ascending) - index
        if width >= disks_min:
            usable_bytes += (disk_bytes - filled_bytes) * (width - parities)
        filled_bytes = disk_bytes
    return usable_bytes
