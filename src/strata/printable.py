# SPDX-License-Identifier: Apache-2.0
"""Values as text for a terminal, without control characters, which could move its cursor or hide text."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import IO, Any, Final, TypeVar

from pydantic_core import to_jsonable_python

# Control characters (C0, DEL, C1), marks of direction, separators of lines and paragraphs, byte order marks,
# tags and surrogates.
_UNFIT: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff]"
)
_LAYOUT: Final = "\n\t"
JSON_FORMAT: Final = 2
"""The version of what ``--json`` prints, and of an exported study.json: the first key of each."""

Getter = TypeVar("Getter", bound=Callable[..., Any])


def printable(text: str) -> str:
    """The text with its unfit characters written as numbers, ESC as ``x1b`` after a backslash."""
    return _UNFIT.sub(_written, text)


def unfit(text: str) -> str | None:
    """The first character that `printable` would write as a number."""
    return next((found[0] for found in _UNFIT.finditer(text) if found[0] not in _LAYOUT), None)


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON (see `plain`) for a terminal, with unfit characters escaped."""
    text = json.dumps(plain(value), indent=indent, ensure_ascii=False)
    return _UNFIT.sub(lambda found: found[0] if found[0] in _LAYOUT else json.dumps(found[0])[1:-1], text)


def in_json(getter: Getter) -> Getter:
    """Mark the getter of a record's property: it belongs to the record's JSON, as its fields do."""
    getter.in_json = True  # type: ignore[attr-defined]
    return getter


def plain(value: Any) -> Any:
    """A value as JSON types: a record as an object, a mapping by the text of its keys, a path as text.

    A record is a dataclass, a model or a named tuple. Its object has the fields that its ``repr`` shows and
    its properties marked `in_json`. A named tuple that has a text, such as a trial's key, is its text.
    Numbers that JSON lacks are null.
    """
    kind: Any = type(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if (names := _shown(kind)) is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Iterable) and not isinstance(value, bytes) and not hasattr(kind, "_fields"):
        return [plain(each) for each in value]
    return str(value) if hasattr(kind, "_fields") else to_jsonable_python(value, fallback=str)


@cache
def _shown(kind: Any) -> tuple[str, ...] | None:
    """The names of a record type's fields and properties; None for other values."""
    if dataclasses.is_dataclass(kind):
        names = [each.name for each in dataclasses.fields(kind) if each.repr]
    elif (fields := getattr(kind, "model_fields", None)) is not None:
        names = [name for name, field in fields.items() if field.repr and not field.exclude]
    elif hasattr(kind, "_fields") and "__str__" not in vars(kind):
        names = list(kind._fields)
    else:
        return None
    defined = {name: found for base in reversed(kind.__mro__) for name, found in vars(base).items()}
    for name, found in defined.items():
        getter = getattr(found, "fget", None) or getattr(found, "func", None)
        names += [name] if getattr(getter, "in_json", False) else []
    return tuple(names)


def _written(found: re.Match[str]) -> str:
    number = ord(found[0])
    if found[0] in _LAYOUT:
        return found[0]
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


@contextmanager
def suppress_gone(stream: IO[Any]) -> Iterator[None]:
    """Once the terminal of a stream has been closed, drop all output to it."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
