# SPDX-License-Identifier: Apache-2.0
"""What two plans ask for that is not the same, in few words."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

from strata.folders import read_plain

Change = tuple[str, str | None, str | None]
"""What changed, what it was, what it is; None where it was not, or is not."""

_CHARACTERS_MAX: Final = 200
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The trial's names are compared elsewhere; what is required and a step's title follow from the rest.
_NAMES: Final = frozenset({"trial", "steps", "prerequisites", "variables"})
_STEP_NAMES: Final = frozenset({"id", "title"})


def plan_changes(first: Path, second: Path, *, renamed: bool) -> Iterator[Change]:
    """What changed from one plan file to another.

    Args:
        first: The one.
        second: The other.
        renamed: Whether stack or workload have other names, from which identifiers are derived: then those
            say nothing.
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
    except (OSError, ValueError, RecursionError):  # the records tell the rest; a plan is not what counts
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


def _without(table: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def _step_changes(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    old, new = before.get("argv", []), after.get("argv", [])
    if old != new:
        yield (f"step {name}", *_changed_words(old, new))
    rest = (flat(_without(each, _STEP_NAMES | {"argv"})) for each in (before, after))
    yield from _changes(f"step {name}: ", *rest)


def _changed_words(old: list[str], new: list[str]) -> tuple[str | None, str | None]:
    """Of two command lines what is not the same."""
    found: tuple[list[str], list[str]] = ([], [])
    for kind, *at in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if kind != "equal":
            found[0].extend(_with_option(old, at[0], at[1]))
            found[1].extend(_with_option(new, at[2], at[3]))
    return changed_text(*(" … ".join(each) or None for each in found))


def _with_option(words: list[str], start: int, end: int) -> list[str]:
    """A part of a command line, if there is any; before a bare value its option, which makes sense of it."""
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
        found: dict[str, Any] = {}
        for key, below in value.items():
            found |= flat(below, f"{path}.{key}" if path else str(key))
        return found
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        found = {}
        for number, below in enumerate(value):
            found |= flat(below, f"{path}[{number}]")
        return found
    return {path: value} if path else {}


def changed_text(first: object, second: object) -> tuple[str | None, str | None]:
    """Two values for a reader; None where there is none. Long texts are cut to where they differ."""
    one, two = (_text(value) for value in (first, second))
    if one is not None and two is not None and max(len(one), len(two)) > _CHARACTERS_MAX:
        same = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), 0)
        start = max(0, same - _CHARACTERS_MAX // 4)
        one, two = (("…" if start else "") + each[start:] for each in (one, two))
    return None if one is None else _cut(one), None if two is None else _cut(two)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS_MAX else text[: _CHARACTERS_MAX - 1] + "…"
