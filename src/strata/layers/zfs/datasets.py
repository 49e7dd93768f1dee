# SPDX-License-Identifier: Apache-2.0
"""The filesystems and volumes of a ZFS pool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.layers.options import power_of_two
from strata.layers.zfs.options import FILESYSTEM, VOLUME
from strata.model.abilities import Outcome
from strata.model.allowed import Forms, pair_diagnostics
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided, Share
from strata.model.step import Command, Prerequisites, Step, literal
from strata.units import MIB, NS_PER_S, SECTOR_BYTES, Size, describe_size

MAKE_LIMIT_NS: Final = 300 * NS_PER_S
_CHANGE_LIMIT_NS: Final = 1200 * NS_PER_S
_STREAM_LIMIT_NS: Final = 7200 * NS_PER_S

# What zfsprops(7) of OpenZFS 2.4 lists; a level may follow gzip and zstd.
_COMPRESSION: Final = re.compile(
    r"on|off|lz4|lzjb|zle|gzip(-[1-9])?|zstd(-(1?[1-9]|10))?|zstd-fast(-([1-9]0?|100|500|1000))?", re.ASCII
)

# Run a program with its standard output or input redirected to a file, without a shell.
_INTO: Final = ("perl", "-e", literal("open STDOUT, '>', shift or die $!; exec @ARGV or die $!"))
_FROM: Final = ("perl", "-e", literal("open STDIN, '<', shift or die $!; exec @ARGV or die $!"))

PropertyValue = StrictStr | StrictInt | StrictBool


def _read_on_off(value: object) -> object:
    """``true`` and ``false`` of TOML, which ZFS calls on and off."""
    return property_text(value) if isinstance(value, bool) else value


def _check_compression(value: object) -> object:
    value = _read_on_off(value)
    if isinstance(value, str) and not _COMPRESSION.fullmatch(value):
        raise Diagnostic(
            f'ZFS has no compression "{value[:60]}"',
            remedy="take off, lz4, zstd, zstd-1 to zstd-19, zstd-fast, gzip-1 to gzip-9, lzjb or zle",
        )
    return value


Compression = Annotated[StrictStr, BeforeValidator(_check_compression)]
Checksum = Annotated[
    Literal[
        "on", "off", "fletcher2", "fletcher4", "sha256", "noparity", "sha512", "skein", "edonr", "blake3"
    ],
    BeforeValidator(_read_on_off),
]
_Dedup = Literal["off", "on", "verify", "sha256", "sha256,verify", "sha512", "sha512,verify"]
_NewDedup = Literal["skein", "skein,verify", "edonr,verify", "blake3", "blake3,verify"]
Dedup = Annotated[Literal[_Dedup, _NewDedup], BeforeValidator(_read_on_off)]
Cached = Literal["all", "metadata", "none"]
Encryption = Annotated[
    Literal[
        "off", "on", "aes-128-ccm", "aes-192-ccm", "aes-256-ccm", "aes-128-gcm", "aes-192-gcm", "aes-256-gcm"
    ],
    BeforeValidator(_read_on_off),
]


def property_text(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def property_words(properties: Mapping[str, object]) -> list[str]:
    """The options ``-o NAME=VALUE`` of those properties that are set."""
    return [
        word
        for name, value in properties.items()
        if value is not None
        for word in ("-o", literal(f"{name}={property_text(value)}"))
    ]


def property_diagnostics(properties: Mapping[str, object], forms: Forms) -> Iterable[Diagnostic]:
    texts = {name: property_text(value) for name, value in properties.items()}
    return pair_diagnostics("property", texts, forms, key="properties")


_RECORD_BYTES: Final = 128 << 10  # zfsprops(7)


class Dataset(Layer):
    """The base of filesystems and volumes in a ZFS pool. A property that is not set has ZFS's own default."""

    family = "ZFS"
    requires = LowerInterface("pool")
    kernel_log = KernelLog(silent="Errors are the pool's, which counts them.")
    packages = ("zfsutils-linux",)
    no_free_space = "Its free space is the pool's."
    no_periods = "They are the pool's."
    own_properties: ClassVar[str] = (
        "compression checksum copies dedup sync logbias primarycache secondarycache"
    )
    """The properties that have keys of their own."""

    compression: Compression | None = Field(None, examples=["lz4"])
    """Compression: off, on, lz4, lzjb, zle, gzip-1 to gzip-9, zstd-1 to zstd-19, zstd-fast-1 to
    zstd-fast-1000; default: on, which is lz4"""
    checksum: Checksum | None = Field(None, examples=["sha256"])
    """Checksum of data; default: on, which is fletcher4"""
    copies: Literal[1, 2, 3] | None = Field(None, examples=[2])
    """Copies of each block, besides the pool's redundancy; default: 1"""
    dedup: Dedup | None = Field(None, examples=["on"])
    """Deduplication by a checksum, with verify by a comparison, too; default: off"""
    sync: Literal["standard", "always", "disabled"] | None = Field(None, examples=["disabled"])
    """Which writes wait for the intent log: synchronous ones, all, or none; default: standard"""
    logbias: Literal["latency", "throughput"] | None = Field(None, examples=["throughput"])
    """What synchronous writes are optimised for; default: latency"""
    primarycache: Cached | None = Field(None, examples=["metadata"])
    """What is cached in memory, in the ARC; default: all"""
    secondarycache: Cached | None = Field(None, examples=["none"])
    """What is cached on the pool's cache devices (L2ARC); default: all"""
    encryption: Encryption | None = Field(None, examples=["on"], exclude_if=lambda value: value is None)
    """ZFS's own encryption of data and most metadata; on is aes-256-gcm; default: off. Its key derives from
    the trial's seed"""
    properties: dict[str, PropertyValue] = Field({}, examples=['{ redundant_metadata = "most" }'])
    """Further properties of zfsprops(7)"""

    def options(self) -> list[str]:
        keys = {field.alias or name: name for name, field in type(self).model_fields.items()}
        own = {name: getattr(self, keys[name]) for name in self.own_properties.split()}
        return property_words({**own, **self.properties})

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        return property_diagnostics(self.properties, self.allowed["properties"])

    def power_risks(self) -> Iterable[str]:
        if self.sync == "disabled":
            yield "sync = disabled: it acknowledges what is only in memory, up to its next transaction group"

    def uncached(self) -> str:
        is_kept = self.primarycache not in ("metadata", "none")
        return "" if is_kept else f"primarycache = {self.primarycache}"

    def dataset(self, context: LayerContext, suffix: str = "") -> str:
        """Its name in the pool, with the suffix of a derived one; a tenant's own is within it."""
        return f"{context.within(f'{context.lower[0]}/{context.name}')}{suffix}"

    @property
    def is_encrypted(self) -> bool:
        return self.encryption not in (None, "off")

    def make_step(self, context: LayerContext, title: str, *options: str) -> Step:
        """The step that makes the dataset itself. What is within it, or cloned from it, inherits its key."""
        if not self.is_encrypted:
            return self.create_step(context, "make", title, *options)
        encrypted = ("-o", f"encryption={self.encryption}", "-o", "keyformat=hex", "-o", "keylocation=prompt")
        return self.create_step(context, "make", title, *encrypted, *options, stdin=self._key(context))

    def unlocked(self, context: LayerContext) -> list[Step]:
        """The step that gives an imported pool the key again, if the dataset is encrypted."""
        if not self.is_encrypted:
            return []
        words, title = ("zfs", "load-key", self.dataset(context)), f"Load the key of {context.name}"
        return [context.step("load-key", title, *words, stdin=self._key(context), cwd=context.cwd)]

    def _key(self, context: LayerContext) -> str:
        return "".join(context.derived_uuid(f"key{part}").hex for part in ("", "-2"))

    def create_step(
        self, context: LayerContext, name: str, title: str, *options: str, suffix: str = "", **fields: Any
    ) -> Step:
        """The step that makes it, or with a ``suffix`` something within it, with its properties."""
        words = (*options, *self.options(), self.dataset(context, suffix))
        return context.step(name, title, "zfs", "create", *words, time_limit_ns=MAKE_LIMIT_NS, **fields)

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        title = f"Take the snapshot {name}"
        return [self._change(context, "take", title, "snapshot", self._at(context, name))]

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        title = f"Drop the snapshot {name}"
        return [self._change(context, "drop", title, "destroy", self._at(context, name))]

    def given_back(self, context: LayerContext) -> list[Step]:
        pool = context.lower[0].partition("/")[0]
        wait, title = ("zpool", "wait", "-t", "free", pool), "Wait until the pool has freed what was dropped"
        commit = context.of_tenant.act("commit", "Commit the deletions", "zpool", "sync", pool)
        return [commit, context.of_tenant.act("freed", title, *wait, time_limit_ns=_STREAM_LIMIT_NS)]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        """Rolling back destroys the snapshots that were taken after ``name``."""
        title = f"Roll back to the snapshot {name}"
        return [self._change(context, "roll-back", title, "rollback", "-r", self._at(context, name))]

    def send(self, context: LayerContext, older: str, newer: str, file: str) -> list[Step] | None:
        stream = (*_INTO, file, "zfs", "send", "-i", f"@{older}", self._at(context, newer))
        title = f"Write what changed from {older} to {newer} to a file"
        return [context.act("send", title, *stream, time_limit_ns=_STREAM_LIMIT_NS)]

    def receive_into(self, context: LayerContext, base: str, file: str, *options: str) -> Step:
        """The step that applies a stream to a clone of ``base``, the dataset ``<name>-received``."""
        origin = ("-o", f"origin={self._at(context, base)}")
        receive = ("zfs", "receive", *origin, *options, self.dataset(context, "-received"))
        title = f"Apply a file of changes to a clone of {base}"
        return context.act("receive", title, *_FROM, file, *receive, time_limit_ns=_STREAM_LIMIT_NS)

    def allocated(self, context: LayerContext) -> Step | None:
        """The space that it and its snapshots refer to, without reservations."""
        used = ("zfs", "get", "-Hp", "-o", "value", "usedbydataset,usedbysnapshots", self.dataset(context))
        return context.act("allocated", "See what it has taken of the pool", *used)

    def allocated_bytes(self, stdout: str) -> int:
        return sum(map(int, stdout.split()))

    def clone_step(self, context: LayerContext, name: str, *options: str) -> Step:
        """The step that makes the dataset ``<name>-<snapshot>`` of a snapshot."""
        words = (*options, self._at(context, name), self.dataset(context, f"-{name}"))
        return self._change(context, "clone", f"Clone the snapshot {name}", "clone", *words)

    def _at(self, context: LayerContext, snapshot: str) -> str:
        return f"{self.dataset(context)}@{snapshot}"

    def _change(self, context: LayerContext, step: str, title: str, *words: str) -> Step:
        return context.of_tenant.act(step, title, "zfs", *words, time_limit_ns=_CHANGE_LIMIT_NS)


_UNMOUNT_LIMIT_NS: Final = 1200 * NS_PER_S
# Mounted like any other filesystem, so that only its steps mount and unmount it.
_LEGACY: Final = ("-o", "mountpoint=legacy")


class Zfs(Dataset):
    """A filesystem of a ZFS pool, which takes as much as it needs.

    A property that is not set has ZFS's own default. Direct I/O passes the ARC since OpenZFS 2.3 (the lab has
    2.4), and of writes only those of whole records; before, it was ignored.
    """

    provides = "filesystem"
    writes_whole_blocks = True
    prerequisites = Prerequisites(tools=("mount", "umount", "zfs"), modules=("zfs",))
    allowed = {"properties": FILESYSTEM}
    own_properties = f"recordsize atime xattr dnodesize {Dataset.own_properties}"

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

    def buffers_direct_io(self, kernel: tuple[int, int] | None, write_bytes: int | None) -> str | None:
        if self.properties.get("direct") == "disabled":
            return "zfs takes direct I/O through the ARC (direct = disabled)"
        record_bytes = self.recordsize_bytes or _RECORD_BYTES
        if write_bytes is None or write_bytes >= record_bytes:
            return None
        return (
            f"zfs takes direct writes of less than a record ({describe_size(record_bytes)}) through the ARC"
        )

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        return sum(lower_bytes) // (self.copies or 1)

    def path(self, context: LayerContext) -> str:
        return context.mount

    def build(self, context: LayerContext) -> list[Step]:
        make = self.make_step(context, "Make the filesystem in the pool", *_LEGACY)
        return [make, self._mounted(context, "mount", "", context.mount)]

    def share(self, context: LayerContext) -> Share | None:
        """A filesystem within it, with the same properties."""
        own, mount = context.of_tenant, context.within(context.mount)
        make = self.create_step(own, "make", f"Make the filesystem of {context.tenant} in it", *_LEGACY)
        mounted = self._mounted(own, "mount", "", mount)
        return Share([make, mounted], mount, context.fair(self.provided(context.provided)))

    def assemble(self, context: LayerContext) -> list[Step]:
        return [*self.unlocked(context), self._mounted(context, "mount", "", context.mount)]

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


_VOLUME_BLOCK_BYTES: Final = 16 << 10
# The reserve of a pool (spa_get_slop_space): a thirty-second, 128 MiB at least.
_SLOP_DIVISOR: Final = 32
_SLOP_BYTES_MIN: Final = 128 << 20


def _room_bytes(pool_bytes: int) -> int:
    return max(pool_bytes - max(pool_bytes // _SLOP_DIVISOR, _SLOP_BYTES_MIN), 0)


class Zvol(Dataset):
    """A volume of a ZFS pool: a block device.

    A property that is not set has ZFS's own default.
    """

    provides = "block"
    prerequisites = Prerequisites(tools=("udevadm", "zfs"), modules=("zfs",))
    allowed = {"properties": VOLUME}
    own_properties = f"volblocksize {Dataset.own_properties}"

    layer: Literal["zvol"] = "zvol"
    size_bytes: Size | None = Field(None, alias="size", examples=["8GiB"])
    """Its size, a multiple of its blocks; default: three quarters of the pool's space without ZFS's
    reserve"""
    volblocksize_bytes: Annotated[Size, power_of_two(SECTOR_BYTES, 128 << 10)] | None = Field(
        None, alias="volblocksize", examples=["8KiB"]
    )
    """Size of its blocks, a power of two from 512B to 128KiB; default: 16KiB"""
    sparse: StrictBool = False
    """Whether it takes space from the pool only for what is written; it may then be larger than the pool"""

    def buffers_direct_io(self, kernel: tuple[int, int] | None, write_bytes: int | None) -> str | None:
        return "a zvol's data go through the ARC"

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        size_bytes = self.usable_bytes(lower.capacities_bytes)
        if self.size_bytes is not None and (size_bytes == 0 or size_bytes % self._block_bytes):
            yield Diagnostic(
                f"{describe_size(size_bytes)} is not a multiple of the volume's blocks of "
                f"{describe_size(self._block_bytes)}",
                remedy="change `size` or `volblocksize`",
                key="size",
            )
        room_bytes = _room_bytes(lower.smallest_bytes)
        if not self.sparse and size_bytes * (self.copies or 1) > room_bytes:
            yield Diagnostic(
                f"a volume of {describe_size(size_bytes)} does not fit into the pool, which has "
                f"{describe_size(room_bytes)} besides what ZFS keeps back",
                remedy="make it smaller, or write sparse = true",
                key="size",
            )

    @property
    def _block_bytes(self) -> int:
        return self.volblocksize_bytes or _VOLUME_BLOCK_BYTES

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """Its size; by default it leaves room for the space that small blocks waste with parity."""
        if self.size_bytes is not None:
            return self.size_bytes
        return _room_bytes(sum(lower_bytes)) // (self.copies or 1) * 3 // 4 // MIB * MIB

    def path(self, context: LayerContext) -> str:
        """Its device: made by udev on a host, by the kernel itself in the lab."""
        return self._device(context, "")

    def build(self, context: LayerContext) -> list[Step]:
        size = str(self.usable_bytes(context.provided.capacities_bytes))
        sparse = ("-s",) if self.sparse else ()
        make = self.make_step(context, "Make the volume in the pool", *sparse, "-V", size)
        return [make, self._awaited(context, "")]

    def assemble(self, context: LayerContext) -> list[Step]:
        return [*self.unlocked(context), self._awaited(context, "")]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        # Of the origin's properties a clone has only the block size.
        properties = self.model_copy(update={"volblocksize_bytes": None}).options()
        clone = self.clone_step(context, name, *properties)
        return Outcome([clone, self._awaited(context, f"-{name}")], self._device(context, f"-{name}"))

    def receive(self, context: LayerContext, base: str, file: str) -> Outcome | None:
        received = self.receive_into(context, base, file)
        return Outcome([received, self._awaited(context, "-received")], self._device(context, "-received"))

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        title = f"Make the volume {'larger' if grow else 'smaller'}"
        size = ("set", f"volsize={capacity_bytes}", self.dataset(context))
        return [self._change(context, "resize", title, *size)]

    def _device(self, context: LayerContext, suffix: str) -> str:
        return f"/dev/zvol/{self.dataset(context, suffix)}"

    def _awaited(self, context: LayerContext, suffix: str) -> Step:
        return context.step(
            f"device{suffix}",
            f"Wait for the device of {context.name}{suffix}",
            *("udevadm", "settle", f"--exit-if-exists={self._device(context, suffix)}"),
            cwd=context.cwd,
            # A pool is busy while udev still reads a volume that was written to.
            undo=Command(argv=("udevadm", "settle")),
        )
