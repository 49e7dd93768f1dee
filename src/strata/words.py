# SPDX-License-Identifier: Apache-2.0
"""Words into sentences: lists, numbers of things, capitals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar, cast

Key = TypeVar("Key")
Text = TypeVar("Text", bound=str)
Value = TypeVar("Value")


def listed(parts: Sequence[Text], last: str = "and") -> Text:
    """``a, b and c``; Markup stays Markup."""
    if len(parts) < 2:
        return parts[0] if parts else cast("Text", "")
    kind = type(parts[0])
    return cast("Text", kind(f" {last} ").join([kind(", ").join(parts[:-1]), parts[-1]]))


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values by their keys, for a sentence on each key."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def matching(names: Iterable[str], globs: Sequence[str]) -> list[str]:
    """The names that match one of the globs; without globs all."""
    return [name for name in names if not globs or any(fnmatchcase(name, glob) for glob in globs)]


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 trial``, ``36 trials``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def beginning_and_end(text: str, characters_max: int, joint: str = "\n") -> str:
    """A program's message without empty lines; of a long one the first line, the cause, and the end.

    A usage of 3,000 characters after ``Value is too large.`` comes to that line, ``…`` and its last lines.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    whole = joint.join(lines).strip()
    if len(whole) <= characters_max:
        return whole
    first, last = lines[0].strip(), list[str]()
    if len(first) > characters_max // 2:
        first = first[: characters_max // 2] + "…"
    left = characters_max - len(first)
    for line in reversed(lines[1:]):
        left -= len(line) + len(joint)
        if left < 0:
            break
        last.insert(0, line)
    return joint.join([first, "…", *last])


def sentence_case(text: str) -> str:
    """The first letter in upper case, the others as they are."""
    return text[:1].upper() + text[1:]


def time_left(left_s: float | None) -> str:
    """The time left in words, rounded as an estimate deserves; empty without one."""
    if left_s is None:
        return ""
    minutes = round(left_s / 60)
    if left_s < 5:
        return "a few seconds left"
    if left_s < 115:
        return f"about {max(10, 10 * round(left_s / 10))} s left"
    if minutes < 20:
        return f"about {minutes} min left"
    if minutes < 58:
        return f"about {5 * round(minutes / 5)} min left"
    hours, tens = divmod(10 * round(minutes / 10), 60)
    return f"about {hours} h {tens:02d} min left" if tens else f"about {hours} h left"
