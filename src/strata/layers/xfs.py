# SPDX-License-Identifier: Apache-2.0
"""XFS on one block device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from pydantic import Field, StrictStr

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.layers.filesystem import (
    WRITE_BACK,
    AlignedFilesystem,
    ProjectQuotaFilesystem,
    act,
    filesystem_prerequisites,
    log_structures,
)
from strata.layers.options import (
    CAPACITY,
    HERE_ALREADY,
    LABEL,
    MOUNT,
    NOTHING_MADE,
    OPTIONAL_SWITCH,
    PROJECT_QUOTA,
    UUID,
    flags,
    numbers,
    switches,
)
from strata.model.abilities import FreeSpace, divided, found
from strata.model.allowed import (
    INTEGER,
    Forms,
    Limits,
    Rule,
    binary_size,
    form,
    given_words,
    named,
    one_of,
    suboptions,
    within,
)
from strata.model.layer import Geometry, KernelLog, LayerContext, LowerInterface, Provided
from strata.model.step import Prerequisites, Step
from strata.units import NS_PER_S, describe_size

_ALIGNING: Final = ("su", "sunit", "sw", "swidth", "noalign")
_BLOCK_BYTES: Final = 4096
_GROUPS_MIN: Final = 4  # calc_default_ag_geometry of libxfs for devices up to 4 TiB: more with stripes
# mkfs.xfs takes no larger stripe unit for the log, and 32 KiB in place of a larger one.
_LOG_UNIT_BYTES_MAX: Final = 256 << 10
_LOG_UNIT_BYTES: Final = 32 << 10
# A striped XFS has at least eight allocation groups, one of which must hold a log of 64 MiB. Measured with
# chunks of 4 KiB to 4 MiB over 1 to 8 disks.
_STRIPED_BYTES_MIN: Final = 520 << 20
# xfs_scrub reports the damage itself on standard error; these lines follow from it.
_SCRUB_FOUND: Final = ("Cross-referencing failed", "Filesystem has errors")

_MKFS: Final = "mkfs/xfs_mkfs.c of xfsprogs 6.13"
_SUPER: Final = "fs/xfs/xfs_super.c of Linux 7.2"
_SIZE: Final = form(r"\d{1,15}[bskmgtBSKMGT]?", "a size such as 64k")
_BYTES: Final = form(r"\d{1,15}[kKmMgG]?", "a size such as 64k")

_SECTOR: Final = within(_SIZE, Limits(512, 32 << 10, _MKFS, is_power=True))

MKFS: Final[Forms] = {
    "-b": suboptions({"size": within(_SIZE, Limits(1 << 10, 64 << 10, _MKFS, is_power=True))}),
    "-d": suboptions(
        {
            "su": _SIZE,
            "sectsize": _SECTOR,
            "agsize": within(_SIZE, Limits(16 << 20, 1 << 40, _MKFS)),
            **numbers("agcount sw sunit swidth extszinherit cowextsize"),
            **flags("noalign"),
            "daxinherit": one_of("0", "1"),
            "size": CAPACITY,
        }
    ),
    "-i": suboptions(
        {
            "size": within(INTEGER, Limits(512, 2048, _MKFS, is_power=True)),  # 512: with checksums
            "perblock": within(INTEGER, Limits(2, 128, _MKFS, is_power=True)),
            "maxpct": within(INTEGER, Limits(0, 100, _MKFS)),
            "attr": one_of("0", "1", "2"),
            **switches("exchange nrext64 projid32bit sparse"),
        }
    ),
    "-l": suboptions(
        {
            # "Log size must be at least 64MB" since xfsprogs 5.19; XFS_MAX_LOG_BYTES is 2 GiB less a block.
            "size": within(_SIZE, Limits(64 << 20, (2 << 30) - 4096, _MKFS)),
            "su": within(_SIZE, Limits(_BLOCK_BYTES, _LOG_UNIT_BYTES_MAX, _MKFS)),
            "sunit": within(INTEGER, Limits(1, _LOG_UNIT_BYTES_MAX >> 9, _MKFS)),
            "agnum": INTEGER,
            "internal": one_of("1", optional=True),
            "version": one_of("1", "2"),
            "lazy-count": OPTIONAL_SWITCH,
        }
    ),
    "-m": suboptions(
        {**switches("autofsck bigtime crc finobt inobtcount metadir reflink rmapbt"), "uuid": UUID}
    ),
    "-n": suboptions(
        {
            "size": within(_SIZE, Limits(4 << 10, 64 << 10, _MKFS, is_power=True)),
            "version": one_of("2", "ci"),
            **switches("ftype parent"),
        }
    ),
    "-s": suboptions(named("size sectsize", _SECTOR)),
    "-L": LABEL,
    **named("-f -K -q", HERE_ALREADY),
    "-N": NOTHING_MADE,
}

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    # nobarrier was removed in Linux 4.19: trials with it are skipped with that reason.
    **flags(
        "discard nodiscard filestreams grpid nogrpid bsdgroups sysvgroups inode32 inode64 largeio nolargeio "
        "noalign swalloc wsync nobarrier quota noquota usrquota grpquota uquota gquota qnoenforce "
        "uqnoenforce gqnoenforce"
    ),
    **numbers("sunit swidth"),
    "logbufs": within(INTEGER, Limits(2, 8, _SUPER, default=0)),
    "logbsize": within(_BYTES, Limits(16 << 10, 256 << 10, _SUPER, is_power=True, default=0)),
    "allocsize": within(_BYTES, Limits(4 << 10, 1 << 30, _SUPER, is_power=True)),
    "max_atomic_write": _BYTES,
    "dax": one_of("always", "inode", "never", optional=True),
    **PROJECT_QUOTA,
}

RULES: Final = (
    *(
        Rule(f"-d {one}", _MKFS, needs=(f"-d {other}",))
        for one, other in (("su", "sw"), ("sw", "su"), ("sunit", "swidth"), ("swidth", "sunit"))
    ),
    *(Rule(f"-d {one}", _MKFS, excludes=("-d sunit", "-d swidth", "-d noalign")) for one in ("su", "sw")),
    *(Rule(f"-d {one}", _MKFS, excludes=("-d noalign",)) for one in ("sunit", "swidth")),
    Rule("-d agcount", _MKFS, excludes=("-d agsize",)),
    Rule("-d sectsize", _MKFS, excludes=("-s size", "-s sectsize")),
    Rule("-s size", _MKFS, excludes=("-s sectsize",)),
    Rule("-i perblock", _MKFS, excludes=("-i size",)),
    Rule("-l sunit", _MKFS, excludes=("-l su",)),
    Rule("sunit", _SUPER, needs=("swidth",), excludes=("noalign",)),
    Rule("swidth", _SUPER, needs=("sunit",), excludes=("noalign",)),
)

# The bytes of a block, the number of extents, the blocks of an extent.
_XFS_FIGURES: Final = (
    re.compile(r"^data\s+=.*\bbsize=(\d+)", re.MULTILINE),
    re.compile(r"^total free extents (\d+)", re.MULTILINE),
    re.compile(r"^average free extent size ([\d.]+)", re.MULTILINE),
)


class Xfs(AlignedFilesystem, ProjectQuotaFilesystem):
    """XFS on one block device, with the defaults of mkfs.xfs."""

    requires = LowerInterface("block")
    prerequisites = filesystem_prerequisites("xfs")
    scrub_requires = Prerequisites(features=("xfs-scrub",))
    quota_feature = "quota:xfs"
    # mkfs.xfs refuses less since 5.19.
    capacity_bytes_min = 300 << 20
    checker = ("xfs_repair", "-n")
    allowed = {"mkfs": MKFS, "mount": MOUNT_OPTIONS}
    rules = RULES
    # fs/xfs/{xfs_error,xfs_fsops,xfs_buf}.c of Linux 7.2
    kernel_log = KernelLog(
        trouble=(
            r"XFS \(\S+\): .*(?:[Cc]orruption|CRC error|[Ss]hut(?:ting)? ?down|metadata I/O error"
            r"|xfs_repair).*",
        )
    )
    # fs.xfs.xfssyncd_centisecs
    periods_ns = {**WRITE_BACK, "work on the log of XFS": 30 * NS_PER_S}
    packages = ("xfsprogs", "quota", "e2fsprogs")

    device_keys = ("log",)
    external_log = ("-l logdev=", "-l ", "logdev=")

    layer: Literal["xfs"] = "xfs"
    log: StrictStr | None = Field(None, examples=["ssd0"], exclude_if=lambda value: value is None)
    """A device of the study that holds nothing but the log; default: it lies in the filesystem"""

    def unavailable(self) -> str | None:
        if self.barriers and "nobarrier" not in self.mount:
            return None
        return (
            "XFS cannot be mounted without barriers: nobarrier had no effect any more since Linux 4.10, "
            "and was removed in Linux 4.19"
        )

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        unit, width = (self._given("-d").get(key, "") for key in ("sunit", "swidth"))
        if unit.isdecimal() and width.isdecimal() and int(unit) and int(width) % int(unit):
            remedy = f"write for example swidth={2 * int(unit)}"
            yield Diagnostic(f"-d swidth is no multiple of sunit, which is {unit}", remedy=remedy, key="mkfs")
        log_bytes, group_bytes = self._size("-l size"), self._group_bytes(lower)
        if log_bytes is not None and log_bytes >= group_bytes:
            yield Diagnostic(
                f"the log of {describe_size(log_bytes)} does not fit into an allocation group, which has "
                f"{describe_size(group_bytes)} at most",
                remedy="give a smaller log, or leave it out",
                key="mkfs",
            )
        if self.alignment(lower) and self.capacity_bytes_min <= lower.smallest_bytes < _STRIPED_BYTES_MIN:
            yield Diagnostic(
                f"xfs aligned to stripes needs {describe_size(_STRIPED_BYTES_MIN)} at least, and there are "
                f"{describe_size(lower.smallest_bytes)}",
                remedy="raise the `capacity` of the devices, or write align = false",
                key="align",
            )

    def alignment(self, lower: Provided) -> Mapping[str, str]:
        """The user's stripe unit and width, or else those below, with a log that fits."""
        if chosen := self._given("-d"):
            return chosen
        geometry = self._aligned_to(lower)
        if geometry is None:
            return {}
        aligned = {"su": describe_size(geometry.chunk_bytes), "sw": str(geometry.data_chunks)}
        log_bytes = self._log_unit_bytes(geometry)
        return aligned if log_bytes is None else {**aligned, "log su": describe_size(log_bytes)}

    def _aligned_to(self, lower: Provided) -> Geometry | None:
        geometry = lower.geometry if self.align else None
        return None if geometry is None or geometry.chunk_bytes % _BLOCK_BYTES else geometry

    def _log_unit_bytes(self, geometry: Geometry) -> int | None:
        if self._given("-l"):
            return None
        return geometry.chunk_bytes if geometry.chunk_bytes <= _LOG_UNIT_BYTES_MAX else _LOG_UNIT_BYTES

    def _given(self, letter: str) -> dict[str, str]:
        _, values = self.mkfs_without(letter)
        pairs = [value.partition("=") for value in values]
        return {key: value for key, _, value in pairs if key in _ALIGNING}

    def structures(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Structure]:
        """The log, and the allocation groups, if the study sets their sizes; the defaults are XFS's own."""
        yield from log_structures(self._size("-l size"), "log of XFS")
        if self._size("-d agsize") or self._size("-d agcount"):
            why, groups = "a file lies in one of them as long as it has room", "allocation groups"
            group_bytes = self._group_bytes(lower)
            yield Structure("allocation group", group_bytes, why, units_min=2, names=groups)

    def _group_bytes(self, lower: Provided) -> int:
        """The size of an allocation group, or by default the most that it can be: a quarter of the device."""
        count = self._size("-d agcount") or _GROUPS_MIN
        return self._size("-d agsize") or lower.smallest_bytes // count

    def _size(self, option: str) -> int | None:
        given = dict(given_words(self.mkfs, MKFS))
        return binary_size(given.get(option) or "")

    def make_options(self, context: LayerContext) -> list[str]:
        make = ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={context.derived_uuid('uuid')}"]
        return [*make, *self._aligning(context.provided), *self.mkfs]

    def _aligning(self, lower: Provided) -> list[str]:
        if self._given("-d"):
            return []
        if not self.align:
            return ["-d", "noalign"]
        geometry = self._aligned_to(lower)
        if geometry is None:
            return []
        log_bytes = self._log_unit_bytes(geometry)
        log = [] if log_bytes is None else ["-l", f"su={log_bytes}"]
        return ["-d", f"su={geometry.chunk_bytes},sw={geometry.data_chunks}", *log]

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """Grow to the size of the device; XFS cannot shrink."""
        if not grow:
            return None
        grown = ("xfs_growfs", "-d", context.mount)
        return [act(context, "grow", "Grow the XFS filesystem to its device", *grown)]

    def scrub(self, context: LayerContext) -> list[Step] | None:
        """Check the metadata and read all files, repairing nothing; damage fails the step.

        Data have no checksums, so only unreadable data are found. Needs CONFIG_XFS_ONLINE_SCRUB.
        """
        scrub = ("xfs_scrub", "-n", "-k", "-x", context.mount)
        return [act(context, "run", "Scrub the XFS filesystem", *scrub)]

    def scrub_errors(self, stdout: str) -> int:
        """The number of lines that follow from damage."""
        return sum(any(found in line for found in _SCRUB_FOUND) for line in stdout.splitlines())

    def free_space(self, context: LayerContext) -> list[Step] | None:
        ask = ("xfs_spaceman", "-c", "info", "-c", "freesp -s", context.mount)
        return [act(context, "list", "See how the free space is divided", *ask)]

    def free_space_metrics(self, stdout: str) -> list[FreeSpace]:
        block_bytes, count, blocks = (float(found(each, stdout, "xfs_spaceman")) for each in _XFS_FIGURES)
        return divided(int(count), blocks * block_bytes)
