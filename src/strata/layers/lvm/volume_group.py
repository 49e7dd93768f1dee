# SPDX-License-Identifier: Apache-2.0
"""What the layers that LVM makes have in common: a volume group, on a machine whose own LVM it never meets.

>>> group = VolumeGroup.of(context, spares=("${disk4}",))
>>> steps = [*group.create(), group.step("volume", "Make the volume", "lvcreate", ..., undo=group.down)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from strata.spec.interface import Provided
from strata.spec.layer import LayerContext
from strata.spec.names import Diagnostic
from strata.spec.step import Command, Step
from strata.units import NS_PER_S, SECTOR_BYTES, describe_size, is_power_of_two

EXTENT_BYTES: Final = 4 << 20
"""What volumes are made of; the default of vgcreate, and given to it."""

VOLUME: Final = "data"
"""The name of the volume that a layer gives; a tenant's is called after the tenant, too."""

PERSISTENT_DATA_TROUBLE: Final = (
    # drivers/md/persistent-data/*.c and drivers/md/dm-{thin,cache}-metadata.c of Linux 7.2
    r"device-mapper: (?:array|block manager|btree|btree spine|space map \w+|transaction manager): .*",
    r"device-mapper: (?:thin|cache) metadata: .*(?:failed|could|mismatch|error).*",
)
"""What the kernel says of the metadata of a thin pool or a cache, as patterns of `KernelLog`."""

# Without a folder of its own LVM reads no lvm.conf, writes no backups and keeps no list of devices: a trial
# is the same on every machine, and leaves nothing in /etc/lvm. The lab has no udev, so that LVM makes the
# nodes; on a host it does so, too, and waits for no events.
_ENVIRONMENT: Final = {"DM_DISABLE_UDEV": "1", "LVM_SUPPRESS_FD_WARNINGS": "1", "LVM_SYSTEM_DIR": ""}
_SETTINGS: Final = " ".join(
    [
        # Nothing but the plan acts: no daemon extends a pool that is full, or polls.
        "activation/monitoring=0 activation/error_when_full=1 global/use_lvmpolld=0 global/notify_dbus=0",
        "devices/scan_lvs=1",  # a group may lie on another one's volume
    ]
)
_DEACTIVATE_LIMIT_NS: Final = 600 * NS_PER_S
_MERGE_LIMIT_NS: Final = 3600 * NS_PER_S
_SYNC_LIMIT_NS: Final = 7200 * NS_PER_S


@dataclass(frozen=True)
class VolumeGroup:
    """A volume group over the devices of a layer, and the commands that see nothing but these devices.

    Attributes:
        context: The layer's; its label is the group's name.
        devices: The paths of all physical volumes, in their order.
    """

    context: LayerContext
    devices: tuple[str, ...]

    @classmethod
    def of(cls, context: LayerContext, further: Sequence[str] = ()) -> VolumeGroup:
        """The group over what a layer stands on, and over ``further`` paths (spares, a metadata device)."""
        return cls(context, (*context.lower, *further))

    @property
    def name(self) -> str:
        """The group's name."""
        return self.context.label

    @property
    def data(self) -> str:
        """The name of the volume that is acted on: the layer's, or that of the context's tenant."""
        return self.named(VOLUME)

    def named(self, name: str) -> str:
        """The name of a volume, a tenant's own if it acts for one; without hyphens, as of `mapped`.

        Nor with underscores: lvm(8), VALID NAMES, reserves what holds ``_tdata``, ``_rmeta``, ``_vorigin``
        and others, and a tenant may be called so.
        """
        tenant = self.context.tenant
        return name if tenant is None else f"{name}.{tenant.replace('-', '.')}"

    def each(self) -> list[VolumeGroup]:
        """The same group for each tenant; for nobody in particular, when there are none."""
        tenants = self.context.tenants or (None,)
        return [replace(self, context=replace(self.context, tenant=tenant)) for tenant in tenants]

    def volume(self, name: str | None = None) -> str:
        """The path of a volume."""
        return f"/dev/{self.name}/{name or self.data}"

    def mapped(self, name: str | None = None) -> str:
        """The name of a volume for dmsetup. It holds no hyphens, which the device mapper would double."""
        return f"{self.name}-{name or self.data}"

    def argv(self, program: str, *arguments: str) -> tuple[str, ...]:
        """An LVM command that sees the group's devices alone, and asks nothing."""
        return (program, "--yes", "--config", _SETTINGS, "--devices", ",".join(self.devices), *arguments)

    def command(self, program: str, *arguments: str, **fields: Any) -> Command:
        """The same as a `Command`; ``fields`` are further ones."""
        return Command(argv=self.argv(program, *arguments), environment=_ENVIRONMENT, **fields)

    def step(self, name: str, title: str, program: str, *arguments: str, **fields: Any) -> Step:
        """The same as a step of the layer."""
        argv = self.argv(program, *arguments)
        own = self.context.of_tenant
        return own.step(name, title, *argv, environment=_ENVIRONMENT, cwd=self._cwd, **fields)

    @property
    def _cwd(self) -> str:
        return "/" if self.context.phase == "build" else "${scratch}"

    @property
    def down(self) -> Command:
        """The undo of whatever brings volumes up: take all down. It may be given more than once."""
        return self.command("vgchange", "--activate", "n", self.name, time_limit_ns=_DEACTIVATE_LIMIT_NS)

    def physical(self, path: str) -> Step:
        """Make a physical volume of one of the devices."""
        number = self.devices.index(path)
        names = tuple(name for name in self.context.devices if path == f"${{{name}}}")
        uuid = _in_groups(self.context.derived_uuid(f"physical volume {number}").hex)
        return self.step(
            f"physical-{number}" if len(self.devices) > 1 else "physical",
            f"Make a physical volume of {' and '.join(names) or 'what is below'}",
            *("pvcreate", "--norestorefile", "--uuid", uuid, path),
            destroys=names,
        )

    def create(self) -> list[Step]:
        """Make the physical volumes, whose UUIDs come from the seed, and the group. Nothing is up then."""
        made = [self.physical(path) for path in self.devices]
        # Nor does a host's udev bring volumes up by itself, when the plan has just taken them down.
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
            cwd=self._cwd,
        )

    def idle(self, name: str, title: str, message: str = "resync") -> Step:
        """Wait until dm-raid is idle, and give it the ``message``; all but "resync" begin something.

        It refuses messages while it synchronises, rebuilds or compares; of "resync" it only looks whether
        anything is left to do. It is asked for its state, because counted events may come before they are
        counted, or be others.
        """
        return self.context.of_tenant.step(
            name,
            title,
            *("sleep", "infinity"),
            background=True,
            ready=Command(argv=("dmsetup", "message", self.mapped(), "0", message), cwd=self._cwd),
            ready_interval_ns=NS_PER_S,
            time_limit_ns=_SYNC_LIMIT_NS,
            cwd=self._cwd,
        )

    def synchronised(self, name: str, title: str) -> list[Step]:
        """Wait for the end of a synchronisation that the step before began."""
        # The kernel's thread has to notice first that there is something to do.
        own = self.context.of_tenant
        begun = own.step(f"{name}-begins", "Let it begin", "sleep", "1", cwd=self._cwd)
        return [begun, self.idle(name, title)]

    def resize(self, capacity_bytes: int, *, grow: bool) -> Step:
        """Give the volume another size, whatever lies on it."""
        size = ("--size", f"{capacity_bytes}b", f"{self.name}/{self.data}")
        if grow:
            return self.step("grow", "Make the volume larger", "lvextend", *size)
        return self.step("shrink", "Make the volume smaller", "lvreduce", "--fs", "ignore", *size)

    def drop(self, name: str) -> Step:
        """Remove a snapshot."""
        removed = f"{self.name}/{self.named(name)}"
        return self.step(name, f'Remove the snapshot "{name}"', "lvremove", removed)

    def merge(self, name: str) -> Step:
        """Bring the volume back to a snapshot, which ends with that. Nobody uses the volume."""
        return self.step(
            f"{name}-merge",
            f'Bring the volume back to the snapshot "{name}"',
            *("lvconvert", "--merge", "--interval", "1", f"{self.name}/{self.named(name)}"),
            time_limit_ns=_MERGE_LIMIT_NS,
        )

    def activate(self) -> Step:
        """Bring up all volumes of a group that was made and taken down."""
        return self.step(
            "activate",
            "Bring up the volumes",
            *("vgchange", "--activate", "y", self.name),
            undo=self.down,
        )


def extents(capacity_bytes: int) -> int:
    """How many extents a physical volume of this capacity has; LVM keeps the first MiB to itself."""
    return max(0, capacity_bytes - (1 << 20)) // EXTENT_BYTES


def extents_bytes(lower: Provided) -> int:
    """What a group over ``lower`` can hold, metadata of what is below not subtracted."""
    return sum(map(extents, lower.capacities_bytes)) * EXTENT_BYTES


def whole_extents(size_bytes: int) -> int:
    """A validator of keys that hold a volume's size."""
    if size_bytes < EXTENT_BYTES or size_bytes % EXTENT_BYTES:
        raise Diagnostic(
            f"{describe_size(size_bytes)} is not a multiple of {describe_size(EXTENT_BYTES)}",
            remedy="volumes consist of whole extents of 4MiB",
        )
    return size_bytes


def power_of_two(size_bytes: int) -> int:
    """A validator of keys that hold the size of a stripe or of a chunk."""
    if size_bytes < 4 << 10 or not is_power_of_two(size_bytes):
        raise Diagnostic(
            f"{describe_size(size_bytes)} is not a power of two from 4KiB on",
            remedy="write for example 64KiB",
        )
    return size_bytes


def sector_diagnostics(lower: Provided, key: str) -> Iterable[Diagnostic]:
    """Refuse what is below beside a disk of the study, which ``key`` names, if their sectors differ."""
    if lower.sector_bytes != SECTOR_BYTES:
        yield Diagnostic(
            f"LVM makes no group of devices with sectors of {lower.sector_bytes} and {SECTOR_BYTES} bytes",
            remedy=f"let what is below have sectors of {SECTOR_BYTES} bytes (integrity, crypt: sector_size; "
            "raw, qcow2: sector; bcache: block; dm-writecache: block_size)",
            key=key,
        )


def stripe_diagnostics(stripes: int | None, devices: int) -> Iterable[Diagnostic]:
    """Refuse a number of stripes that does not divide the number of devices."""
    if stripes is not None and (stripes < 1 or devices % stripes):
        yield Diagnostic(
            f"{devices} devices cannot be filled by {stripes} stripes at a time",
            remedy=f"take a divisor of {devices}",
            key="stripes",
        )


def _in_groups(letters: str) -> str:
    """32 letters as LVM writes a UUID."""
    ends = (0, 6, 10, 14, 18, 22, 26, 32)
    return "-".join(letters[start:end] for start, end in pairwise(ends))
