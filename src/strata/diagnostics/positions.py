# SPDX-License-Identifier: Apache-2.0
"""The lines of the keys of a TOML file, which `tomllib` does not report.

The scanner is for files that `tomllib` has accepted already: it follows the structure and does not check it.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, Final

from strata.diagnostics.names import Path
from strata.toml import toml_value

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY: Final = re.compile(r"[A-Za-z0-9_-]+|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|' r"'''.*?'{3,5}|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'", re.DOTALL
)
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        # Found once: counting line ends for each key would take quadratic time.
        self.line_ends = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[Path, int] = {}
        self.values: dict[Path, tuple[int, int]] = {}  # where each value stands in the text
        self.tables: dict[Path, int] = {}  # the elements so far of each array of tables

    def skip_blank(self) -> None:
        self.at = _end(_BLANK.match(self.text, self.at))

    def take(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def note(self, path: Path, start: int) -> None:
        self.lines.setdefault(path, bisect_left(self.line_ends, start) + 1)

    def key(self) -> list[str]:
        keys = []
        while True:
            self.skip_blank()
            match = _KEY.match(self.text, self.at)
            if match is None:
                raise ValueError(self.at)
            self.at = match.end()
            keys.append(_unquote(match[0]))
            self.skip_blank()
            if not self.take("."):
                return keys

    def pair(self, table: Path) -> None:
        self.skip_blank()
        start = self.at
        path = table
        for key in self.key():
            path = (*path, key)
            self.note(path, start)
        self.take("=")
        self.skip_blank()
        begin = self.at
        self.value(path)
        self.values.setdefault(path, (begin, self.at))

    def value(self, path: Path) -> None:
        self.skip_blank()
        start = self.at
        if self.take("["):
            for index in self.items("]"):
                self.note((*path, index), self.at)
                self.value((*path, index))
        elif self.take("{"):
            for _ in self.items("}"):
                self.pair(path)
        else:
            self.at = _end(_STRING.match(self.text, self.at) or _SCALAR.match(self.text, self.at))
        if self.at == start:
            raise ValueError(start)

    def items(self, closing: str) -> Iterator[int]:
        """The index of each item up to the closing bracket, where the caller reads it."""
        for index in itertools.count():
            self.skip_blank()
            if self.take(closing):
                return
            yield index
            self.skip_blank()
            self.take(",")

    def header(self) -> Path:
        """A table's header, after its opening bracket: the path of the table."""
        start = self.at
        is_element = self.take("[")
        path: Path = ()
        keys = self.key()
        for position, key in enumerate(keys):
            path = (*path, key)
            self.note(path, start)
            if path in self.tables and not (is_element and position == len(keys) - 1):
                path = (*path, self.tables[path] - 1)
        self.take("]]" if is_element else "]")
        if is_element:
            count = self.tables.get(path, 0)
            self.tables[path] = count + 1
            path = (*path, count)
            self.note(path, start)
        return path

    def file(self) -> dict[Path, int]:
        table: Path = ()
        while True:
            self.skip_blank()
            if self.at >= len(self.text):
                return self.lines
            before = self.at
            if self.take("["):
                table = self.header()
            else:
                self.pair(table)
            if self.at == before:
                raise ValueError(self.at)


def _end(match: re.Match[str] | None) -> int:
    assert match is not None, "a pattern that matches the empty string always matches"
    return match.end()


def _unquote(key: str) -> str:
    return str(next(iter(tomllib.loads(f"{key}=0")))) if key[0] in "\"'" else key


def key_lines(text: str) -> dict[Path, int]:
    """The line of each key and array element of a valid TOML file, counted from 1.

    If the scanner cannot follow a file, it returns the lines found so far: messages are useful without them.
    """
    scanner = _Scanner(text)
    try:
        return scanner.file()
    except (ValueError, RecursionError):
        return scanner.lines


def with_values(text: str, table: str, values: Mapping[str, Any]) -> str:
    """A TOML file with these values of a table ``[table]``; comments and everything else stay as they are.

    Raises ValueError if the table is not written with a heading of its own.
    """
    for key, value in values.items():
        scanner = _Scanner(text)
        scanner.file()
        if (table, key) in scanner.values:
            begin, end = scanner.values[table, key]
            end = begin + len(text[begin:end].rstrip())
        else:
            heading = re.search(rf"^[ \t]*\[{re.escape(table)}\][^\n]*\n", text, re.MULTILINE)
            begin = end = heading.end() if heading is not None else 0
        is_new = begin == end
        text = text[:begin] + (f"{key} = {toml_value(value)}\n" if is_new else toml_value(value)) + text[end:]
        if tomllib.loads(text).get(table, {}).get(key) != value:
            raise ValueError(f"there is no [{table}]")
    return text


def nearest_line(lines: dict[Path, int], path: Path) -> int | None:
    """The line of ``path``, or of the nearest table or array around it that has one."""
    known = (lines.get(path[:length]) for length in range(len(path), 0, -1))
    return next((line for line in known if line is not None), None)


def format_path(path: Path) -> str:
    """Write a path as in ``stacks.ext4.layers[0].mkfs``; keys that are not plain words are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = re.fullmatch(r"[A-Za-z0-9_-]+", part) is not None
            text += ("." if text else "") + (part if plain else f'"{part}"')
    return text
