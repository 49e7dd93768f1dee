# SPDX-License-Identifier: Apache-2.0
"""LVM: one volume over one or several block devices, and classical snapshots of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.layers.lvm.volume_group import (
    EXTENT_BYTES,
    STRIPE_BYTES,
    LvmLayer,
    StripeSize,
    VolumeGroup,
    WholeExtents,
    extents_bytes,
    stripe_diagnostics,
)
from strata.layers.md import MD_LOG
from strata.layers.options import ReadAhead, power_of_two, spare_diagnostics
from strata.model.layer import Geometry, KernelLog, LayerContext, Provided, Share
from strata.model.step import Prerequisites, Step
from strata.units import Size, describe_size

Kind = Literal["linear", "striped", "raid1", "raid10", "raid5", "raid6"]
"""The type of a volume, as ``lvcreate --type`` takes it."""

_RAIDS: Final = ("raid1", "raid10", "raid5", "raid6")
_DISKS_MIN: Final = {"linear": 1, "striped": 2, "raid1": 2, "raid10": 4, "raid5": 3, "raid6": 5}


_PROBED_SNAPSHOTS: Final = 3
_PROBED_SNAPSHOT_BYTES: Final = 256 << 20
# LVM takes no smaller ones, the kernel's snapshot target no larger ones.
_SNAPSHOT_CHUNK_BYTES: Final = (4 << 10, 512 << 10)


class Lvm(LvmLayer):
    """A volume of LVM, over one or several block devices.

    Of several devices ``linear`` fills one after the other, ``striped`` all in turn; ``raid1`` has a copy on
    each, ``raid10`` stripes over pairs of copies, ``raid5`` has one parity, ``raid6`` two. A snapshot is a
    classical one: before a block is overwritten, it is copied to the snapshot's own store, `snapshot_size`.
    """

    family = "RAID and volumes"
    device_keys = ("spares",)
    # dm-raid is MD; drivers/md/{dm-raid,dm-snap,dm-snap-persistent}.c of Linux 7.2
    kernel_log = KernelLog(
        trouble=(
            *MD_LOG.trouble,
            r"device-mapper: raid: Failed to .*",
            r"device-mapper: (?:snapshots|persistent snapshot): .*",
        ),
        disk_lost=MD_LOG.disk_lost,
    )
    packages = ("lvm2", "dmsetup")
    also_called = ("lv", "lvm2")

    layer: Literal["lvm"] = "lvm"
    kind: Kind = Field("linear", alias="type", examples=["striped"])
    """linear fills one device after the other, striped uses all in turn, raid1 keeps a copy on each, raid10
    stripes over pairs of copies, raid5 has one parity, raid6 two"""
    size_bytes: WholeExtents | None = Field(None, alias="size", examples=["100GiB"])
    """The volume's size, in whole extents of 4MiB; default: all that snapshots do not need"""
    stripes: Annotated[StrictInt, Field(ge=1, le=128)] | None = Field(None, examples=[2])
    """Over how many devices a striped volume is spread at a time, a divisor of their number; default: all"""
    stripe_size_bytes: StripeSize | None = Field(None, alias="stripe_size", examples=["256KiB"])
    """What lies on one device before the next one's turn comes; default: 64KiB"""
    initial_sync: Literal["assume-clean", "wait"] | None = Field(None, examples=["wait"])
    """The first synchronisation of raid1, raid10 and raid5: assume-clean (default) leaves it out, because the
    disks hold zeros; wait lets it end before anything else is built. raid6 always waits"""
    snapshot_size_bytes: WholeExtents | None = Field(None, alias="snapshot_size", examples=["10GiB"])
    """Size of the store that a snapshot copies to, which is set aside; default: no snapshots"""
    snapshots: Annotated[StrictInt, Field(ge=1, le=64)] | None = Field(None, examples=[2])
    """How many such stores are set aside; default: 1 if snapshot_size is given"""
    snapshot_chunk_bytes: Annotated[Size, power_of_two(*_SNAPSHOT_CHUNK_BYTES)] | None = Field(
        None, alias="snapshot_chunk", examples=["64KiB"]
    )
    """What a snapshot copies at a time, a power of two from 4KiB to 512KiB; default: 4KiB"""
    read_ahead_kb: ReadAhead = None
    """The most that is read ahead of a sequential reader, in KiB; default: LVM's auto, which is two stripes
    or that of the disks"""
    spares: list[StrictStr] = Field([], examples=[["disk4"]])
    """Devices of the study that hold nothing until they replace a lost one: of raid1, raid10, raid5, raid6"""

    @property
    def is_raid(self) -> bool:
        return self.kind in _RAIDS

    @property
    def _waits(self) -> bool:
        """Whether the first synchronisation ends before anything else: LVM makes raid6 in no other way."""
        return self.initial_sync == "wait" or self.kind == "raid6"

    @property
    def reserve_bytes(self) -> int:
        return (self.snapshot_size_bytes or 0) * (self.snapshots or 1)

    def needs(self) -> Prerequisites:
        tools: list[str] = []
        targets: list[str] = ["raid" if self.is_raid else self.kind]
        if self.reserve_bytes:
            targets += ["snapshot", "snapshot-merge"]
            tools += ["lvreduce"] if self.size_bytes is None else []
        if self._waits:
            tools += ["dmsetup", "sleep"]
        return self.prerequisites | Prerequisites(
            tools=tuple(tools), features=tuple(f"dm:{each}" for each in targets)
        )

    def on_used_disks(self) -> Self:
        return self.model_copy(update={"initial_sync": "wait"}) if self.is_raid else self

    def stated(self) -> Mapping[str, str]:
        return {"initial_sync": "wait" if self._waits else "assume-clean"} if self.is_raid else {}

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        count, least = lower.count, _DISKS_MIN[self.kind]
        if count < least:
            yield Diagnostic(
                f"the type {self.kind} needs {least} devices, and it stands on {count}",
                remedy='take type = "linear", or name more disks in `devices`',
                key="type",
            )
        elif self.kind == "raid10" and count % 2:
            yield Diagnostic(
                f"raid10 needs pairs of devices, and it stands on {count}",
                remedy="leave one out of the stack's `devices`",
                key="type",
            )
        elif self.kind == "striped":
            yield from stripe_diagnostics(self.stripes, count)
        yield from self._foreign_keys()
        needed_bytes = self._whole_bytes(self.size_bytes or EXTENT_BYTES, count) + self.reserve_bytes
        if needed_bytes > self._room_bytes(lower):
            yield self._too_large("the volume and its", needed_bytes, lower)
        yield from spare_diagnostics(self.spares, named, lower.smallest_bytes)

    def _foreign_keys(self) -> Iterable[Diagnostic]:
        for key, size in (("snapshots", self.snapshots), ("snapshot_chunk", self.snapshot_chunk_bytes)):
            if size is not None and self.snapshot_size_bytes is None:
                yield Diagnostic(
                    "without snapshot_size no space is set aside, and there are no snapshots",
                    remedy="give snapshot_size too, or leave it out",
                    key=key,
                )
        if self.kind == "raid6" and self.initial_sync == "assume-clean":
            cause = "LVM synchronises raid6 at the start, always"
            yield Diagnostic(cause, remedy="leave it out", key="initial_sync")
        for key, value, kinds in (
            ("stripes", self.stripes, ("striped",)),
            ("stripe_size", self.stripe_size_bytes, ("striped", "raid10", "raid5", "raid6")),
            ("initial_sync", self.initial_sync, _RAIDS),
            ("spares", self.spares or None, _RAIDS),
        ):
            if value is not None and self.kind not in kinds:
                yield Diagnostic(
                    f"the type {self.kind} has no {key}",
                    remedy=f"leave it out; types that have it: {', '.join(kinds)}",
                    key=key,
                )

    def _too_large(self, whose: str, needed_bytes: int, lower: Provided) -> Diagnostic:
        return Diagnostic(
            f"{whose} snapshots need {describe_size(needed_bytes)}, and there are "
            f"{describe_size(self._room_bytes(lower))}",
            remedy="raise the `capacity` of the devices, or ask for less",
            key="size" if self.size_bytes else "snapshot_size" if self.reserve_bytes else None,
        )

    def _room_bytes(self, lower: Provided) -> int:
        """The capacity of volumes of this type in a group on these devices."""
        smallest = extents_bytes(lower.of(lower.smallest_bytes))
        if self.kind == "linear":
            return extents_bytes(lower)
        if self.kind == "striped":
            return smallest * lower.count
        # Each device also holds an extent of metadata.
        data = self._stripes(lower.count) or 1
        return max(0, smallest - EXTENT_BYTES) * data

    def _stripes(self, devices: int) -> int | None:
        """Over how many devices data are striped, copies and parities not counted; None: over none."""
        if self.kind == "striped":
            return self.stripes or devices
        return {"raid10": devices // 2, "raid5": devices - 1, "raid6": devices - 2}.get(self.kind)

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The volume's size: as declared, or all but the stores of snapshots."""
        if self.size_bytes is not None:
            return self._whole_bytes(self.size_bytes, len(lower_bytes))
        return max(0, self._room_bytes(Provided("block", tuple(lower_bytes))) - self.reserve_bytes)

    def provided(self, lower: Provided) -> Provided:
        """One block device. A linear volume on one device has the geometry of that."""
        geometry = lower.geometry if self.kind == "linear" and lower.count == 1 else None
        if (stripes := self._stripes(lower.count)) is not None:
            geometry = Geometry(self._stripe_bytes, stripes)
        return replace(super().provided(lower), geometry=geometry)

    @property
    def _stripe_bytes(self) -> int:
        return self.stripe_size_bytes or STRIPE_BYTES

    def _whole_bytes(self, size_bytes: int, devices: int) -> int:
        """The size rounded up to whole extents on each of the devices that it stripes over."""
        whole_bytes = EXTENT_BYTES * (self._stripes(devices) or 1)
        return -(-size_bytes // whole_bytes) * whole_bytes

    def share(self, context: LayerContext) -> Share | None:
        """A volume, all of one size; `build` has made it."""
        part_bytes = self._part_bytes(context.provided, len(context.tenants))
        return Share([], self.path(context), self.provided(context.provided).of(part_bytes))

    def share_diagnostics(self, lower: Provided, tenants: int) -> Iterable[Diagnostic]:
        needed_bytes = (self._part_bytes(lower, tenants) + self.reserve_bytes) * tenants
        if needed_bytes > self._room_bytes(lower) or self._part_bytes(lower, tenants) <= 0:
            yield self._too_large(f"{tenants} volumes and their", needed_bytes, lower)

    def _percent(self, tenants: int) -> int:
        """The share of the group that each volume gets; LVM makes the last one smaller rather than fail."""
        # Each volume of a RAID needs extents of metadata besides.
        return 100 if tenants < 2 else (99 if self.is_raid else 100) // tenants

    def _part_bytes(self, lower: Provided, tenants: int) -> int:
        if self.size_bytes is not None:
            return self._whole_bytes(self.size_bytes, lower.count)
        part_bytes = self._room_bytes(lower) * self._percent(tenants) // 100 - self.reserve_bytes
        return part_bytes - part_bytes % EXTENT_BYTES

    def build(self, context: LayerContext) -> list[Step]:
        group = self.group(context)
        return [*group.create(), *(step for each in group.each() for step in self._volume(each))]

    def _volume(self, group: VolumeGroup) -> list[Step]:
        context = group.context
        part = ("--extents", f"{self._percent(len(context.tenants))}%PVS")
        size = ("--size", f"{self.size_bytes}b") if self.size_bytes else part
        words = ("--type", self.kind, "--name", group.data, *size, *self._layout(len(context.lower)))
        steps = [
            group.make(
                "volume", f"Make the {self.kind} volume", *("lvcreate", *words, group.name, *context.lower)
            )
        ]
        if self.reserve_bytes and self.size_bytes is None:
            # Only now is the group's size known: the layers below may keep some space to themselves.
            less = f"-{self._whole_bytes(self.reserve_bytes, len(context.lower))}b"
            steps.append(
                group.step(
                    "reserve",
                    "Set space aside for snapshots",
                    *("lvreduce", "--fs", "ignore", "--size", less, f"{group.name}/{group.data}"),
                )
            )
        if self._waits:
            steps += group.synchronised("sync", "Wait for the initial synchronisation")
        return steps

    def _layout(self, disks: int) -> list[str]:
        words = []
        if self.kind in ("raid1", "raid10"):
            words += ["--mirrors", str(disks - 1 if self.kind == "raid1" else 1)]
        if (stripes := self._stripes(disks)) is not None:
            words += ["--stripes", str(stripes), "--stripesize", f"{self._stripe_bytes}b"]
        if self.is_raid and not self._waits:
            words.append("--nosync")
        if self.read_ahead_kb is not None:
            words += ["--readahead", str(2 * self.read_ahead_kb) if self.read_ahead_kb else "none"]  # sectors
        return words

    def capable(self) -> Self:
        if self.size_bytes is not None and self.snapshot_size_bytes is None:
            return self  # the volume may take all the space
        room = {"snapshots": max(self.snapshots or 1, _PROBED_SNAPSHOTS)}
        if self.snapshot_size_bytes is None:
            room["snapshot_size_bytes"] = _PROBED_SNAPSHOT_BYTES
        return self.model_copy(update=room)

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        if self.snapshot_size_bytes is None:
            return None
        group = self.group(context)
        chunk_bytes = self.snapshot_chunk_bytes or _SNAPSHOT_CHUNK_BYTES[0]
        return [
            group.step(
                name,
                f'Take the snapshot "{name}"',
                *("lvcreate", "--snapshot", "--name", group.named(name)),
                *("--size", f"{self.snapshot_size_bytes}b", "--chunksize", f"{chunk_bytes}b"),
                *(f"{group.name}/{group.data}", *context.lower),
            )
        ]

    def snapshots_max(self) -> int | None:
        return self.snapshots or 1

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        return [self.group(context).drop(name)]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        """Merge the snapshot, which deletes it, and take it again."""
        again = self.snapshot(context, name)
        return None if again is None else [self.group(context).merge(name), *again]

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        return [self.group(context).resize(capacity_bytes, grow=grow)]

    def scrub(self, context: LayerContext) -> list[Step] | None:
        if not self.is_raid:
            return None
        group = self.group(context)
        return [
            group.idle("check", "Begin to compare the devices", "check"),
            group.idle("wait", "Wait until they are compared"),
            context.of_tenant.act(
                "mismatches", "Read how many sectors differed", "dmsetup", "status", group.mapped()
            ),
        ]

    def scrub_errors(self, stdout: str) -> int:
        """Sectors, counted in whole pages or stripes: of ``START SECTORS raid raid1 2 AA 8/8 idle 0 0 -``."""
        return int(stdout.split()[8])

    def losses_survived(self, lower: Provided) -> int:
        return {"raid1": lower.count - 1, "raid10": 1, "raid5": 1, "raid6": 2}.get(self.kind, 0)

    def rebuild(self, context: LayerContext, lost: str, spare: str) -> list[Step] | None:
        """Put a spare in the lost device's place, after adding it to the group if need be."""
        if not self.is_raid:
            return None
        group, new = self.group(context), []
        if spare not in group.devices:
            group = replace(group, devices=(*group.devices, spare))
            lose = ("vgreduce", "--removemissing", "--force", group.name)
            new = [
                group.step("reduce", "Take what is lost out of the group", *lose),
                group.physical(spare),
                group.step("extend", "Take the spare into the group", "vgextend", group.name, spare),
            ]
        repair = group.step(
            "repair",
            "Put the spare into the place of what is lost",
            *("lvconvert", "--repair", f"{group.name}/{group.data}", spare),
        )
        return [*new, repair]

    def rebuilt(self, context: LayerContext) -> list[Step] | None:
        if not self.is_raid:
            return None
        return self.group(context).synchronised("rebuilt", "Wait until the volume is rebuilt")
