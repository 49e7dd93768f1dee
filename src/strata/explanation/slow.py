# SPDX-License-Identifier: Apache-2.0
"""What the slow operations of a trial waited for: requests, flushes, processors, other sessions.

A load that logs its operations says when each began and ended; what the disks did in the time of the slow
ones is compared with what they did in the time of all. Of other loads the slowest requests that programs
wait for stand for the operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.explanation.analysis import PARTS, Explanation, nearest_rank
from strata.explanation.sentences import KIND_WORDS, PART_WORDS
from strata.traces.attribution import attribute, completed
from strata.traces.kinds import KINDS
from strata.traces.table import Records, Trace, latency_ns, parts_ns
from strata.units import format_value, percent, significant
from strata.words import counted, listed, sentence_case

Span = tuple[int, int]
"""The beginning and the end of an operation, in ns of the trace's clock."""

# Programs wait for these; the kernel writes and discards the others by itself.
_WAITED: Final = ("read", "read_metadata", "write_sync", "write_journal", "flush")
# A sample of as many operations leaves 3 % of uncertainty in a mean whose spread is 70 %: an estimate.
_SAMPLE_MAX: Final = 400
_SHARE_MIN: Final = 0.05
_LEADING: Final = 3


@dataclass(frozen=True)
class Shared:
    """What the disks did in the time of operations: means per operation, over the disks.

    Attributes:
        length_ns: The operations' own time.
        kinds_ns: The time spent on each kind of request, whoever asked for it; ``parts_ns`` by part.
        requests: Requests of each kind that were complete in it.
        idle_ns: The time in which no disk had a request.
    """

    length_ns: float
    kinds_ns: Mapping[str, float]
    parts_ns: Mapping[str, float]
    requests: Mapping[str, float]
    idle_ns: float


@dataclass(frozen=True)
class SlowOperations:
    """The slow operations of a trial, or the slow requests of a load without a log.

    Attributes:
        percentile: A slow one takes at least this percentile of all, ``threshold_ns``.
        number: The number of slow ones.
        slow: What the disks did in their time; None without a log.
        usual: The same of all operations.
        kinds: Of a load without a log: the share of each kind among the slow requests.
        parts: Of these, the mean time of each part.
    """

    percentile: float
    threshold_ns: int
    number: int
    slow: Shared | None = None
    usual: Shared | None = None
    kinds: Mapping[str, float] | None = None
    parts: Mapping[str, float] | None = None


def slow_operations(
    trace: Trace, disks: Sequence[str], window_ns: Span, spans: Sequence[Span], percentile: float
) -> SlowOperations | None:
    """The slow operations of a window; without ``spans`` its slow requests. None: there are none at all."""
    by_disk = [trace.of_disk(name) for name in disks]
    if not spans:
        return _slow_requests(by_disk, window_ns, percentile)
    lengths = np.array([end - begin for begin, end in spans], dtype=np.int64)
    threshold_ns = nearest_rank(np.sort(lengths), percentile / 100)
    slowest = [span for span, length in zip(spans, lengths, strict=True) if length >= threshold_ns]
    return SlowOperations(
        percentile, threshold_ns, len(slowest), _shared(by_disk, slowest), _shared(by_disk, list(spans))
    )


def _shared(by_disk: Sequence[Records], spans: list[Span]) -> Shared:
    """The mean over operations, of at most a sample taken at equal distances."""
    chosen = spans[:: -(-len(spans) // _SAMPLE_MAX)]
    kinds, parts, requests = (np.zeros(len(each)) for each in (KINDS, PARTS, KINDS))
    idle_ns = 0.0
    for records in by_disk:
        complete, arrival = (records[name].astype(np.int64) for name in ("complete_ns", "arrival_ns"))
        for begin, end in chosen:
            near = records[(complete > begin) & (arrival < end)]
            found = attribute(near, (begin, end))
            kinds += found.shares_ns.sum(axis=1)
            parts += found.shares_ns.sum(axis=0)
            idle_ns += found.idle_ns
            done = completed(near, (begin, end))
            requests += np.bincount(done["kind"], minlength=len(KINDS))
    each = len(chosen) * len(by_disk)
    return Shared(
        length_ns=sum(end - begin for begin, end in chosen) / len(chosen),
        kinds_ns=_named(KINDS, kinds / each),
        parts_ns=_named(PARTS, parts / each),
        requests=_named(KINDS, requests / len(chosen)),
        idle_ns=idle_ns / each,
    )


def _named(names: Sequence[str], values: npt.NDArray[np.float64]) -> dict[str, float]:
    """The values that are not 0, the largest first."""
    found = {name: float(value) for name, value in zip(names, values, strict=True) if value}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _slow_requests(by_disk: Sequence[Records], window_ns: Span, percentile: float) -> SlowOperations | None:
    waited = [KINDS.index(kind) for kind in _WAITED]
    done = [completed(records, window_ns) for records in by_disk]
    if not any(len(each) for each in done):
        return None
    found: Records = np.concatenate([each[np.isin(each["kind"], waited)] for each in done])
    if not len(found):
        return None
    times = latency_ns(found)
    threshold_ns = nearest_rank(np.sort(times), percentile / 100)
    slowest = found[times >= threshold_ns]
    counts = np.bincount(slowest["kind"], minlength=len(KINDS)) / len(slowest)
    means = parts_ns(slowest).mean(axis=0)
    return SlowOperations(
        percentile, threshold_ns, len(slowest), kinds=_named(KINDS, counts), parts=_named(PARTS, means)
    )


def slow_sentences(found: SlowOperations, trial: Explanation) -> list[str]:
    said = _of_requests(found) if found.slow is None else _of_operations(found, trial)
    processor = trial.processor
    if processor is not None and trial.operations:
        queued_ns = processor.queued_ns / trial.operations
        busy = percent(processor.utilisation)
        said.append(
            f"Processors: {busy} busy over the window; per {trial.unit}, work waits "
            f"{format_value(queued_ns, 'ns')} for one."
        )
    return said


def _of_operations(found: SlowOperations, trial: Explanation) -> list[str]:
    slow, usual = found.slow, found.usual
    assert slow is not None
    assert usual is not None
    head = (
        f"{sentence_case(counted(found.number, trial.operation or 'operation'))} took "
        f"{format_value(found.threshold_ns, 'ns')} (p{found.percentile:g}) or more, on average "
        f"{format_value(slow.length_ns, 'ns')}; the mean of all is {format_value(usual.length_ns, 'ns')}."
    )
    clauses = [
        f"{KIND_WORDS[kind]} for {format_value(time_ns, 'ns')} "
        f"(all: {format_value(usual.kinds_ns.get(kind, 0.0), 'ns')}), "
        f"{significant(slow.requests.get(kind, 0.0))} complete "
        f"({significant(usual.requests.get(kind, 0.0))})"
        for kind, time_ns in slow.kinds_ns.items()
        if time_ns >= _SHARE_MIN * slow.length_ns
    ]
    said = [head]
    if clauses:
        said.append(f"In the time of a slow one the disks served {'; '.join(clauses)}.")
    parts = [
        f"{PART_WORDS[part]} {format_value(time_ns, 'ns')}"
        for part, time_ns in slow.parts_ns.items()
        if part in PART_WORDS and time_ns >= _SHARE_MIN * slow.length_ns
    ][:_LEADING]
    if parts:
        said.append(f"Their time went into {listed(parts)}.")
    idle = slow.idle_ns / slow.length_ns
    said.append(
        f"For {format_value(slow.idle_ns, 'ns')} ({percent(idle)}; all: "
        f"{percent(usual.idle_ns / usual.length_ns)}) no disk had a request: programs computed, or sessions "
        "waited for one another."
    )
    return said


def _of_requests(found: SlowOperations) -> list[str]:
    assert found.kinds is not None
    assert found.parts is not None
    kinds = [f"{percent(share)} {KIND_WORDS[kind]}" for kind, share in found.kinds.items()]
    parts = [
        f"{PART_WORDS[part]} {format_value(time_ns, 'ns')}"
        for part, time_ns in found.parts.items()
        if part in PART_WORDS
    ][:_LEADING]
    return [
        "The load keeps no log of its operations: the slowest requests for which programs wait stand for it.",
        f"{sentence_case(counted(found.number, 'request'))} took {format_value(found.threshold_ns, 'ns')} "
        f"(p{found.percentile:g}) or more: {listed(kinds)}. Their time went into {listed(parts)}.",
    ]
