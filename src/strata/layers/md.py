# SPDX-License-Identifier: Apache-2.0
"""MD, the RAID of the Linux kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.layers.options import ReadAhead, power_of_two, spare_diagnostics
from strata.model.layer import Geometry, KernelLog, Layer, LayerContext, LowerInterface, Provided
from strata.model.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, Rate, Size, describe_size
from strata.words import listed

_LEVELS: Final = {f"raid{level}": level for level in (0, 1, 4, 5, 6, 10)}


def _read_level(value: object) -> object:
    """A level as mdadm writes it, too: ``raid5``."""
    return _LEVELS.get(value, value) if isinstance(value, str) else value


Level = Annotated[
    Literal[0, 1, 4, 5, 6, 10],
    BeforeValidator(_read_level),
    WithJsonSchema({"enum": [*_LEVELS.values(), *_LEVELS]}),
]
Layout = Literal[
    "left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric", "near", "far", "offset"
]

_FOLDER: Final = "/dev/md"
_DISKS_MIN: Final = {0: 2, 1: 2, 4: 3, 5: 3, 6: 4, 10: 2}
"""mdadm would also make RAID 4 and 5 of two disks: mirrors in effect, and no case for a study."""

_PARITIES: Final = {4: 1, 5: 1, 6: 2}
_LAYOUTS: Final[Mapping[int, tuple[str, ...]]] = {
    5: ("left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric"),
    6: ("left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric"),
    10: ("near", "far", "offset"),
}
_CHUNK_BYTES: Final = 512 << 10
# mdadm 4.3: super1.c
_REGION_BYTES: Final = 64 << 20
_REGION_BYTES_MIN: Final = 4 << 10
_BITMAP_HEAD_BYTES: Final = 256
# A bit is cleared 5 to 10 s after the last write to its region (DAEMON_SLEEP of drivers/md/md-bitmap.c), and
# an array of eight 7200 rpm disks makes about a hundred random writes a second: an estimate. On fewer regions
# than writes in this time hardly any is cleared. With 14,904 regions the cost is met in full.
_REGIONS_MIN: Final = 1000
# mdadm must not wait for udev, which the lab does not have, nor read the machine's own mdadm.conf.
_ENVIRONMENT: Final = {"MDADM_NO_UDEV": "1"}
_NO_FILE: Final = "--config=none"
_HOST: Final = "strata"
_STOP_LIMIT_NS: Final = 600 * NS_PER_S
_SYNC_LIMIT_NS: Final = 7200 * NS_PER_S


# drivers/md/{md,raid0,raid1,raid10,raid5}.c of Linux 7.2; dm-raid runs the same code.
MD_LOG: Final = KernelLog(
    trouble=(
        r"md(?:/raid\w*)?: ?.*(?:gets error=|flush io error|unrecoverable I/O|not correctable|NOT corrected"
        r"|Disk failure on|Cannot continue operation|Too many read errors|kicking non-fresh"
        r"|not enough operational|dirty degraded array|could not read superblock|invalid superblock).*",
        r"md\w*: mismatch sector in range .*",
    ),
    disk_lost=(r"md(?:/raid\w*)?: ?.*(?:gets error=|flush io error|Disk failure on).*",),
)


def _bitmap_bits(disk_bytes: int) -> int:
    """The bits for which a superblock of version 1.2 leaves room (choose_bm_space of mdadm's super1.c)."""
    room_bytes = (128 if disk_bytes >= 200 << 30 else 64 if disk_bytes > 8 << 30 else 4) << 10
    return (room_bytes - _BITMAP_HEAD_BYTES) * 8


class Md(Layer):
    """MD RAID over several block devices.

    The disks of a trial hold zeros at the start, so that mirrors are alike and parities are right without an
    initial synchronisation: ``initial_sync = "assume-clean"``, the default, leaves it out.
    """

    family = "RAID and volumes"
    requires = LowerInterface("block", minimum=2, maximum=None)
    provides = "block"
    prerequisites = Prerequisites(tools=("mdadm", "mkdir"))
    kernel_log = MD_LOG
    packages = ("mdadm",)
    device_keys = ("spares", "journal")
    also_called = ("mdadm", "mdraid", "raid", "software-raid")

    layer: Literal["md"] = "md"
    level: Level = Field(examples=[10])
    """RAID level: 0, 1, 4, 5, 6 or 10; raid5 is 5"""
    layout: Layout | None = Field(None, examples=["far"])
    """How chunks are laid out. Levels 5 and 6: left-symmetric (default), left-asymmetric, right-symmetric,
    right-asymmetric; level 10: near (default), far, offset"""
    copies: Annotated[StrictInt, Field(ge=2, le=1024)] | None = Field(None, examples=[3])
    """How often level 10 holds every chunk; default: 2"""
    chunk_bytes: Annotated[Size, power_of_two(4 << 10)] | None = Field(
        None, alias="chunk", examples=["64KiB"]
    )
    """Size of a chunk on a disk, a power of two from 4KiB; default: 512KiB. Level 1 has none"""
    bitmap: Literal["internal", "none"] | None = Field(None, examples=["none"])
    """Whether the disks note which regions are being written, so that a crash, or a disk that comes back,
    costs no full synchronisation; default: internal, as mdadm makes it on arrays above 100 GB; level 0 has
    none. A file elsewhere is not offered: mdadm 4.4 refuses it"""
    bitmap_chunk_bytes: Annotated[Size, power_of_two(4 << 10, 1 << 40)] | None = Field(
        None, alias="bitmap_chunk", examples=["128MiB"]
    )
    """The region of each disk (of the array at levels 1 and 10) for which a bit of the bitmap stands, a power
    of two; default: 64MiB, or the least with which the bitmap fits beside the superblock"""
    initial_sync: Literal["assume-clean", "wait", "background"] = Field("assume-clean", examples=["wait"])
    """The first synchronisation: assume-clean leaves it out (the disks hold zeros), wait lets it end before
    anything else is built, background lets it run beside what follows"""
    spares: list[StrictStr] = Field([], examples=[["disk4"]])
    """Devices of the study that stand by: when a disk is lost, the array is rebuilt onto one"""

    @property
    def _copies(self) -> int:
        return self.copies or 2

    @property
    def _chunk_bytes(self) -> int:
        return self.chunk_bytes or _CHUNK_BYTES

    journal: StrictStr | None = Field(None, examples=["ssd0"], exclude_if=lambda value: value is None)
    """A device of the study that takes every write of levels 4, 5 and 6 first, which closes the write hole;
    it takes the bitmap's place; default: none"""
    journal_mode: Literal["write-through", "write-back"] | None = Field(
        None, examples=["write-back"], exclude_if=lambda value: value is None
    )
    """Whether a write is done when it is in the journal (write-back) or on all disks; default:
    write-through"""
    partial_parity_log: StrictBool = Field(False, examples=[True], exclude_if=lambda value: not value)
    """Level 5: note the parity of the rest of a stripe before writing into it (PPL), which closes the write
    hole without another device; it takes the bitmap's place"""
    stripe_cache_size: Annotated[StrictInt, Field(ge=17, le=32768)] | None = Field(
        None, examples=[8192], exclude_if=lambda value: value is None
    )
    """Levels 4, 5 and 6: stripes of 4 KiB of each disk that are held in memory; default: 256"""
    sync_speed_min_bytes_per_s: Annotated[Rate, Field(ge=1 << 10)] | None = Field(
        None, alias="sync_speed_min", examples=["50MB/s"], exclude_if=lambda value: value is None
    )
    """What a synchronisation takes of each disk even beside a load; default: 1000 KiB/s"""
    sync_speed_max_bytes_per_s: Annotated[Rate, Field(ge=1 << 10)] | None = Field(
        None, alias="sync_speed_max", examples=["200MB/s"], exclude_if=lambda value: value is None
    )
    """What a synchronisation takes at most; default: 200000 KiB/s"""
    read_ahead_kb: ReadAhead = None
    """The most that is read ahead of a sequential reader, in KiB; default: two stripes, at least that of the
    disks"""

    @property
    def _knobs(self) -> dict[str, str | int]:
        """The stated settings of the array, by the names of their files in its folder in /sys."""
        speeds = {
            "md/sync_speed_min": self.sync_speed_min_bytes_per_s,
            "md/sync_speed_max": self.sync_speed_max_bytes_per_s,
        }
        stated = {
            "md/journal_mode": self.journal_mode,
            "md/stripe_cache_size": self.stripe_cache_size,
            "queue/read_ahead_kb": self.read_ahead_kb,
            **{name: rate and rate >> 10 for name, rate in speeds.items()},  # in KiB/s
        }
        return {name: value for name, value in stated.items() if value is not None}

    def needs(self) -> Prerequisites:
        tools = ("realpath", "tee") if self._knobs else ()
        return self.prerequisites | Prerequisites(tools=tools, features=(f"md:raid{self.level}",))

    def stated(self) -> Mapping[str, str]:
        return {"initial_sync": self.initial_sync} if self.level else {}

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        least = max(_DISKS_MIN[self.level], self._copies if self.level == 10 else 0)
        if lower.count < least:
            what = f" with {self._copies} copies" if self.level == 10 and self.copies else ""
            yield Diagnostic(
                f"RAID {self.level}{what} needs {least} disks, the stack has {lower.count}",
                remedy="add disks to the stack's `devices`, or take another level",
                key="level",
            )
        yield from self._foreign_keys()
        yield from self._log_diagnostics()
        if self.chunk_bytes is not None and self.chunk_bytes * 8 > lower.smallest_bytes:
            yield Diagnostic(
                f"the chunk {describe_size(self.chunk_bytes)} is too large for disks of "
                f"{describe_size(lower.smallest_bytes)}",
                remedy="write for example 512KiB",
                key="chunk",
            )
        yield from self._bitmap_diagnostics(lower)
        yield from spare_diagnostics(self.spares, named, lower.smallest_bytes)

    @property
    def _has_bitmap(self) -> bool:
        return self.level != 0 and self._bitmap != "none"

    @property
    def _bitmap(self) -> str:
        """As mdadm is given it: a journal and a log of partial parities take its place."""
        logged = self.journal is not None or self.partial_parity_log
        return self.bitmap or ("none" if logged or not self.level else "internal")

    def _region_bytes(self, lower: Provided) -> int:
        """The region of a bit: as asked, or as mdadm chooses it (add_internal_bitmap1 of super1.c)."""
        least_bytes = _REGION_BYTES_MIN
        while -(-self._mapped_bytes(lower) // least_bytes) > _bitmap_bits(lower.smallest_bytes):
            least_bytes *= 2
        return self.bitmap_chunk_bytes or max(_REGION_BYTES, least_bytes)

    def _mapped_bytes(self, lower: Provided) -> int:
        """The bytes that the bitmap maps: of a disk with parity, of the whole array with copies alone."""
        is_of_array = self.level in (1, 10)
        return self.usable_bytes(lower.capacities_bytes) if is_of_array else lower.smallest_bytes

    def _bitmap_diagnostics(self, lower: Provided) -> Iterable[Diagnostic]:
        least_bytes = self.model_copy(update={"bitmap_chunk_bytes": None})._region_bytes(lower)
        given, bits = self.bitmap_chunk_bytes, _bitmap_bits(lower.smallest_bytes)
        if given is not None and self._has_bitmap and -(-self._mapped_bytes(lower) // given) > bits:
            yield Diagnostic(
                f"the bitmap holds {bits:,} bits, too few for regions of {describe_size(given)}",
                remedy=f'write for example "{describe_size(least_bytes)}"',
                key="bitmap_chunk",
            )

    def structures(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Structure]:
        if not self._has_bitmap:
            return
        yield Structure(
            "region of the bitmap",
            self._region_bytes(lower),
            f"random writes keep all of them marked with fewer than {_REGIONS_MIN:,}, and cost no write of "
            "the bitmap",
            units_min=_REGIONS_MIN,
            names="regions of the bitmap",
            covers=lower.count - _PARITIES[self.level] if self.level in _PARITIES else 1,
        )

    def _log_diagnostics(self) -> Iterable[Diagnostic]:
        logs = [key for key in ("journal", "partial_parity_log") if getattr(self, key)]
        logs += ["bitmap"] if self.bitmap == "internal" and logs else []
        if len(logs) > 1:
            yield Diagnostic(f"{listed(logs)} exclude one another", remedy="keep one", key=logs[-1])
        if self.journal_mode and not self.journal:
            yield Diagnostic("there is no journal", remedy='write journal = "ssd0"', key="journal_mode")

    def _foreign_keys(self) -> Iterable[Diagnostic]:
        layouts = _LAYOUTS.get(self.level, ())
        if self.layout is not None and self.layout not in layouts:
            valid = f"valid: {', '.join(layouts)}" if layouts else "leave it out"
            yield Diagnostic(f'RAID {self.level} has no layout "{self.layout}"', remedy=valid, key="layout")
        for key, value, levels in (
            ("copies", self.copies, (10,)),
            ("chunk", self.chunk_bytes, (0, 4, 5, 6, 10)),
            ("spares", self.spares or None, (1, 4, 5, 6, 10)),
            ("bitmap", self.bitmap if self.bitmap == "internal" else None, (1, 4, 5, 6, 10)),
            ("bitmap_chunk", self.bitmap_chunk_bytes, (1, 4, 5, 6, 10)),
            ("journal", self.journal, tuple(_PARITIES)),
            ("partial_parity_log", self.partial_parity_log or None, (5,)),
            ("stripe_cache_size", self.stripe_cache_size, tuple(_PARITIES)),
            ("sync_speed_min", self.sync_speed_min_bytes_per_s, (1, 4, 5, 6, 10)),
            ("sync_speed_max", self.sync_speed_max_bytes_per_s, (1, 4, 5, 6, 10)),
        ):
            if value is not None and self.level not in levels:
                yield Diagnostic(f"RAID {self.level} has no {key}", remedy="leave it out", key=key)
        if self.bitmap == "none" and self.bitmap_chunk_bytes is not None:
            remedy = 'leave it out, or write bitmap = "internal"'
            yield Diagnostic("without a bitmap there is no region of it", remedy=remedy, key="bitmap_chunk")
        if self.level == 0 and self.initial_sync != "assume-clean":
            yield Diagnostic("RAID 0 has nothing to synchronise", remedy="leave it out", key="initial_sync")

    def on_used_disks(self) -> Self:
        return self.model_copy(update={"initial_sync": "background"}) if self.level else self

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The capacity without copies and parities; only level 0 uses larger disks in full."""
        smallest_bytes, count = min(lower_bytes, default=0), len(lower_bytes)
        if self.level == 0:
            return sum(lower_bytes)
        if self.level == 1:
            return smallest_bytes
        if self.level == 10:
            return smallest_bytes * count // self._copies
        return smallest_bytes * (count - _PARITIES[self.level])

    def provided(self, lower: Provided) -> Provided:
        count = lower.count
        data = {0: count, 1: 0, 4: count - 1, 5: count - 1, 6: count - 2, 10: count}[self.level]
        if self.level == 10 and self.layout in (None, "near") and count % self._copies == 0:
            data = count // self._copies
        geometry = Geometry(self._chunk_bytes, data) if data else None
        return replace(super().provided(lower), geometry=geometry)

    def path(self, context: LayerContext) -> str:
        return f"{_FOLDER}/{context.label}"

    def build(self, context: LayerContext) -> list[Step]:
        words = [
            *("--create", self.path(context), _NO_FILE, "--metadata=1.2", "--run"),
            *(f"--homehost={_HOST}", f"--name={context.label}"),
            f"--uuid={context.derived_uuid('array')}",
            *(f"--level={self.level}", *self._layout_words()),
            f"--bitmap={self._bitmap}",
            f"--raid-devices={len(context.lower)}",
        ]
        if self.bitmap_chunk_bytes is not None:
            words.append(f"--bitmap-chunk={self.bitmap_chunk_bytes >> 10}")
        words += ["--consistency-policy=ppl"] if self.partial_parity_log else []
        words += [f"--write-journal=${{{self.journal}}}"] if self.journal else []
        if self.spares:
            words.append(f"--spare-devices={len(self.spares)}")
        if self.initial_sync == "assume-clean" and self.level:
            words.append("--assume-clean")
        disks = listed(context.devices)
        created = self._step(
            context,
            "create",
            f"Create the RAID {self.level} array of {disks}",
            *words,
            *self._members(context),
            destroys=context.devices,
            undo=self._stop(context),
        )
        if self.initial_sync != "wait":
            return [self._folder(context), created, *self._tuning(context)]
        return [
            self._folder(context),
            created,
            *self._tuning(context),
            self._wait(context, "sync", "Wait for the initial synchronisation"),
        ]

    def assemble(self, context: LayerContext) -> list[Step]:
        return [
            self._folder(context),
            self._step(
                context,
                "assemble",
                f"Assemble the RAID {self.level} array",
                *("--assemble", self.path(context), _NO_FILE, f"--homehost={_HOST}", "--run"),
                f"--uuid={context.derived_uuid('array')}",
                *self._members(context),
                *([f"${{{self.journal}}}"] if self.journal else []),
                undo=self._stop(context),
            ),
            *self._tuning(context),
        ]

    def _tuning(self, context: LayerContext) -> list[Step]:
        """Set the array's knobs. The kernel forgets them when the array is stopped."""
        if not self._knobs:
            return []
        node = f"{context.prefix or context.name}-node"
        steps = [context.step("node", *self._find_node(context), cwd=context.cwd, binds=node)]
        for file, value in self._knobs.items():
            name = file.partition("/")[2]
            title, path = f"Set {name} of the array to {value}", f"/sys/block/${{{node}}}/{file}"
            step_id, line = name.replace("_", "-"), f"{value}\n"
            steps.append(context.step(step_id, title, "tee", path, stdin=line, cwd=context.cwd))
        return steps

    def _find_node(self, context: LayerContext) -> tuple[str, ...]:
        """The title and the command that print the array's name in /sys/block."""
        return "Find the array's node", "realpath", "--relative-to=/dev", self.path(context)

    def _folder(self, context: LayerContext) -> Step:
        """Make the folder before mdadm does, whose mode would keep out loads, which run without root."""
        made = ("mkdir", "--parents", "--mode=755", _FOLDER)
        return context.step("folder", "Make the folder of the arrays' nodes", *made, cwd=context.cwd)

    def scrub(self, context: LayerContext) -> list[Step] | None:
        """Compare copies and parities; what cannot be read is written again from the others."""
        if not self.level:
            return None
        node, path = f"{context.prefix or context.name}-array", self.path(context)
        return [
            # A check cannot start during a rebuild or an initial synchronisation.
            self._wait(context, "idle", "Wait until the array is at rest"),
            self._step(
                context, "check", "Begin to compare the array's disks", "--misc", "--action=check", path
            ),
            self._wait(context, "wait", "Wait until they are compared"),
            context.act("node", *self._find_node(context), binds=node),
            context.act(
                "mismatches",
                "Read how many sectors differed",
                *("cat", f"/sys/block/${{{node}}}/md/mismatch_cnt"),
            ),
        ]

    def scrub_errors(self, stdout: str) -> int:
        """Sectors, counted in whole pages or stripes."""
        return int(stdout)

    def losses_survived(self, lower: Provided) -> int:
        if self.level == 10:
            return self._copies - 1
        return lower.count - 1 if self.level == 1 else _PARITIES.get(self.level, 0)

    def rebuild(self, context: LayerContext, lost: str, spare: str) -> list[Step] | None:
        """Report the loss to MD, as udev does for a removed disk, and add the spare if it is not in yet."""
        if not self.level:
            return None
        failed = self._step(context, "fail", "Tell the array of the loss", self.path(context), "--fail", lost)
        if spare in self._members(context):
            return [failed]  # MD begins by itself
        added = self._step(context, "add", "Add the spare", self.path(context), "--add-spare", spare)
        return [failed, added]

    def rebuilt(self, context: LayerContext) -> list[Step] | None:
        return [self._wait(context, "rebuilt", "Wait until the array is rebuilt")] if self.level else None

    def _layout_words(self) -> list[str]:
        words = [] if self.level == 1 else [f"--chunk={self._chunk_bytes >> 10}"]
        if self.level == 10:
            layout = (self.layout or "near")[0]
            words.append(f"--layout={layout}{self._copies}")
        elif self.level in (5, 6):
            words.append(f"--layout={self.layout or 'left-symmetric'}")
        return words

    def _members(self, context: LayerContext) -> tuple[str, ...]:
        return (*context.lower, *(f"${{{name}}}" for name in self.spares))

    def _stop(self, context: LayerContext) -> Command:
        argv = ("mdadm", "--stop", self.path(context))
        return Command(argv=argv, environment=_ENVIRONMENT, time_limit_ns=_STOP_LIMIT_NS)

    def _wait(self, context: LayerContext, name: str, title: str) -> Step:
        # It exits 1 when there was nothing to wait for.
        fields = {"expect_exit": (0, 1), "time_limit_ns": _SYNC_LIMIT_NS}
        return self._step(context, name, title, "--wait", self.path(context), **fields)

    def _step(self, context: LayerContext, name: str, title: str, *words: str, **fields: Any) -> Step:
        fields = {"environment": _ENVIRONMENT, "cwd": context.cwd, **fields}
        return context.step(name, title, "mdadm", *words, **fields)
