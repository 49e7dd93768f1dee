# SPDX-License-Identifier: Apache-2.0
"""filebench's own language, read into a definition of a personality (`definition.py`).

Statements keep their line, so that whatever cannot be honoured is named by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from strata.diagnostics.names import Diagnostic
from strata.model.allowed import named

_TOKEN: Final = re.compile(r'\n|#[^\n]*|"[^"\n]*"|[{},=]|cvar\s*\([^)\n]*\)|[^\s{},="]+')
_SIZE: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_CVAR: Final = re.compile(r"cvar\s*\(\s*type\s*=\s*([\w-]+)\s*,\s*parameters\s*=\s*([^,)]*)")
_ITERATIONS_MAX: Final = 256  # longer loops are a program of their own
_SAID: Final = ("usage", "echo", "debug", "create", "stats", "quit", "version", "enable", "vars", "list")
_OPERATIONS: Final = {
    "createfile": "create",
    "openfile": "open",
    "closefile": "close",
    "deletefile": "delete",
    "statfile": "stat",
    "fsync": "fsync",
    "readwholefile": "read_whole",
    "writewholefile": "write_whole",
    "appendfile": "append",
    "appendfilerand": "append_random",
    "read": "read",
    "write": "write",
    "delay": "delay",
    "bwlimit": "limit",
}
_SLOT: Final = ("create", "open", "close", "fsync", "read_whole", "write_whole")
_PIECE: Final = ("append", "append_random", "read", "write")
_LIMITS: Final = ("opslimit", "iopslimit", "eventlimit")
_ENDS: Final = ("finishoncount", "finishonbytes")
_LOST: Final = {
    **named("aiowrite aiowait", "asynchronous writes"),
    **named("hog dowork", "work of the processor"),
    **named("semblock sempost block wakeup", "threads that wake each other"),
    "makedir": "directories made in the loop",
    "removedir": "directories removed in the loop",
    "listdir": "reading of directories",
    "createandclose": "write createfile and closefile",
}
_PLAIN: Final = {
    "flowop": (
        *("name", "fd", "srcfd", "filesetname", "filename", "iosize", "random", "iters", "target", "value"),
    ),
    "fileset": (
        *("name", "path", "size", "filesize", "entries", "dirwidth", "dirgamma", "prealloc", "paralloc"),
        *("reuse", "readonly", "cached", "trusttree"),
    ),
    "process": ("name", "instances", "nice"),
    "thread": ("name", "instances", "memsize", "useism", "ioprio"),
}
_OFF: Final = ("0", "false", "")


@dataclass
class Personality:
    """A translated text: the definition's lines with the lines that they come from."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    mistakes: list[Diagnostic] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def toml(self) -> str:
        return "".join(f"{text}\n" for _, text in self.lines)


def read_filebench(text: str) -> Personality:
    reader = _Reader(text)
    reader.read()
    return reader.found


@dataclass
class _Attributes:
    line: int
    given: dict[str, str]

    def get(self, name: str, default: str = "") -> str:
        return self.given.get(name, default)


class _Reader:
    def __init__(self, text: str) -> None:
        self.found = Personality()
        self.variables: dict[str, str] = {}
        self.tokens: list[tuple[int, str]] = []
        self.at = 0
        self.eventrate = 0
        line = 1
        for match in _TOKEN.finditer(text):
            if match[0] == "\n":
                line += 1
            elif not match[0].startswith("#"):
                self.tokens.append((line, match[0]))
        self.sets: list[tuple[int, str]] = []
        self.groups: list[tuple[int, str]] = []

    def read(self) -> None:
        while self.at < len(self.tokens):
            line, word = self.next()
            if word == "set":
                self.set(line)
            elif word == "define":
                self.define(line)
            elif word == "eventgen":
                self.eventrate = self.number(self.attributes(line), "rate", 0)
            elif word in ("run", "psrun"):
                length = " ".join(self.value(each) for each in self.rest(line))
                self.found.remarks.append(f"line {line}: run {length}: the study's duration counts")
            elif word in _SAID:
                self.rest(line)
            else:
                self.rest(line)
                self.refuse(line, f'"{word[:60]}" is not carried out', "leave it out")
        self.found.lines = [(1, 'name = "filebench"'), *self.sets, *self.groups]
        if not self.sets or not self.groups:
            self.refuse(1, "it defines no fileset, or no thread")

    def refuse(self, line: int, cause: str, remedy: str | None = None) -> None:
        self.found.mistakes.append(Diagnostic(f"line {line}: {cause}", remedy=remedy, key="definition"))

    def next(self) -> tuple[int, str]:
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self, line: int | None = None) -> str:
        """The next token, if there is one (on this line); else empty."""
        if self.at >= len(self.tokens) or (line is not None and self.tokens[self.at][0] != line):
            return ""
        return self.tokens[self.at][1]

    def rest(self, line: int) -> list[str]:
        found = []
        while self.peek(line):
            found.append(self.next()[1])
        return found

    def value(self, text: str) -> str:
        if text.startswith("$") and text[1:] not in self.variables:
            self.refuse(self.tokens[self.at - 1][0], f"the variable {text} has no value", f"set {text}=...")
        return self.variables.get(text[1:], "0") if text.startswith("$") else text.strip('"')

    def set(self, line: int) -> None:
        words = self.rest(line)
        if words[:1] and words[0].startswith("$") and len(words) >= 3 and words[1] == "=":
            self.variables[words[0][1:]] = self.value(words[2])
        elif words[:1] != ["mode"]:
            self.refuse(line, f"set {' '.join(words)[:60]} is not understood", "set $name=value")

    def attributes(self, line: int) -> _Attributes:
        """``name=value`` and ``name``, separated by commas, which may go over several lines."""
        given: dict[str, str] = {}
        while self.peek() not in ("", "{", "}"):
            name = self.next()[1]
            given[name] = "true"
            if self.peek() == "=":
                self.next()
                given[name] = self.value(self.next()[1]) if self.peek() else ""
            if self.peek() != ",":
                break
            self.next()
        return _Attributes(line, given)

    def number(self, of: _Attributes, name: str, default: int) -> int:
        text = of.get(name, str(default))
        found = _SIZE.fullmatch(text)
        if found is None:
            self.refuse(
                of.line, f"{name}={text[:60]} is no number", "a distribution can only be a file's size"
            )
            return default
        return int(found[1]) << 10 * " kmgt".index(found[2].lower() or " ")

    def known(self, kind: str, of: _Attributes) -> None:
        for name, text in of.given.items():
            if name not in _PLAIN[kind] and text.lower() not in _OFF:
                self.refuse(of.line, f"{name} of a {kind} cannot be honoured", "leave it out")

    def define(self, line: int) -> None:
        kind = self.next()[1] if self.peek() else ""
        of = self.attributes(line)
        if kind in ("fileset", "file"):
            self.fileset(of, 1 if kind == "file" else 1024)
        elif kind == "process":
            self.process(of)
        else:
            self.refuse(line, f"define {kind[:60]} cannot be honoured")
            depth = 0
            while self.peek() == "{" or depth:
                depth += {"{": 1, "}": -1}.get(self.next()[1] if self.peek() else "}", 0)

    def fileset(self, of: _Attributes, entries: int) -> None:
        self.known("fileset", of)
        size, shape = of.get("size", of.get("filesize", "1k")), 0.0
        if match := _CVAR.match(size):
            parameters = dict(each.split(":", 1) for each in match[2].split(";") if ":" in each)
            if match[1] != "cvar-gamma":
                self.refuse(of.line, f"sizes of the kind {match[1]}: only cvar-gamma is played")
            size, shape = parameters.get("mean", "0"), float(parameters.get("gamma", "1.5"))
        prealloc = of.get("prealloc", "0")
        files = self.number(of, "entries", entries)
        sized = _Attributes(of.line, {"size": size})
        self.sets += [(of.line, "[[sets]]")] + [
            (of.line, f"{name} = {value}")
            for name, value in (
                ("name", f'"{of.get("name")}"'),
                ("files", files),
                ("file_bytes", self.number(sized, "size", 0)),
                ("file_shape", shape),
                ("directory_width", max(self.number(of, "dirwidth", 1_000_000), 2)),
                ("directory_shape", self.number(of, "dirgamma", 1500) / 1000),
                ("preallocated_percent", 100 if prealloc == "true" else self.number(of, "prealloc", 0)),
                ("read_only", str(of.get("readonly", "false").lower() not in _OFF).lower()),
                ("scales", str(files > 1).lower()),
            )
        ]

    def process(self, of: _Attributes) -> None:
        self.known("process", of)
        processes = self.number(of, "instances", 1)
        self.expect("{")
        while self.peek() not in ("", "}"):
            line, word = self.next()
            if word == "thread":
                self.thread(self.attributes(line), processes)
            else:
                self.refuse(line, f'"{word[:60]}" stands where a thread belongs')
        self.expect("}")

    def expect(self, mark: str) -> None:
        if self.peek() == mark:
            self.next()
        else:
            line = self.tokens[min(self.at, len(self.tokens) - 1)][0]
            self.refuse(line, f"{mark} is missing")

    def thread(self, of: _Attributes, processes: int) -> None:
        self.known("thread", of)
        threads = self.number(of, "instances", 1) * processes
        self.groups += [
            (of.line, "[[groups]]"),
            (of.line, f'name = "{of.get("name", "thread")}"'),
            (of.line, f"threads = {threads}"),
            (of.line, f"scales = {str(threads > 1).lower()}"),
            (of.line, "loop = ["),
        ]
        self.expect("{")
        while self.peek() not in ("", "}"):
            line, word = self.next()
            kind = self.next()[1] if word == "flowop" and self.peek() else ""
            if word == "flowop":
                self.groups += [(line, f"  {each},") for each in self.flowop(kind, self.attributes(line))]
            else:
                self.refuse(line, f'"{word[:60]}" stands where a flowop belongs')
        self.expect("}")
        self.groups.append((of.line, "]"))

    def flowop(self, kind: str, of: _Attributes) -> Iterator[str]:
        if kind in (*_LIMITS, *_ENDS) or (kind == "bwlimit" and not self.eventrate):
            self.limit(kind, of.line)
        elif kind not in _OPERATIONS:
            self.refuse(of.line, f"{kind}: {_LOST.get(kind, 'the generator has no such operation')}")
        else:
            self.known("flowop", of)
            iterations = self.number(of, "iters", 1)
            if iterations > _ITERATIONS_MAX:
                self.refuse(of.line, f"iters={iterations} is more than {_ITERATIONS_MAX}")
            for _ in range(min(iterations, _ITERATIONS_MAX)):
                yield self.operation(_OPERATIONS[kind], of)

    def limit(self, kind: str, line: int) -> None:
        if kind in _ENDS:
            self.found.remarks.append(f"line {line}: {kind} is left out: the study's duration counts")
        elif self.eventrate:
            remedy = f"leave it out, and write rate = {self.eventrate} in the study"
            self.refuse(line, f"{kind}: {self.eventrate} a second is a rate of the whole load", remedy)
        else:
            self.found.remarks.append(f"line {line}: {kind} limits nothing without eventgen")

    def operation(self, name: str, of: _Attributes) -> str:
        source = of.get("filesetname", of.get("filename"))
        is_random = name in ("read", "write") and of.get("random").lower() not in _OFF
        parts = [f'op = "{name}_random"' if is_random else f'op = "{name}"']
        if name in ("create", "open", "delete", "stat", *_PIECE) and source:
            parts.append(f'set = "{source}"')
        if name in (*_SLOT, *_PIECE):
            parts.append(f"fd = {self.number(of, 'fd', 0)}")
        if name in ("read_whole", "write_whole", *_PIECE):
            parts.append(f"bytes = {self.number(of, 'iosize', 1 << 20 if 'whole' in name else 1024)}")
        if name == "delay":
            parts.append(f"time_ns = {self.number(of, 'value', 1) * 10**9}")
        if name == "limit":
            parts.append(f"bytes_per_s = {self.eventrate << 20}")
        return f"{{ {', '.join(parts)} }}"
