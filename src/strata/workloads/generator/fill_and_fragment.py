# SPDX-License-Identifier: Apache-2.0
"""Fill and fragment: large files are written, random extents of them rewritten, and all read linearly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, Literal

from pydantic import StrictBool, StrictInt

from strata.diagnostics.names import Diagnostic
from strata.model import page_cache
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import Phase, Step
from strata.model.workload import Outputs, Workload, WorkloadContext
from strata.units import NS_PER_S, Size, describe_size
from strata.workloads.generator.output import (
    PROGRAM,
    Content,
    extents_result,
    load_result,
    operation_latencies,
    own_folder,
)
from strata.workloads.keys import key, option_words

_SLACK_NS: Final = 600 * NS_PER_S
# Limits against hanging; slow disks stay below them.
_BYTES_PER_S_MIN: Final = 256 << 10
_EXTENTS_PER_S_MIN: Final = 5
_BLOCK_BYTES: Final = 4096
_IO_BYTES_MAX: Final = 256 << 20


class FillAndFragment(Content, Workload):
    """Writers fill large files; random extents are rewritten; one reader reads everything linearly.

    Prepare: several writers (threads, each with its own opened file) fill a file each, or their parts of one,
    and everything is written back; the files' extents are counted; the files are read with cold caches. Then
    ``before_measure`` may take a snapshot, so that rewritten data must be kept as well. Measure: random
    extents are rewritten in place and written back; with cold caches the files are read again, and their
    extents counted.
    """

    rationale: ClassVar[str] = (
        "What becomes of large files in use: images of virtual machines, tablespaces, mailboxes in one file. "
        "They are written side by side, then changed in small pieces at random places, often below a "
        "snapshot, and one day read from end to end: a backup, a scan of a table. It stresses what copying "
        "on write and thin provisioning do to the order on the disk, and what write amplification they pay "
        "at once; filesystems that overwrite in place should not notice. It leaves out ageing over weeks, "
        "deletion and full filesystems."
    )
    tools: ClassVar[tuple[str, ...]] = page_cache.TOOLS
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("{fill,rewrite}_bytes_per_s", "B/s", "higher", "with the sync after it"),
        MetricSpec(
            "read_{before,after}_bytes_per_s", "B/s", "higher", "linearly, after the caches were dropped"
        ),
        MetricSpec("read_time_ratio", "1", "lower", "how many times as long the second reading took"),
        MetricSpec("{fill,rewrite}_sync_ns", "ns", "lower", "the syncs"),
        *latency_metric_specs("of a write of an extent", "rewrite_"),
        MetricSpec("extents_per_file_{before,after}", "1", "lower", "pieces of a file, if reported"),
        MetricSpec("bytes_per_extent_{before,after}", "B", "higher", "size of a piece, if reported"),
    )
    example: ClassVar[tuple[str, ...]] = ("size", "extents")
    amounts: ClassVar[Mapping[str, int]] = {"size_bytes": 1 << 20, "extents": 1}

    workload: Literal["fill-and-fragment"] = "fill-and-fragment"
    writers: StrictInt = key(4, "Writers, each of which fills a file", 4, ge=1, le=1024)
    size_bytes: Size = key(
        512 << 20, "The size of each file, or of each writer's part of the joint one", "256MiB", alias="size"
    )
    joint: StrictBool = key(False, "All writers fill parts of one file", True)
    write_size_bytes: Size = key(64 << 10, "How much a writer writes at once", alias="write_size")
    sync_every_bytes: Size | None = key(
        None,
        "A writer syncs its file after this many bytes, as a database does; default: never",
        "1MiB",
        alias="sync_every",
    )
    extents: StrictInt = key(
        4000, "How many extents are rewritten, at random places", 4000, ge=1, le=100_000_000
    )
    extent_size_bytes: Size = key(16 << 10, "The size of each", "64KiB", alias="extent_size")
    direct: StrictBool = key(
        False, "Rewrite past the page cache; otherwise rewritten data are written back at the end", True
    )

    @property
    def data_bytes(self) -> int:
        return self.writers * self.size_bytes

    @property
    def streamed_bytes(self) -> int:
        return 3 * self.data_bytes  # written, and read before and after extents are rewritten

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        sizes = {"size": self.size_bytes, "sync_every": self.sync_every_bytes}
        pieces = {"write_size": self.write_size_bytes, "extent_size": self.extent_size_bytes}
        for name, size in {**sizes, **pieces}.items():
            if size is not None and (size == 0 or size % _BLOCK_BYTES):
                yield Diagnostic("it is no whole number of blocks of 4KiB", remedy='write "64KiB"', key=name)
        for name, size in pieces.items():
            if size > min(self.size_bytes, _IO_BYTES_MAX):
                cause = f"{describe_size(size)} at once is more than a file, or than 256MiB"
                yield Diagnostic(cause, remedy=f"lower {name}", key=name)
        # Without overwriting in place, rewritten data take their space again.
        needed_bytes = self.data_bytes + min(self.extents * self.extent_size_bytes, self.data_bytes)
        yield from space_diagnostics("files and rewritten data", needed_bytes, capacity_bytes, key="size")
        yield from self.content_diagnostics()

    def steps(self, context: WorkloadContext) -> list[Step]:
        fill = {"write-bytes": self.write_size_bytes, "sync-every-bytes": self.sync_every_bytes}
        filled = f"Fill files of {describe_size(self.data_bytes)} by {self.writers} writers"
        rewrite = {"extents": self.extents, "extent-bytes": self.extent_size_bytes, "direct": self.direct}
        rewritten = f"Rewrite {self.extents} extents of {describe_size(self.extent_size_bytes)}"
        seed = {"seed": context.derived_seed("fragment")}
        words = [(*option_words({**seed, **each}), *self.content_words) for each in (fill, rewrite)]
        return [
            synced(context, "fragment-settle", "prepare", "Write back dirty data before it begins"),
            self._part(context, "fill", "prepare", filled, *words[0]),
            self._count(context, "before", "prepare"),
            *self._read(context, "before", "prepare"),
            self._part(context, "rewrite", "measure", rewritten, *words[1]),
            *self._read(context, "after", "measure"),
            self._count(context, "after", "inspect"),
        ]

    def _part(
        self, context: WorkloadContext, part: str, phase: Phase, title: str, *words: str, suffix: str = ""
    ) -> Step:
        common = {
            "directory": own_folder(context, "fragment"),
            "files": self.writers,
            "file-bytes": self.size_bytes,
            "joint": self.joint,
        }
        limit_s = self.data_bytes // _BYTES_PER_S_MIN + self.extents // _EXTENTS_PER_S_MIN
        argv, limit_ns = (PROGRAM, "fragment", part, *option_words(common), *words), limit_s * NS_PER_S
        step_id = f"fragment-{part}{suffix}"
        return context.step(step_id, phase, title, argv, time_limit_ns=_SLACK_NS + limit_ns)

    def _read(self, context: WorkloadContext, when: str, phase: Phase) -> list[Step]:
        title = f"Read all files linearly, {when} extents were rewritten"
        return [
            dropped(context, f"fragment-drop-caches-{when}", phase),
            self._part(context, "read", phase, title, suffix=f"-{when}"),
        ]

    def _count(self, context: WorkloadContext, when: str, phase: Phase) -> Step:
        title = f"Count the files' extents, {when} some were rewritten"
        argv = (PROGRAM, "extents", own_folder(context, "fragment"))
        return context.step(f"fragment-extents-{when}", phase, title, argv, time_limit_ns=_SLACK_NS)

    def metrics(self, outputs: Outputs) -> list[Metric]:
        results = {
            step: load_result(outputs, f"fragment-{step}", f"fragment-{step.partition('-')[0]}")
            for step in ("fill", "read-before", "rewrite", "read-after")
        }
        fill, before, rewrite, after = results.values()
        metrics = []
        for step, result in results.items():
            rate = result["bytes"] * NS_PER_S / max(result["duration_ns"] + result["sync_ns"], 1)
            late = step in ("rewrite", "read-after")
            marks = {
                "phase": "measure" if late else "prepare",
                "headline": late,
                "steps": (f"fragment-{step}",),
            }
            metrics.append(Metric.of(f"{step.replace('-', '_')}_bytes_per_s", rate, "B/s", **marks))
        ratio = after["duration_ns"] / max(before["duration_ns"], 1)
        return [
            *metrics,
            Metric.of("read_time_ratio", ratio, "1", better="lower", headline=True),
            Metric.of("fill_sync_ns", float(fill["sync_ns"]), "ns", phase="prepare"),
            Metric.of("rewrite_sync_ns", float(rewrite["sync_ns"]), "ns"),
            *operation_latencies(rewrite["operations"]["write"], "rewrite_latency_ns"),
            *_extents(outputs, "before", "prepare"),
            *_extents(outputs, "after", "inspect"),
        ]


def _extents(outputs: Outputs, when: str, phase: Phase) -> Iterator[Metric]:
    """Extents per file; none on a filesystem that does not report them."""
    found = extents_result(outputs, f"fragment-extents-{when}")
    if found is not None:
        mean = found.per_file["mean"]
        yield Metric.of(f"extents_per_file_{when}", mean, "1", better="lower", phase=phase)
        if found.bytes_mean is not None:
            yield Metric.of(f"bytes_per_extent_{when}", found.bytes_mean, "B", phase=phase)
