# SPDX-License-Identifier: Apache-2.0
"""The settings of a machine's kernel and of its disks' queues that a study may state, and their steps.

A knob is a key below, and nothing else: its name is its file's in /proc/sys or in a disk's ``queue`` folder.
The defaults are those of mm/page-writeback.c, mm/vmscan.c, mm/page_alloc.c, fs/dcache.c and block/ of Linux
7.2, which the lab has, and of the profiles of tuned 2.27 where these differ. A distribution may set others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

from strata.diagnostics.names import Diagnostic
from strata.model.step import Prerequisites, Step
from strata.units import Size, describe_size

Percent = Annotated[StrictInt, Field(ge=0, le=100)]
Centiseconds = Annotated[StrictInt, Field(ge=0, le=360_000)]
DirtyBytes = Annotated[Size, Field(ge=8 << 10, le=1 << 40)]

EITHER: Final = {"dirty_ratio": "dirty_bytes", "dirty_background_ratio": "dirty_background_bytes"}
"""Limits that are a share or a size: setting one clears the other."""


class _Knobs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def stated(self) -> dict[str, Any]:
        """The values that the study states, by name in the order to set them."""
        return {name: value for name, value in self if value is not None}


class MemoryKnobs(_Knobs):
    """``sysctl.vm``: settings of writing back and of reclaiming memory."""

    dirty_ratio: Percent | None = Field(None, examples=[5])
    """Dirty pages, in percent of the memory that is not in use, above which writers wait; default: 20;
    tuned's throughput-performance sets dirty_bytes to 40 % of memory, its virtual-guest to 30 %"""
    dirty_background_ratio: Percent | None = Field(None, examples=[2])
    """The same, above which the kernel begins to write back; default: 10"""
    dirty_bytes: DirtyBytes | None = Field(None, examples=["64MiB"])
    """dirty_ratio as a size, which takes its place; default: unset"""
    dirty_background_bytes: DirtyBytes | None = Field(None, examples=["16MiB"])
    """dirty_background_ratio as a size, which takes its place; default: unset"""
    dirty_expire_centisecs: Centiseconds | None = Field(None, examples=[1500])
    """The age at which a dirty page is written back, in hundredths of a second; default: 3000"""
    dirty_writeback_centisecs: Centiseconds | None = Field(None, examples=[100])
    """The period of writing back, in hundredths of a second, 0 for never; default: 500"""
    swappiness: Annotated[StrictInt, Field(ge=0, le=200)] | None = Field(None, examples=[10])
    """How much rather anonymous memory is swapped out than files are dropped; default: 60; tuned's
    throughput-performance has 10, its virtual-guest 30. The lab has no swap"""
    vfs_cache_pressure: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = Field(None, examples=[50])
    """How much rather inodes and names are dropped than pages, in percent; default: 100"""
    min_free_kbytes: Annotated[StrictInt, Field(ge=1024, le=1 << 22)] | None = Field(None, examples=[65536])
    """Memory that is kept free, in KiB; default: the kernel chooses by the size of memory"""
    watermark_scale_factor: Annotated[StrictInt, Field(ge=1, le=3000)] | None = Field(None, examples=[200])
    """The distance at which kswapd begins, in 1/10000 of memory; default: 10"""

    @model_validator(mode="after")
    def _once_each(self) -> MemoryKnobs:
        for ratio, size in EITHER.items():
            if getattr(self, ratio) is not None and getattr(self, size) is not None:
                raise Diagnostic(f"{ratio} and {size} are the same limit", remedy="state one of them")
        return self


class Sysctl(_Knobs):
    """``sysctl``: settings of the machine's kernel."""

    vm: MemoryKnobs = MemoryKnobs()
    """Of memory and writing back"""

    def above(self, lower: Sysctl) -> Sysctl:
        """A stack's settings, and those of its study that the stack does not state."""
        mine, others = self.vm.stated(), lower.vm.stated()
        for pair in EITHER.items():
            if mine.keys() & {*pair}:
                others = {name: value for name, value in others.items() if name not in pair}
        return Sysctl(vm=MemoryKnobs.model_construct(**{**others, **mine}))


class QueueKnobs(_Knobs):
    """``[devices.NAME.queue]``: settings of a disk's queue in the kernel (/sys/block/DISK/queue)."""

    scheduler: Literal["none", "mq-deadline", "bfq", "kyber"] | None = Field(None, examples=["none"])
    """The I/O scheduler; default: mq-deadline of a disk with one queue, as in the lab, and none of a disk
    with several, such as NVMe. A distribution's rules of udev may choose another one"""
    nr_requests: Annotated[StrictInt, Field(ge=4, le=65536)] | None = Field(None, examples=[64])
    """Requests that wait in the queue; default: with a scheduler twice as many as the drive takes, 256 at
    most; without one as many as the drive takes"""
    read_ahead_kb: Annotated[StrictInt, Field(ge=0, le=1 << 20)] | None = Field(None, examples=[4096])
    """The most that is read ahead of a sequential reader, in KiB; default: 128; 4096 by tuned's
    throughput-performance. Of `md` and `lvm` it is a key"""
    rotational: StrictBool | None = Field(None, examples=[False])
    """Whether the kernel takes it for a disk that turns, which btrfs and schedulers ask; default: as it is"""
    wbt_lat_usec: Annotated[StrictInt, Field(ge=0, le=10_000_000)] | None = Field(None, examples=[0])
    """Writing back is throttled so that reads take this long, in µs, 0 for never; default: 75000, 2000
    for a disk that does not turn, 0 under bfq, in the lab as in most distributions"""
    write_cache: Literal["write back", "write through"] | None = Field(None, examples=["write back"])
    """Whether the kernel flushes the disk's cache: with write through it never does, and a disk with a
    volatile cache loses what it acknowledged; default: as the disk says"""
    nomerges: Literal[0, 1, 2] | None = Field(None, examples=[2])
    """How much less the kernel looks for requests to join: 1 not far, 2 not at all; default: 0"""
    max_sectors_kb: Annotated[StrictInt, Field(ge=4, le=1 << 16)] | None = Field(None, examples=[512])
    """The largest request, in KiB; default: 4096 at most, as the disk allows"""

    def power_risk(self) -> str | None:
        """Why a power failure takes acknowledged data, as a clause; None if it does not."""
        if self.write_cache == "write through":
            return "the queue's write_cache = write through keeps flushes from it"
        return None


DEFAULT_SYSCTL: Final = Sysctl()
DEFAULT_QUEUE: Final = QueueKnobs()


def knob_features(sysctl: Sysctl, queues: Mapping[str, QueueKnobs]) -> Prerequisites:
    """The needs of `knob_steps`."""
    found = {f"sysctl:vm.{name}" for name in sysctl.vm.stated()}
    for queue in queues.values():
        found |= {f"queue:{name}" for name in queue.stated()}
        found |= {f"scheduler:{queue.scheduler}"} if queue.scheduler not in (None, "none") else set()
    tools = ("tee", *(("stat",) if any(queue.stated() for queue in queues.values()) else ()))
    return Prerequisites(tools=tools, features=tuple(sorted(found))) if found else Prerequisites()


def knob_steps(sysctl: Sysctl, queues: Mapping[str, QueueKnobs], again: str = "") -> Iterator[Step]:
    """Set the knobs, before anything is built; ``again`` ends the names after a restart."""
    phase: Any = "prepare" if again else "build"

    def step(name: str, title: str, *argv: str, **fields: Any) -> Step:
        return Step(id=f"{name}{again}".replace("_", "-"), phase=phase, title=title, argv=argv, **fields)

    for name, value in sysctl.vm.stated().items():
        title = f"Set vm.{name} to {shown(value, name)}"
        yield step(f"sysctl-vm-{name}", title, "tee", f"/proc/sys/vm/{name}", stdin=f"{value}\n")
    for disk, queue in queues.items():
        if not queue.stated():
            continue
        number = queue_number(disk) + again
        yield step(f"{disk}-queue", *find_number(disk), binds=number)
        for name, value in queue.stated().items():
            text = str(int(value)) if isinstance(value, bool) else str(value)
            title = f"Set {name} of {disk}'s queue to {text}"
            path = f"/sys/dev/block/${{{number}}}/queue/{name}"
            yield step(f"{disk}-queue-{name}", title, "tee", path, stdin=f"{text}\n")


def find_number(disk: str) -> tuple[str, ...]:
    """The title and the command that print a disk's number, such as ``8:16``."""
    return f"Find the number of {disk}", "stat", "--dereference", "--format=%Hr:%Lr", f"${{{disk}}}"


def queue_number(disk: str) -> str:
    """The variable that stands for a disk's number."""
    return f"{disk}-queue"


def shown(value: object, name: str) -> str:
    return describe_size(value) if isinstance(value, int) and name.endswith("_bytes") else f"{value}"
