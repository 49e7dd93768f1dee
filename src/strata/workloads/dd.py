# SPDX-License-Identifier: Apache-2.0
"""dd: one file, or the block device itself, written from end to end and read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, Literal

from strata.diagnostics.names import Diagnostic
from strata.model import page_cache
from strata.model.layer import Interface
from strata.model.metric import Metric, MetricSpec
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import Step
from strata.model.warning import Check
from strata.model.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.units import NS_PER_S, Size, describe_size
from strata.workloads.keys import ZEROS, ZEROS_QUESTION, key, sector_diagnostics

_SOURCES: Final = {"zeros": "/dev/zero", "random": "/dev/urandom"}
_SLACK_NS: Final = 300 * NS_PER_S
# Of direct writes in small blocks; a limit against hanging; slow disks stay below it.
_BYTES_PER_S_MIN: Final = 256 << 10
_COPIED: Final = re.compile(r"^(\d+) bytes? .*copied, ([0-9.e+-]+) s, ", re.MULTILINE)


class Dd(Workload):
    """dd writes one file and reads it back.

    Prepare: `sync`. Measure: dd writes the file; `sync`, timed apart; the caches are dropped; dd reads the
    file. `sync` and the dropping act on the whole machine.
    """

    rationale: ClassVar[str] = (
        "The administrator's first look at a disk: one process writes a large file from end to end, `sync` "
        "forces it out, and the same process reads it back with cold caches. It stresses sequential "
        "bandwidth, allocation of large extents and write-back, or, with oflag, the path of single writes. "
        "It leaves out everything that real loads have besides: concurrency, seeks, small files, metadata. "
        'With content = "zeros" it measures compression and zero detection as much as disks.'
    )
    tools: ClassVar[tuple[str, ...]] = ("dd", *page_cache.TOOLS)
    runs_on: ClassVar[tuple[Interface, ...]] = ("filesystem", "block")
    check_questions: ClassVar[Mapping[str, str]] = ZEROS_QUESTION
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("write_sync_bytes_per_s", "B/s", "higher", "writing, with the final sync"),
        MetricSpec("write_bytes_per_s", "B/s", "higher", "writing as dd reports it: often into memory alone"),
        MetricSpec("read_bytes_per_s", "B/s", "higher", "reading back with cold caches"),
        MetricSpec("sync_ns", "ns", "lower", "the final sync"),
    )
    example: ClassVar[tuple[str, ...]] = ("size",)
    amounts: ClassVar[Mapping[str, int]] = {"size_bytes": 1 << 20}

    workload: Literal["dd"] = "dd"
    content: Literal["zeros", "random"] = key(
        ...,
        "What is written: zeros flatter every stack that compresses, detects zeros or "
        "deduplicates; random bytes come from /dev/urandom, which takes a processor's time",
        "random",
    )
    size_bytes: Size = key(1 << 30, "Size of the file", "2GiB", alias="size")
    bs_bytes: Size = key(1 << 20, "How much is read or written at once", "64KiB", alias="bs")
    oflag: list[Literal["direct", "dsync", "sync"]] = key(
        [], "How the file is opened for writing", ["direct"]
    )
    conv: Literal["fsync", "fdatasync"] | None = key(
        None, "What dd does with the file before it ends; default: nothing", "fsync"
    )
    iflag: list[Literal["direct"]] = key([], "How the file is opened for reading back", ["direct"])

    @property
    def data_bytes(self) -> int:
        return self.size_bytes

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if not self.bs_bytes or not self.size_bytes or self.size_bytes % self.bs_bytes:
            size, block = describe_size(self.size_bytes), describe_size(self.bs_bytes)
            cause = f"{size} are no whole number of blocks of {block}"
            yield Diagnostic(cause, remedy="make size a multiple of bs", key="size")
        is_direct = "direct" in (*self.oflag, *self.iflag)
        yield from sector_diagnostics(self.bs_bytes, is_direct=is_direct, key="bs")
        yield from space_diagnostics("data", self.size_bytes, capacity_bytes, key="size")

    def steps(self, context: WorkloadContext) -> list[Step]:
        file = context.target if context.target_kind == "block" else f"{context.mount_path}/dd.data"
        size = describe_size(self.size_bytes)
        # A read from /dev/urandom may give less than was asked for.
        written = [f"if={_SOURCES[self.content]}", f"of={file}", "iflag=fullblock"]
        written += [f"oflag={','.join(self.oflag)}"] if self.oflag else []
        written += [f"conv={self.conv}"] if self.conv else []
        read = [f"if={file}", "of=/dev/null", *([f"iflag={','.join(self.iflag)}"] if self.iflag else [])]
        return [
            synced(context, "dd-settle", "prepare", "Write back dirty data before dd begins"),
            self._copy(context, "dd-write", f"Write {size} of {self.content} with dd", written),
            synced(context, "dd-sync", "measure", "Write back what dd has left in memory"),
            dropped(context, "dd-drop-caches", "measure"),
            self._copy(context, "dd-read", f"Read {size} back with dd", read),
        ]

    def _copy(self, context: WorkloadContext, step_id: str, title: str, words: Iterable[str]) -> Step:
        argv = ("dd", *words, f"bs={self.bs_bytes}", f"count={self.size_bytes // self.bs_bytes}")
        limit_ns = _SLACK_NS + self.size_bytes // _BYTES_PER_S_MIN * NS_PER_S
        return context.step(step_id, "measure", title, argv, time_limit_ns=limit_ns)

    def checks(self, outputs: Outputs) -> Iterator[Check]:
        if self.content == "zeros":
            yield ZEROS

    def metrics(self, outputs: Outputs) -> list[Metric]:
        write_s, read_s = self._copied_s(outputs, "dd-write"), self._copied_s(outputs, "dd-read")
        sync_ns = outputs.step("dd-sync").duration_ns
        synced_s, size = write_s + sync_ns / NS_PER_S, self.size_bytes
        return [
            Metric.of(
                "write_sync_bytes_per_s",
                size / synced_s,
                "B/s",
                headline=True,
                steps=("dd-write", "dd-sync"),
            ),
            Metric.of("write_bytes_per_s", size / write_s, "B/s"),
            Metric.of("read_bytes_per_s", size / read_s, "B/s", headline=True, steps=("dd-read",)),
            Metric.of("sync_ns", float(sync_ns), "ns"),
        ]

    def _copied_s(self, outputs: Outputs, step_id: str) -> float:
        text = outputs.step(step_id).stderr
        match = _COPIED.search(text)
        if match is None or float(match[2]) <= 0:
            raise unreadable(step_id, "dd does not say how long it took", text)
        if int(match[1]) != self.size_bytes:
            raise unreadable(step_id, f"dd copied {match[1]} bytes of {self.size_bytes}", text)
        return float(match[2])
