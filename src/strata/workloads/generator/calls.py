# SPDX-License-Identifier: Apache-2.0
"""What a recorded application asked of its filesystem, repeated on a stack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.model import page_cache
from strata.model.inputs import CONTENT
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.page_cache import dropped, synced
from strata.model.stack import space_diagnostics
from strata.model.step import Phase, Step
from strata.model.warning import Check
from strata.model.workload import InputKind, Outputs, Workload, WorkloadContext, unreadable
from strata.traces.calls import HARMLESS, UNSEEN
from strata.units import NS_PER_S, Duration
from strata.workloads.generator.output import PROGRAM, Content, load_result, operation_latencies, own_folder
from strata.workloads.keys import ZEROS_QUESTION, key, option_words, yes_or_no

_INPUT: Final = "calls"
_RUN: Final = "calls-run"
_REPEATED: Final = "calls-repeated"
_RECORDED: Final = "application-recorded-whole"


class CallsReplay(Content, Workload):
    """The calls of an application on its files are repeated, as `strata record` has recorded them.

    Prepare: the files that were there before are written with their sizes. Measure: a thread for each thread
    of the recording makes its calls in their order; a call waits for the calls of others that its thread had
    news of when it began, and then for as long as the application thought in between.
    """

    rationale: ClassVar[str] = (
        "One's own application, which cannot be installed in the lab or whose data may not leave their "
        "machine: its reads, writes, syncs and changes of names, with their sizes, places and order, its "
        "threads and its pauses. Unlike a trace of a disk it is repeated above the filesystem, so it answers "
        "which filesystem and what below it suits the application. Pauses are those of the recording "
        "machine's processor and of clients that were not recorded. It leaves out what no call shows: "
        "pages of mapped files, io_uring, content, and that an application may do something else where a "
        "disk is slower."
    )
    tools: ClassVar[tuple[str, ...]] = ("tar", *page_cache.TOOLS)
    input_kind: ClassVar[InputKind] = "calls"
    check_questions: ClassVar[Mapping[str, str]] = ZEROS_QUESTION | {
        _REPEATED: "did every call succeed, as in the recording?",
        _RECORDED: "did the tracer see all that the application asked of its files?",
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("replay_ns", "ns", "lower", "from the first call to the end of the last"),
        MetricSpec("operations_per_s", "1/s", "higher", "calls completed; given by its times"),
        MetricSpec("operations", "1", "higher", "calls completed"),
        MetricSpec("{read,write}_bytes_per_s", "B/s", "higher", "bytes that calls moved"),
        *latency_metric_specs("of each kind of call", "<call>_"),
        *latency_metric_specs("how much later than in the recording calls began", "lag_"),
    )
    example: ClassVar[tuple[str, ...]] = ("timing", "cold")

    workload: Literal["calls"] = "calls"
    calls: StrictStr = key(..., "A file of `strata record` beside the study", "app.strata-calls")
    timing: Literal["think", "original", "asap"] = key(
        "think",
        "When a call begins: as long after the calls that it followed as in the recording, at the times of "
        "the recording whatever the stack takes, or as soon as the calls that it followed have ended",
        "asap",
    )
    speed: Annotated[StrictInt | StrictFloat, Field(ge=0.001, le=1000)] = key(
        1, "How many times as fast as in the recording: divides pauses and times", 2
    )
    copies: StrictInt = key(
        1, "How often the application runs at the same time, each in a folder of its own", 4, ge=1, le=1024
    )
    cold: StrictBool = key(
        False,
        "Drop the caches before it begins; otherwise what was prepared is in them as far as it fits",
        True,
    )
    time_limit_ns: Duration = key(
        3600 * NS_PER_S, "The time that the replay may take", "2h", alias="time_limit", gt=0
    )

    def inputs(self) -> Mapping[str, str]:
        return {_INPUT: self.calls}

    @property
    def is_paced(self) -> bool:
        return self.timing != "asap"

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if self.timing == "asap" and "speed" in self.model_fields_set:
            yield Diagnostic("there are no pauses to divide", remedy="leave speed out", key="speed")
        yield from self.content_diagnostics()

    def input_diagnostics(
        self, sizes_bytes: Mapping[str, Mapping[str, int]], capacity_bytes: int
    ) -> Iterable[Diagnostic]:
        size_bytes = sum(sizes_bytes.get(_INPUT, {}).values()) * self.copies
        yield from space_diagnostics("files", size_bytes, capacity_bytes, key="calls")

    def steps(self, context: WorkloadContext) -> list[Step]:
        folder = f"--directory={context.scratch_path}"
        # The file may lie where only root can read.
        tar = ("tar", "--extract", folder, f"--file=${{input-{_INPUT}}}")
        run = {"timing": self.timing, "speed-thousandths": round(self.speed * 1000)}
        return [
            context.step("calls-unpack", "prepare", "Unpack the recording", tar, user="root", again=True),
            self._part(context, "prepare", "Write the files that were there before", {}),
            synced(context, "calls-settle", "prepare", "Write back dirty data before it begins"),
            *([dropped(context, "calls-drop-caches", "prepare")] if self.cold else []),
            self._part(context, "measure", "Repeat the application's calls", run),
        ]

    def _part(
        self, context: WorkloadContext, phase: Phase, title: str, options: Mapping[str, object]
    ) -> Step:
        part = "run" if phase == "measure" else phase
        common = {
            "directory": own_folder(context, "calls"),
            "calls": f"{context.scratch_path}/{CONTENT}",
            "copies": self.copies,
            "seed": context.derived_seed(f"calls-{part}"),
        }
        words = (*option_words(common), *self.content_words, *option_words(options))
        argv = (PROGRAM, "calls", part, *words)
        return context.step(f"calls-{part}", phase, title, argv, time_limit_ns=self.time_limit_ns)

    def metrics(self, outputs: Outputs) -> list[Metric]:
        result = load_result(outputs, _RUN, _RUN)
        kinds, took_ns = result["operations"], result["duration_ns"]
        done = sum(each["count"] for each in kinds.values())
        if not done or not took_ns:
            raise unreadable(_RUN, "no call was completed", outputs.step(_RUN).stdout[:500])
        metrics = [
            Metric.of("replay_ns", float(took_ns), "ns", headline=True),
            Metric.of("operations_per_s", done * NS_PER_S / took_ns, "1/s"),
            Metric.of("operations", float(done), "1"),
        ]
        for direction in ("read", "write"):
            moved = sum(kinds[name]["bytes"] for name in (direction, f"p{direction}") if name in kinds)
            metrics.append(Metric.of(f"{direction}_bytes_per_s", moved * NS_PER_S / took_ns, "B/s"))
        families = {f"{kind}_latency_ns": part for kind, part in kinds.items() if part["count"]}
        if result["lag"] is not None:
            families["lag_latency_ns"] = result["lag"]
        for family, part in families.items():
            metrics += operation_latencies(part, family)
        return metrics

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        yield from super().checks(outputs)
        result = load_result(outputs, _RUN, _RUN)
        failed = result["failed"]
        detail = f"{failed} calls failed; the first: {result['first_failure']}" if failed else "every one"
        yield yes_or_no(_REPEATED, not failed, detail, required=True)
        missing = [name for name, count in result["unseen"].items() if count and name not in HARMLESS]
        detail = "; ".join(UNSEEN.get(name, name) for name in missing) or "all but pages of mapped files"
        yield yes_or_no(_RECORDED, not missing, detail)
