# SPDX-License-Identifier: Apache-2.0
"""A ZFS pool on block devices, and what ``zpool`` prints of damage and scrubs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.layers.options import cache_structures, spare_diagnostics
from strata.layers.zfs.datasets import PropertyValue, property_diagnostics, property_words
from strata.layers.zfs.options import FEATURE_SET, PARAMETERS, POOL
from strata.model.abilities import FreeSpace, found
from strata.model.allowed import pair_diagnostics
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided, Share
from strata.model.step import Command, Prerequisites, Step, literal
from strata.units import NS_PER_S, MemorySize, describe_size, whole_mib
from strata.words import listed

# Prints `zpool status`; exits 1 if a device counts wrong checksums, in its last column, or files are damaged.
# A disk that is rebuilt lacks blocks, which ZFS may read from it, mends, and counts. It is marked, or below
# the group that it makes with the lost disk.
FIND_ERRORS: Final = literal(
    "open my $s, '-|', qw(zpool status -p), @ARGV or die $!; my ($bad, $group) = 0; "
    r"while (<$s>) { print; $bad = 1 if /^errors: (?!No known)/; "
    r"my ($in, $name, $wrong) = /^(\s+)(\S+)\s+[A-Z]+(?:\s+\d+){2}\s+(\d+)/ or next; $in = length $in; "
    r"undef $group if defined $group and $in <= $group; "
    r"$group //= $in if $name =~ /^(?:spare|replacing)-\d+$/; "
    r"$bad = 1 if $wrong and not defined $group and not /\(resilvering\)/ } "
    "close $s or die; exit $bad"
)
_REBUILT_GROUP: Final = re.compile(r"(?:spare|replacing)-\d+")

# The end of the scrub's line, and the columns of the table of devices.
_UNMENDED: Final = re.compile(r"scan: .* with (\d+) errors")
_CLEAN: Final = re.compile(r"scan: scrub repaired 0B? in .* with 0 errors")
_COLUMNS: Final = 5


def scrub_errors_of(status: str) -> int:
    """The wrong checksums of all devices, and the uncorrected errors.

    The devices' counts include earlier errors, so a scrub that repaired nothing and left nothing found none.
    """
    unmended = _UNMENDED.search(status)
    if _CLEAN.search(status):
        return 0
    return sum(_wrong_checksums(status)) + int(unmended[1] if unmended else 0)


def _wrong_checksums(status: str) -> Iterator[int]:
    """The counts of the devices in the table of ``zpool status``: the leaves of its indented tree.

    A disk that is rebuilt is left out, as by ``FIND_ERRORS``.
    """
    table = re.split(r"\n\s+NAME\s+STATE\s+READ\s+WRITE\s+CKSUM.*\n", status)[-1].split("\n\n")[0]
    rows = [(len(row) - len(row.lstrip()), row.split()) for row in table.splitlines()]
    group: int | None = None
    for (indent, columns), (following, _) in zip(rows, [*rows[1:], (0, [])], strict=True):
        if group is not None and indent <= group:
            group = None
        if group is None and columns and _REBUILT_GROUP.fullmatch(columns[0]):
            group = indent
        counts = len(columns) >= _COLUMNS and columns[_COLUMNS - 1].isdigit()
        if counts and following <= indent and group is None and "(resilvering)" not in columns:
            yield int(columns[_COLUMNS - 1])


_MAKE_LIMIT_NS: Final = 600 * NS_PER_S
# Exporting writes dirty data back, which takes long on a rotating disk.
_EXPORT_LIMIT_NS: Final = 1200 * NS_PER_S
_SCAN_LIMIT_NS: Final = 7200 * NS_PER_S

# SPA_MINDEVSIZE, MIN_ARC_MAX of OpenZFS 2.4.
_DEVICE_BYTES_MIN: Final = 64 << 20
_ARC_BYTES_MIN: Final = 64 << 20
_PARITY: Final = {"raidz1": 1, "raidz2": 2, "raidz3": 3}

# Without it the kernel looks for partitions when a volume comes up, and closes it a tick later; until then
# the pool cannot be exported. Set on the pool: a volume that gets the property when it is made comes up once
# with partitions before, and with OpenZFS 2.4.4 can then be gone for good.
_VOLUMES: Final = ("-O", "volmode=dev")

_PARAMETERS: Final = "/sys/module/zfs/parameters"
_ARC_STATISTICS: Final = "/proc/spl/kstat/zfs/arcstats"
_FRAGMENTATION: Final = re.compile(r"^(\d+)%?\s*$")
_VARIABLE: Final = re.compile(r"\$\{([a-z0-9.-]+)\}", re.ASCII)


_Vdev = Annotated[
    Literal["stripe", "mirror", "raidz", "raidz1", "raidz2", "raidz3"],
    AfterValidator(lambda vdev: "raidz1" if vdev == "raidz" else vdev),  # as zpool-create(8) has it
]


def _check_set(name: str) -> str:
    if not re.fullmatch(FEATURE_SET, name, re.ASCII):
        raise Diagnostic(
            f'"{name[:60]}" is no set of features', remedy="name a file of /usr/share/zfs/compatibility.d"
        )
    return name


class Zpool(Layer):
    """A ZFS pool, for filesystems (`zfs`) and volumes (`zvol`).

    The devices are used whole, without a partition table: ZFS gets device nodes of its own, under names that
    it does not take for disks to be partitioned.
    """

    family = "ZFS"
    requires = LowerInterface("block", maximum=None)
    provides = "pool"
    prerequisites = Prerequisites(
        tools=("awk", "cat", "cp", "mkdir", "perl", "rm", "tee", "zpool"), modules=("zfs",)
    )
    allowed = {"properties": POOL, "parameters": PARAMETERS}
    # module/zfs/{spa,zil,zio}.c and module/os/linux/{spl/spl-err,zfs/vdev_disk}.c of OpenZFS 2.4. Wrong
    # checksums are in no log: `damage` asks the pool.
    kernel_log = KernelLog(
        trouble=(
            r"WARNING: [Pp]ool '.*(?:uncorrectable|suspended|could not be loaded|had I/O errors).*",
            r"WARNING: (?:ZFS read log block error|ZFS replay transaction error|zil_parse: ).*",
            r"(?:PANIC(?: at)?|VERIFY\d?\w*\(.*\) failed).*",
            r"zio pool=.*",
        ),
        disk_lost=(r"zio pool=.*",),
    )
    periods_ns = {"transaction group of ZFS": 5 * NS_PER_S}  # zfs_txg_timeout
    packages = ("zfsutils-linux",)
    device_keys = ("log", "cache", "special", "spares")
    rebuilds_used_only: ClassVar[bool] = True
    also_called = ("openzfs", "raidz")

    layer: Literal["zpool"] = "zpool"
    vdev: _Vdev = Field("stripe", examples=["mirror"])
    """What each group of `width` disks is; raidz is raidz1"""
    width: Annotated[StrictInt, Field(ge=1, le=1024)] | None = Field(None, examples=[2])
    """Disks of each vdev; data are striped over the vdevs: four disks, mirror and a width of 2 make two
    mirrors. Default: all disks are one vdev"""
    ashift: Annotated[StrictInt, Field(ge=0, le=63)] | None = Field(None, examples=[12])
    """Binary logarithm of the smallest block, 9 to 16; default: the disks' physical sector"""
    log: list[StrictStr] = Field([], examples=[["log0"]])
    """Devices of a separate intent log; several are a mirror"""
    cache: list[StrictStr] = Field([], examples=[["cache0"]])
    """Devices of the second level of the cache (L2ARC)"""
    special: list[StrictStr] = Field([], examples=[["ssd0", "ssd1"]])
    """Devices for metadata and small blocks; several are a mirror"""
    spares: list[StrictStr] = Field([], examples=[["spare0"]])
    """Hot spares"""
    arc_max_bytes: MemorySize = Field(512 << 20, alias="arc_max", examples=["256MiB"])
    """Upper limit of the cache in memory (ARC), 64MiB at least"""
    autotrim: StrictBool = False
    """Whether freed space is discarded as it is freed"""
    barriers: StrictBool = True
    """Whether the disks' write caches are flushed; false sets zfs_nocacheflush"""
    compatibility: Annotated[StrictStr, AfterValidator(_check_set)] | None = Field(
        None, examples=["openzfs-2.1-linux"]
    )
    """Only the features of this set, such as openzfs-2.1-linux: the name of a file of
    /usr/share/zfs/compatibility.d; default: all features"""
    properties: dict[str, PropertyValue] = Field({}, examples=['{ failmode = "continue" }'])
    """Further properties of zpoolprops(7)"""
    parameters: dict[str, StrictInt | StrictStr] = Field({}, examples=["{ zfs_txg_timeout = 10 }"])
    """Parameters of the kernel module, which are set back at the end; see zfs(4)"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from self._width_diagnostics(lower.count)
        smallest: list[tuple[str | None, int]] = [(None, lower.smallest_bytes)]
        for key, names in self.named_devices().items():
            smallest.append((key, min(named.get(name, _DEVICE_BYTES_MIN) for name in names)))
        for which, smallest_bytes in smallest:
            if smallest_bytes < _DEVICE_BYTES_MIN:
                yield Diagnostic(
                    f"ZFS needs devices of at least {describe_size(_DEVICE_BYTES_MIN)}, and the smallest "
                    f"has {describe_size(smallest_bytes)}",
                    remedy="raise the `capacity` of the device",
                    key=which,
                )
        yield from spare_diagnostics(self.spares, named, max(lower.capacities_bytes))
        if self.ashift is not None and 1 << self.ashift < lower.sector_bytes:
            least = lower.sector_bytes.bit_length() - 1
            yield Diagnostic(
                f"blocks of 2^{self.ashift} bytes are smaller than the sectors below",
                remedy=f"ashift = {least}, or leave it out",
                key="ashift",
            )
        if self.ashift is not None and not 9 <= self.ashift <= 16:
            yield Diagnostic(f"ashift is from 9 to 16, not {self.ashift}", remedy="ashift = 12", key="ashift")
        if self.arc_max_bytes < _ARC_BYTES_MIN:
            yield Diagnostic(
                f"ZFS ignores a limit of the ARC below {describe_size(_ARC_BYTES_MIN)}",
                remedy=f'arc_max = "{describe_size(_ARC_BYTES_MIN)}"',
                key="arc_max",
            )
        yield from property_diagnostics(self.properties, self.allowed["properties"])
        parameters, allowed = self.parameters, self.allowed["parameters"]
        yield from pair_diagnostics("parameter", parameters, allowed, key="parameters")

    def _width_diagnostics(self, count: int) -> Iterator[Diagnostic]:
        width = self._width(count)
        needed = {"stripe": 1, "mirror": 2}.get(self.vdev) or _PARITY[self.vdev] + 1
        if width < needed:
            yield Diagnostic(
                f"a vdev {self.vdev} needs {needed} disks at least, not {width}",
                remedy="add disks to the stack's `devices`" if self.width is None else f"width = {needed}",
                key="vdev" if self.width is None else "width",
            )
        elif self.vdev == "stripe" and width != 1:
            cause = "in a stripe each disk is a vdev of its own"
            yield Diagnostic(cause, remedy="leave `width` out", key="width")
        elif count % width:
            fitting = [str(fit) for fit in range(needed, count + 1) if count % fit == 0]
            yield Diagnostic(
                f"{count} disks cannot be divided into vdevs of {width}",
                remedy=f"width can be {', '.join(fitting)}" if fitting else "change the stack's `devices`",
                key="width",
            )

    def _width(self, count: int) -> int:
        return self.width if self.width is not None else 1 if self.vdev == "stripe" else count

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The capacity without redundancy; each vdev is as large as its smallest disk allows."""
        width = max(self._width(len(lower_bytes)), 1)
        data = 1 if self.vdev in ("stripe", "mirror") else max(width - _PARITY[self.vdev], 0)
        groups = [lower_bytes[first : first + width] for first in range(0, len(lower_bytes), width)]
        return sum(min(group) * data for group in groups)

    def path(self, context: LayerContext) -> str:
        return context.label

    def share(self, context: LayerContext) -> Share | None:
        """The pool itself, in which every dataset has its own name."""
        return Share([], self.path(context), context.fair(self.provided(context.provided)))

    def structures(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Structure]:
        return cache_structures([named[each] for each in self.cache], "second cache of the pool (L2ARC)")

    def caches_direct_io(self) -> bool:
        """In the ARC, at least for filesystems above a zvol."""
        return True

    def with_memory(self, ratio: float) -> Self:
        return self.model_copy(update={"arc_max_bytes": whole_mib(self.arc_max_bytes * ratio)})

    def kernel_memory_bytes(self) -> int:
        """The ARC, which counts in no control group."""
        return self.arc_max_bytes

    def kernel_settings(self) -> Mapping[str, str]:
        return {"arc_max": describe_size(self.arc_max_bytes)}

    def power_risks(self) -> Iterable[str]:
        if not self.barriers:
            yield "barriers = false: it does not flush the disks' write caches"
        if str(self.parameters.get("zil_nocacheflush", 0)) != "0":
            yield "zil_nocacheflush: it does not flush the disks' write caches for its intent log"

    def build(self, context: LayerContext) -> list[Step]:
        named = {"ashift": self.ashift, "autotrim": self.autotrim, "compatibility": self.compatibility}
        properties = {"cachefile": "none", **named, **self.properties}
        make = context.step(
            "make",
            f"Make the pool on {listed(context.devices) or 'what is below'}",
            *("zpool", "create", "-f", "-m", "none", *_VOLUMES, *property_words(properties)),
            *(context.label, *self._vdevs(context)),
            destroys=context.devices,
            time_limit_ns=_MAKE_LIMIT_NS,
            undo=_exported(context),
        )
        at_end = context.during("inspect", f"{context.name}-end")
        # Wrong checksums, corrected or not, which OpenZFS does not log.
        title, find = "See whether the pool has met wrong checksums", ("perl", "-e", FIND_ERRORS)
        undamaged = at_end.act("errors", title, *find, context.label)
        return [*self._prepared(context), make, self._reported(at_end), undamaged]

    def assemble(self, context: LayerContext) -> list[Step]:
        folder = ("-d", _folder(context))
        imported = context.step(
            "import",
            "Import the pool",
            *("zpool", "import", "-f", "-N", "-o", "cachefile=none", *folder, context.label),
            time_limit_ns=_MAKE_LIMIT_NS,
            undo=_exported(context),
        )
        return [*self._prepared(context), imported]

    def _prepared(self, context: LayerContext) -> list[Step]:
        """Set the module's parameters and make the device nodes, before the pool comes up."""
        parameters = {**self.parameters, **({} if self.barriers else {"zfs_nocacheflush": 1})}
        steps = [step for name, value in parameters.items() for step in _set(context, name, str(value))]
        read = ("awk", literal('$1 == "c_max" { print $3 }'), _ARC_STATISTICS)
        steps += _set(context, "zfs_arc_max", str(self.arc_max_bytes), read=read)
        # ZFS ignores a limit of the ARC that is larger than the memory: reporting fails then.
        return [*steps, self._reported(context), *self._nodes(context)]

    def _reported(self, context: LayerContext) -> Step:
        statistics = "^(c|c_max|c_min|size|hits|misses|l2_size|l2_hits)$"
        program = (
            f"$1 ~ /{statistics}/ {{ print $1, $3 }}"
            f' $1 == "c_max" && $3 != {self.arc_max_bytes} {{ wrong = 1 }}'
            " END { exit wrong }"
        )
        return context.step(
            "arc",
            f"Report the ARC, which may hold {describe_size(self.arc_max_bytes)}",
            *("awk", literal(program), _ARC_STATISTICS),
            cwd=context.cwd,
        )

    def _nodes(self, context: LayerContext) -> list[Step]:
        """Nodes of the pool's devices in a folder without others, because ZFS imports all it finds there.

        Besides, ZFS would write a partition table on a node that libefi takes for a disk by its name, and
        wait for udev to make nodes of the partitions.
        """
        folder = _folder(context)
        undo = Command(argv=("rm", "--recursive", "--force", folder))
        made = context.step("folder", "Make the folder of the pool's devices", "mkdir", folder, undo=undo)
        return [made, *(_node(context, path, name) for path, name in self._names(context).items())]

    def _names(self, context: LayerContext) -> dict[str, str]:
        named = [f"${{{name}}}" for names in self.named_devices().values() for name in names]
        paths = dict.fromkeys([*context.lower, *named])
        found = {path: _VARIABLE.fullmatch(path) for path in paths}
        return {
            path: match[1].replace(".", "-part-") if match else f"lower-{index}"
            for index, (path, match) in enumerate(found.items())
        }

    def _vdevs(self, context: LayerContext) -> list[str]:
        nodes = {path: f"{_folder(context)}/{name}" for path, name in self._names(context).items()}
        width = self._width(len(context.lower))
        words: list[str] = []
        for first in range(0, len(context.lower), width):
            words += [] if self.vdev == "stripe" else [self.vdev]
            words += [nodes[path] for path in context.lower[first : first + width]]
        for key, names in self.named_devices().items():
            mirrored = key in ("log", "special") and len(names) > 1
            words += ["spare" if key == "spares" else key, *(["mirror"] if mirrored else [])]
            words += [nodes[f"${{{name}}}"] for name in names]
        return words

    def losses_survived(self, lower: Provided) -> int:
        if self.vdev == "stripe":
            return 0
        return self._width(lower.count) - 1 if self.vdev == "mirror" else _PARITY[self.vdev]

    def sole_copies(self) -> tuple[str, ...]:
        return ("special",) if len(self.special) == 1 else ()

    def rebuild(self, context: LayerContext, lost: str, spare: str) -> list[Step] | None:
        """Replace the disk, as zed does on a machine where it runs."""
        nodes = self._names(context)
        if self.vdev == "stripe" or lost not in nodes:
            return None
        node = nodes.get(spare, "spare")
        added = [] if spare in nodes else [_node(context, spare, node)]
        replace = ("zpool", "replace", "-f", context.label)
        title = "Replace the lost disk by the spare"
        disks = (f"{_folder(context)}/{nodes[lost]}", f"{_folder(context)}/{node}")
        return [*added, context.act("replace", title, *replace, *disks)]

    def rebuilt(self, context: LayerContext) -> list[Step] | None:
        if self.vdev == "stripe":
            return None
        wait = ("zpool", "wait", "-t", "resilver", context.label)
        title = "Wait until the pool is resilvered"
        return [context.act("wait", title, *wait, time_limit_ns=_SCAN_LIMIT_NS)]

    def free_space(self, context: LayerContext) -> list[Step] | None:
        ask = ("zpool", "list", "-H", "-p", "-o", "fragmentation", context.label)
        return [context.act("list", "See how the free space is divided", *ask)]

    def free_space_metrics(self, stdout: str) -> list[FreeSpace]:
        """An index, which is no share of the space."""
        index = int(found(_FRAGMENTATION, stdout.strip(), "zpool"))
        return [FreeSpace("free_space_index", index / 100, "1", "lower")]

    def scrub(self, context: LayerContext) -> list[Step] | None:
        """A scrub starts only after a resilver has ended."""
        scrub = ("zpool", "scrub", "-w", context.label)
        status = ("zpool", "status", "-p", context.label)
        return [
            *(self.rebuilt(context) or ()),
            context.act("run", "Scrub the pool", *scrub, time_limit_ns=_SCAN_LIMIT_NS),
            context.act("status", "See what the scrub found", *status),
        ]

    def verify(self, context: LayerContext) -> list[Step] | None:
        scrub = ("zpool", "scrub", "-w", context.label)
        return [
            context.act("scrub", "Scrub the pool", *scrub, time_limit_ns=_SCAN_LIMIT_NS),
            context.act(
                "errors", "See whether the pool is damaged", "perl", "-e", FIND_ERRORS, context.label
            ),
        ]

    def scrub_errors(self, stdout: str) -> int:
        return scrub_errors_of(stdout)

    def allocated(self, context: LayerContext) -> Step | None:
        taken = ("zpool", "list", "-Hp", "-o", "allocated", context.label)
        return context.act("allocated", "See what the pool has taken of its disks", *taken)

    def allocated_bytes(self, stdout: str) -> int:
        return int(stdout)


def _folder(context: LayerContext) -> str:
    return f"/dev/{context.label}"


def _node(context: LayerContext, path: str, name: str) -> Step:
    copy = ("cp", "--archive", "--dereference", "--no-target-directory", path, f"{_folder(context)}/{name}")
    return context.step(f"node-{name}", f"Give the pool a node of {name}", *copy, cwd=context.cwd)


def _exported(context: LayerContext) -> Command:
    return Command(argv=("zpool", "export", context.label), time_limit_ns=_EXPORT_LIMIT_NS)


def _set(context: LayerContext, name: str, value: str, *, read: tuple[str, ...] = ()) -> list[Step]:
    """Set a parameter of the module; at the end it gets the value back that ``read`` printed."""
    file = f"{_PARAMETERS}/{name}"
    step = name.replace("_", "-")
    before = f"{context.prefix or context.name}-{step}"
    return [
        context.step(f"read-{step}", f"See what {name} is", *(read or ("cat", file)), binds=before),
        context.step(
            f"set-{step}",
            f"Set {name}",
            *("tee", file),
            stdin=literal(f"{value}\n"),
            undo=Command(argv=("tee", file), stdin=f"${{{before}}}\n"),
        ),
    ]
