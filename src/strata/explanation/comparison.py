# SPDX-License-Identifier: Apache-2.0
"""Why one trial is faster than another: the time that an operation takes, divided and subtracted.

The time of one operation is the measured window divided by the operations. On every disk it consists of the
shares of each kind of request (`strata.traces.attribution.attribute`) and idle time, so their differences
add up to the difference of the two trials: the disks explain all but the idle time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strata.errors import ResultError
from strata.explanation.analysis import DESTAGE_PARTS, PARTS, Explanation
from strata.traces.kinds import KINDS
from strata.units import format_value, percent, significant, times
from strata.words import listed, sentence_case

IDLE = "idle"


@dataclass(frozen=True)
class Side:
    """One trial's requests of a kind, per operation; ``share_ns``, by part, is a mean over the disks."""

    count: float
    bytes: float
    share_ns: Mapping[str, float]

    @property
    def total_ns(self) -> float:
        return sum(self.share_ns.values())

    @property
    def each_ns(self) -> float:
        return self.total_ns / self.count if self.count else 0.0


@dataclass(frozen=True)
class Contribution:
    """The contribution of one kind of request, or of ``idle`` time, to the difference per operation."""

    kind: str
    faster: Side
    slower: Side

    @property
    def difference_ns(self) -> float:
        return self.slower.total_ns - self.faster.total_ns

    @property
    def by_count_ns(self) -> float:
        """The effect of their number, each at the mean of both costs."""
        if not (self.slower.count and self.faster.count):
            return self.difference_ns
        return (self.slower.count - self.faster.count) * (self.slower.each_ns + self.faster.each_ns) / 2

    @property
    def by_cost_ns(self) -> float:
        return self.difference_ns - self.by_count_ns

    @property
    def parts_ns(self) -> dict[str, float]:
        """The difference by part of the mechanism, the largest first."""
        gained = {
            part: self.slower.share_ns.get(part, 0.0) - self.faster.share_ns.get(part, 0.0)
            for part in (*PARTS, IDLE)
        }
        return dict(sorted(gained.items(), key=lambda item: -abs(item[1])))


@dataclass(frozen=True)
class Comparison:
    """Two trials of one workload, with the contributions to their difference, the largest first."""

    faster: Explanation
    slower: Explanation
    contributions: tuple[Contribution, ...]

    @property
    def faster_ns(self) -> float:
        return self.faster.window_ns / self.faster.operations

    @property
    def slower_ns(self) -> float:
        return self.slower.window_ns / self.slower.operations

    @property
    def difference_ns(self) -> float:
        return self.slower_ns - self.faster_ns


def compare(first: Explanation, second: Explanation) -> Comparison:
    """Divide the difference of two trials. Raises ResultError if they cannot be compared."""
    _refuse_unlike(first, second)
    faster, slower = sorted((first, second), key=lambda each: each.window_ns / each.operations)
    contributions = [Contribution(kind, _side(faster, kind), _side(slower, kind)) for kind in (*KINDS, IDLE)]
    present = [each for each in contributions if each.faster.total_ns or each.slower.total_ns]
    present.sort(key=lambda each: -abs(each.difference_ns))
    return Comparison(faster, slower, tuple(present))


def _refuse_unlike(first: Explanation, second: Explanation) -> None:
    place = f"{first.trial_id}, {second.trial_id}"
    if first.time_domain != second.time_domain:
        cause = f"one was measured in {first.time_domain} time, the other in {second.time_domain} time"
        remedy = "compare trials of one time domain: the two are never pooled"
        raise ResultError(cause, place=place, remedy=remedy)
    if (first.workload, first.workload_title) != (second.workload, second.workload_title):
        one, two = (each.workload_title or each.workload for each in (first, second))
        remedy = "compare trials that differ in their stack, their device or their seed alone"
        raise ResultError(f'they ran different workloads: "{one}" and "{two}"', place=place, remedy=remedy)
    for each in (first, second):
        for is_wrong, cause, remedy in (
            (
                not each.operations,
                "the workload counts no operations that its time could be divided by",
                "compare trials of a workload with a metric `transactions` or `operations`",
            ),
            (
                each.left_out is None,
                "the trial has no trace of its requests",
                "only the lab keeps one: run it there, without `trace = false` in [study]",
            ),
            (
                each.missing,
                f"the trace was full before {each.missing:,} requests of the measured window",
                "shorten the measured window, or what comes before it, and run the trial again",
            ),
            (not each.disks, "the trial has no disks' accounts", "run it in the lab"),
        ):
            if is_wrong:
                raise ResultError(cause, place=each.trial_id, remedy=remedy)


def _side(trial: Explanation, kind: str) -> Side:
    disks = len(trial.disks)
    if kind == IDLE:
        idle_ns = sum(disk.idle_ns for disk in trial.disks) / disks / trial.operations
        return Side(0.0, 0.0, {IDLE: idle_ns})
    shares: dict[str, float] = {}
    for disk in trial.disks:
        found = disk.kind(kind)
        for part, share_ns in found.shares_ns.items() if found else ():
            shares[part] = shares.get(part, 0.0) + share_ns / disks / trial.operations
    count, size = trial.count("requests", kind), trial.count("bytes", kind)
    return Side(count / trial.operations, size / trial.operations, shares)


KIND_WORDS: Final = {
    "read": "reads of data",
    "read_metadata": "reads of metadata",
    "write": "background writes",
    "write_sync": "synchronous writes",
    "write_metadata": "metadata written back",
    "write_journal": "journal writes and commits",
    "flush": "flushes",
    "discard": "discards",
}
_PART_WORDS: Final = {
    "queue": "waiting behind the disk's own work",
    "overhead": "command overhead",
    "seek": "seeking",
    "rotation": "rotation",
    "transfer": "transfer",
    "cell": "flash cells",
    "cache": "waiting for the write cache",
    "throttle": "throttling",
    "cleaning": "cleaning",
    "flush": "emptying the write cache",
    "fault": "faults",
}
_SHARE_MIN: Final = 0.03  # of the difference, for a sentence
_EVEN: Final = 0.005
_EFFECT_MIN: Final = 0.1  # of a kind's difference, for a mention
_LEADING_PARTS: Final = 3


def names_of(faster: Explanation, slower: Explanation) -> tuple[str, str]:
    """Names for two trials: their stacks where these differ."""
    if faster.stack != slower.stack:
        return faster.stack, slower.stack
    if faster.name != slower.name:
        return faster.name, slower.name
    return f"the faster {faster.name}", f"the slower {slower.name}"


def sentences(comparison: Comparison) -> list[str]:
    """Why the faster trial is faster, the largest cause first; then the traffic of both."""
    faster, slower = names_of(comparison.faster, comparison.slower)
    operation = comparison.faster.operation
    ratio = comparison.slower_ns / comparison.faster_ns
    per = f"{_ns(comparison.faster_ns)} per {operation} against {_ns(comparison.slower_ns)}"
    if ratio < 1 + _EVEN:
        return [f"{faster} and {slower} are equally fast: {per}.", *_traffic(comparison, faster, slower)]
    found = [f"{faster} is {times(ratio)} as fast as {slower}: {per} of the measured window."]
    worth = [each for each in comparison.contributions if _share(each, comparison) >= _SHARE_MIN]
    causes = [each for each in worth if each.kind != IDLE]
    if causes:
        found.append(_ranking(causes, comparison, slower))
    found += [_cause(each, comparison, faster, slower) for each in causes]
    if any(each.kind == "flush" for each in causes):
        found += _flushed(comparison, faster, slower)
    found += _traffic(comparison, faster, slower) + _unexplained(comparison, slower)
    found += _computing(comparison, faster, slower)
    if comparison.faster.drives != comparison.slower.drives:
        found.append("Their drives differ, too, and with them the times: compare trials of one seed.")
    return found


def _share(each: Contribution, comparison: Comparison) -> float:
    return abs(each.difference_ns) / comparison.difference_ns


def _ranking(causes: list[Contribution], comparison: Comparison, slower: str) -> str:
    more = [each for each in causes if each.difference_ns > 0]
    less = [each for each in causes if each.difference_ns < 0]

    def words(each: Contribution) -> str:
        share = percent(_share(each, comparison))
        return f"{_ns(abs(each.difference_ns))} ({share}) on {KIND_WORDS[each.kind]}"

    text = f"Of the {_ns(comparison.difference_ns)} that {slower} takes more, its disks spend "
    text += listed([words(each) for each in more]) if more else "nothing more on any kind of request"
    if less:
        text += f"; they save {listed([words(each) for each in less])}"
    return text + "."


def _cause(each: Contribution, comparison: Comparison, faster: str, slower: str) -> str:
    """The number of requests of a kind, the cost of each, and the parts that take the time."""
    operation = comparison.faster.operation
    kind = sentence_case(KIND_WORDS[each.kind])
    text = (
        f"{kind}: {slower} makes {significant(each.slower.count)} per {operation} "
        f"({_ns(each.slower.each_ns)} of the disk's time each), "
        f"{faster} {significant(each.faster.count)} ({_ns(each.faster.each_ns)} each)"
    )
    if each.slower.count and each.faster.count:
        number = "more" if each.slower.count > each.faster.count else "fewer"
        cost = "longer" if each.by_cost_ns > 0 else "less"
        effects = [
            f"that {words} {'costs' if gained >= 0 else 'saves'} {_ns(abs(gained))}"
            for words, gained in (
                (f"there are {number}", each.by_count_ns),
                (f"each takes {cost}", each.by_cost_ns),
            )
            if abs(gained) >= _EFFECT_MIN * abs(each.difference_ns)
        ]
        text += ". " + sentence_case(", ".join(effects)) if effects else ""
    parts = [
        (part, gained)
        for part, gained in each.parts_ns.items()
        if part in _PART_WORDS and abs(gained) >= _EFFECT_MIN * abs(each.difference_ns)
    ][:_LEADING_PARTS]
    if parts:
        words = [f"{_PART_WORDS[part]} {_ns(gained, signed=True)}" for part, gained in parts]
        text += f"; the difference is {listed(words)}"
    return text + "."


def _flushed(comparison: Comparison, faster: str, slower: str) -> list[str]:
    each = []
    for trial, name in ((comparison.slower, slower), (comparison.faster, faster)):
        flushes, destages = trial.sum("flushes"), trial.sum("destages")
        if not flushes or not destages:
            return []
        each.append(f"{significant(destages / flushes)} times per flush under {name}")
    found = [f"The disks write from their caches to the medium {listed(each)}."]
    return found + _destaged(comparison, faster, slower)


def _destaged(comparison: Comparison, faster: str, slower: str) -> list[str]:
    """The time that the heads spend emptying the write caches, by part."""
    operation, each = comparison.faster.operation, []
    for trial, name in ((comparison.slower, slower), (comparison.faster, faster)):
        parts_ns = {part: trial.sum(f"destage_{part}_ns") / trial.operations for part in DESTAGE_PARTS}
        if not any(parts_ns.values()):
            return []
        words = listed([f"{_ns(time_ns)} {_PART_WORDS[part]}" for part, time_ns in parts_ns.items()])
        each.append(f"{_ns(sum(parts_ns.values()))} under {name} ({words})")
    return [f"Emptying the caches takes the heads, per {operation}, {listed(each)}."]


def _traffic(comparison: Comparison, faster: str, slower: str) -> list[str]:
    """The requests of an operation: counts by the driver, seeks and journal by the trace."""
    first, second = comparison.faster, comparison.slower
    accounts = {
        **{name: name for name in ("writes", "flushes", "reads")},
        "writes from the disks' caches": "destages",
        "seeks to empty their caches": "destage_seeks",
    }
    journal, other_journal = (each.count("requests", "write_journal") for each in (first, second))
    counted = [
        *((name, first.sum(key), second.sum(key)) for name, key in accounts.items()),
        ("seeks that requests waited for", first.count("seeks"), second.count("seeks")),
        ("journal writes", journal, other_journal),
        ("requests served at scheduler_wait_limit", first.count("overdue"), second.count("overdue")),
    ]
    clauses: list[str] = []
    for name, of_first, of_second in counted:
        if of_first or of_second:
            each, other = of_second / second.operations, of_first / first.operations
            more = f"{significant(abs(each - other))} {'more' if each >= other else 'fewer'}"
            clauses.append(f"{significant(each)} {name} ({more}{'' if clauses else f' than {faster}'})")
    found = [f"Per {first.operation} {slower} makes {listed(clauses)}."] if clauses else []
    clause = listed([f"{name} {_volume(each)}" for each, name in ((second, slower), (first, faster))])
    found.append(f"Written to the disks per {first.operation}: {clause}.")
    return found


def _volume(trial: Explanation) -> str:
    sent = trial.sum("write_bytes") / trial.operations
    text = format_value(sent, "B")
    if trial.application_bytes:
        asked = trial.application_bytes / trial.operations
        text += f" for {format_value(asked, 'B')} by the application ({times(sent / asked)})"
    media = trial.sum("media_write_bytes")
    if media:
        text += f", {format_value(media / trial.operations, 'B')} of it onto the medium"
    return text


def _unexplained(comparison: Comparison, slower: str) -> list[str]:
    idle = next((each for each in comparison.contributions if each.kind == IDLE), None)
    gained_ns = idle.difference_ns if idle else 0.0
    share = abs(gained_ns) / comparison.difference_ns
    if share < _SHARE_MIN:
        return []
    more = "more" if gained_ns >= 0 else "less"
    several = any(len(each.disks) > 1 for each in (comparison.faster, comparison.slower))
    others = ", or for another disk than the idle one" if several else ""
    return [
        f"Not explained by the disks: per {comparison.faster.operation} they stand idle "
        f"{_ns(abs(gained_ns))} {more} under {slower} ({percent(share)} of the difference), "
        f"while programs compute, sleep or wait for each other{others}."
    ]


def _computing(comparison: Comparison, faster: str, slower: str) -> list[str]:
    """The processors' time per operation, where its difference is worth a sentence."""
    one, other = comparison.faster, comparison.slower
    if one.processor is None or other.processor is None:
        return []
    fast_ns, slow_ns = one.processor.busy_ns / one.operations, other.processor.busy_ns / other.operations
    if abs(slow_ns - fast_ns) / comparison.difference_ns < _SHARE_MIN:
        return []
    parts = {
        part: ns / other.operations - one.processor.time_ns[part] / one.operations
        for part, ns in other.processor.time_ns.items()
    }
    largest = max(parts, key=lambda part: abs(parts[part]))
    return [
        f"Per {one.operation} the processors compute for {_ns(slow_ns)} under {slower} and {_ns(fast_ns)} "
        f'under {faster}; the part "{largest}" differs most ({_ns(parts[largest], signed=True)}).'
    ]


def _ns(time_ns: float, *, signed: bool = False) -> str:
    text = format_value(abs(time_ns), "ns")
    if not signed:
        return text
    return f"+{text}" if time_ns >= 0 else f"\u2212{text}"
