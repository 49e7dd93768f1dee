# SPDX-License-Identifier: Apache-2.0
"""bonnie++: twelve phases on one large file and on many small ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictInt

from strata.diagnostics.names import Diagnostic, checked
from strata.model.metric import Metric, MetricSpec
from strata.model.stack import space_diagnostics
from strata.model.step import Step
from strata.model.warning import Check
from strata.model.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.units import MIB, NS_PER_MS, NS_PER_S, NS_PER_US, Size, describe_size, is_power_of_two
from strata.workloads.keys import ZEROS, ZEROS_QUESTION, key, sector_diagnostics, yes_or_no

_STEP: Final = "bonnie-measure"
_FILES_UNIT: Final = 1024
_CHUNK_BYTES_MIN: Final = 256
_CHUNK_BYTES_MAX: Final = 1 << 20
_DIRECTORIES_MAX: Final = 99_999

_SLACK_NS: Final = 600 * NS_PER_S
# Estimates for a slow rotating disk: five passes over the file, three operations on each file, six times.
_BYTES_PER_S_MIN: Final = 2 << 20
_SYNCED_BYTES_PER_S_MIN: Final = 64 << 10
_FILES_PER_S_MIN: Final = 50

_FORMAT: Final = "1.98"
_FIELDS: Final = 50
_TOO_SHORT: Final = "+++++"
_LATENCY: Final = re.compile(r"(\d+)(us|ms|s)")
_LATENCY_UNITS_NS: Final = {"us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}


@dataclass(frozen=True)
class _Phase:
    """A test of bonnie++: its metric, and the fields of its rate (the CPU's share follows) and latency."""

    name: str
    rate: int
    latency: int
    is_bytes: bool
    headline: bool = False


_PHASES: Final = (
    _Phase("byte_write", 9, 38, is_bytes=True),
    _Phase("block_write", 11, 39, is_bytes=True, headline=True),
    _Phase("rewrite", 13, 40, is_bytes=True),
    _Phase("byte_read", 15, 41, is_bytes=True),
    _Phase("block_read", 17, 42, is_bytes=True, headline=True),
    _Phase("random_seeks", 19, 43, is_bytes=False, headline=True),
    _Phase("sequential_creates", 26, 44, is_bytes=False),
    _Phase("sequential_stats", 28, 45, is_bytes=False),
    _Phase("sequential_deletes", 30, 46, is_bytes=False),
    _Phase("random_creates", 32, 47, is_bytes=False),
    _Phase("random_stats", 34, 48, is_bytes=False),
    _Phase("random_deletes", 36, 49, is_bytes=False),
)
_LARGE: Final = "byte_write,byte_read,block_write,block_read"
_SMALL: Final = ",".join(phase.name for phase in _PHASES if phase.rate > 20)
_EVERY: Final = ",".join(phase.name for phase in _PHASES)


MiB = Annotated[
    Size, checked(lambda size: not size % MIB, "bonnie++ counts in whole MiB", 'write for example "512MiB"')
]
Chunk = Annotated[
    Size,
    checked(
        lambda size: _CHUNK_BYTES_MIN <= size <= _CHUNK_BYTES_MAX and is_power_of_two(size),
        "a chunk is a power of two, from 256B to 1MiB",
        'write for example "8KiB"',
    ),
]
Files = Annotated[
    StrictInt,
    Field(ge=0, le=1_000_000_000),
    checked(
        lambda files: not files % _FILES_UNIT,
        "bonnie++ counts files in units of 1024",
        "write for example 16384",
    ),
]


class Bonnie(Workload):
    """bonnie++ 2.00 as the user nobody.

    One run of all phases is the measured window. ``-r 0`` keeps it from comparing the size with the memory,
    which Strata does for every workload.
    """

    rationale: ClassVar[str] = (
        "The classical tour of a filesystem: one process writes a file byte by byte and in chunks, rewrites "
        "it, reads it back both ways and seeks in it from several processes; then thousands of small files "
        "are created, examined and deleted, in the order of their names and at random, as mail spools and "
        "news servers did. With synchronous = true each of these, and each block that is rewritten after a "
        "seek, is followed by an fsync, as in mail servers. Its blocks hold zeros and a few counters: stacks "
        "that compress are flattered. It leaves out concurrency beyond the seekers, and does not show a "
        "filesystem that is full or old."
    )
    tools: ClassVar[tuple[str, ...]] = ("bonnie++",)
    check_questions: ClassVar[Mapping[str, str]] = {
        "phases-long-enough": "did every phase take half a second, so that it has a rate?",
        **ZEROS_QUESTION,
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec(f"{{{_LARGE},rewrite}}_bytes_per_s", "B/s", "higher", "the large file"),
        MetricSpec("random_seeks_per_s", "1/s", "higher", "seeks in it, each with a read, some with a write"),
        MetricSpec(f"{{{_SMALL}}}_per_s", "1/s", "higher", "small files, by name and at random"),
        MetricSpec(f"{{{_EVERY}}}_cpu_share", "1", "lower", "CPU seconds per second, by the kernel's ticks"),
        MetricSpec(f"{{{_EVERY}}}_latency_ns_max", "ns", "lower", "the longest of the phase's operations"),
    )
    example: ClassVar[tuple[str, ...]] = ("files",)
    amounts: ClassVar[Mapping[str, int]] = {"size_bytes": 1 << 20, "seeks": 1, "files": _FILES_UNIT}

    workload: Literal["bonnie"] = "bonnie"
    size_bytes: MiB = key(
        ...,
        "Size of the large file, in whole MiB, at best twice the memory; 0B leaves it out",
        "2GiB",
        alias="size",
    )
    chunk_bytes: Chunk = key(
        8192, "What is read or written of the large file at once", "64KiB", alias="chunk"
    )
    byte_size_bytes: MiB = key(
        3 * MIB, "How much is written and read byte by byte; 0B leaves both out", "0B", alias="byte_size"
    )
    seeks: StrictInt = key(
        8192, "Random seeks; one in ten rewrites the block that it read", 2048, ge=1, le=1_000_000_000
    )
    seekers: StrictInt = key(5, "Processes that seek", 3, ge=1, le=200)
    files: Files = key(16 * _FILES_UNIT, "Small files, a multiple of 1024; 0 leaves them out", 16384)
    file_size_max_bytes: Size = key(0, "Largest small file", "16KiB", alias="file_size_max")
    file_size_min_bytes: Size = key(0, "Smallest small file", "1KiB", alias="file_size_min")
    directories: StrictInt = key(1, "Folders that the small files lie in", 16, ge=1, le=_DIRECTORIES_MAX)
    synchronous: StrictBool = key(
        False,
        "fsync of file and folder after every creation and deletion of a small file, and of the large file "
        "after every seek that rewrites (-b); no other write is synced, although the manual says so",
    )
    direct: StrictBool = key(False, "Direct I/O on the large file (-D)")

    @property
    def data_bytes(self) -> int | None:
        """The large file; the small ones are read while they are in memory."""
        return self.size_bytes or None

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if not self.size_bytes and not self.files:
            yield Diagnostic("nothing is left to be done", remedy="give size or files", key="size")
        if self.file_size_min_bytes > self.file_size_max_bytes:
            cause = "the smallest file is larger than the largest"
            yield Diagnostic(cause, remedy="raise file_size_max", key="file_size_min")
        if self.directories > 1 and not self.files:
            yield Diagnostic("there are folders without files", remedy="give files", key="directories")
        yield from sector_diagnostics(self.chunk_bytes, is_direct=self.direct, key="chunk")
        yield from space_diagnostics("data", self.size_bytes, capacity_bytes, key="size")
        small_bytes = self.files * self.file_size_max_bytes
        yield from space_diagnostics("small files", small_bytes, capacity_bytes, key="files")

    def steps(self, context: WorkloadContext) -> list[Step]:
        title = f"All phases, over {describe_size(self.size_bytes)} and {self.files} small files"
        large_s = 5 * self.size_bytes // (_SYNCED_BYTES_PER_S_MIN if self.synchronous else _BYTES_PER_S_MIN)
        limit_ns = _SLACK_NS + (large_s + 6 * self.files // _FILES_PER_S_MIN) * NS_PER_S
        return [context.step(_STEP, "measure", title, self._argv(context), time_limit_ns=limit_ns)]

    def _argv(self, context: WorkloadContext) -> tuple[str, ...]:
        large = (self.size_bytes // MIB, self.chunk_bytes, self.seeks, self.seekers)
        sizes = (self.file_size_max_bytes, self.file_size_min_bytes)
        small = (self.files // _FILES_UNIT, *sizes, self.directories)
        return (
            *("bonnie++", "-d", context.mount_path),
            # The table goes to standard error, and only the CSV to standard output.
            "-q",
            *("-m", "strata"),
            *("-r", "0"),
            *("-s", ":".join(map(str, large))),
            *("-n", ":".join(map(str, small)) if self.files else "0"),
            # Its value is optional, and so joined to it.
            f"-f{self.byte_size_bytes // MIB}",
            *("-z", str(context.derived_seed("bonnie"))),
            *(["-b"] if self.synchronous else []),
            *(["-D"] if self.direct else []),
        )

    def metrics(self, outputs: Outputs) -> list[Metric]:
        """Rate and CPU share of each phase of half a second at least; the longest latency (3 digits)."""
        fields = _fields(outputs)
        metrics = [metric for phase in _PHASES for metric in _metrics_of(phase, fields)]
        if not any(metric.unit.endswith("/s") for metric in metrics):
            cause = "every phase was shorter than half a second, so that none has a rate"
            raise unreadable(_STEP, cause, ",".join(fields))
        return metrics

    def checks(self, outputs: Outputs) -> Iterator[Check]:
        yield ZEROS
        fields = _fields(outputs)
        short = [phase.name for phase in _PHASES if fields[phase.rate] == _TOO_SHORT]
        detail = f"shorter than 0.5 s, and so without a rate: {', '.join(short)}; raise size or files"
        detail = detail if short else "every phase took 0.5 s at least"
        yield yes_or_no("phases-long-enough", not short, detail)


def _fields(outputs: Outputs) -> list[str]:
    """The values of the CSV line, of format 1.98 (bonnie++ 1.98 to 2.00)."""
    text = outputs.step(_STEP).stdout
    fields = next((line.split(",") for line in text.splitlines() if line.startswith(f"{_FORMAT},")), [])
    if len(fields) != _FIELDS:
        raise unreadable(_STEP, f"bonnie++ printed no line of {_FIELDS} values of format {_FORMAT}", text)
    return fields


def _metrics_of(phase: _Phase, fields: list[str]) -> Iterator[Metric]:
    rate, share, latency = fields[phase.rate], fields[phase.rate + 1], fields[phase.latency]
    if rate not in ("", _TOO_SHORT):
        kind, unit, factor = ("bytes_per_s", "B/s", 1024) if phase.is_bytes else ("per_s", "1/s", 1)
        yield Metric.of(f"{phase.name}_{kind}", _number(rate) * factor, unit, headline=phase.headline)
        yield Metric.of(f"{phase.name}_cpu_share", _number(share) / 100, "1", better="lower")
    if match := _LATENCY.fullmatch(latency):
        longest_ns = int(match[1]) * _LATENCY_UNITS_NS[match[2]]
        yield Metric.of(f"{phase.name}_latency_ns_max", float(longest_ns), "ns")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise unreadable(_STEP, "a value of bonnie++ is no number", text) from None
