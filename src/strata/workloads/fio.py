# SPDX-License-Identifier: Apache-2.0
"""fio on one file of the measured stack, or on the block device that it ends in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic, checked
from strata.model.allowed import Forms, option_text, pair_diagnostics
from strata.model.duties import EndsWhenKnown
from strata.model.find import OpenLoop
from strata.model.histogram import empty_histogram, latency_metrics, record
from strata.model.layer import Interface, Placed
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.stack import space_diagnostics
from strata.model.step import Phase, Step, literal
from strata.model.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.units import NS_PER_MS, NS_PER_S, Size, describe_size
from strata.workloads import fio_job
from strata.workloads.fio_options import OPTIONS, block_sizes_bytes, buffer_bytes, owned
from strata.workloads.fio_until import telling
from strata.workloads.keys import (
    WholeMilliseconds,
    key,
    option_words,
    preset_diagnostics,
    preset_key,
    window_title,
)

Option = StrictStr | StrictInt | StrictFloat | StrictBool

PRESETS: Final[dict[str, dict[str, Option]]] = {
    "random-mix-4k": {
        "rw": "randrw", "rwmixread": 75, "bs": "4k", "ioengine": "libaio", "direct": 1, "iodepth": 16,
    },
    "random-read-4k": {"rw": "randread", "bs": "4k", "ioengine": "libaio", "direct": 1, "iodepth": 1},
    "random-write-4k": {"rw": "randwrite", "bs": "4k", "ioengine": "libaio", "direct": 1, "iodepth": 16},
    "sequential-read-1m": {"rw": "read", "bs": "1m", "ioengine": "libaio", "direct": 1, "iodepth": 4},
    "sequential-write-1m": {"rw": "write", "bs": "1m", "ioengine": "libaio", "direct": 1, "iodepth": 4},
    "fsync-write-4k": {"rw": "randwrite", "bs": "4k", "ioengine": "psync", "fsync": 1},
    "verify-random-write-4k": {
        "rw": "randwrite", "bs": "4k", "ioengine": "libaio", "direct": 1, "iodepth": 16,
        "verify": "crc32c", "verify_fatal": 1,
    },
}  # fmt: skip
"""The presets: sets of fio options, which ``options`` overrides singly. All of them measure overwriting."""

File = Literal["new", "preallocated", "overwritten"]

_FILES: Final[Mapping[File, str]] = {
    "new": "a new file, block by block",
    "preallocated": "a new file, whose space fio has set aside (fallocate): each block's first write changes "
    "the filesystem's extents",
    "overwritten": "blocks that were written before",
}
_READING: Final = (
    "read",
    "randread",
    "rw",
    "readwrite",
    "randrw",
    "trim",
    "randtrim",
    "trimwrite",
    "randtrimwrite",
)
_OF_NEW_FILES: Final = ("create_on_open", "file_append", "fallocate")

_STATED: Final = (
    *("buffer_compress_percentage", "buffer_compress_chunk"),
    *("dedupe_percentage", "dedupe_mode", "dedupe_working_set_percentage"),
)
"""The options that the content of the file follows, too."""
_OF_PRESETS: Final = ("preset", "options", "file", "warmup_ns", "rate_per_s", "find")
_CLOCKED: Final[Mapping[str, object]] = {
    "thread": 1,
    "clocksource": "clock_gettime",
    # fio ignores the seed while randrepeat is set, and its default sets it.
    "randrepeat": 0,
}
_PERCENTILES: Final[Mapping[str, object]] = {"lat_percentiles": 1, "clat_percentiles": 0}
_SLACK_NS: Final = 300 * NS_PER_S
_WRITE_BYTES_PER_S_MIN: Final = 1 << 20
_PRINTED: Final[Mapping[str, object]] = {"output-format": "json+", "eta": "never"}
_SEQUENTIAL_BYTES: Final = 64 << 10
_BUFFER_BYTES_MAX: Final = 4 << 30


FileSize = Annotated[
    Size,
    checked(
        lambda size: size >= 1 << 20 and not size % 4096,
        "the file's size must be a multiple of 4KiB, from 1MiB on",
        'write for example "2GiB"',
    ),
]


class Fio(EndsWhenKnown, OpenLoop):
    """fio on one file of the measured stack.

    Prepare: a file that is read or overwritten is written from end to end and synced. In the lab a disk
    without layers is not, where a read costs the same whether or not something was written: flash needs
    ``precondition = "filled"`` for that. ``file`` says what writes find: fio itself overwrites nothing unless
    it is asked to. Warm-up and measured window are runs of their own with different seeds, so that the
    disks' accounts of the measured phase hold the window alone; fio has no sessions that would be cold.
    Without ``duration`` the window is one pass over the file, which ``verify`` needs. fio's buffers hold
    random bytes, unless ``options`` say otherwise; the file is as compressible and as full of copies as they
    say.

    With ``job`` fio runs a job file as it is, in place of all that: its files lie on the stack, or are the
    stack's device. Prepare: fio makes the files of all sections. Each group of sections between stonewalls is
    a measured step of its own, each section has metrics of its own.
    """

    rationale: ClassVar[str] = (
        "Requests of one size and pattern at a fixed depth, as a virtual machine or the engine of a database "
        "issues them. It shows how the stack handles single requests, without pauses between them; "
        "of metadata only the file's own change."
    )
    tools: ClassVar[tuple[str, ...]] = ("blockdev", "fio")
    telling_tools: ClassVar[tuple[str, ...]] = ("cat", "fio", "mawk")
    runs_on: ClassVar[tuple[Interface, ...]] = ("filesystem", "block")
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("operations_per_s", "1/s", "higher", "requests completed, reads that verify left out"),
        MetricSpec("bytes_per_s", "B/s", "higher", "bytes moved"),
        MetricSpec("operations", "1", "higher", "completed requests; reads that verify are not counted"),
        MetricSpec("{read,write,trim,verify}_operations_per_s", "1/s", "higher", "requests of one direction"),
        MetricSpec("{read,write,trim,verify}_bytes_per_s", "B/s", "higher", "bytes moved"),
        *latency_metric_specs("from submission to completion, by direction", "{read,write,trim,verify}_"),
        *latency_metric_specs("of fsync and fdatasync", "sync_"),
        MetricSpec("<section>_operations_per_s", "1/s", "higher", "of a job file: requests of one section"),
        MetricSpec("<section>_bytes_per_s", "B/s", "higher", "bytes moved by a section"),
        MetricSpec("<section>_operations", "1", "higher", "completed requests of a section"),
        *latency_metric_specs("of a section", "<section>_{read,write,trim,verify,sync}_"),
    )
    example: ClassVar[tuple[str, ...]] = ("preset", "size", "duration")
    allowed: ClassVar[Mapping[str, Forms]] = {"options": OPTIONS}
    amounts: ClassVar[Mapping[str, int]] = {"size_bytes": 1 << 20}
    metrics_version: ClassVar[int] = 2
    hints: ClassVar[dict[str, str]] = Workload.hints | dict.fromkeys(
        ("jobfile", "job_file"), 'a job file beside the study: job = "load.fio"'
    )

    workload: Literal["fio"] = "fio"
    preset: StrictStr | None = preset_key(
        "A set of options, by which writes overwrite", PRESETS, "random-mix-4k"
    )
    options: dict[str, Option] = key({}, "fio's options, over those of the preset", {"iodepth": 32})
    file: File | None = key(
        None,
        "What the writes find: a new file, one whose space is set aside before (fallocate), or one that was "
        "written before. Default: of a preset overwritten, else fio's own for what is asked, so preallocated "
        "if nothing is read",
        "new",
    )
    size_bytes: FileSize = key(1 << 30, "Size of the file", "2GiB", alias="size")
    warmup_ns: WholeMilliseconds | None = key(
        None, "Load before the measured window; default: none", "5s", alias="warmup"
    )
    duration_ns: WholeMilliseconds | None = key(
        None, "The measured window; default: one pass over the file", "60s", alias="duration"
    )

    rate_per_s: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = key(
        None,
        "Open loop: this many requests a second are issued, at random times (a Poisson process), divided "
        "among jobs and directions, as long as the queue's depth is not reached; default: as fast as they "
        "complete",
        500,
        alias="rate",
    )

    job: StrictStr | None = key(
        None,
        "A job file beside the study, which fio runs as it is on the stack; `size` and `duration` beside it "
        "are put over those of its sections",
        "load.fio",
    )
    job_text: StrictStr | None = key(None, "The same as text", "[reads]\nrw=randread\nsize=64m")
    job_includes: dict[StrictStr, StrictStr] = key(
        {}, "The texts that it includes, by name; with `job` they are read", {"common.inc": "[global]\nbs=4k"}
    )
    variables: dict[StrictStr, StrictStr] = key(
        {}, "Values for ${NAME} in the job file, which fio takes from the environment", {"SIZE": "64m"}
    )

    @classmethod
    def with_texts(cls, table: dict[str, Any], read: Callable[..., str]) -> None:
        fio_job.with_job_texts(table, read)

    @property
    def _job(self) -> fio_job.Job | None:
        if self.job_text is None:
            return None
        return fio_job.read_job(self.job_text, self.job_includes, self.variables)

    @property
    def _states_size(self) -> bool:
        return "size_bytes" in self.model_fields_set

    @property
    def _sections_size(self) -> bool:
        """Whether the sizes are those of a job's sections; a stated size would be put over them."""
        return self.job_text is not None and not self._states_size

    def scaled(self, share: float) -> Self:
        whole = super().scaled(share)
        return self.model_copy(update={"duration_ns": whole.duration_ns}) if self._sections_size else whole

    def enlarged(self, times: float) -> Self:
        return self if self._sections_size else super().enlarged(times)

    @property
    def duration_ns_min(self) -> int:
        if (job := self._job) is None:
            return super().duration_ns_min
        times = [[self.duration_ns or each.time_ns or 0 for each in group] for group in job.groups]
        return sum(map(max, times))

    @property
    def data_bytes(self) -> int | None:
        if (job := self._job) is not None and not self._states_size:
            return job.data_bytes
        return self.size_bytes

    @property
    def bypasses_page_cache(self) -> bool:
        if (job := self._job) is not None:
            return all(each.has("direct") for each in job.sections)
        direct = self.all_options.get("direct", 0)
        return str(self.all_options.get("buffered", 1 - int(str(direct) in {"1", "True"}))) in {"0", "False"}

    @property
    def is_paced(self) -> bool:
        if (job := self._job) is not None:
            return any(each.name.startswith(("rate", "thinktime")) for each in job.lines)
        return self.rate_per_s is not None or any(
            name.startswith(("rate", "thinktime")) for name in self.all_options
        )

    @property
    def all_options(self) -> dict[str, Option]:
        return PRESETS.get(self.preset or "", {}) | self.options

    def _is_set(self, name: str) -> bool:
        # A TOML boolean becomes 0 or 1 on the command line.
        return str(self.all_options.get(name, "0")) not in ("0", "False")

    @property
    def _pattern(self) -> str:
        return str(self.all_options.get("rw", self.all_options.get("readwrite", "read"))).partition(":")[0]

    @property
    def measured_file(self) -> File:
        """What its writes find, as fio itself would have it unless the study says otherwise."""
        if self.file is not None:
            return self.file
        if self.preset is not None or self._pattern in _READING or self._is_set("overwrite"):
            return "overwritten"
        is_extended = self._is_set("create_on_open") or self._is_set("file_append")
        return "new" if is_extended or self.all_options.get("fallocate") == "none" else "preallocated"

    @property
    def streamed_bytes(self) -> int:
        return self.size_bytes if self.measured_file == "overwritten" else 0

    @property
    def write_bytes_min(self) -> int | None:
        if self.job_text is not None:
            return super().write_bytes_min
        return None if self._pattern in ("read", "randread") else min(block_sizes_bytes(self.all_options))

    def unsuited(self, layers: Sequence[Placed]) -> str | None:
        is_bare = not layers or layers[-1][0].provides == "block"
        return "the job file needs a filesystem" if is_bare and self._needs_files else None

    @property
    def _needs_files(self) -> bool:
        return (job := self._job) is not None and fio_job.needs_files(job)

    def remarks(self, on: Interface) -> Iterable[str]:
        if (job := self._job) is not None:
            yield from fio_job.job_remarks(job, on)
            return
        is_writing = "write" in self._pattern or self._pattern in ("rw", "randrw")
        if is_writing and on == "filesystem":
            yield f'writes {_FILES[self.measured_file]} (file = "{self.measured_file}")'

    @property
    def _content(self) -> dict[str, object]:
        """The options of the file's content.

        Of such blocks a modelled disk keeps a few bytes each (kernel/disk/pattern.h).
        """
        content: dict[str, object] = {"refill_buffers": 1, "scramble_buffers": 0}
        stated = {name: self.all_options[name] for name in _STATED if name in self.all_options}
        if stated:
            content["buffer_compress_chunk"] = "4k"
        return content | {name: literal(option_text(value)) for name, value in stated.items()}

    @property
    def _is_verified(self) -> bool:
        # A TOML boolean becomes 0 or 1 on the command line.
        return str(self.all_options.get("verify", "none")) not in ("none", "0", "False", "null")

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        yield from self._until_diagnostics()
        if self.job is not None or self.job_text is not None:
            yield from self._job_diagnostics(capacity_bytes)
            return
        yield from preset_diagnostics(self.preset, PRESETS)
        yield from self._file_diagnostics()
        if self.preset is None and not {"rw", "readwrite"} & set(self.options):
            cause = "the study does not say what fio shall do"
            yield Diagnostic(cause, remedy='write preset = "random-mix-4k", or options with rw')
        yield from self._option_diagnostics()
        if self.rate_per_s is not None and (rates := [each for each in self.options if each[:4] == "rate"]):
            cause = f"there are two rates, rate and {rates[0]}"
            yield Diagnostic(cause, remedy=f"leave {rates[0]} out", key="rate")
        if self.duration_ns is not None and self._is_verified:
            cause = "fio stops verifying when its time is over"
            yield Diagnostic(cause, remedy="leave duration out, to run over the whole file", key="duration")
        yield from space_diagnostics("data", self.size_bytes, capacity_bytes, key="size")

    def _until_diagnostics(self) -> Iterator[Diagnostic]:
        if self.until is not None and self.duration_ns is None:
            cause = "a window of no given length cannot end before it is over"
            yield Diagnostic(cause, remedy='write duration = "60s", or leave until out', key="until")
        if self.until is not None and self._job is not None and len(self._job.groups) > 1:
            cause = "the job file has several measured windows"
            yield Diagnostic(cause, remedy="leave its stonewalls out, or until", key="until")

    def _option_diagnostics(self) -> Iterator[Diagnostic]:
        given = {name: value for name, value in self.options.items() if owned(name) is None}
        for name in self.options.keys() - given.keys():
            cause = f'the fio option "{name[:60]}" cannot be given here'
            yield Diagnostic(cause, remedy=owned(name), key="options")
        wrong = list(pair_diagnostics("fio option", given, OPTIONS, key="options"))
        yield from wrong
        if not wrong and buffer_bytes(self.all_options) > _BUFFER_BYTES_MAX:
            cause = f"fio would need more than {describe_size(_BUFFER_BYTES_MAX)} for the blocks in flight"
            yield Diagnostic(cause, remedy="lower bs, iodepth or numjobs", key="options")

    def _job_diagnostics(self, capacity_bytes: int) -> Iterator[Diagnostic]:
        for name in _OF_PRESETS:
            if name in self.model_fields_set and getattr(self, name):
                remedy = "leave it out, or leave job out"
                yield Diagnostic("the job file says what fio does", remedy=remedy, key=name.partition("_")[0])
        if (job := self._job) is not None:
            yield from fio_job.job_diagnostics(job, has_size=self._states_size)
            key = "size" if self._states_size else "job"
            yield from space_diagnostics("data", self.data_bytes or 0, capacity_bytes, key=key)

    def steps(self, context: WorkloadContext) -> list[Step]:
        if (job := self._job) is not None:
            return self._job_steps(job, context)
        size_limit_ns = self.size_bytes // _WRITE_BYTES_PER_S_MIN * NS_PER_S
        warmup = [] if self.warmup_ns is None else self._run(context, "warmup", self.warmup_ns)
        measured = [*warmup, *self._run(context, "measure", self.duration_ns)]
        if context.is_read_alike or self.measured_file != "overwritten":
            return measured
        # Space set aside beforehand would be unwritten extents, which cost at the first write.
        options = {"rw": "write", "bs": "1m", "ioengine": "psync", "fallocate": "none", "end_fsync": 1}
        title = f"Write the file of {describe_size(self.size_bytes)}"
        layout = self._fio(context, "prepare", title, options | self._content, _SLACK_NS + size_limit_ns)
        return [layout, *measured]

    def _job_steps(self, job: fio_job.Job, context: WorkloadContext) -> list[Step]:
        """A step that makes the files, and one for each group of sections."""
        on = context.target_kind
        slow_ns = _SLACK_NS + (self.data_bytes or 0) // _WRITE_BYTES_PER_S_MIN * NS_PER_S
        argv = ("fio", *option_words({**_PRINTED, "aux-path": context.scratch_path}), "-")

        def run(step_id: str, phase: Phase, title: str, text: str, limit_ns: int) -> Step:
            return context.step(step_id, phase, title, argv, stdin=text, time_limit_ns=limit_ns)

        def changes(section: fio_job.JobSection) -> dict[str, object]:
            at = job.sections.index(section) + 1
            seed = context.derived_seed("measure" if at == 1 else f"measure-{at}")
            given = {**_CLOCKED, "randseed": seed, **_PERCENTILES, "verify_state_save": 0}
            if self._states_size and section.engine not in fio_job.WITHOUT_FILES:
                given |= {"size": self.size_bytes, "filesize": None}
            if self.duration_ns is not None:
                given |= {"runtime": f"{self.duration_ns // NS_PER_MS}ms", "timeout": None, "time_based": 1}
            return given

        def made(section: fio_job.JobSection) -> dict[str, object]:
            left = dict.fromkeys(("unlink", "wait_for", "startdelay", "start_delay", "steadystate", "ss"))
            return {**changes(section), **left, "create_only": 1}

        target = context.target
        steps = []
        of = [each for each in job.sections if each.engine not in fio_job.MAKING]
        if on == "filesystem" and of:
            text = fio_job.bound(job, of, on, target, made)
            steps.append(run("fio-layout", "prepare", "Make the files of the job file", text, slow_ns))
        for at, group in enumerate(job.groups, 1):
            names = ", ".join(dict.fromkeys(each.name for each in group))
            times = [self.duration_ns or each.time_ns for each in group]
            limit_ns = _SLACK_NS + sum(filter(None, times)) + (0 if all(times) else 25 * slow_ns)
            if on == "block":
                steps.append(_forgotten(context, f"measure-{at}", "measure"))
            text = fio_job.bound(job, group, on, target, changes)
            step = run(f"fio-measure-{at}", "measure", f"Measure {names[:200]}", text, limit_ns)
            steps.append(telling(step, self.until_known(context, step.id), context))
        return steps

    def _file_diagnostics(self) -> Iterator[Diagnostic]:
        if self.file in ("new", "preallocated") and self._pattern in _READING:
            cause = f"reads need data that were written before, and rw = {self._pattern} reads"
            yield Diagnostic(cause, remedy='write file = "overwritten", or leave it out', key="file")
        for name in self.options if self.file is not None else ():
            own = {"overwrite": ("overwritten",), "fallocate": ("preallocated", "new")}
            if name in ("overwrite", *_OF_NEW_FILES) and self.file not in own.get(name, ("new",)):
                cause = f'the option {name} contradicts file = "{self.file}"'
                yield Diagnostic(cause, remedy="leave one of them out", key="options")

    def _file_options(self, context: WorkloadContext, phase: Phase) -> dict[str, object]:
        """A file is new once: a further run finds a new one only if the file was deleted."""
        if self.measured_file == "overwritten" or context.target_kind == "block":
            return {}
        options: dict[str, object] = {"unlink": 1} if phase == "warmup" or context.window else {}
        if self.file is not None and "fallocate" not in self.all_options:
            options["fallocate"] = "none" if self.file == "new" else "native"
        return options

    def _run(self, context: WorkloadContext, phase: Phase, time_ns: int | None) -> list[Step]:
        options: dict[str, object] = {
            name: literal(option_text(value)) for name, value in self.all_options.items()
        }
        options |= self._rate_options() | self._file_options(context, phase)
        if time_ns is None:
            # One pass, in 4 KiB blocks at ten a second.
            limit_ns = _SLACK_NS + self.size_bytes // 4096 * NS_PER_S // 10
            title = "Measure over the whole file"
        else:
            options |= {"time_based": 1, "runtime": f"{time_ns // NS_PER_MS}ms"}
            limit_ns = _SLACK_NS + time_ns
            title = window_title(phase, time_ns)
        load = self._fio(context, phase, title, options, limit_ns)
        if phase == "measure":
            load = telling(load, self.until_known(context, load.id), context)
        if context.target_kind != "block" or str(self.all_options.get("invalidate", 1)) in ("0", "False"):
            return [load]
        return [_forgotten(context, phase, phase), load]

    def _rate_options(self) -> dict[str, object]:
        """Fio's rates are those of each job, and of each direction."""
        if self.rate_per_s is None:
            return {}
        options = self.all_options
        each = self.rate_per_s / int(str(options.get("numjobs", 1)))
        pattern = self._pattern
        reads = 1.0 if "write" not in pattern and "trim" not in pattern else 0.0
        if pattern in ("rw", "readwrite", "randrw"):
            reads = (
                float(str(options.get("rwmixread", 100 - float(str(options.get("rwmixwrite", 50)))))) / 100
            )
        parts = (each * reads, each * (1 - reads))
        rates = ",".join(str(max(1, round(part))) if part else "" for part in parts)
        return {"rate_iops": rates, "rate_process": "poisson"}

    def _fio(
        self, context: WorkloadContext, phase: Phase, title: str, options: Mapping[str, object], limit_ns: int
    ) -> Step:
        purpose = "layout" if phase == "prepare" else phase
        file = context.target if context.target_kind == "block" else f"{context.mount_path}/fio.data"
        common = {
            "name": "strata",
            "filename": file,
            "size": self.size_bytes,
            **_CLOCKED,
            "randseed": context.derived_seed(purpose),
            **_PRINTED,
            "group_reporting": 1,
            **_PERCENTILES,
            "aux-path": context.scratch_path,
            "verify_state_save": 0,
        }
        argv = ("fio", *option_words(common), *option_words(options))
        return context.step(f"fio-{purpose}", phase, title, argv, time_limit_ns=limit_ns)

    def metrics(self, outputs: Outputs) -> list[Metric]:
        if (job := self._job) is None:
            return _figures(
                "fio-measure", outputs, _jobs(outputs, "fio-measure"), self._pattern, self._is_verified
            )
        metrics: list[Metric] = []
        for at, group in enumerate(job.groups, 1):
            step_id = f"fio-measure-{at}"
            reported = _jobs(outputs, step_id)
            for section in {each.name: each for each in group if each.engine != "cpuio"}.values():
                own = [each for each in reported if each.get("jobname") == section.name]
                found = _figures(step_id, outputs, own, section.pattern, section.has("verify"))
                metrics += [each.prefixed(job.names[section.name]) for each in found]
        return metrics


def _figures(
    step_id: str, outputs: Outputs, jobs: list[dict[str, Any]], pattern: str, is_verified: bool
) -> list[Metric]:
    """The metrics of jobs that do the same."""
    directions = _directions(jobs, pattern, is_verified)
    loads = [direction for direction in directions if direction != "verify"]
    if not loads:
        raise unreadable(step_id, "fio completed no request", outputs.step(step_id).stdout)

    def total(key: str, *of: str) -> float:
        return float(sum(sum(part[key] for part in directions[direction]) for direction in of))

    operations, bandwidth = total("iops", *loads), total("bw_bytes", *loads)
    is_large = bandwidth >= operations * _SEQUENTIAL_BYTES
    metrics = [
        Metric.of("operations_per_s", operations, "1/s", headline=not is_large),
        Metric.of("bytes_per_s", bandwidth, "B/s", headline=is_large),
        Metric.of("operations", total("total_ios", *loads), "1"),
    ]
    for direction, parts in directions.items():
        metrics += [
            Metric.of(f"{direction}_operations_per_s", total("iops", direction), "1/s"),
            Metric.of(f"{direction}_bytes_per_s", total("bw_bytes", direction), "B/s"),
            *_latencies([part["lat_ns"] for part in parts], f"{direction}_latency_ns"),
        ]
    syncs = [job["sync"]["lat_ns"] for job in jobs if job.get("sync", {}).get("lat_ns", {}).get("N")]
    return metrics + (_answers(_latencies(syncs, "sync_latency_ns")) if syncs else [])


def _directions(
    jobs: list[dict[str, Any]], pattern: str, is_verified: bool
) -> dict[str, list[dict[str, Any]]]:
    """The parts of the report by direction; reads that verify are ``verify``."""
    found = {
        direction: parts
        for direction in ("read", "write", "trim")
        if (parts := [job[direction] for job in jobs if job.get(direction, {}).get("total_ios")])
    }
    reads = pattern in ("read", "randread", "rw", "readwrite", "randrw")
    if is_verified and set(found) >= {"read", "write"} and not reads:
        # The reads came after the writes, with a time of their own: their rates do not add up.
        found["verify"] = found.pop("read")
    return found


def _forgotten(context: WorkloadContext, name: str, phase: Phase) -> Step:
    title = "Drop the device's cache: fio does so for files, and needs root for devices"
    argv = ("blockdev", "--flushbufs", context.target)
    return context.step(f"fio-forget-{name}", phase, title, argv, user="root")


def _jobs(outputs: Outputs, step_id: str) -> list[dict[str, Any]]:
    """The jobs in fio's JSON, which notes may precede."""
    text = outputs.step(step_id).stdout
    start = text.find("{\n")
    try:
        jobs = json.loads(text[max(start, 0) :])["jobs"]
        for job in jobs:
            for direction in ("read", "write"):
                job[direction]["iops"], job[direction]["bw_bytes"], job[direction]["lat_ns"]
    except (ValueError, KeyError, TypeError):
        raise unreadable(step_id, "fio's output is not its JSON", text) from None
    return list(jobs)


def _answers(of_syncs: list[Metric]) -> list[Metric]:
    """A load that syncs is judged by its syncs: its writes end in the page cache."""
    return [each.model_copy(update={"headline": each.quantile == 0.99}) for each in of_syncs]


def _latencies(parts: list[dict[str, Any]], family: str) -> list[Metric]:
    """Latencies from the bins of json+, which fio keeps with 6 bits, an error of at most 0.8 %."""
    histogram = empty_histogram()
    for part in parts:
        for latency_ns, times in part.get("bins", {}).items():
            record(histogram, int(latency_ns), times)
    return latency_metrics(
        histogram,
        latency_ns_mean=sum(part["mean"] * part["N"] for part in parts) / sum(part["N"] for part in parts),
        latency_ns_max=float(max(part["max"] for part in parts)),
        family=family,
    )
