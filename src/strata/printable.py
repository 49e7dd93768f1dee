# SPDX-License-Identifier: Apache-2.0
"""Values as text for a terminal, without control characters, which could move its cursor or hide text."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

from pydantic_core import to_jsonable_python

# Control characters (C0, DEL, C1), marks of direction, separators of lines and paragraphs, byte order marks,
# tags and surrogates.
_UNFIT: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff]"
)
_LAYOUT: Final = "\n\t"


def printable(text: str) -> str:
    """The text with its unfit characters written as numbers, ESC as ``x1b`` after a backslash."""
    return _UNFIT.sub(_written, text)


def unfit(text: str) -> str | None:
    """The first character that `printable` would write as a number."""
    return next((found[0] for found in _UNFIT.finditer(text) if found[0] not in _LAYOUT), None)


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON for a terminal, with unfit characters escaped.

    Records (dataclasses and models) become objects, other values that JSON lacks their text.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=plain)
    return _UNFIT.sub(lambda found: found[0] if found[0] in _LAYOUT else json.dumps(found[0])[1:-1], text)


def plain(value: Any) -> Any:
    """A record as JSON types: fields by their names, tuples as lists, paths as text."""
    return to_jsonable_python(value, fallback=str)


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
