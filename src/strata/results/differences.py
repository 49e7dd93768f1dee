# SPDX-License-Identifier: Apache-2.0
"""Differences in the making of two sets of results: versions, the lab, the host, the study, plans."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final, Literal, get_args

from strata.devices.kinds import KINDS
from strata.files import read_plain
from strata.model.study_record import StudyRecord
from strata.results.record import ResultRecord, StudySnapshot
from strata.results.store import Reading
from strata.words import grouped

Area = Literal["versions", "packages", "lab", "study", "devices", "stacks", "workloads", "plans", "host"]
AREAS: Final[tuple[Area, ...]] = get_args(Area)

Change = tuple[str, str | None, str | None]
"""A name, the old value, the new value; None where there is none."""

_CHARACTERS_MAX: Final = 200
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The trial's names are compared elsewhere; prerequisites and titles of steps follow from the rest.
_NAMES: Final = frozenset({"trial", "steps", "prerequisites", "variables"})
_STEP_NAMES: Final = frozenset({"id", "title"})
_HASH_DIGITS: Final = 12
# Keys that are compared elsewhere, or say nothing of how a trial was measured.
_SKIPPED: Final = frozenset({"question", "seeds"})


@dataclass(frozen=True)
class Difference:
    """One thing that differed.

    Attributes:
        name: Such as ``kernel``, or a key's path in the study.
        first: Its value in the first set, or several where the trials differ; None where it was absent.
        second: In the second set.
        trials: The number of pairs of trials that differ; None where it does not concern trials.
    """

    area: Area
    name: str
    first: str | None
    second: str | None
    trials: int | None = None


@dataclass(frozen=True)
class Naming:
    """The names of the first study by the compared names of the second."""

    stacks: Mapping[str, str]
    workloads: Mapping[str, str] = field(default_factory=dict)


# The origin of a record, beside its packages.
_ORIGINS: Final[tuple[tuple[Area, str, Callable[[ResultRecord], object]], ...]] = (
    ("versions", "strata", lambda record: record.versions.strata),
    ("versions", "kernel", lambda record: record.versions.kernel),
    ("versions", "agent", lambda record: record.versions.agent),
    ("versions", "result format", lambda record: record.result_version),
    ("lab", "runner", lambda record: record.runner),
    ("lab", "kernel's hash", lambda record: _short(record.fingerprint.kernel_sha256)),
    ("lab", "root image's hash", lambda record: _short(record.fingerprint.image_sha256)),
    ("lab", "agent's hash", lambda record: _short(record.fingerprint.agent_sha256)),
    ("lab", "settings' hash", lambda record: _short(record.fingerprint.setting_sha256)),
    ("lab", "charge per system call, ns", lambda record: record.charges.syscall_ns),
    ("lab", "charge per clock read, ns", lambda record: record.charges.clock_read_ns),
    ("lab", "charge per yield, ns", lambda record: record.charges.yield_ns),
    ("lab", "charge per page looked at in reclaim, ns", lambda record: record.charges.reclaim_ns),
    ("host", "machine", lambda record: record.real_time.host or None),
)


def differences(
    first: StudySnapshot, second: StudySnapshot, pairs: Sequence[tuple[Reading, Reading]], naming: Naming
) -> list[Difference]:
    """Name everything that differed when two sets of results were made, in the order of ``AREAS``."""
    found = [
        *_of_records([(one.record, two.record) for one, two in pairs if one.record and two.record]),
        *study_differences(first, second, naming),
        *_of_plans(pairs, naming),
    ]
    explained = any(each.area in {"devices", "lab"} for each in found)
    if not explained and (count := _unexplained(pairs)):
        found.append(
            Difference("devices", "parameters, or what the lab makes of them (not kept)", "?", "?", count)
        )
    return sorted(found, key=lambda each: AREAS.index(each.area))


def _of_records(pairs: Sequence[tuple[ResultRecord, ResultRecord]]) -> Iterator[Difference]:
    for area, name, read in _ORIGINS:
        yield from _difference(area, name, [(read(one), read(two)) for one, two in pairs])
    names = {name for pair in pairs for record in pair for name in record.versions.packages}
    for name in sorted(names):
        versions = [(one.versions.packages.get(name), two.versions.packages.get(name)) for one, two in pairs]
        yield from _difference("packages", name, versions)


def _difference(area: Area, name: str, values: Sequence[tuple[object, object]]) -> Iterator[Difference]:
    different = [(one, two) for one, two in values if one != two]
    if different:
        known = ({str(each[side]) for each in different if each[side] is not None} for side in (0, 1))
        first, second = (", ".join(sorted(each)) or None for each in known)
        yield Difference(area, name, first, second, len(different))


def study_differences(first: StudyRecord, second: StudyRecord, naming: Naming) -> Iterator[Difference]:
    """Key by key, of the studies as they were read, with their defaults."""
    one, two = first.options(), second.options()
    skipped = {*_SKIPPED, "devices", "stacks", "workloads"}
    if first.seeds != second.seeds:
        yield Difference("study", "seeds", *changed_text(list(first.seeds), list(second.seeds)))
    yield from _keys("study", "", *(_without(each, skipped) for each in (one, two)))
    first_devices = _used_devices(one, naming.stacks.keys())
    yield from _keys("devices", "", first_devices, _used_devices(two, naming.stacks.values()))
    tables: dict[Area, Mapping[str, str]] = {"stacks": naming.stacks, "workloads": naming.workloads}
    for area, names in tables.items():
        for old, new in names.items():
            was, is_now = (_table(_table(each, area), name) for each, name in ((one, old), (two, new)))
            named = old if old == new else f"{old} → {new}"
            if area == "stacks" and _layer_names(was) != _layer_names(is_now):
                yield Difference(area, f"{named}: layers", _title(first, old), _title(second, new))
                was, is_now = (_without(each, {"layers"}) for each in (was, is_now))
            yield from _keys(area, named, was, is_now)


def _layer_names(stack: Mapping[str, Any]) -> list[object]:
    return [each.get("layer") if isinstance(each, Mapping) else each for each in stack.get("layers") or []]


def _title(study: StudyRecord, stack: str) -> str | None:
    """The stack's layers with their declared keys: ``lvm / guest · memory 256MiB / ext4 on wd-re4-500gb``."""
    return study.stacks[stack].title if stack in study.stacks else None


def _table(study: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = study.get(name)
    return found if isinstance(found, Mapping) else {}


def _used_devices(study: Mapping[str, Any], stacks: Collection[str]) -> dict[str, Any]:
    """The devices of the stacks that are compared; all where a stack does not name them."""
    declared = _table(study, "devices")
    used: set[str] = set()
    for name in stacks:
        named = _table(_table(study, "stacks"), name).get("devices")
        used |= {str(each) for each in (named if named and isinstance(named, list) else declared)}
    return {name: table for name, table in declared.items() if name in used}


def _keys(area: Area, prefix: str, one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[Difference]:
    first, second = flat(one), flat(two)
    for key in dict.fromkeys([*first, *second]):
        if first.get(key) != second.get(key):
            name = ": ".join(part for part in (prefix, key) if part)
            unit = _unit(key) if area == "devices" else ""
            was, is_now = changed_text(first.get(key), second.get(key))
            yield Difference(area, name, was and f"{was}{unit}", is_now and f"{is_now}{unit}")


def _unit(key: str) -> str:
    """The unit of a device's parameter, by its key's path, with a space before it."""
    name = key.rpartition(".")[2]
    found = (kind.parameters[name].unit for kind in KINDS.values() if name in kind.parameters)
    unit = next(found, "") if "parameters." in key else ""
    return "" if unit in {"", "1"} else f" {unit}"


def _of_plans(pairs: Sequence[tuple[Reading, Reading]], naming: Naming) -> Iterator[Difference]:
    renamed = any(old != new for old, new in (*naming.stacks.items(), *naming.workloads.items()))
    cells = grouped((pair[0].trial.cell, pair) for pair in pairs)
    counts: dict[Change, int] = {}
    for seeds in cells.values():
        one, two = seeds[0]
        # Plans of different seeds differ in every step.
        if one.trial.seed == two.trial.seed and one.attempt is not None and two.attempt is not None:
            for change in plan_changes(one.attempt.plan_path, two.attempt.plan_path, renamed=renamed):
                counts[change] = counts.get(change, 0) + len(seeds)
    for change, count in counts.items():
        yield Difference("plans", *change, trials=count)


def _unexplained(pairs: Sequence[tuple[Reading, Reading]]) -> int:
    return sum(
        one.record.spec_sha256 != two.record.spec_sha256
        and not [*plan_changes(one.attempt.plan_path, two.attempt.plan_path, renamed=False)]
        for one, two in pairs
        if one.record and two.record and one.attempt and two.attempt and one.trial == two.trial
    )


def _short(sha256: str | None) -> str | None:
    return None if sha256 is None else sha256[:_HASH_DIGITS]


def plan_changes(first: Path, second: Path, *, renamed: bool) -> Iterator[Change]:
    """The changes from one plan file to another.

    With ``renamed`` the stack or the workload has another name, and identifiers derived from it are ignored.
    """
    one, two = (_read(path, renamed=renamed) for path in (first, second))
    if one is None or two is None:
        if one is not two:
            there, lost = "is there", "is missing or damaged"
            yield ("the plan", lost if one is None else there, lost if two is None else there)
        return
    yield from _changes("", *(flat(_without(each, _NAMES)) for each in (one, two)))
    steps = [{step["id"]: step for step in plan.get("steps", [])} for plan in (one, two)]
    for name in dict.fromkeys([*steps[0], *steps[1]]):
        before, after = steps[0].get(name), steps[1].get(name)
        if before is None or after is None:
            yield (f"step {name}", _command(before), _command(after))
        elif before != after:
            yield from _step_changes(name, before, after)


def _read(path: Path, *, renamed: bool) -> dict[str, Any] | None:
    try:
        text = read_plain(path).decode()
        plan = json.loads(_UUID.sub("UUID", text) if renamed else text)
    except (OSError, ValueError, RecursionError):  # the records have the rest
        return None
    return plan if isinstance(plan, dict) and _has_steps(plan) else None


def _has_steps(plan: Mapping[str, Any]) -> bool:
    steps = plan.get("steps")
    return isinstance(steps, list) and all(
        isinstance(step, dict)
        and isinstance(step.get("id"), str)
        and all(isinstance(word, str) for word in step.get("argv", []))
        for step in steps
    )


def _without(table: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def _step_changes(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    old, new = before.get("argv", []), after.get("argv", [])
    if old != new:
        yield (f"step {name}", *_changed_words(old, new))
    rest = (flat(_without(each, _STEP_NAMES | {"argv"})) for each in (before, after))
    yield from _changes(f"step {name}: ", *rest)


def _changed_words(old: list[str], new: list[str]) -> tuple[str | None, str | None]:
    found: tuple[list[str], list[str]] = ([], [])
    for kind, *at in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if kind != "equal":
            found[0].extend(_with_option(old, at[0], at[1]))
            found[1].extend(_with_option(new, at[2], at[3]))
    return changed_text(*(" … ".join(each) or None for each in found))


def _with_option(words: list[str], start: int, end: int) -> list[str]:
    """A part of a command line, if there is any, with the option before a bare value."""
    if start == end:
        return []
    is_value = not words[start].startswith("-") and start > 0 and words[start - 1].startswith("-")
    return [shlex.join(words[start - is_value : end])]


def _command(step: Mapping[str, Any] | None) -> str | None:
    return None if step is None else _cut(shlex.join(step.get("argv", [])))


def _changes(prefix: str, one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys([*one, *two]):
        if one.get(key) != two.get(key) and (one.get(key) or two.get(key)):
            yield (f"{prefix}{key}", *changed_text(one.get(key), two.get(key)))


def flat(value: object, path: str = "") -> dict[str, Any]:
    """A tree of tables and lists as one table, by the path of each key: ``layers[0].mkfs``.

    Lists of plain values stay one value.
    """
    if isinstance(value, Mapping) and value:
        parts = [(f"{path}.{key}" if path else str(key), below) for key, below in value.items()]
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        parts = [(f"{path}[{number}]", below) for number, below in enumerate(value)]
    else:
        return {path: value} if path else {}
    return {key: leaf for place, below in parts for key, leaf in flat(below, place).items()}


def changed_text(first: object, second: object) -> tuple[str | None, str | None]:
    """Two values for a reader; long texts are cut to where they differ."""
    one, two = (
        value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in (first, second)
    )
    if one is not None and two is not None and max(len(one), len(two)) > _CHARACTERS_MAX:
        same = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), 0)
        start = max(0, same - _CHARACTERS_MAX // 4)
        one, two = (("…" if start else "") + each[start:] for each in (one, two))
    return None if one is None else _cut(one), None if two is None else _cut(two)


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS_MAX else text[: _CHARACTERS_MAX - 1] + "…"
