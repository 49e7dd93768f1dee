# SPDX-License-Identifier: Apache-2.0
"""dm-integrity on one block device, by itself: checksums that detect altered data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from pydantic import Field

from strata.diagnostics.names import Diagnostic
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided
from strata.model.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, Size, describe_size
from strata.words import listed

Checksum = Literal["crc32c", "xxhash64", "sha256", "hmac-sha256"]

_CHECKSUM_BYTES: Final = {"crc32c": 4, "xxhash64": 8, "sha256": 32, "hmac-sha256": 32}
_KEY_BYTES: Final = 32
_SECTOR_BYTES: Final = 512

# The format on the device, after drivers/md/dm-integrity.c of Linux 7.2, in sectors of 512 bytes. Runs of
# tags and of data alternate; before the first there are superblock and journal.
_SUPERBLOCK_SECTORS: Final = 8
_DATA_RUN_SECTORS: Final = 32768
_PADDING_SECTORS: Final = 8
_JOURNAL_SECTORS_MAX: Final = 131072
_JOURNAL_SHARE: Final = 128
_JOURNAL_BLOCK_SECTORS: Final = 8
_JOURNAL_SPACE_BYTES: Final = 504

_WHOLE_LIMIT_NS_MIN: Final = 600 * NS_PER_S
_WHOLE_LIMIT_NS_MAX: Final = 7200 * NS_PER_S
# The lowest assumed rate for reading or writing a whole disk, tags included.
_WHOLE_BYTES_PER_S_MIN: Final = 20_000_000


class Integrity(Layer):
    """A block device with a checksum of each sector.

    Reads that do not match it fail. Everything is written once when it is made: a sector that was never
    written has no matching checksum, so programs above that look for signatures on a device would meet
    errors.
    """

    family = "caches, encryption, integrity"
    requires = LowerInterface("block")
    provides = "block"
    prerequisites = Prerequisites(
        tools=("blkdiscard", "blockdev", "dd", "dmsetup", "integritysetup"), features=("dm:integrity",)
    )
    # drivers/md/dm-integrity.c of Linux 7.2
    kernel_log = KernelLog(
        trouble=(
            r"device-mapper: integrity: .*(?:Checksum failed|Error on|[Ii]nvalid access|Too big sector"
            r"|superblock was changed).*",
        )
    )
    packages = ("cryptsetup-bin", "dmsetup")
    also_called = ("dm-integrity",)

    layer: Literal["integrity"] = "integrity"
    checksum: Checksum = "crc32c"
    """The checksum of a sector; hmac-sha256 has a key, derived from the seed"""
    tag_bytes: int | None = Field(None, alias="tag_size", ge=1, le=4096, examples=[16])
    """Bytes of the checksum that are kept; default: all"""
    sector_bytes: Literal[512, 1024, 2048, 4096] = Field(512, alias="sector_size", examples=[4096])
    """The unit of a checksum, in bytes; no smaller I/O is then possible above"""
    mode: Literal["journal", "bitmap", "direct"] = Field("journal", examples=["bitmap"])
    """How data and checksums stay consistent when the power fails: through a journal; by a bitmap of the
    sectors to checksum again; or not at all"""
    journal_bytes: Size | None = Field(None, alias="journal_size", examples=["32MiB"])
    """Size of the journal; default: 1/128 of the device, 64 MiB at most"""

    def needs(self) -> Prerequisites:
        return self.prerequisites | Prerequisites(tools=("tee",)) if self._has_key else self.prerequisites

    def power_risks(self) -> Iterable[str]:
        if self.mode == "direct":
            yield "mode = direct: a sector that was being written may be unreadable afterwards"

    @property
    def _has_key(self) -> bool:
        return self.checksum == "hmac-sha256"

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        longest_bytes = _CHECKSUM_BYTES[self.checksum]
        if self.tag_bytes is not None and self.tag_bytes > longest_bytes:
            yield Diagnostic(
                f"{self.checksum} has {longest_bytes} bytes",
                remedy=f"write {longest_bytes} or less, or leave it out",
                key="tag_size",
            )
        elif not self.usable_bytes(lower.capacities_bytes):
            yield Diagnostic(
                f"journal and checksums leave no room on {describe_size(lower.smallest_bytes)}",
                remedy="raise the `capacity` of the device, or give a smaller `journal_size`",
            )

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The space beside superblock, journal and checksums, exactly as the kernel reckons it."""
        device_sectors = min(lower_bytes) // _SECTOR_BYTES
        space_sectors = device_sectors - _SUPERBLOCK_SECTORS - self._journal_sectors(device_sectors)
        if space_sectors <= 0:
            return 0
        tags_bytes = _DATA_RUN_SECTORS * _SECTOR_BYTES // self.sector_bytes * self._tag_bytes
        padding_bytes = _PADDING_SECTORS * _SECTOR_BYTES
        tags_sectors = -(-tags_bytes // padding_bytes) * _PADDING_SECTORS
        runs, rest_sectors = divmod(space_sectors, tags_sectors + _DATA_RUN_SECTORS)
        last_sectors = max(0, rest_sectors - tags_sectors) // 8 * 8
        return (runs * _DATA_RUN_SECTORS + last_sectors) * _SECTOR_BYTES

    @property
    def _tag_bytes(self) -> int:
        return self.tag_bytes or _CHECKSUM_BYTES[self.checksum]

    def _journal_sectors(self, device_sectors: int) -> int:
        """The journal, in whole sections; it is there in every mode."""
        wanted = min(_JOURNAL_SECTORS_MAX, device_sectors // _JOURNAL_SHARE)
        if self.journal_bytes is not None:
            wanted = self.journal_bytes // _SECTOR_BYTES
        sectors = self.sector_bytes // _SECTOR_BYTES
        entry_bytes = -(-(8 + 8 * sectors + self._tag_bytes) // 8) * 8
        entries = _JOURNAL_SPACE_BYTES // entry_bytes * _JOURNAL_BLOCK_SECTORS
        section = entries * sectors + _JOURNAL_BLOCK_SECTORS
        return max(1, wanted // section) * section

    def provided(self, lower: Provided) -> Provided:
        """Without geometry: the runs of checksums between the data hide the stripes below."""
        return replace(super().provided(lower), geometry=None).with_sectors(self.sector_bytes)

    def path(self, context: LayerContext) -> str:
        return f"/dev/mapper/{context.label}"

    def build(self, context: LayerContext) -> list[Step]:
        options = ["--tag-size", str(self.tag_bytes)] if self.tag_bytes else []
        if self.journal_bytes is not None:
            options += ["--journal-size", str(self.journal_bytes)]
        where = listed(context.devices) or "what is below"
        make = context.step(
            "format",
            f"Make the volume with checksums on {where}, and fill it",
            *("integritysetup", "format", "--batch-mode", *self._checksum_options(context)),
            *("--sector-size", str(self.sector_bytes), *options, context.lower[0]),
            destroys=context.devices,
            time_limit_ns=_whole_limit_ns(context),
        )
        *key, opened = self.assemble(context)
        return [*key, make, opened]

    def _checksum_options(self, context: LayerContext) -> list[str]:
        options = ["--integrity", self.checksum]
        if self._has_key:
            options += ["--integrity-key-file", _key_file(context), "--integrity-key-size", str(_KEY_BYTES)]
        return options

    def assemble(self, context: LayerContext) -> list[Step]:
        mode = {"journal": [], "bitmap": ["--integrity-bitmap-mode"], "direct": ["--integrity-no-journal"]}
        steps = []
        if self._has_key:
            key = context.derived_uuid("key").hex
            title = "Derive the checksum's key"
            steps.append(context.step("key", title, "tee", _key_file(context), stdin=key))
        opened = context.step(
            "open",
            "Open the volume with checksums",
            *("integritysetup", "open", *self._checksum_options(context), *mode[self.mode]),
            *(context.lower[0], context.label),
            undo=Command(argv=("integritysetup", "close", context.label), time_limit_ns=600 * NS_PER_S),
        )
        return [*steps, opened]

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """Take all of a larger device below, and write the new sectors; the format cannot become smaller."""
        if not grow:
            return None
        before, path = f"{context.name}-before", self.path(context)
        size = ("blockdev", "--getsize64", path)
        resize = ("integritysetup", "resize", context.label)
        # integritysetup fills only a volume that is not in use.
        fill = ("blkdiscard", "--force", "--zeroout", "--offset", f"${{{before}}}", path)
        limit_ns = _whole_limit_ns(context)
        return [
            context.act("size", "See how large the volume with checksums is", *size, binds=before),
            context.act("resize", "Fit the volume with checksums to what is below", *resize),
            context.act("fill", "Fill what is new", *fill, time_limit_ns=limit_ns),
        ]

    def scrub(self, context: LayerContext) -> list[Step] | None:
        """Read everything; the target counts the checksums that did not match."""
        read = context.act(
            "read",
            "Read the volume with checksums",
            *("dd", f"if={self.path(context)}", "of=/dev/null", "bs=1M", "iflag=direct", "conv=noerror"),
            expect_exit=(0, 1),
            time_limit_ns=_whole_limit_ns(context),
        )
        title = "Count the sectors that differ from their checksum"
        return [read, context.act("mismatches", title, "dmsetup", "status", context.label)]

    def scrub_errors(self, stdout: str) -> int:
        """The target's count of all reads since it was opened."""
        return int(stdout.split()[3])


def _key_file(context: LayerContext) -> str:
    return f"${{scratch}}/{context.name}-key"


def _whole_limit_ns(context: LayerContext) -> int:
    needed_ns = context.provided.smallest_bytes * NS_PER_S // _WHOLE_BYTES_PER_S_MIN
    return max(_WHOLE_LIMIT_NS_MIN, min(needed_ns, _WHOLE_LIMIT_NS_MAX))
