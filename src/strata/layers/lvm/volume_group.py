# SPDX-License-Identifier: Apache-2.0
"""The base of LVM's layers: a volume group, kept apart from the machine's own LVM.

>>> group = VolumeGroup(context, (*context.lower, "${disk4}"))
>>> steps = [*group.create(), group.make("volume", "Make the volume", "lvcreate", ...)]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final

from strata.diagnostics.names import Diagnostic
from strata.layers.options import multiple_of, power_of_two
from strata.model.layer import Layer, LayerContext, LowerInterface, Provided
from strata.model.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, SECTOR_BYTES, Size
from strata.words import listed

EXTENT_BYTES: Final = 4 << 20  # the unit of volumes, given to vgcreate; also its default
STRIPE_BYTES: Final = 64 << 10  # the default of lvcreate, and given to it
VOLUME: Final = "data"  # the name of a layer's volume; a tenant's also has the tenant's name

WholeExtents = Annotated[Size, multiple_of(EXTENT_BYTES, EXTENT_BYTES)]
StripeSize = Annotated[Size, power_of_two(4 << 10)]

PERSISTENT_DATA_TROUBLE: Final = (
    # drivers/md/persistent-data/*.c and drivers/md/dm-{thin,cache}-metadata.c of Linux 7.2
    r"device-mapper: (?:array|block manager|btree|btree spine|space map \w+|transaction manager): .*",
    r"device-mapper: (?:thin|cache) metadata: .*(?:failed|could|mismatch|error).*",
)
"""The kernel's messages about bad metadata of a thin pool or a cache."""

# Without a folder of its own LVM reads no lvm.conf, writes no backups and keeps no list of devices: a trial
# is the same on every machine, and leaves nothing in /etc/lvm. Without udev, as in the lab, LVM makes the
# nodes itself and waits for no events.
_ENVIRONMENT: Final = {"DM_DISABLE_UDEV": "1", "LVM_SUPPRESS_FD_WARNINGS": "1", "LVM_SYSTEM_DIR": ""}
# No daemon extends a full pool, or polls. A group may lie on the volume of another one.
_SETTINGS: Final = (
    "activation/monitoring=0 activation/error_when_full=1 global/use_lvmpolld=0 global/notify_dbus=0 "
    "devices/scan_lvs=1"
)
_DEACTIVATE_LIMIT_NS: Final = 600 * NS_PER_S
_MERGE_LIMIT_NS: Final = 3600 * NS_PER_S
_SYNC_LIMIT_NS: Final = 7200 * NS_PER_S


@dataclass(frozen=True)
class VolumeGroup:
    """A volume group over the devices of a layer, and the commands that see nothing but these devices."""

    context: LayerContext  # the layer's; its label is the group's name
    devices: tuple[str, ...]  # the paths of all physical volumes, in their order

    @property
    def name(self) -> str:
        return self.context.label

    @property
    def data(self) -> str:
        return self.named(VOLUME)

    def named(self, name: str) -> str:
        """The name of a volume, or of a tenant's own, without hyphens, as `mapped` needs it.

        Nor with underscores: lvm(8), VALID NAMES, reserves names with ``_tdata``, ``_rmeta``, ``_vorigin``
        and others, and a tenant may be called so.
        """
        tenant = self.context.tenant
        return name if tenant is None else f"{name}.{tenant.replace('-', '.')}"

    def each(self) -> list[VolumeGroup]:
        tenants = self.context.tenants or (None,)
        return [replace(self, context=replace(self.context, tenant=tenant)) for tenant in tenants]

    def volume(self, name: str | None = None) -> str:
        return f"/dev/{self.name}/{name or self.data}"

    def mapped(self, name: str | None = None) -> str:
        """The name of a volume for dmsetup. It holds no hyphens, which the device mapper would double."""
        return f"{self.name}-{name or self.data}"

    def argv(self, program: str, *arguments: str) -> tuple[str, ...]:
        """An LVM command that sees the group's devices alone, and asks nothing."""
        return (program, "--yes", "--config", _SETTINGS, "--devices", ",".join(self.devices), *arguments)

    def step(self, name: str, title: str, program: str, *arguments: str, **fields: Any) -> Step:
        own = self.context.of_tenant
        argv = self.argv(program, *arguments)
        return own.step(name, title, *argv, environment=_ENVIRONMENT, cwd=own.cwd, **fields)

    def make(self, name: str, title: str, *argv: str, **fields: Any) -> Step:
        """A step that brings volumes up; its undo takes all down."""
        down = self.argv("vgchange", "--activate", "n", self.name)
        undo = Command(argv=down, environment=_ENVIRONMENT, time_limit_ns=_DEACTIVATE_LIMIT_NS)
        return self.step(name, title, *argv, undo=undo, **fields)

    def physical(self, path: str) -> Step:
        number = self.devices.index(path)
        names = tuple(name for name in self.context.devices if path == f"${{{name}}}")
        letters = self.context.derived_uuid(f"physical volume {number}").hex
        uuid = "-".join(letters[start:end] for start, end in pairwise((0, 6, 10, 14, 18, 22, 26, 32)))
        return self.step(
            f"physical-{number}" if len(self.devices) > 1 else "physical",
            f"Make a physical volume of {listed(names) or 'what is below'}",
            *("pvcreate", "--norestorefile", "--uuid", uuid, path),
            destroys=names,
        )

    def create(self) -> list[Step]:
        """Make the physical volumes, whose UUIDs come from the seed, and the group. Nothing is up then."""
        made = [self.physical(path) for path in self.devices]
        # A host's udev must not bring volumes up that the plan has just taken down.
        words = ("--setautoactivation", "n", "--physicalextentsize", f"{EXTENT_BYTES}b", self.name)
        return [*made, self.step("group", "Make the volume group", "vgcreate", *words, *self.devices)]

    def measure(self, name: str, variable: str, *, unit: str = "b") -> Step:
        """Bind ``variable`` to the size of a volume in bytes, or in another ``unit`` of LVM's."""
        bare = f'{_SETTINGS} log/prefix="" report/aligned=0'
        return self.context.step(
            f"{name}-size",
            f"Look how large the volume {name} is",
            *("lvs", "--config", bare, "--devices", ",".join(self.devices), "--noheadings"),
            *("--units", unit, "--nosuffix", "--options", "lv_size", f"{self.name}/{name}"),
            environment=_ENVIRONMENT,
            binds=variable,
            cwd=self.context.cwd,
        )

    def idle(self, name: str, title: str, message: str = "resync") -> Step:
        """Wait until dm-raid is idle, then send it the ``message``; only "resync" starts nothing.

        It refuses messages while it synchronises, rebuilds or compares. Polling is safer than counting its
        events, which may come before the counting begins, or be others.
        """
        return self.context.of_tenant.step(
            name,
            title,
            *("sleep", "infinity"),
            background=True,
            ready=Command(argv=("dmsetup", "message", self.mapped(), "0", message), cwd=self.context.cwd),
            ready_interval_ns=NS_PER_S,
            time_limit_ns=_SYNC_LIMIT_NS,
            cwd=self.context.cwd,
        )

    def synchronised(self, name: str, title: str) -> list[Step]:
        """Wait for the end of a synchronisation that the previous step began."""
        # The kernel's thread needs a moment to start.
        own = self.context.of_tenant
        begun = own.step(f"{name}-begins", "Let it begin", "sleep", "1", cwd=own.cwd)
        return [begun, self.idle(name, title)]

    def resize(self, capacity_bytes: int, *, grow: bool) -> Step:
        size = ("--size", f"{capacity_bytes}b", f"{self.name}/{self.data}")
        if grow:
            return self.step("grow", "Make the volume larger", "lvextend", *size)
        return self.step("shrink", "Make the volume smaller", "lvreduce", "--fs", "ignore", *size)

    def drop(self, name: str) -> Step:
        removed = f"{self.name}/{self.named(name)}"
        return self.step(name, f'Remove the snapshot "{name}"', "lvremove", removed)

    def merge(self, name: str) -> Step:
        """Bring the unused volume back to a snapshot, which ceases to exist."""
        return self.step(
            f"{name}-merge",
            f'Bring the volume back to the snapshot "{name}"',
            *("lvconvert", "--merge", "--interval", "1", f"{self.name}/{self.named(name)}"),
            time_limit_ns=_MERGE_LIMIT_NS,
        )


class LvmLayer(Layer):
    """The base of the layers that LVM makes."""

    requires = LowerInterface("block", maximum=None)
    provides = "block"
    prerequisites = Prerequisites(tools=("lvcreate", "pvcreate", "vgchange", "vgcreate"))
    packages: ClassVar[tuple[str, ...]] = ("lvm2", "dmsetup", "thin-provisioning-tools")

    def group(self, context: LayerContext) -> VolumeGroup:
        named = [f"${{{name}}}" for names in self.named_devices().values() for name in names]
        return VolumeGroup(context, (*context.lower, *named))

    def path(self, context: LayerContext) -> str:
        return self.group(context).volume()

    def assemble(self, context: LayerContext) -> list[Step]:
        activate = ("vgchange", "--activate", "y", context.label)
        return [self.group(context).make("activate", "Bring up the volumes", *activate)]

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        return self.group(context).argv("vgck", context.label)


def extents(capacity_bytes: int) -> int:
    """The number of extents of a physical volume; LVM keeps the first MiB to itself."""
    return max(0, capacity_bytes - (1 << 20)) // EXTENT_BYTES


def extents_bytes(lower: Provided) -> int:
    """The capacity of a group over ``lower``; metadata of the layers below are not subtracted."""
    return sum(map(extents, lower.capacities_bytes)) * EXTENT_BYTES


def sector_diagnostics(lower: Provided, key: str) -> Iterable[Diagnostic]:
    """Refuse a device below whose sectors differ from those of the study's device that ``key`` names."""
    if lower.sector_bytes != SECTOR_BYTES:
        yield Diagnostic(
            f"LVM makes no group of devices with sectors of {lower.sector_bytes} and {SECTOR_BYTES} bytes",
            remedy=f"set the sectors below to {SECTOR_BYTES} bytes (integrity, crypt: sector_size; "
            "raw, qcow2: sector; bcache: block; dm-writecache: block_size)",
            key=key,
        )


def stripe_diagnostics(stripes: int | None, devices: int) -> Iterable[Diagnostic]:
    if stripes is not None and (stripes < 1 or devices % stripes):
        yield Diagnostic(
            f"{devices} devices cannot be filled by {stripes} stripes at a time",
            remedy=f"take a divisor of {devices}",
            key="stripes",
        )
