# SPDX-License-Identifier: Apache-2.0
"""bcache: a block device behind a cache on another one, usually a flash drive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StrictStr

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.layers.options import aligned_bytes, cache_structures, power_of_two, whole
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided
from strata.model.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, NS_PER_US, Duration, Size, describe_size
from strata.words import listed

_REGISTER: Final = "/sys/fs/bcache/register_quiet"
# Where data begin on the backing device when nothing is striped; the default of make-bcache.
_DATA_OFFSET_BYTES: Final = 8 << 10
# The kernel refuses a cache with fewer (cache_alloc in drivers/md/bcache/super.c of Linux 7.2).
_BUCKETS_MIN: Final = 513
_STOP_LIMIT_NS: Final = 600 * NS_PER_S


class Bcache(Layer):
    """A block device whose hot blocks lie on the device ``cache``.

    Dirty blocks stay in the cache when it is taken down, and are there when it is assembled again.
    """

    family = "caches, encryption, integrity"
    requires = LowerInterface("block")
    provides = "block"
    prerequisites = Prerequisites(
        tools=("find", "lsblk", "make-bcache", "realpath", "tee", "wipefs"), features=("bcache",)
    )
    # drivers/md/bcache/{btree,io,journal,request,super}.c of Linux 7.2, whose messages name the function.
    kernel_log = KernelLog(
        trouble=(
            r"bcache: \w+\(\) .*(?:IO error|disabling caching|missing! \(replaying|I/O disabled"
            r"|device offline|bad csum|bad magic|Can't flush|Key skipped backwards|BUG: |gc failed).*",
        )
    )
    packages = ("bcache-tools",)
    device_keys = ("cache",)

    layer: Literal["bcache"] = "bcache"
    cache: StrictStr = Field(examples=["ssd"])
    """The study's device that caches"""
    mode: Literal["writethrough", "writeback", "writearound", "none"] = "writethrough"
    """Where writes go: to both devices at once, to the cache first, or past the cache; with none nothing is
    cached at all"""
    bucket_bytes: Annotated[Size, power_of_two(4 << 10, 16 << 20)] = Field(
        512 << 10, alias="bucket", examples=["1MiB"]
    )
    """What the cache allocates and gives up as one piece, a power of two from 4KiB to 16MiB; a cache has more
    than 512 of them"""
    block_bytes: Annotated[Size, power_of_two(512, 4 << 10)] = Field(512, alias="block", examples=["4KiB"])
    """Logical sectors of the cached device, and the least that is cached, a power of two from 512B to 4KiB"""
    replacement: Literal["lru", "fifo"] = "lru"
    """Which bucket is given up"""
    sequential_cutoff_bytes: Size | None = Field(None, alias="sequential_cutoff", examples=["0B"])
    """Sequential I/O longer than this goes past the cache, 0B: none; default: 4 MiB"""
    writeback_percent: Annotated[int, Field(ge=0, le=40)] | None = Field(None, examples=[40])
    """How much of the cache may be dirty before it is written back faster; default: 10"""
    writeback_delay_ns: Annotated[Duration, whole(NS_PER_S, "seconds")] | None = Field(
        None, alias="writeback_delay", examples=["5s"]
    )
    """How long something is dirty before it is written back, in whole seconds; default: 30 s"""
    congested_read_threshold_ns: Duration | None = Field(
        None, alias="congested_read_threshold", examples=["0s"]
    )
    """A read of the cache that takes longer lets some requests go past it, 0s: never; default: 2 ms"""
    congested_write_threshold_ns: Duration | None = Field(
        None, alias="congested_write_threshold", examples=["0s"]
    )
    """The same for writes; default: 20 ms"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        if self.block_bytes > self.bucket_bytes // 8:
            yield Diagnostic(
                f"a bucket of {describe_size(self.bucket_bytes)} is too small for blocks of "
                f"{describe_size(self.block_bytes)}",
                remedy="give a larger bucket, or leave it out for 512KiB",
                key="bucket",
            )
        if self.block_bytes < lower.sector_bytes:
            yield Diagnostic(
                f"blocks of {describe_size(self.block_bytes)} are smaller than the sectors below, of "
                f"{describe_size(lower.sector_bytes)}",
                remedy=f'write block = "{describe_size(lower.sector_bytes)}"',
                key="block",
            )
        if named[self.cache] // self.bucket_bytes < _BUCKETS_MIN:
            yield Diagnostic(
                f"a cache has {_BUCKETS_MIN} buckets at least, of {describe_size(self.bucket_bytes)}, and "
                f"{self.cache} has {describe_size(named[self.cache])}",
                remedy="raise the `capacity` of the device, or give a smaller `bucket`",
                key="cache",
            )
        if lower.smallest_bytes <= aligned_bytes(_DATA_OFFSET_BYTES, lower):
            yield Diagnostic(
                "nothing is left beside the superblock", remedy="raise the `capacity` of the device"
            )

    def provided(self, lower: Provided) -> Provided:
        data_bytes = max(0, lower.smallest_bytes - aligned_bytes(_DATA_OFFSET_BYTES, lower))
        return lower.of(data_bytes).with_sectors(self.block_bytes)

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        return self.provided(Provided("block", tuple(lower_bytes))).smallest_bytes

    def structures(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Structure]:
        return cache_structures([named[self.cache]], "cache of bcache")

    def tables_bytes(self, named: Mapping[str, int]) -> int:
        """A struct bucket for each bucket."""
        return named[self.cache] // self.bucket_bytes * 12

    def sole_copies(self) -> tuple[str, ...]:
        return ("cache",) if self.mode == "writeback" else ()

    def path(self, context: LayerContext) -> str:
        return f"/dev/{_node(context)}"

    def build(self, context: LayerContext) -> list[Step]:
        cache, backing = f"${{{self.cache}}}", context.lower[0]
        sizes = ["--bucket", str(self.bucket_bytes), "--block", str(self.block_bytes)]
        offset = ["--data-offset", str(aligned_bytes(_DATA_OFFSET_BYTES, context.provided) // 512)]
        where = listed(context.devices)
        policy = f"--cache_replacement_policy={self.replacement}"
        # make-bcache refuses a device with a known signature.
        wipe = ("wipefs", "--all", "--quiet", backing, cache)
        make = ("make-bcache", "--cset-uuid", _set(context), *sizes, *offset, policy, "--cache", cache)
        destroys = {"destroys": context.devices}
        return [
            context.step("wipe", f"Remove what is recognised on {where}", *wipe, **destroys),
            context.step(
                "make", f"Make the cache and what it caches on {where}", *make, "--bdev", backing, **destroys
            ),
            *self.assemble(context),
        ]

    def assemble(self, context: LayerContext) -> list[Step]:
        """Register both devices and set what the superblocks do not hold.

        Stopping is asynchronous: the undos of registering start it, those of the first steps wait for it.
        """
        cache, backing = (
            f"/sys/dev/block/${{{context.name}-{which}}}/bcache" for which in ("cache", "backing")
        )
        members = f"/sys/fs/bcache/{_set(context)}"
        return [
            _find(context, "cache", f"${{{self.cache}}}", undo=_ended(cache)),
            _find(context, "backing", context.lower[0], undo=_ended(backing)),
            _write(
                context,
                "register-cache",
                "Register the cache",
                (_REGISTER, f"${{{self.cache}}}"),
                undo=Command(argv=("tee", f"{members}/stop"), stdin="1\n"),
            ),
            # Some kernels register in the background.
            context.step("await-cache", "Wait for the cache", *_until("test", "-e", f"{members}/cache0")),
            _write(
                context,
                "register",
                "Register what is cached",
                (_REGISTER, context.lower[0]),
                undo=Command(argv=("tee", f"{backing}/stop"), stdin="1\n"),
            ),
            context.step("await", "Wait for the device", *_until("test", "-e", f"{backing}/dev")),
            context.step(
                "find",
                "Find the name of the device",
                *("realpath", "--canonicalize-existing", "--relative-to=/sys/devices/virtual/block"),
                f"{backing}/dev",
                binds=f"{context.name}-node",
            ),
            *self._settings(context, members),
        ]

    def _settings(self, context: LayerContext, members: str) -> Iterable[Step]:
        device = f"/sys/block/{_node(context)}/bcache"
        for folder, name, value, unit_ns in (
            (device, "cache_mode", self.mode, 1),
            (device, "sequential_cutoff", self.sequential_cutoff_bytes, 1),
            (device, "writeback_percent", self.writeback_percent, 1),
            (device, "writeback_delay", self.writeback_delay_ns, NS_PER_S),
            (members, "congested_read_threshold_us", self.congested_read_threshold_ns, NS_PER_US),
            (members, "congested_write_threshold_us", self.congested_write_threshold_ns, NS_PER_US),
        ):
            if value is not None:
                text = value if isinstance(value, str) else str(value // unit_ns)
                title = f"Set {name.replace('_', ' ')}"
                yield _write(context, name.replace("_", "-"), title, (f"{folder}/{name}", text))


def _set(context: LayerContext) -> str:
    return str(context.derived_uuid("set"))


def _node(context: LayerContext) -> str:
    return f"${{{context.name}-node}}"


def _write(context: LayerContext, name: str, title: str, place: tuple[str, str], **fields: Any) -> Step:
    path, value = place
    return context.step(name, title, "tee", path, stdin=f"{value}\n", **fields)


def _find(context: LayerContext, which: str, path: str, **fields: Any) -> Step:
    """Bind the device's numbers in the kernel; a stack's path may be a link."""
    look = ("lsblk", "--noheadings", "--nodeps", "--raw", "--output", "MAJ:MIN", path)
    fields["binds"] = f"{context.name}-{which}"
    return context.step(f"find-{which}", f"Find the number of the {which} device", *look, **fields)


def _ended(folder: str) -> Command:
    return Command(argv=_until("test", "!", "-e", folder), time_limit_ns=_STOP_LIMIT_NS)


def _until(*test: str) -> tuple[str, ...]:
    """Poll until the command ``test`` succeeds, then wait a moment.

    find runs it for each of the thousand entries of a folder, as a loop. After a bcache device has left
    sysfs, the kernel holds the devices below for some clock ticks.
    """
    poll = ("-exec", *test, ";", "-exec", "sleep", "0.2", ";", "-quit", "-o", "-exec", "sleep", "0.1", ";")
    return ("find", "/proc/sys", *poll)
