# SPDX-License-Identifier: Apache-2.0
"""Storms of small files: created, stated, read and deleted as fast as several threads can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Literal

from pydantic import StrictBool, StrictInt

from strata.diagnostics.names import Diagnostic
from strata.model import page_cache
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import Step
from strata.model.workload import Outputs, Workload, WorkloadContext
from strata.units import NS_PER_S, Size
from strata.workloads.generator.output import (
    PROGRAM,
    Content,
    HandsOver,
    load_result,
    operation_latencies,
    own_folder,
)
from strata.workloads.keys import key, option_words

_PARTS: Final = ("create", "stat", "read", "delete")
_SLACK_NS: Final = 600 * NS_PER_S
# A limit against hanging: a sync for each file on a rotating disk stays below it.
_FILES_PER_S_MIN: Final = 5
_BLOCK_BYTES: Final = 4096
_FILE_BYTES_MAX: Final = 1 << 30


class FileStorm(HandsOver, Content, Workload):
    """Many small files are created, examined, read and deleted, by the load generator.

    Prepare: `sync`. Measure: threads create the files in their folders; everything is written back, timed
    apart; the caches are dropped; they stat all files; the caches are dropped; they read all files; they
    delete them; everything is written back.
    """

    rationale: ClassVar[str] = (
        "The hardest hours of a file server, a mail spool, a cache or a build farm: nothing but metadata. "
        "Threads create as many small files as they can, then stat and read each with cold caches in an "
        "order that is not that of creation, then delete them. It stresses allocation of inodes, folders and "
        "their locks, journals, and how far inodes and content lie apart. It leaves out large files, mixed "
        "loads (each part is of one kind) and, unless fsync is set, durability."
    )
    tools: ClassVar[tuple[str, ...]] = page_cache.TOOLS
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("{create,delete}_files_per_s", "1/s", "higher", "with the sync after it"),
        MetricSpec("{stat,read}_files_per_s", "1/s", "higher", "after the caches were dropped"),
        MetricSpec("{create,stat,read,delete}_ns", "ns", "lower", "the parts of the window"),
        MetricSpec("{create,delete}_sync_ns", "ns", "lower", "the syncs after them"),
        MetricSpec("operations", "1", "higher", "files created, examined, read and deleted"),
        *latency_metric_specs("of one file", "{create,stat,read,delete}_"),
    )
    example: ClassVar[tuple[str, ...]] = ("files", "folders")
    amounts: ClassVar[Mapping[str, int]] = {"files": 1}

    workload: Literal["file-storm"] = "file-storm"
    files: StrictInt = key(20_000, "How many files", 20_000, ge=1, le=100_000_000)
    folders: StrictInt = key(100, "How many folders they are in, by turns", 100, ge=1, le=1_000_000)
    threads: StrictInt = key(4, "Threads; each has its own share of the files", 4, ge=1, le=1024)
    size_bytes: Size = key(_BLOCK_BYTES, "The size of each file", "4KiB", alias="size")
    fsync: StrictBool = key(False, "Force out each file before it is closed", True)
    order: Literal["random", "created"] = key("random", "In which order files are examined, read and deleted")

    @property
    def data_bytes(self) -> int:
        return self.files * -(-self.size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if self.size_bytes > _FILE_BYTES_MAX:
            yield Diagnostic("these are no small files", remedy="make size 1GiB at most", key="size")
        for name in ("folders", "threads"):
            if getattr(self, name) > self.files:
                yield Diagnostic(f"there are more {name} than files", remedy=f"lower {name}", key=name)
        # An inode, its name, and what a filesystem keeps besides: an estimate.
        yield from space_diagnostics(
            "files", self.data_bytes + self.files * 1024, capacity_bytes, key="files"
        )
        yield from self.content_diagnostics()

    def steps(self, context: WorkloadContext) -> list[Step]:
        return [
            synced(context, "storm-settle", "prepare", "Write back dirty data before it begins"),
            self._part(context, "create", f"Create {self.files} files"),
            dropped(context, "storm-drop-before-stat", "measure"),
            self._part(context, "stat", "Look at every file's inode"),
            dropped(context, "storm-drop-before-read", "measure"),
            self._part(context, "read", "Read every file"),
            self._part(context, "delete", "Delete every file"),
        ]

    def _part(self, context: WorkloadContext, part: str, title: str) -> Step:
        common = {
            "directory": own_folder(context, "storm"),
            "seed": context.derived_seed("storm"),
            "threads": self.threads,
            "files": self.files,
            "folders": self.folders,
        }
        creates = part == "create"
        own = {"file-bytes": self.size_bytes, "fsync": self.fsync} if creates else {"order": self.order}
        content = self.content_words if creates else ()
        argv = (
            PROGRAM,
            "storm",
            part,
            *option_words(common),
            *option_words(own),
            *content,
            *self.hand_over_words,
        )
        limit_ns = _SLACK_NS + self.files // _FILES_PER_S_MIN * NS_PER_S
        return context.step(f"storm-{part}", "measure", title, argv, time_limit_ns=limit_ns)

    def metrics(self, outputs: Outputs) -> list[Metric]:
        metrics: list[Metric] = []
        results = {part: load_result(outputs, f"storm-{part}", f"storm-{part}") for part in _PARTS}
        for part, result in results.items():
            took_ns, sync_ns = result["duration_ns"], result["sync_ns"]
            rate = result["files"] * NS_PER_S / max(took_ns + sync_ns, 1)
            metrics.append(
                Metric.of(f"{part}_files_per_s", rate, "1/s", headline=True, steps=(f"storm-{part}",))
            )
            metrics.append(Metric.of(f"{part}_ns", float(took_ns), "ns"))
            if part not in ("stat", "read"):
                metrics.append(Metric.of(f"{part}_sync_ns", float(sync_ns), "ns"))
            metrics += operation_latencies(result["operations"][part], f"{part}_latency_ns")
        done = sum(result["files"] for result in results.values())
        return [*metrics, Metric.of("operations", float(done), "1")]
