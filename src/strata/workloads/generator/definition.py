# SPDX-License-Identifier: Apache-2.0
"""A personality of one's own, read as crates/load's ``definition.rs`` does, or in filebench's language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.mistakes import Diagnostics, parse_toml
from strata.diagnostics.names import Diagnostic, Path, checked, nearest
from strata.errors import DiagnosticsError, StrataError, StudyError
from strata.workloads.generator.filebench import Personality, read_filebench

_FILEBENCH: Final = re.compile(
    r"^\s*(?:define\s+(?:fileset|file|process|posset)|set\s+\$\w+\s*=|flowop\s)", re.M
)
_FOLDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_EXAMPLES: Final = "compare it with one of crates/load/personalities"
_SLOTS: Final = 16  # SLOTS of crates/load/src/personality/records.rs

_Fd = Annotated[StrictInt, Field(ge=0, lt=_SLOTS, description="a number below 16", examples=[1])]
_Bytes = Annotated[StrictInt, Field(ge=1, le=1 << 30)]
_Count = Annotated[StrictInt, Field(ge=1, le=1 << 50)]
_Shape = Annotated[StrictFloat | StrictInt, Field(ge=0, le=1000)]
_SetName = Annotated[
    StrictStr,
    checked(
        lambda name: _FOLDER.fullmatch(name) is not None,
        "a set of the definition has a name that its folder cannot have",
        "take letters, digits, hyphens and underscores",
    ),
]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Operation(_Table):
    """One operation of a loop: ``fd`` is a slot for an open file, ``set`` where files are taken from."""

    op: StrictStr

    @property
    def slot(self) -> int | None:
        return getattr(self, "fd", None)

    @property
    def named(self) -> str | None:
        return getattr(self, "set", None)


class _OfFile(Operation):
    fd: _Fd


class _OfSet(Operation):
    set: StrictStr


class _Opening(_OfFile):
    set: StrictStr


class _Whole(_OfFile):
    bytes: _Bytes


class _Piece(_OfFile):
    """If nothing is open, a file of the set is opened first and stays open."""

    bytes: _Bytes
    set: StrictStr | None = None


class _Delay(Operation):
    time_ns: _Count


class _Limit(Operation):
    bytes_per_s: _Count


OPERATIONS: Final[Mapping[str, type[Operation]]] = {
    **dict.fromkeys(("create", "open"), _Opening),
    **dict.fromkeys(("close", "fsync"), _OfFile),
    **dict.fromkeys(("delete", "stat"), _OfSet),
    **dict.fromkeys(("read_whole", "write_whole"), _Whole),
    **dict.fromkeys(("append", "append_random", "read", "read_random", "write", "write_random"), _Piece),
    "delay": _Delay,
    "limit": _Limit,
}
"""The tables of a loop's operations, by name."""
_WAITS: Final = ("delay", "limit")
_WRITES: Final = ("create", "delete", "write_whole", "append", "append_random", "write", "write_random")


class SetTable(_Table):
    """A set of files in a tree of directories: see ``SetSpec`` of crates/load/src/personality/records.rs."""

    name: _SetName
    files: Annotated[StrictInt, Field(ge=1, le=100_000_000)]
    file_bytes: Annotated[StrictInt, Field(ge=0, le=1 << 50)]
    file_shape: _Shape
    directory_width: Annotated[StrictInt, Field(ge=2, le=1_000_000_000)]
    directory_shape: _Shape
    preallocated_percent: Annotated[StrictInt, Field(ge=0, le=100)]
    read_only: StrictBool = False
    scales: StrictBool = True


class _GroupTable(_Table):
    name: Annotated[StrictStr, Field(min_length=1)]
    threads: Annotated[StrictInt, Field(ge=1, le=10_000)]
    scales: StrictBool = True
    loop: Annotated[list[Any], Field(min_length=1)]


class _DefinitionTable(_Table):
    name: Annotated[StrictStr, Field(min_length=1)]
    sets: Annotated[list[Any], Field(min_length=1)]
    groups: Annotated[list[Any], Field(min_length=1)]


@dataclass(frozen=True)
class Definition:
    """A sound personality; ``is_paced``: some operation waits for the clock."""

    sets: tuple[SetTable, ...]
    is_paced: bool
    text: str = ""  # as TOML
    remarks: tuple[str, ...] = ()


@lru_cache(maxsize=64)
def read_definition(text: str) -> Definition | tuple[Diagnostic, ...]:
    """A personality, or all its mistakes, each with its line in the text."""
    source: Personality | None = None
    if _FILEBENCH.search(text):
        source = read_filebench(text)
        if source.mistakes:
            return tuple(source.mistakes)
        text = source.toml
    try:
        tables, found = parse_toml(text, "definition")
        definition = _read(tables, found)
        found.raise_all()
    except DiagnosticsError as error:
        return tuple(_placed(each, source) for each in error.diagnostics)
    except StudyError as error:
        return (_placed(error, source),)
    return replace(definition, text=text, remarks=tuple(source.remarks if source else ()))


def _placed(mistake: StrataError, source: Personality | None) -> Diagnostic:
    line, key = getattr(mistake, "line", None), getattr(mistake, "key", None)
    if source is not None and line:
        line, key = source.lines[line - 1][0], None
    place = ", ".join(filter(None, (f"line {line} of the text" if line else "", key)))
    cause = f"{place}: {mistake.cause}" if place else f"the definition {mistake.cause}"
    return Diagnostic(cause, remedy=mistake.remedy or _EXAMPLES, key="definition")


def _read(tables: dict[str, Any], found: Diagnostics) -> Definition:
    head = found.model(_DefinitionTable, tables, ())
    given = head.sets if head is not None else _listed(tables.get("sets"))
    sets: dict[str, SetTable | None] = {}
    for index, table in enumerate(given):
        name = table.get("name") if isinstance(table, Mapping) else None
        each = found.model(SetTable, table, ("sets", index))
        if isinstance(name, str):
            if name in sets:
                found.add(("sets", index, "name"), f'"{name}" is there twice', "give each its own")
            sets[name] = each
    waits = False
    for index, table in enumerate(head.groups if head is not None else _listed(tables.get("groups"))):
        path: Path = ("groups", index)
        if (group := found.model(_GroupTable, table, path)) is not None:
            loop = [_operation(value, (*path, "loop", at), found) for at, value in enumerate(group.loop)]
            _follow(loop, sets, (*path, "loop"), found)
            waits = waits or any(each is not None and each.op in _WAITS for each in loop)
    return Definition(tuple(each for each in sets.values() if each is not None), waits)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _operation(value: Any, path: Path, found: Diagnostics) -> Operation | None:
    name = value.get("op") if isinstance(value, Mapping) else None
    if isinstance(name, str) and name not in OPERATIONS:
        found.add((*path, "op"), f'there is no operation "{name[:60]}"', nearest(name, OPERATIONS))
        return None
    return found.model(OPERATIONS.get(str(name), Operation), value, path)


def _follow(
    loop: list[Operation | None], sets: Mapping[str, SetTable | None], path: Path, found: Diagnostics
) -> None:
    """Hold a thread's loop against its sets, and against the files that are open at each step."""
    held: dict[int, tuple[str, bool]] = {}  # by slot: the set, and whether it is to be closed
    for at, each in enumerate(loop):
        if each is None:
            return  # which files are open from there on, nobody can say
        for key, cause, remedy in _wrong(each, sets, held):
            found.add((*path, at, key), cause, remedy)
        _hold(each, held)
    if all(each is not None and each.op in _WAITS for each in loop):
        found.add(path, "nothing in it is an operation", "add one, or it would spin")
    for slot in (slot for slot, (_, to_close) in held.items() if to_close):
        cause = f"file {slot} is still open at its end"
        found.add(path, cause, "add a close, since the loop begins again")


def _hold(operation: Operation, held: dict[int, tuple[str, bool]]) -> None:
    """Note which file is open after an operation."""
    slot, name = operation.slot, operation.named
    if operation.op in ("create", "open") and slot is not None:
        held[slot] = (name or "", True)
    elif operation.op == "close":
        held.pop(slot or 0, None)
    elif slot is not None and name is not None:
        held.setdefault(slot, (name, False))


def _is_closed(operation: Operation, of_file: str | None, to_close: bool) -> bool:
    """Whether no file is open for an operation; one that only a set gave is none to close."""
    return of_file is None or (operation.op == "close" and not to_close)


def _wrong(
    each: Operation, sets: Mapping[str, SetTable | None], held: Mapping[int, tuple[str, bool]]
) -> Iterator[tuple[str, str, str]]:
    """The mistakes of one operation: key, cause, remedy."""
    slot, name = each.slot, each.named
    if name is not None and name not in sets:
        yield "set", f'there is no set "{name[:60]}"', nearest(name, sets)
    of_file, to_close = held.get(-1 if slot is None else slot, (None, False))
    if each.op in ("create", "open"):
        if of_file is not None:
            yield "fd", f"file {slot} is open already", "close it before, or take another fd"
    elif slot is not None and name is None and _is_closed(each, of_file, to_close):
        yield "fd", f"file {slot} is not open", "open or create a file with this fd before"
    written = name if each.op in ("create", "delete") else of_file or name
    of_set = sets.get(written or "")
    if each.op in _WRITES and of_set is not None and of_set.read_only:
        yield "op", f'"{written}" is read-only', "take another set"
