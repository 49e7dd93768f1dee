# SPDX-License-Identifier: Apache-2.0
"""sysbench fileio: requests of one size on a set of files, sequential or random."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.model import page_cache
from strata.model.duties import LogsThroughput
from strata.model.histogram import empty_histogram, latency_metrics, record
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import OUTPUT_LIMIT_BYTES, Phase, Step
from strata.model.warning import Check
from strata.model.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.units import NS_PER_MS, NS_PER_S, Size, describe_size
from strata.workloads.keys import (
    ZEROS,
    ZEROS_QUESTION,
    WholeSeconds,
    key,
    option_words,
    preset_diagnostics,
    preset_key,
    sector_diagnostics,
    window_title,
)

SHARED_FIGURES: Final[Mapping[str, str]] = {
    "time_s": r"^ +total time: +([0-9.]+)s$",
    "events": r"^ +total number of events: +([0-9]+)$",
    "latency_ms_max": r"^ +max: +([0-9.]+)$",
    "latency_ms_sum": r"^ +sum: +([0-9.]+)$",
}
"""Patterns of the figures that every test has."""

# The 1024 bins lie between 1 us and 100 s, each 1.8 % above the one before (sb_histogram.c, sb_timer.h).
_BIN: Final = re.compile(r"^ *([0-9]+\.[0-9]+) \|\** +([0-9]+)$", re.MULTILINE)


def figures_of(step_id: str, text: str, patterns: Mapping[str, str]) -> dict[str, float]:
    """The figures that patterns find, each by its first group; a `RunError` if one is missing."""
    figures = {}
    for name, pattern in patterns.items():
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise unreadable(step_id, f"sysbench printed no {name}", text)
        figures[name] = float(match[1])
    return figures


def latencies_of(step_id: str, text: str, figures: Mapping[str, float], events: float) -> list[Metric]:
    """The latencies of ``events`` events: percentiles of the histogram, an exact mean and maximum.

    sysbench must have been run with ``--histogram``; ``figures`` are those of `SHARED_FIGURES`. Its bins are
    1.8 % wide.
    """
    histogram = empty_histogram()
    bins = _BIN.findall(text)
    if not bins or not events:
        raise unreadable(step_id, "sysbench printed no histogram", text)
    for value_ms, count in bins:
        record(histogram, round(float(value_ms) * NS_PER_MS), int(count))
    return latency_metrics(
        histogram,
        latency_ns_mean=round(figures["latency_ms_sum"] * NS_PER_MS) / events,
        latency_ns_max=float(round(figures["latency_ms_max"] * NS_PER_MS)),
    )


Mode = Literal["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"]
Setting = str | int | bool

_READING: Final = ("seqrd", "rndrd", "rndrw")
_WRITING: Final = ("seqwr", "seqrewr", "rndwr", "rndrw")
_CACHED: Final[dict[str, Setting]] = {"fsync_every": 0}
_SYNCED: Final[dict[str, Setting]] = {"fsync_each_write": True}
_SEQUENTIAL_BYTES: Final = 2 << 20
_RANDOM_BYTES: Final = 4 << 10

PRESETS: Final[dict[str, dict[str, Setting]]] = {
    "sequential-write-2m": {"mode": "seqwr", "block_bytes": _SEQUENTIAL_BYTES, **_CACHED},
    "sequential-write-2m-fsync": {"mode": "seqwr", "block_bytes": _SEQUENTIAL_BYTES, **_SYNCED},
    "sequential-rewrite-2m": {"mode": "seqrewr", "block_bytes": _SEQUENTIAL_BYTES, **_CACHED},
    "sequential-rewrite-2m-fsync": {"mode": "seqrewr", "block_bytes": _SEQUENTIAL_BYTES, **_SYNCED},
    "sequential-read-2m": {"mode": "seqrd", "block_bytes": _SEQUENTIAL_BYTES},
    "random-read-4k": {"mode": "rndrd", "block_bytes": _RANDOM_BYTES},
    "random-write-4k": {"mode": "rndwr", "block_bytes": _RANDOM_BYTES, **_CACHED},
    "random-write-4k-fsync": {"mode": "rndwr", "block_bytes": _RANDOM_BYTES, **_SYNCED},
    "random-mix-4k": {"mode": "rndrw", "block_bytes": _RANDOM_BYTES, **_CACHED},
    "random-mix-4k-fsync": {"mode": "rndrw", "block_bytes": _RANDOM_BYTES, **_SYNCED},
}
"""The presets: sets of keys, which the workload's own override singly."""

# sysbench's own.
_DEFAULTS: Final[dict[str, Setting]] = {"block_bytes": 16384, "fsync_every": 100, "fsync_each_write": False}
_SLACK_NS: Final = 600 * NS_PER_S
_LINE_BYTES: Final = 256
_BYTES_PER_S_MIN: Final = 1 << 20
_REQUESTS_PER_S_MIN: Final = 10
_LARGE_BYTES: Final = 64 << 10

_MEASURE: Final = "fileio-measure"
_FIGURES: Final = {
    **SHARED_FIGURES,
    "read": r"^ +reads/s: +([0-9.]+)$",
    "write": r"^ +writes/s: +([0-9.]+)$",
    "fsyncs": r"^ +fsyncs/s: +([0-9.]+)$",
}
_INTERVAL: Final = re.compile(r"^\[ \d+s \] reads: ([0-9.]+) MiB/s writes: ([0-9.]+) MiB/s ", re.MULTILINE)


Count = Annotated[StrictInt, Field(ge=1, le=100_000)]


class SysbenchFileio(LogsThroughput, Workload):
    """sysbench's fileio 1.0 on a set of files.

    Prepare: sysbench makes the files, timed apart as ``prepare_ns``; the caches are dropped. ``seqwr`` makes
    its files itself, in the measured window. Warm-up and measured window are runs of their own with
    different seeds. Without ``duration`` the window has as many requests as there are blocks.
    """

    rationale: ClassVar[str] = (
        "The tables of a database without the database: a fixed set of files, read and written in requests "
        "of one size by a few threads, in sequence or at random, buffered or with an fsync after every "
        "write. Sequential requests of 2 MiB stress bandwidth, random ones of 4 KiB the seeks and the cost "
        "of overwriting, fsyncs the path of a commit. It leaves out growth and metadata: nothing but seqwr "
        "allocates. sysbench's own blocks are zeros, of which a stack that compresses stores nothing; here "
        "they are random unless validate = false says otherwise."
    )
    tools: ClassVar[tuple[str, ...]] = ("mkdir", *page_cache.TOOLS, "sysbench")
    check_questions: ClassVar[Mapping[str, str]] = ZEROS_QUESTION
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("operations_per_s", "1/s", "higher", "reads and writes"),
        MetricSpec("operations", "1", "higher", "completed in the window"),
        MetricSpec("bytes_per_s", "B/s", "higher", "bytes moved"),
        MetricSpec("{read,write}_operations_per_s", "1/s", "higher", "requests of one direction"),
        MetricSpec("{read,write}_bytes_per_s", "B/s", "higher", "bytes moved"),
        MetricSpec("fsyncs_per_s", "1/s", "higher", "fsyncs, also at the end of the window"),
        *latency_metric_specs("of all requests; fsyncs between writes are requests, too"),
        MetricSpec("prepare_ns", "ns", "lower", "making the files"),
    )
    example: ClassVar[tuple[str, ...]] = ("preset",)
    hints: ClassVar[dict[str, str]] = {
        "until": "leave it out: sysbench cannot be ended early with a report of this load"
    }
    amounts: ClassVar[Mapping[str, int]] = {"size_bytes": 1 << 20}

    workload: Literal["sysbench-fileio"] = "sysbench-fileio"
    preset: StrictStr | None = preset_key("A set of keys", PRESETS, "random-write-4k-fsync")
    mode: Mode | None = key(None, "What is done, over that of the preset", "rndrw")
    block_bytes: Size | None = key(None, "Size of each request; default: 16KiB", "4KiB", alias="block")
    size_bytes: Size = key(2 << 30, "Size of all files together", "4GiB", alias="size")
    files: Count = key(128, "How many files there are", 1)
    threads: Count = key(1, "How many threads issue requests", 16)
    io_mode: Literal["sync", "async", "mmap"] = key(
        "sync", "read and write, libaio, or mapped files", "async"
    )
    flags: list[Literal["direct", "dsync", "sync"]] = key([], "How the files are opened", ["direct"])
    fsync_each_write: StrictBool | None = key(
        None, "fsync after every write, of its file; default: false", True
    )
    fsync_every: StrictInt | None = key(
        None, "Fsync all files after this many requests; 0: not; default: 100", 0, ge=0, le=1_000_000_000
    )
    fsync_end: StrictBool = key(True, "fsync all files at the end of the window")
    read_write_ratio: StrictFloat | StrictInt = key(1.5, "Reads for each write in rndrw", ge=0, le=1_000_000)
    validate_blocks: StrictBool = key(
        True,
        "Random content with a checksum in each block, compared by reads; false writes zeros, as "
        "sysbench does by itself: they flatter every stack that compresses or detects them",
        alias="validate",
    )
    warmup_ns: WholeSeconds | None = key(
        None, "Load before the measured window; default: none", "10s", alias="warmup"
    )
    duration_ns: WholeSeconds | None = key(
        None, "The measured window; default: one pass", "60s", alias="duration"
    )

    @property
    def data_bytes(self) -> int:
        return self.size_bytes

    def _setting(self, key: str) -> Setting | None:
        """A key's value: the workload's own, or the preset's, or sysbench's."""
        own: Setting | None = getattr(self, key)
        preset = PRESETS.get(self.preset or "", {})
        return own if own is not None else preset.get(key, _DEFAULTS.get(key))

    @property
    def _block_bytes(self) -> int:
        return int(self._setting("block_bytes") or 0)

    @property
    def _fsync_every(self) -> int:
        return 0 if self._setting("fsync_each_write") else int(self._setting("fsync_every") or 0)

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        yield from preset_diagnostics(self.preset, PRESETS)
        mode = self._setting("mode")
        if mode is None:
            cause = "the study does not say what sysbench shall do"
            yield Diagnostic(cause, remedy='write mode = "rndrw", or a preset', key="mode")
        block_bytes = self._block_bytes
        if not block_bytes or self.size_bytes % (self.files * block_bytes) or not self.size_bytes:
            yield Diagnostic(
                f"{self.files} files of whole blocks of {describe_size(block_bytes)} do not make up "
                f"{describe_size(self.size_bytes)}",
                remedy=f"make size a multiple of {describe_size(self.files * max(block_bytes, 1))}",
                key="size",
            )
        yield from sector_diagnostics(block_bytes, is_direct="direct" in self.flags, key="block")
        if self.duration_ns is None and mode in _WRITING and self._fsync_every:
            yield Diagnostic(
                "sysbench counts fsyncs between writes as requests, and has no option to make one pass",
                remedy='write duration = "60s", fsync_each_write = true or fsync_every = 0',
                key="duration",
            )
        yield from space_diagnostics("files", self.size_bytes, capacity_bytes, key="size")

    def steps(self, context: WorkloadContext) -> list[Step]:
        make = ("mkdir", _folder(context))
        steps = [context.step("fileio-folder", "prepare", "Make the folder of the files", make)]
        if self._setting("mode") != "seqwr":
            title = f"Make {self.files} files of {describe_size(self.size_bytes // self.files)}"
            limit_ns = _SLACK_NS + self.size_bytes // _BYTES_PER_S_MIN * NS_PER_S
            steps += [
                self._sysbench(context, "prepare", title, limit_ns, "prepare"),
                synced(context, "fileio-settle", "prepare", "Write back what sysbench has left in memory"),
                dropped(context, "fileio-drop-caches", "prepare"),
            ]
        if self.warmup_ns is not None:
            steps.append(self._load(context, "warmup", self.warmup_ns))
        return [*steps, self._load(context, "measure", self.duration_ns)]

    def _load(self, context: WorkloadContext, phase: Phase, time_ns: int | None) -> Step:
        shown = ("--histogram=on", "--report-interval=1", "run")
        if time_ns is None:
            requests = self.size_bytes // self._block_bytes
            limit_ns = _SLACK_NS + requests // _REQUESTS_PER_S_MIN * NS_PER_S
            amount, title = ("--time=0", f"--events={requests}"), f"Measure {requests} requests"
            return self._sysbench(context, phase, title, limit_ns, *amount, *shown)
        amount, title = (f"--time={time_ns // NS_PER_S}", "--events=0"), window_title(phase, time_ns)
        return self._sysbench(context, phase, title, 2 * _SLACK_NS + time_ns, *amount, *shown)

    def _sysbench(
        self, context: WorkloadContext, phase: Phase, title: str, limit_ns: int, *words: str
    ) -> Step:
        options = {
            "file-num": self.files,
            "file-total-size": self.size_bytes,
            "file-block-size": self._block_bytes,
            "file-test-mode": self._setting("mode"),
            "file-io-mode": self.io_mode,
            "file-extra-flags": ",".join(self.flags) or None,
            "file-fsync-freq": self._fsync_every,
            "file-fsync-all": "on" if self._setting("fsync_each_write") else "off",
            "file-fsync-end": "on" if self.fsync_end else "off",
            "file-rw-ratio": self.read_write_ratio,
            "validate": "on" if self.validate_blocks else "off",
            "threads": self.threads,
            # Zero would be the time.
            "rand-seed": context.derived_seed(phase) or 1,
        }
        argv = ("sysbench", "fileio", *option_words(options), *words)
        # With a line a second.
        output_bytes = max(OUTPUT_LIMIT_BYTES, limit_ns // NS_PER_S * _LINE_BYTES)
        limits = {"time_limit_ns": limit_ns, "output_limit_bytes": output_bytes}
        return context.step(f"fileio-{phase}", phase, title, argv, cwd=_folder(context), **limits)

    def metrics(self, outputs: Outputs) -> list[Metric]:
        text = outputs.step(_MEASURE).stdout
        figures = figures_of(_MEASURE, text, _FIGURES)
        mode = self._setting("mode")
        directions = [name for name, modes in (("read", _READING), ("write", _WRITING)) if mode in modes]
        operations = sum(figures[name] for name in directions)
        if not operations:
            raise unreadable(_MEASURE, "sysbench completed no request", text)
        is_large = self._block_bytes >= _LARGE_BYTES
        metrics = [
            Metric.of("operations_per_s", operations, "1/s", headline=not is_large),
            Metric.of("operations", round(operations * figures["time_s"]), "1"),
            Metric.of("bytes_per_s", operations * self._block_bytes, "B/s", headline=is_large),
        ]
        for name in directions:
            metrics.append(Metric.of(f"{name}_operations_per_s", figures[name], "1/s"))
            metrics.append(Metric.of(f"{name}_bytes_per_s", figures[name] * self._block_bytes, "B/s"))
        if "write" in directions:
            metrics.append(Metric.of("fsyncs_per_s", figures["fsyncs"], "1/s"))
        metrics += latencies_of(_MEASURE, text, figures, figures["events"])
        if mode != "seqwr":
            metrics.append(outputs.step("fileio-prepare").took("prepare_ns", "prepare"))
        return metrics

    def checks(self, outputs: Outputs) -> Iterator[Check]:
        if not self.validate_blocks:
            yield ZEROS

    def rates_per_s(self, outputs: Outputs) -> Sequence[float]:
        """MiB in each second of the window, as sysbench reports them."""
        found = _INTERVAL.findall(outputs.step(_MEASURE).stdout)
        return [float(read) + float(written) for read, written in found]


def _folder(context: WorkloadContext) -> str:
    return f"{context.mount_path}/fileio"
