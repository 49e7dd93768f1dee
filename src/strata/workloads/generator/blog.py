# SPDX-License-Identifier: Apache-2.0
"""blogbench 1.1: blogs are written, rewritten, commented and read, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StrictInt

from strata.diagnostics.names import Diagnostic, checked
from strata.model.duties import CostsRealTime, LogsThroughput
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.stack import space_diagnostics
from strata.model.step import Step
from strata.model.warning import Check
from strata.model.workload import Outputs, Workload, WorkloadContext
from strata.units import NS_PER_MS, NS_PER_S, NS_PER_US, Duration
from strata.workloads.generator.output import (
    PROGRAM,
    Content,
    HandsOver,
    load_result,
    operation_latencies,
    own_folder,
)
from strata.workloads.keys import ZEROS_QUESTION, WholeMilliseconds, key, option_words, yes_or_no

_STEP: Final = "blog-measure"
_SLACK_NS: Final = 600 * NS_PER_S
# The largest that a writer makes: 100 articles of 32 KiB, 100 pictures of 64 KiB.
_BLOG_BYTES: Final = 100 * (32 << 10) + 100 * (64 << 10)
_KINDS: Final = ("articles", "pictures", "comments")
_THREADS: Final = ("writers", "rewriters", "commenters", "readers")


Pause = Annotated[
    Duration,
    checked(
        lambda time_ns: not time_ns % NS_PER_US, "a pause is given in whole us", 'write for example "10ms"'
    ),
]
Threads = Annotated[StrictInt, Field(ge=0, le=10_000)]


class Blog(LogsThroughput, CostsRealTime, HandsOver, Content, Workload):
    """blogbench 1.1 by the load generator: the same sizes, numbers and system calls, with seeded choices.

    Measure: for some intervals writers create blogs of up to 100 articles (1 to 32 KiB) and 100 pictures (8
    to 64 KiB), each file under a temporary name that is then renamed; a rewriter replaces articles and
    pictures; commenters add up to 100 comments (2 to 10 KiB) at a time; readers go through blogs. Nothing is
    synced, and nobody pauses. Like the original's, its score of writes is the number of blogs that writers
    completed, and that of reads how often a reader went through a blog.
    """

    rationale: ClassVar[str] = (
        "A busy server of small files, as blogbench 1.1 defines it: a few threads create, replace and rename "
        "files of 1 to 64 KiB while a hundred read them, each as fast as it can. It stresses creation and "
        "renaming of files in growing folders, write-back under memory pressure, and whether readers starve "
        "writers or the other way round. It leaves out everything durable (no file is ever synced) and every "
        "pause of real visitors; as long as the blogs fit into memory its readers measure the page cache. "
        "The original writes zeros; here content is compressible as declared."
    )
    check_questions: ClassVar[Mapping[str, str]] = {
        "blogs-completed": "did the writers complete any blogs?",
        **ZEROS_QUESTION,
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("write_score", "1", "higher", "blogs that writers completed"),
        MetricSpec("read_score", "1", "higher", "how often readers went through a blog"),
        MetricSpec("operations", "1", "higher", "files written and read, and looked for in vain"),
        MetricSpec("files_{written,read}_per_s", "1/s", "higher", "articles, pictures and comments"),
        MetricSpec("{write,read}_bytes_per_s", "B/s", "higher", "their content"),
        *latency_metric_specs("from creating a file to renaming it", "write_{article,picture,comment}_"),
        *latency_metric_specs("from opening a file to closing it", "read_{article,picture,comment}_"),
        *latency_metric_specs("looking for a file that is not there", "miss_"),
        MetricSpec("waits", "1", "lower", "how often a thread found nothing to do, and waited for a second"),
    )
    example: ClassVar[tuple[str, ...]] = ("readers", "intervals", "interval")
    hints: ClassVar[dict[str, str]] = {"until": "leave it out: a score counts all of its intervals"}
    amounts: ClassVar[Mapping[str, int]] = {"intervals": 1}

    workload: Literal["blog"] = "blog"
    writers: Threads = key(
        3,
        "Threads that create blogs: up to 100 articles of 1 to 32 KiB, then as many pictures of 8 to 64 KiB",
        3,
    )
    rewriters: Threads = key(
        1, "Threads that replace articles and, half the time, pictures of a random blog", 1
    )
    commenters: Threads = key(5, "Threads that add up to 100 comments of 2 to 10 KiB to a random blog", 5)
    readers: Threads = key(
        100, "Threads that read a random blog: half the time its comments, then pictures and articles", 10
    )
    intervals: StrictInt = key(30, "Intervals of the window", 3, ge=1, le=100_000)
    interval_ns: WholeMilliseconds = key(10 * NS_PER_S, "The length of one", "1s", alias="interval")
    reader_pause_ns: Pause = key(
        0, "How long a reader pauses after each blog; the original's never do", "10ms", alias="reader_pause"
    )

    @property
    def duration_ns_min(self) -> int:
        return self.intervals * self.interval_ns

    @property
    def is_paced(self) -> bool:
        return self.reader_pause_ns > 0

    @property
    def cached_readers(self) -> int:
        return 0 if self.is_paced else self.readers

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if not self.writers:
            yield Diagnostic("without writers there are no blogs", remedy="write writers = 3", key="writers")
        # A lower bound: the number of further blogs is the result.
        yield from space_diagnostics("blogs", self.writers * _BLOG_BYTES, capacity_bytes, key="writers")
        yield from self.content_diagnostics()

    def steps(self, context: WorkloadContext) -> list[Step]:
        options = {
            "directory": own_folder(context, "blog"),
            "seed": context.derived_seed("blog"),
            **{kind: getattr(self, kind) for kind in _THREADS},
            "intervals": self.intervals,
            "interval-ms": self.interval_ns // NS_PER_MS,
            "reader-pause-us": self.reader_pause_ns // NS_PER_US,
        }
        title = f"Write and read blogs for {self.duration_ns_min / NS_PER_S:g} s"
        argv = (PROGRAM, "blog", *option_words(options), *self.content_words, *self.hand_over_words)
        return [context.step(_STEP, "measure", title, argv, time_limit_ns=self.duration_ns_min + _SLACK_NS)]

    def metrics(self, outputs: Outputs) -> list[Metric]:
        result = load_result(outputs, _STEP, "blog")
        window_s = self.duration_ns_min / NS_PER_S
        metrics = [
            Metric.of(f"{direction}_score", float(result[f"score_{direction}s"]), "1", headline=True)
            for direction in ("write", "read")
        ]
        for direction, past in (("write", "written"), ("read", "read")):
            files = sum(_files(interval, past) for interval in result["intervals"])
            operations = result["operations"].items()
            moved = sum(each["bytes"] for name, each in operations if name.startswith(f"{direction}_"))
            metrics += [
                Metric.of(f"files_{past}_per_s", files / window_s, "1/s"),
                Metric.of(f"{direction}_bytes_per_s", moved / window_s, "B/s"),
            ]
        for name, operation in sorted(result["operations"].items()):
            metrics += operation_latencies(operation, f"{name}_latency_ns")
        done = sum(operation["count"] for operation in result["operations"].values())
        waits = Metric.of("waits", float(result["waits"]), "1", better="lower")
        return [*metrics, Metric.of("operations", float(done), "1"), waits]

    def rates_per_s(self, outputs: Outputs) -> Sequence[float]:
        intervals = load_result(outputs, _STEP, "blog")["intervals"]
        interval_s = self.interval_ns / NS_PER_S
        return [(_files(each, "written") + _files(each, "read")) / interval_s for each in intervals]

    @property
    def rates_interval_ns(self) -> int:
        return self.interval_ns

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        yield from super().checks(outputs)
        # Nobody can read before the second blog is begun.
        blogs = load_result(outputs, _STEP, "blog")["score_writes"]
        detail = f"{blogs} blogs were completed in {self.duration_ns_min / NS_PER_S:g} s"
        yield yes_or_no("blogs-completed", bool(blogs), detail)


def _files(interval: dict[str, Any], past: str) -> int:
    return sum(interval[f"{kind}_{past}"] for kind in _KINDS)
