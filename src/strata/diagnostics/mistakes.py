# SPDX-License-Identifier: Apache-2.0
"""Collecting the mistakes of a TOML file, each with its key path, line, cause and remedy."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from strata.diagnostics.field_meaning import description_of
from strata.diagnostics.names import Diagnostic, Path, nearest
from strata.diagnostics.positions import format_path, key_lines, nearest_line
from strata.errors import DiagnosticsError, StudyError
from strata.files import read_plain
from strata.printable import unfit
from strata.toml import toml_value

M = TypeVar("M", bound=BaseModel)

# Both beyond any study that people write or programs draw.
_DEPTH_MAX: Final = 40
_TOML_BYTES_MAX: Final = 8 << 20

_KINDS: Final = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    **dict.fromkeys(("list_type", "tuple_type"), "a list in [ ]"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "a table"),
}

_BOUNDS: Final = {
    "greater_than": ("too small", "gt", "write more than"),
    "greater_than_equal": ("too small", "ge", "write at least"),
    "less_than": ("too large", "lt", "write less than"),
    "less_than_equal": ("too large", "le", "write at most"),
}

_UNKNOWN: Final = "extra_forbidden"  # pydantic's kind of mistake


class Diagnostics:
    """The mistakes of one file, which holds valid TOML ``text``."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.origin: Callable[[Path, bool], Path] = lambda path, _is_key: path
        """Where in the file the value at a path comes from, or the key if that is the mistake."""
        self.text = text
        self._found: list[StudyError] = []
        self._known: set[tuple[Path, str]] = set()

    @cached_property
    def lines(self) -> dict[Path, int]:
        """The line of each key, for messages."""
        return key_lines(self.text)

    def add(self, path: Path, cause: str, remedy: str | None = None, *, is_key: bool = False) -> None:
        """Add the mistake of a value; ``is_key``: the key itself is the mistake."""
        path = self.origin(path, is_key)
        if (path, cause) not in self._known:  # several stacks may have the same against a workload
            line = nearest_line(self.lines, path)
            self._found.append(StudyError(cause, key=format_path(path) or None, line=line, remedy=remedy))
            self._known.add((path, cause))

    def extend(self, path: Path, diagnostics: Iterable[Diagnostic]) -> bool:
        """Report the diagnostics of the table at ``path``; return whether there are any."""
        listed = list(diagnostics)
        for each in listed:
            key = (each.key,) if each.key else ()
            self.add((*path, *each.within, *key), each.cause, each.remedy)
        return bool(listed)

    def model(self, model: type[M], value: object, path: Path) -> M | None:
        """The table as a model; or report all its mistakes and return None."""
        if not isinstance(value, dict):
            self.add(path, f"this is {_describe(value)}, and must be a table", "write it as [table] or { }")
            return None
        try:
            return model.model_validate(value)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self._add_detail(model, detail, path)
            return None

    def _add_detail(self, model: type[BaseModel], detail: ErrorDetails, path: Path) -> None:
        where, error = path + detail["loc"], detail.get("ctx", {}).get("error")
        if isinstance(error, Diagnostic):
            self.extend(where, [error])
        else:
            words = _in_words(_model_at(model, detail["loc"][:-1]), detail)
            self.add(where, *words, is_key=detail["type"] == _UNKNOWN)

    def __len__(self) -> int:
        return len(self._found)

    def raise_all(self) -> None:
        """Raise `DiagnosticsError` with all mistakes in the order of their lines, if there are any."""
        if self._found:
            ordered = sorted(self._found, key=lambda each: each.line or 0)
            raise DiagnosticsError([*ordered], place=self.file)


def _in_words(model: type[BaseModel], detail: ErrorDetails) -> tuple[str, str | None]:
    kind, value, path = detail["type"], detail["input"], detail["loc"]
    context: dict[str, Any] = detail.get("ctx", {})
    last = next((each for each in reversed(path) if isinstance(each, str)), "")
    hints: Mapping[str, str] = getattr(model, "hints", {})
    if kind == _UNKNOWN:
        known = nearest(str(path[-1]), keys_of(model))
        return f'unknown key "{path[-1]}"', hints.get(str(path[-1]), known)
    if kind == "missing":
        return "this key is missing", _example(model, str(path[-1]))
    if "error" in context:
        return str(context["error"]), _example(model, last)
    if kind == "literal_error":
        words = str(context["expected"]).replace(" or ", ", ").split(",")
        known = nearest(str(value), [word.strip(" '") for word in words])
        is_file = "." in str(value)
        return f"{_short(value)} is not valid here", hints.get(last, known) if is_file else known
    if kind in _BOUNDS:
        cause, name, remedy = _BOUNDS[kind]
        return f"{_short(value)} is {cause}", f"{remedy} {context[name]}"
    message = f"{_short(value)} does not fit: {detail['msg'][0].lower()}{detail['msg'][1:]}"
    return f"this is {_describe(value)}, and must be {_KINDS[kind]}" if kind in _KINDS else message, None


def keys_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel]:
    """The model of the table at a path, through lists of tables; ``model`` itself for no path."""
    for key in path:
        fields = (field for name, field in model.model_fields.items() if key in (name, field.alias))
        found = next(fields, None)
        kinds = (found.annotation, *get_args(found.annotation)) if found else ()
        inner = [each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)]
        model = inner[0] if inner else model
    return model


def _example(model: type[BaseModel], key: str) -> str | None:
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            example = (field.examples or [field.default])[0]
            if not isinstance(example, str | int | list | tuple):
                return description_of(model, name)
            is_toml = isinstance(example, str) and example.startswith(("{", "["))
            return f"for example {key} = {example if is_toml else toml_value(example)}"
    return None


def _describe(value: object) -> str:
    match value:
        case str():
            return f"the text {_short(value)}"
        case int() | float() if not isinstance(value, bool):
            return f"the number {_short(value)}"
        case list() | tuple():
            return "a list"
    return "a table" if isinstance(value, Mapping) else _short(value)


def _short(value: object) -> str:
    shown = toml_value(value) if isinstance(value, int | str) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def read_toml(file: FilePath) -> tuple[dict[str, Any], Diagnostics]:
    """The tables of a TOML file, and an empty collection for the mistakes in them. Raises StudyError."""
    try:
        return parse_toml(read_plain(file, _TOML_BYTES_MAX, follow=True).decode("utf-8"), str(file))
    except OSError as error:
        cause, remedy = f"cannot be read: {error.strerror or error}", "check the path and its permissions"
    except UnicodeDecodeError as error:
        cause, remedy = f"is not UTF-8 text (byte {error.start})", "save it as UTF-8"
    raise StudyError(cause, place=str(file), remedy=remedy)


def parse_toml(text: str, file: str) -> tuple[dict[str, Any], Diagnostics]:
    """Parse TOML text; ``file`` names it in messages. Raises as `read_toml`."""
    text = text.replace("\r\n", "\n")
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise StudyError("is nested too deeply", place=file, remedy="flatten it") from None
    except ValueError as error:
        remedy = "shorten the number"  # which has more digits than Python converts
        if isinstance(error, tomllib.TOMLDecodeError):
            remedy = "texts need quotes, tables [brackets]; see https://toml.io"
        raise StudyError(f"is not valid TOML: {error}", place=file, remedy=remedy) from None
    if _is_deep(tables):
        raise StudyError("is nested too deeply", place=file, remedy="flatten it")
    diagnostics = Diagnostics(file, text)
    _refuse_unfit(tables, (), diagnostics)
    return tables, diagnostics


def _is_deep(tables: dict[str, Any]) -> bool:
    """Whether tables are nested beyond any sense: a key of 20,000 parts is a line of a file."""
    level: list[object] = [tables]
    for _ in range(_DEPTH_MAX):
        inner = [
            each.values() if isinstance(each, dict) else each
            for each in level
            if isinstance(each, dict | list)
        ]
        level = [part for each in inner for part in each]
        if not level:
            return False
    return True


def _refuse_unfit(value: object, path: Path, diagnostics: Diagnostics) -> None:
    if isinstance(value, str):
        if (found := unfit(value)) is not None:
            cause = f"this text has the control character U+{ord(found):04X}"
            diagnostics.add(path, cause, remedy="leave it out, or write what it stands for")
    elif isinstance(value, dict):
        for key, each in value.items():
            _refuse_unfit(key, (*path, key), diagnostics)
            _refuse_unfit(each, (*path, key), diagnostics)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _refuse_unfit(each, (*path, index), diagnostics)
