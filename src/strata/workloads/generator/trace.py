# SPDX-License-Identifier: Apache-2.0
"""The requests of recorded disks, repeated on a stack's block devices or in a file for each on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic, KebabName
from strata.model import page_cache
from strata.model.inputs import REQUESTS
from strata.model.layer import Interface
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import LOAD_USER, Command, Phase, Step, literal
from strata.model.warning import Check
from strata.model.workload import InputKind, Outputs, Workload, WorkloadContext, unreadable
from strata.units import NS_PER_S, Duration, format_value
from strata.workloads.generator.output import PROGRAM, Content, load_result, operation_latencies
from strata.workloads.keys import ZEROS_QUESTION, key, option_words, yes_or_no

_INPUT: Final = "trace"
_FOLDER: Final = "trace"  # on a further filesystem of the stack
_PACE: Final = "kept-the-pace"
_DISCARDS: Final = "discards-repeated"
_LATE_SHARE: Final = 0.05  # of the trace's time: a replay that ends later has had a growing backlog
_LATE_NS_MIN: Final = NS_PER_S


class TraceReplay(Content, Workload):
    """The reads, writes, flushes and discards of a recorded disk are repeated.

    Prepare: the areas of 1 MiB that the trace reads or writes are filled, on a filesystem in a file with
    holes between them; then the caches are dropped. Measure: the requests, of several disks together, at the
    trace's times or as fast as the stack completes them, with direct I/O. A write with FUA becomes a write
    and `fdatasync`, a flush `fdatasync`.
    """

    rationale: ClassVar[str] = (
        "The load of a real machine, recorded by blktrace, fio or Strata and repeated on another stack: "
        "sizes, places, order and times are those of the application, its filesystem and its cache. It "
        "answers whether a stack would carry that load. A trace does not say which request waited for which: "
        "at the recorded times a slower stack meets a backlog that the application would not have built up, "
        "and a faster one gains nothing. It leaves out the work of a filesystem below the file: the recorded "
        "filesystem's own requests are in the trace, and the stack adds its own."
    )
    tools: ClassVar[tuple[str, ...]] = ("tar", *page_cache.TOOLS)
    runs_on: ClassVar[tuple[Interface, ...]] = ("filesystem", "block")
    input_kind: ClassVar[InputKind] = "trace"
    check_questions: ClassVar[Mapping[str, str]] = ZEROS_QUESTION | {
        _PACE: "did the requests begin when they did in the trace, or did a backlog grow?",
        _DISCARDS: "did the stack take the trace's discards?",
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec(
            "operations_per_s", "1/s", "higher", "requests completed; given by the trace at its times"
        ),
        MetricSpec(
            "{read,write}_bytes_per_s", "B/s", "higher", "bytes moved; writes with FUA are with writes"
        ),
        MetricSpec("replay_ns", "ns", "lower", "from the first request to the end of the last"),
        MetricSpec("operations", "1", "higher", "requests completed"),
        *latency_metric_specs("of one request", "{read,write,fua,flush,discard}_"),
        *latency_metric_specs("how much later than in the trace requests began", "lag_"),
    )
    example: ClassVar[tuple[str, ...]] = ("timing",)

    workload: Literal["trace"] = "trace"
    trace: StrictStr = key(
        ...,
        "A file beside the study: fio's iolog, blktrace's files (name one of them) or blkparse's text, or "
        "a table of `strata record --disk` or of a result",
        "disk.iolog",
    )
    disk: StrictStr | None = key(
        None, "The disk of the trace, as `strata trace` names it; a trace of one disk needs none", "8,0"
    )
    beside: dict[StrictStr, KebabName] = key(
        {},
        "Further disks of the trace, repeated at the same time: for each a further filesystem of the stack, "
        "or, of a stack without layers, a further device; a stack with a filesystem and without one of that "
        "name takes them in a file beside that of the first disk",
        {"8,16": "wal"},
    )
    from_ns: Duration = key(
        0, "Where it begins, in the trace's time from its first request", "10s", alias="from"
    )
    until_ns: Duration | None = key(
        None, "Where it ends, in the trace's time; default: with its last request", "70s", alias="until"
    )
    timing: Literal["original", "asap"] = key(
        "original",
        "When a request begins: as in the trace, or as soon as fewer than `queue_depth` are in flight",
        "asap",
    )
    speed: Annotated[StrictInt | StrictFloat, Field(ge=0.001, le=1000)] = key(
        1, "How many times as fast as in the trace requests begin", 2
    )
    queue_depth: StrictInt = key(32, "How many requests are in flight at the most", 8, ge=1, le=1024)
    direct: StrictBool = key(True, "Bypass the page cache, which the recorded requests had passed", False)
    time_limit_ns: Duration = key(
        3600 * NS_PER_S, "The time that the replay may take", "2h", alias="time_limit", gt=0
    )

    def inputs(self) -> Mapping[str, str]:
        return {_INPUT: self.trace}

    @property
    def bypasses_page_cache(self) -> bool:
        return self.direct

    @property
    def is_paced(self) -> bool:
        return self.timing == "original"

    @property
    def places_beside(self) -> Collection[str]:
        return tuple(self.beside.values())

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if self.beside and self.disk is None:
            yield Diagnostic("it repeats several disks", remedy="name the first one, too", key="disk")
        if len({*self.beside.values()}) < len(self.beside):
            yield Diagnostic("two disks have one place", remedy="name another place", key="beside")
        if self.until_ns is not None and self.until_ns <= self.from_ns:
            yield Diagnostic(
                "the replay ends before it begins", remedy="make it later than from", key="until"
            )
        if self.timing == "asap" and "speed" in self.model_fields_set:
            yield Diagnostic("requests begin as soon as they can", remedy="leave speed out", key="speed")
        yield from self.content_diagnostics()

    def input_diagnostics(
        self, sizes_bytes: Mapping[str, Mapping[str, int]], capacity_bytes: int
    ) -> Iterable[Diagnostic]:
        """A disk that the trace does not have, or data that do not fit."""
        disks = sizes_bytes.get(_INPUT)
        if disks is None:
            return
        if self.disk is None and len(disks) > 1:
            named = ", ".join(f'"{name}"' for name in disks)
            yield Diagnostic("the trace has several disks", remedy=f"choose one of {named}", key="disk")
        elif unknown := [name for name in self._disks if name not in disks]:
            remedy = f"it has {', '.join(disks)}"
            where = "disk" if unknown[0] == self.disk else "beside"
            yield Diagnostic(f'the trace has no disk "{unknown[0][:60]}"', remedy=remedy, key=where)
        elif self.disk in self.beside:
            yield Diagnostic(
                "this disk has two places", remedy="leave it out here, or in `disk`", key="beside"
            )
        else:
            size_bytes = disks[self.disk] if self.disk is not None else next(iter(disks.values()))
            yield from space_diagnostics("data", size_bytes, capacity_bytes, key="trace")

    def steps(self, context: WorkloadContext) -> list[Step]:
        run = {
            "timing": self.timing,
            "queue-depth": self.queue_depth,
            "speed-thousandths": round(self.speed * 1000),
            "buffered": not self.direct,
        }
        tar = ("tar", "--extract", f"--directory={context.scratch_path}", f"--file=${{input-{_INPUT}}}")
        return [
            # The file may lie where only root can read.
            context.step(
                "trace-unpack", "prepare", "Unpack the requests of the trace", tar, user="root", again=True
            ),
            *self._owned(context),
            self._part(context, "prepare", "Fill what the trace reads or writes", "fill", {}),
            synced(context, "trace-settle", "prepare", "Write back dirty data before it begins"),
            dropped(context, "trace-drop-caches", "prepare"),
            self._part(context, "measure", "Repeat the requests of the trace", "run", run),
        ]

    @property
    def _disks(self) -> list[str]:
        """The disks of the trace, if they are named, in the order of their targets."""
        return [] if self.disk is None else [self.disk, *self.beside]

    def _targets(self, context: WorkloadContext) -> list[str]:
        if context.target_kind == "block":
            return [context.target, *(context.places[place] for place in self.beside.values())]
        folders = [context.places.get(place) for place in self.beside.values()]
        return [
            f"{context.mount_path}/trace.data",
            *(
                f"{context.mount_path}/trace-{index}.data"
                if folder is None
                else f"{folder}/{_FOLDER}/trace.data"
                for index, folder in enumerate(folders, start=1)
            ),
        ]

    def _owned(self, context: WorkloadContext) -> Iterator[Step]:
        """The steps that let the loads' user write beside the first target."""
        for place in filter(context.places.__contains__, self.beside.values()):
            path = context.places[place]
            own: tuple[str, ...] = ("chown", LOAD_USER)
            kept: dict[str, Any] = {}
            if context.target_kind == "filesystem":
                path, own = f"{path}/{_FOLDER}", ("install", "-d", "-o", LOAD_USER)
            else:
                undo = Command(argv=("chown", "root", path), cwd=context.scratch_path)
                kept = {"undo": undo, "again": True}  # the device is the machine's
            title = f"Let {LOAD_USER} write what the trace has on {place}"
            yield context.step(f"trace-own-{place}", "prepare", title, (*own, path), user="root", **kept)

    def _part(
        self, context: WorkloadContext, phase: Phase, title: str, part: str, options: Mapping[str, object]
    ) -> Step:
        places = (
            *(f"--target={target}" for target in self._targets(context)),
            *(f"--disk={literal(disk)}" for disk in self._disks),
        )
        common = {
            "requests": f"{context.scratch_path}/{REQUESTS}",
            "from-ns": self.from_ns,
            "until-ns": self.until_ns,
            "seed": context.derived_seed(f"trace-{part}"),
        }
        words = (*places, *option_words(common), *self.content_words, *option_words(options))
        argv = (PROGRAM, "replay", part, *words)
        return context.step(f"trace-{part}", phase, title, argv, time_limit_ns=self.time_limit_ns)

    def metrics(self, outputs: Outputs) -> list[Metric]:
        result = load_result(outputs, "trace-run", "replay-run")
        kinds, took_ns = result["operations"], result["duration_ns"]
        done = sum(each["count"] for each in kinds.values())
        if not done or not took_ns:
            raise unreadable("trace-run", "no request was completed", outputs.step("trace-run").stdout[:500])
        is_timed = self.timing == "original"
        metrics = [
            Metric.of("replay_ns", float(took_ns), "ns", headline=not is_timed),
            Metric.of("operations_per_s", done * NS_PER_S / took_ns, "1/s"),
            Metric.of("operations", float(done), "1"),
        ]
        for direction, names in (("read", ("read",)), ("write", ("write", "fua"))):
            moved = sum(kinds[name]["bytes"] for name in names if name in kinds)
            metrics.append(Metric.of(f"{direction}_bytes_per_s", moved * NS_PER_S / took_ns, "B/s"))
        families = {f"{kind}_latency_ns": part for kind, part in kinds.items()}
        if result["lag"] is not None:
            families["lag_latency_ns"] = result["lag"]
        for family, part in families.items():
            found = operation_latencies(part, family)
            if is_timed and family != "lag_latency_ns":
                found[0] = found[0].model_copy(update={"headline": True})
            metrics += found
        return metrics

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        yield from super().checks(outputs)
        result = load_result(outputs, "trace-run", "replay-run")
        took_ns, trace_ns = result["duration_ns"], result["trace_ns"]
        if self.timing == "original":
            late_ns = took_ns - trace_ns
            kept = late_ns <= max(_LATE_SHARE * trace_ns, _LATE_NS_MIN)
            took, asked = format_value(took_ns, "ns"), format_value(trace_ns, "ns")
            detail = f"{asked} of the trace took {took}"
            detail += "" if kept else ": the stack is overloaded, and latencies depend on the trace's length"
            yield yes_or_no(_PACE, kept, detail)
        ignored = result["discards_ignored"]
        detail = f"the target does not know discards: {ignored} were left out" if ignored else "every one"
        yield yes_or_no(_DISCARDS, not ignored, detail)
