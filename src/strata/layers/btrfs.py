# SPDX-License-Identifier: Apache-2.0
"""btrfs on one or several block devices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.layers.filesystem import WRITE_BACK, Filesystem, act, filesystem_prerequisites
from strata.layers.options import CAPACITY, HERE_ALREADY, LABEL, MOUNT, UUID, flags, spare_diagnostics
from strata.model.abilities import FreeSpace, Outcome, divided, unreadable_free_space
from strata.model.allowed import INTEGER, Forms, Limits, features, form, given, named, one_of, within
from strata.model.layer import KernelLog, LayerContext, LowerInterface, Provided, Share
from strata.model.step import Command, Prerequisites, Step, literal
from strata.units import NS_PER_MS, NS_PER_S

_SIZE: Final = form(r"\d{1,12}[bBkKmM]?", "a size such as 16k")
_FEATURES: Final = features(
    "block-group-tree extref free-space-tree mixed-bg no-holes quota raid1c34 raid56 skinny-metadata squota"
)

# BTRFS_MAX_METADATA_BLOCKSIZE; common/fsfeatures.c of btrfs-progs 6.14
_BLOCK: Final = within(_SIZE, Limits(4 << 10, 64 << 10, "mkfs.btrfs(8)", is_power=True))

MKFS: Final[Forms] = {
    **named("-n --nodesize -s --sectorsize", _BLOCK),
    **named("--csum --checksum", one_of("crc32c", "xxhash", "sha256", "blake2")),
    **named("-O --features", _FEATURES),
    **named("-R --runtime-features", features("free-space-tree quota")),
    **flags("-M --mixed"),
    **named("-L --label", LABEL),
    **named("-d --data", given('write data = "raid1" instead')),
    **named("-m --metadata", given('write metadata = "raid1" instead')),
    **named("-U --uuid", UUID),
    "--device-uuid": given("the version of Debian 12 lacks it: leave it out"),
    **named("-b --byte-count", CAPACITY),
    **named("-f --force -K --nodiscard -q --quiet", HERE_ALREADY),
}

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **flags(
        "acl noacl noautodefrag barrier nobarrier datasum nodatasum clear_cache degraded nodiscard "
        "flushoncommit noflushoncommit nospace_cache ssd nossd ssd_spread nossd_spread treelog notreelog"
    ),
    **named("commit metadata_ratio", INTEGER),
    "thread_pool": within(INTEGER, Limits(1, (1 << 32) - 1, "fs/btrfs/super.c of Linux 7.2")),
    "compress-force": form(r"(zlib|lzo|zstd)(:-?\d{1,2})?", "such as zstd:3"),
    "discard": one_of("sync", "async", optional=True),
    "max_inline": form(r"\d{1,9}[kK]?", "a size such as 2048"),
    "space_cache": one_of("v1", "v2", optional=True),
    "nodatacow": given("write cow = false instead"),
    "datacow": given("write cow = true instead"),
    "autodefrag": given("write autodefrag = true instead"),
    "compress": given('write compression = "zstd" instead'),
    "device": given("name the disks in the stack's `devices` instead"),
    **named("subvol subvolid", given("the stack lies in a subvolume of its own already: leave it out")),
}


Profile = Literal["single", "dup", "raid0", "raid1", "raid1c3", "raid1c4", "raid10", "raid5", "raid6"]

# The minima of mkfs.btrfs since 5.14; before, raid0 and raid10 needed more.
DEVICES_MIN: Final[dict[str, int]] = {
    **dict.fromkeys(("single", "dup", "raid0"), 1),
    "raid1": 2,
    "raid1c3": 3,
    "raid1c4": 4,
    **dict.fromkeys(("raid10", "raid5"), 2),
    "raid6": 3,
}

_COPIES: Final = {"raid1": 2, "raid10": 2, "raid1c3": 3, "raid1c4": 4}
_PARITIES: Final = {"raid5": 1, "raid6": 2}
_LEVELS_MAX: Final = {"zlib": 9, "zstd": 15}
# BTRFS_FREE_SPACE_TREE_OBJECTID; btrfs-progs 6.2 does not know its name.
_FREE_SPACE_TREE: Final = "10"
_DUMP_BYTES: Final = 64 << 20
_LONG_LIMIT_NS: Final = 7200 * NS_PER_S
# Of the counts of `btrfs scrub -R`, those of errors found; the others say how many were corrected.
_SCRUB_FOUND: Final = re.compile(r"^\s*(?:read|csum|verify|super)_errors:\s*(\d+)", re.MULTILINE)
_FREE_COUNT: Final = re.compile(r"free space info extent count (\d+)")
_FREE_EXTENT: Final = re.compile(r"\(\d+ FREE_SPACE_EXTENT (\d+)\)")
_FREE_BITMAP: Final = re.compile(r"\(\d+ FREE_SPACE_BITMAP \d+\)")
_USED: Final = re.compile(r"^\s*Used:\s*(\d+)", re.MULTILINE)
_SUBVOLUME: Final = ("btrfs", "subvolume")
_DELETE: Final = (*_SUBVOLUME, "delete")
_INCREMENT: Final = "increment"
_LOCK: Final = "${scratch}/btrfs-replace.lock"


def buffers_checksums(kernel: tuple[int, int] | None, write_bytes: int | None) -> str | None:
    """Why direct writes of data that have checksums are buffered; None before Linux 6.15.

    fs/btrfs/direct-io.c: the caller could change them after the checksum was computed.
    """
    if write_bytes is None or (kernel is not None and kernel < (6, 15)):
        return None
    return "btrfs writes data that have checksums through the page cache since Linux 6.15"


class Btrfs(Filesystem):
    """btrfs on one or several block devices.

    It provides a subvolume, ``@``, because only a subvolume has snapshots and can be restored. The snapshots
    lie beside it as ``@NAME``, invisible from above.

    ``cow = false`` mounts with ``nodatacow``: files are overwritten in place, without checksums;
    ``cow = "attribute"`` does the same to the files made in the subvolume (``chattr +C``). btrfs has stripes
    of its own (64 KiB) and is not aligned to those of a RAID below. Since Linux 6.15 direct writes of data
    that have checksums go through the page cache, which `strata check` and results say.

    `btrfs replace` needs unallocated space: a small or nearly full array that was much rewritten may have
    none ("No space left on device"), in the lab as elsewhere. Use more of the disks, or fill less of them.
    """

    requires = LowerInterface("block", maximum=None)
    prerequisites = filesystem_prerequisites("btrfs", "btrfs")
    device_keys = ("spares",)
    rebuilds_used_only: ClassVar[bool] = True
    # Block groups take a tenth of the array, or 1 GiB, and another is made before the present ones are 80 %
    # full (should_alloc_chunk() of fs/btrfs/block-group.c); what is rewritten between two commits, of a small
    # disk everything, counts twice. At 60 % of 4 GiB nothing is unallocated then.
    rebuild_room: ClassVar[float] = 4.0
    capacity_bytes_min = 256 << 20
    checker = ("btrfs", "check", "--readonly")
    allowed = {"mkfs": MKFS, "mount": MOUNT_OPTIONS}
    # fs/btrfs/{disk-io,inode,volumes,scrub}.c of Linux 7.2: a wrong checksum of data is but a warning.
    kernel_log = KernelLog(
        trouble=(r"BTRFS (?:error|critical) .*", r"BTRFS warning .*(?:csum failed|checksum verify failed).*"),
        disk_lost=(
            r"BTRFS error \(device [^)]*\): (?:bdev .*|error writing primary super block to device \d+)",
        ),
    )
    # BTRFS_DEFAULT_COMMIT_INTERVAL
    periods_ns = {**WRITE_BACK, "commit of btrfs": 30 * NS_PER_S}
    packages = ("btrfs-progs", "e2fsprogs")

    layer: Literal["btrfs"] = "btrfs"
    cow: StrictBool | Literal["attribute"] = True
    """Copy on write; false mounts with nodatacow: files are overwritten in place and have no checksums.
    "attribute" does the same to the files of the stack by their attribute (chattr +C)"""
    data: Profile = Field("single", examples=["raid1"])
    """Profile of the data"""
    metadata: Profile | None = Field(None, examples=["raid1"])
    """Profile of the metadata; default: dup on one disk, raid1 on several"""
    compression: Literal["none", "zlib", "lzo", "zstd"] = "none"
    """How data are compressed where that saves space; data that are not copied on write are never
    compressed"""
    compression_level: Annotated[StrictInt, Field(ge=1, le=15)] | None = Field(None, examples=[3])
    """1 to 9 of zlib, 1 to 15 of zstd; default: the kernel's"""
    autodefrag: StrictBool = False
    """Rewrite small random writes together, in the background"""
    spares: list[StrictStr] = Field([], examples=[["disk4"]])
    """Disks that replace a lost one"""

    def buffers_direct_io(self, kernel: tuple[int, int] | None, write_bytes: int | None) -> str | None:
        has_checksums = self.cow is True and "nodatasum" not in self.mount
        return buffers_checksums(kernel, write_bytes) if has_checksums else None

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        for key, profile in (("data", self.data), ("metadata", self.metadata)):
            if profile is not None and DEVICES_MIN[profile] > lower.count:
                fitting = [name for name, count in DEVICES_MIN.items() if count <= lower.count]
                yield Diagnostic(
                    f"the profile {profile} needs {DEVICES_MIN[profile]} disks, the stack has {lower.count}",
                    remedy=f"add disks to the stack's `devices`, or take one of {', '.join(fitting)}",
                    key=key,
                )
        yield from self._compression_diagnostics()
        yield from spare_diagnostics(self.spares, named, max(lower.capacities_bytes))

    def _compression_diagnostics(self) -> Iterable[Diagnostic]:
        level, level_max = self.compression_level, _LEVELS_MAX.get(self.compression)
        if self.compression != "none" and self.cow is not True:
            yield Diagnostic(
                "btrfs compresses nothing that is not copied on write",
                remedy="leave out `compression` or `cow`",
                key="compression",
            )
        if level is not None and level > (level_max or 0):
            lacking = f"no level {level}" if level_max else "no levels"
            cause = f'compression "{self.compression}" has {lacking}'
            remedy = f"write one from 1 to {level_max}" if level_max else "leave the key out"
            yield Diagnostic(cause, remedy=remedy, key="compression_level")

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The space that the data profile leaves, allocated as by mkfs.btrfs, also on unequal disks."""
        if self.data in _COPIES:
            # Each block lies on as many different disks as there are copies. However many disks are full of
            # one copy, the others must hold the remaining copies.
            copies, ascending = _COPIES[self.data], sorted(lower_bytes)
            return min(sum(ascending[: len(ascending) - full]) // (copies - full) for full in range(copies))
        if self.data in _PARITIES:
            return _striped_bytes(lower_bytes, _PARITIES[self.data], DEVICES_MIN[self.data])
        return sum(lower_bytes) // (2 if self.data == "dup" else 1)

    def needs(self) -> Prerequisites:
        return self.prerequisites | Prerequisites(tools=("chattr",) if self.cow == "attribute" else ())

    def _metadata(self, disks: int) -> Profile:
        return self.metadata or ("dup" if disks == 1 else "raid1")

    def path(self, context: LayerContext) -> str:
        return f"{context.mount}/@"

    def make_options(self, context: LayerContext) -> list[str]:
        make = ["mkfs.btrfs", "-q", "-f", "-K", "-U", str(context.derived_uuid("uuid"))]
        return [*make, "-d", self.data, "-m", self._metadata(len(context.lower)), *self.mkfs]

    def mount_options(self, context: LayerContext) -> list[str]:
        # Without udev nothing scans for the other disks: the mount names them.
        options = [f"device={path}" for path in context.lower[1:]]
        if len(context.lower) < context.provided.count:  # one is lost
            options.append("degraded")
        if self.cow is False:
            options.append("nodatacow")
        if self.compression != "none":
            level = "" if self.compression_level is None else f":{self.compression_level}"
            options.append(f"compress={self.compression}{level}")
        if self.autodefrag:
            options.append("autodefrag")
        return [*options, *super().mount_options(context)]

    def build(self, context: LayerContext) -> list[Step]:
        steps = super().build(context)
        return [*steps, *self._subvolume(context, "Make the subvolume", self.path(context))]

    def share(self, context: LayerContext) -> Share | None:
        folder, title = self._own(context), f"Make the subvolume of {context.tenant}"
        steps = self._subvolume(context.of_tenant, title, folder)
        return Share(steps, folder, context.fair(self.provided(context.provided)))

    def _subvolume(self, context: LayerContext, title: str, path: str) -> list[Step]:
        steps = [context.step("subvolume", title, *_SUBVOLUME, "create", path)]
        if self.cow == "attribute":  # which a subvolume does not inherit
            switch = ("chattr", "+C", path)
            steps.append(context.step("no-cow", "Have the subvolume's files overwritten in place", *switch))
        # mkfs leaves a filesystem on the disk; the subvolume must be there, too.
        sync = ("btrfs", "filesystem", "sync", context.mount)
        return [*steps, context.step("sync", "Write the subvolume to the disks", *sync)]

    def _own(self, context: LayerContext) -> str:
        return context.within(self.path(context))

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        kept = _beside(context, name)
        return [_snapshot(context, "take", f"Snapshot {name}", self._own(context), kept, read_only=True)]

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        """Delete the snapshot; its blocks are given back later, in the background."""
        return [act(context.of_tenant, "drop", f"Delete snapshot {name}", *_DELETE, _beside(context, name))]

    def given_back(self, context: LayerContext) -> list[Step]:
        """The cleaner begins with a commit."""
        commit, wait = ("btrfs", "filesystem", "sync"), ("btrfs", "subvolume", "sync")
        return [
            act(context.of_tenant, "commit", "Commit the deletions", *commit, context.mount),
            act(context.of_tenant, "cleaned", "Wait for the cleaner", *wait, context.mount),
        ]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        """Delete the subvolume; a writable snapshot of the snapshot takes its place."""
        subvolume, kept = self._own(context), _beside(context, name)
        return [
            act(context.of_tenant, "delete", "Delete the subvolume", *_DELETE, subvolume),
            _snapshot(context, "put-back", f"Put snapshot {name} in its place", kept, subvolume),
        ]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        kept, clone = _beside(context, name), _beside(context, f"{name}-clone")
        return Outcome([_snapshot(context, "clone", f"Clone snapshot {name}", kept, clone)], clone)

    def quota(self, context: LayerContext, limit_bytes: int) -> Outcome | None:
        """A subvolume with a limited qgroup; from then on every extent is accounted for."""
        folder = f"{self.path(context)}/limited"
        enable = ("btrfs", "quota", "enable", context.mount)
        limit = ("btrfs", "qgroup", "limit", str(limit_bytes), folder)
        steps = [
            act(context, "quota", "Account for subvolumes", *enable),
            act(context, "folder", "Make a subvolume", *_SUBVOLUME, "create", folder),
            act(context, "limit", "Limit it", *limit),
        ]
        return Outcome(steps, folder)

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        if len(context.lower) > 1:
            return None
        size = "max" if grow else str(capacity_bytes)
        resize = ("btrfs", "filesystem", "resize", size, context.mount)
        return [act(context, "resize", "Resize the btrfs filesystem", *resize)]

    def send(self, context: LayerContext, older: str, newer: str, file: str) -> list[Step] | None:
        """Send a snapshot with a fixed name: the stream holds the name, which `receive` needs to know."""
        sent = _beside(context, _INCREMENT)
        send = ("btrfs", "send", "-q", "-p", _beside(context, older), "-f", file, sent)
        return [
            _snapshot(context, "name", "Name it", _beside(context, newer), sent, read_only=True),
            act(context, "send", f"Send what changed from {older} to {newer}", *send),
            act(context, "unname", "Delete the name", *_DELETE, sent),
        ]

    def receive(self, context: LayerContext, base: str, file: str) -> Outcome | None:
        folder = f"{context.mount}/received"
        receive = ("btrfs", "receive", "-q", "-f", file, folder)
        steps = [
            act(context, "folder", "Make a folder", "mkdir", "-p", folder),
            act(context, "receive", f"Apply what changed since {base}", *receive),
        ]
        return Outcome(steps, f"{folder}/@{_INCREMENT}")

    def free_space(self, context: LayerContext) -> list[Step] | None:
        """From its tree of free space, as it stands on the device."""
        dump = ("btrfs", "inspect-internal", "dump-tree", "-t", _FREE_SPACE_TREE, context.lower[0])
        # btrfs does not update the cache of blocks that were read from the device before.
        flush = ("blockdev", "--flushbufs", *context.lower)
        return [
            act(context, "flush", "Write back, and forget what was read of the device", *flush),
            act(context, "list", "See how the free space is divided", *dump, output_limit_bytes=_DUMP_BYTES),
        ]

    def free_space_metrics(self, stdout: str) -> list[FreeSpace]:
        """Of the allocated chunks; of fragmented ones the output has no sizes, and then there is no mean."""
        counts = _FREE_COUNT.findall(stdout)
        if not counts:
            raise unreadable_free_space("btrfs", stdout)
        count = sum(map(int, counts))
        sizes = [int(size) for size in _FREE_EXTENT.findall(stdout)]
        if _FREE_BITMAP.search(stdout) or not sizes:
            return [FreeSpace("free_extents", float(count), "1", "lower")]
        largest = FreeSpace("free_extent_bytes_max", float(max(sizes)), "B", "higher")
        return [*divided(count, sum(sizes) / len(sizes)), largest]

    def scrub(self, context: LayerContext) -> list[Step] | None:
        status = f"/var/lib/btrfs/scrub.status.{context.derived_uuid('uuid')}"
        scrubbed = act(
            context,
            "run",
            "Scrub the btrfs filesystem",
            *("btrfs", "scrub", "start", "-B", "-R", context.mount),
            time_limit_ns=_LONG_LIMIT_NS,
            expect_exit=(0, 3),  # 3: there are errors that it could not correct
            undo=Command(argv=("rm", "-f", status), cwd="${scratch}"),
        )
        return [scrubbed]

    def scrub_errors(self, stdout: str) -> int:
        return sum(map(int, _SCRUB_FOUND.findall(stdout)))

    def losses_survived(self, lower: Provided) -> int:
        profiles = (self.data, self._metadata(lower.count))
        return min(_COPIES.get(each, 1) - 1 + _PARITIES.get(each, 0) for each in profiles)

    def rebuild(self, context: LayerContext, lost: str, spare: str) -> list[Step] | None:
        """Replace the lost disk, named by its number, because it cannot be read.

        The process that requests it does the work. It is a service, so that it may outlive its step; it stays
        up after the work, during which it holds the lock. btrfs refuses (ENOSPC) where nothing is
        unallocated, even with free space in the block groups: each is set read-only while it is copied, and
        a further one must then take what is written, always of SYSTEM (btrfs_inc_block_group_ro() of
        fs/btrfs/block-group.c). Real disks do so, too (kdave/btrfs-progs, issues 362, 870); balance first.
        """
        # mkfs numbered the disks from 1 on.
        number = str(context.lower.index(lost) + 1)
        replace = ("btrfs", "replace", "start", "-B", "-f", "-r", "-K", number, spare, context.mount)
        hold = ("perl", "-e", literal("exit 1 if system @ARGV; sleep"), "flock", _LOCK, *replace)
        ready = Command(argv=("test", "-e", _LOCK), cwd="${scratch}")
        service = {"background": True, "ready": ready, "ready_interval_ns": NS_PER_MS}
        return [act(context, "replace", "Replace the lost disk", *hold, **service)]

    def rebuilt(self, context: LayerContext) -> list[Step] | None:
        return [act(context, "wait", "Wait for it", "flock", _LOCK, "true", time_limit_ns=_LONG_LIMIT_NS)]

    def allocated(self, context: LayerContext) -> Step | None:
        """The space on its disks that data and metadata use, every copy counted."""
        usage = ("btrfs", "filesystem", "usage", "-b", context.mount)
        return act(context, "usage", "Ask how much is used", *usage)

    def allocated_bytes(self, stdout: str) -> int:
        found = _USED.search(stdout)
        if found is None:
            raise ValueError("btrfs filesystem usage does not say what is used")
        return int(found[1])


def _beside(context: LayerContext, name: str) -> str:
    """Where a snapshot lies: beside the stack's subvolume."""
    own = "" if context.tenant is None else f"{context.tenant}."
    return f"{context.mount}/@{own}{name}"


def _snapshot(
    context: LayerContext, step: str, title: str, source: str, target: str, *, read_only: bool = False
) -> Step:
    kind = ("-r",) if read_only else ()
    return act(context.of_tenant, step, title, *_SUBVOLUME, "snapshot", *kind, source, target)


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
