# SPDX-License-Identifier: Apache-2.0
"""A comparison of two trials in sentences, in which the first trial always comes first."""

from __future__ import annotations

from typing import Final

from strata.explanation.analysis import DESTAGE_PARTS, Explanation
from strata.explanation.comparison import IDLE, Contribution, TrialComparison
from strata.units import format_value, percent, significant, times
from strata.words import counted, listed, sentence_case

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
PART_WORDS: Final = {
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
_DIFFERING_MAX: Final = 8

Names = tuple[str, str]


def names_of(first: Explanation, second: Explanation) -> Names:
    """Names for two trials: their stacks where these differ."""
    if first.stack != second.stack and first.workload == second.workload:
        return first.stack, second.stack
    if first.name != second.name:
        return first.name, second.name
    return f"the first {first.name}", f"the second {second.name}"


def sentences(comparison: TrialComparison) -> list[str]:
    """Why one trial is faster, the largest cause first; then the traffic of both, and what differs."""
    names = names_of(comparison.first, comparison.second)
    ratio = comparison.second_ns / comparison.first_ns
    per = f"{_ns(comparison.first_ns)} per {comparison.first.unit} against {_ns(comparison.second_ns)}"
    if abs(ratio - 1) < _EVEN:
        found = [f"{names[0]} and {names[1]} are equally fast: {per}.", *_traffic(comparison, names)]
        return found + _differing(comparison)
    found = [f"{names[0]} is {times(ratio)} as fast as {names[1]}: {per} of the measured window."]
    worth = [
        each for each in comparison.contributions if _share(each.difference_ns, comparison) >= _SHARE_MIN
    ]
    causes = [each for each in worth if each.kind != IDLE]
    if causes:
        found.append(_ranking(causes, comparison, names))
    found += [_cause(each, comparison, names) for each in causes]
    if any(each.kind == "flush" for each in causes):
        found += _flushed(comparison, names)
    found += _traffic(comparison, names) + _unexplained(comparison, names)
    found += _computing(comparison, names) + _differing(comparison)
    if comparison.first.drives != comparison.second.drives:
        found.append("Their drives differ, too, and with them the times: compare trials of one seed.")
    return found


def _share(time_ns: float, comparison: TrialComparison) -> float:
    return abs(time_ns) / abs(comparison.difference_ns)


def _of_difference(time_ns: float, comparison: TrialComparison, text: str) -> str:
    """A share of the difference in parentheses; nothing where parts are larger than the whole."""
    largest = max(_share(each.difference_ns, comparison) for each in comparison.contributions)
    return "" if largest > 1 else f" ({percent(_share(time_ns, comparison))}{text})"


def _ranking(causes: list[Contribution], comparison: TrialComparison, names: Names) -> str:
    slower = names[1] if comparison.difference_ns > 0 else names[0]
    sign = 1 if comparison.difference_ns > 0 else -1
    more = [each for each in causes if each.difference_ns * sign > 0]
    less = [each for each in causes if each.difference_ns * sign < 0]

    def words(each: Contribution) -> str:
        share = _of_difference(each.difference_ns, comparison, "")
        return f"{_ns(abs(each.difference_ns))}{share} on {KIND_WORDS[each.kind]}"

    text = f"Of the {_ns(abs(comparison.difference_ns))} that {slower} takes more, its disks spend "
    text += listed([words(each) for each in more]) if more else "nothing more on any kind of request"
    if less:
        text += f"; they save {listed([words(each) for each in less])}"
    return text + "."


def _cause(each: Contribution, comparison: TrialComparison, names: Names) -> str:
    """The number of requests of a kind, the cost of each, and the parts that take the time."""
    kind, unit = sentence_case(KIND_WORDS[each.kind]), comparison.first.unit
    text = (
        f"{kind}: {names[0]} makes {significant(each.first.count)} per {unit} "
        f"({_ns(each.first.each_ns)} of the disk's time each), "
        f"{names[1]} {significant(each.second.count)} ({_ns(each.second.each_ns)} each)"
    )
    if each.second.count and each.first.count:
        number = "more" if each.second.count > each.first.count else "fewer"
        cost = "longer" if each.by_cost_ns > 0 else "less"
        effects = [
            f"that {words} {'costs' if gained >= 0 else 'saves'} {_ns(abs(gained))}"
            for words, gained in (
                (f"there are {number}", each.by_count_ns),
                (f"each takes {cost}", each.by_cost_ns),
            )
            if abs(gained) >= _EFFECT_MIN * abs(each.difference_ns)
        ]
        text += f". Under {names[1]}, {', '.join(effects)}" if effects else ""
    parts = [
        (part, gained)
        for part, gained in each.parts_ns.items()
        if part in PART_WORDS and abs(gained) >= _EFFECT_MIN * abs(each.difference_ns)
    ][:_LEADING_PARTS]
    if parts:
        words = [f"{PART_WORDS[part]} {_ns(gained, signed=True)}" for part, gained in parts]
        text += f"; the difference is {listed(words)}"
    return text + "."


def _flushed(comparison: TrialComparison, names: Names) -> list[str]:
    each = []
    for trial, name in zip((comparison.first, comparison.second), names, strict=True):
        flushes, destages = trial.sum("flushes"), trial.sum("destages")
        if not flushes or not destages:
            return []
        each.append(f"{significant(destages / flushes)} times per flush under {name}")
    found = [f"The disks write from their caches to the medium {listed(each)}."]
    return found + _destaged(comparison, names)


def _destaged(comparison: TrialComparison, names: Names) -> list[str]:
    """The time that the heads spend emptying the write caches, by part."""
    each = []
    for trial, name in zip((comparison.first, comparison.second), names, strict=True):
        parts_ns = {part: trial.sum(f"destage_{part}_ns") / trial.operations for part in DESTAGE_PARTS}
        if not any(parts_ns.values()):
            return []
        words = listed([f"{_ns(time_ns)} {PART_WORDS[part]}" for part, time_ns in parts_ns.items()])
        each.append(f"{_ns(sum(parts_ns.values()))} under {name} ({words})")
    return [f"Emptying the caches takes the heads, per {comparison.first.unit}, {listed(each)}."]


def _traffic(comparison: TrialComparison, names: Names) -> list[str]:
    """The requests of an operation: counts by the driver, seeks and journal by the trace."""
    first, second = comparison.first, comparison.second
    journal = (first.count("requests", "write_journal"), second.count("requests", "write_journal"))
    accounts = {
        **{name: name for name in ("writes", "flushes", "reads")},
        "writes from the disks' caches": "destages",
        "seeks to empty their caches": "destage_seeks",
    }
    counts: list[tuple[str, int, int]] = [
        *((name, first.sum(key), second.sum(key)) for name, key in accounts.items()),
        ("seeks that requests waited for", first.count("seeks"), second.count("seeks")),
        ("requests served at scheduler_wait_limit", first.count("overdue"), second.count("overdue")),
        ("journal writes", *journal),
    ]
    clauses = [
        f"{significant(one / first.operations)} and {significant(other / second.operations)} {name}"
        for name, one, other in counts
        if one or other
    ]
    found = [f"Per {first.unit} {names[0]} and {names[1]} make {listed(clauses)}."] if clauses else []
    clause = listed([f"{name} {_volume(each)}" for name, each in zip(names, (first, second), strict=True)])
    found.append(f"Written to the disks per {first.unit}: {clause}.")
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


def _unexplained(comparison: TrialComparison, names: Names) -> list[str]:
    idle = next((each for each in comparison.contributions if each.kind == IDLE), None)
    gained_ns = idle.difference_ns if idle else 0.0
    if _share(gained_ns, comparison) < _SHARE_MIN:
        return []
    more = "more" if gained_ns >= 0 else "less"
    several = any(len(each.disks) > 1 for each in (comparison.first, comparison.second))
    others = ", or for another disk than the idle one" if several else ""
    share = _of_difference(gained_ns, comparison, " of the difference")
    return [
        f"Not explained by the disks: per {comparison.first.unit} they stand idle "
        f"{_ns(abs(gained_ns))} {more} under {names[1]}{share}, "
        f"while programs compute, sleep or wait for each other{others}."
    ]


def _computing(comparison: TrialComparison, names: Names) -> list[str]:
    """The processors' time per operation, where its difference is worth a sentence."""
    one, other = comparison.first, comparison.second
    if one.processor is None or other.processor is None:
        return []
    first_ns, second_ns = one.processor.busy_ns / one.operations, other.processor.busy_ns / other.operations
    if _share(second_ns - first_ns, comparison) < _SHARE_MIN:
        return []
    parts = {
        part: ns / other.operations - one.processor.time_ns[part] / one.operations
        for part, ns in other.processor.time_ns.items()
    }
    largest = max(parts, key=lambda part: abs(parts[part]))
    return [
        f"Per {one.unit} the processors compute for {_ns(first_ns)} under {names[0]} and "
        f'{_ns(second_ns)} under {names[1]}; the part "{largest}" differs most '
        f"({_ns(parts[largest], signed=True)})."
    ]


def _differing(comparison: TrialComparison) -> list[str]:
    """The keys in which the two trials were declared otherwise, defaults included."""
    if not comparison.differing:
        return []
    shown = comparison.differing[:_DIFFERING_MAX]
    more = len(comparison.differing) - len(shown)
    others = f"; and in {counted(more, 'further key')}" if more else ""
    return [f"They are declared otherwise in: {'; '.join(shown)}{others}."]


def _ns(time_ns: float, *, signed: bool = False) -> str:
    text = format_value(abs(time_ns), "ns")
    if not signed:
        return text
    return f"+{text}" if time_ns >= 0 else f"\u2212{text}"
