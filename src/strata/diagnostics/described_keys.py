# SPDX-License-Identifier: Apache-2.0
"""The keys of a table of a study file for people, from its JSON schema: values, limits, default, meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

# A description ends in the meaning of the key's absence.
_DEFAULT: Final = re.compile(r"[.;,]? [Dd]efault: ")
_TYPES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "object": "a table",
}
# Marks in the patterns of texts with a unit.
_PATTERNS: Final = {"ns|": "a time", ")/s": "a rate", "iB": "a size", "%": "a share", "": "a text"}


@dataclass(frozen=True)
class Key:
    """A key of a table, in texts with code between backticks. ``default`` None: it must be given."""

    name: str
    takes: str
    default: str | None
    description: str


def described_keys(definition: Mapping[str, Any], *, without: Set[str] = frozenset()) -> tuple[Key, ...]:
    """The keys of a table, by its definition in the schema."""
    required = definition.get("required", ())
    return tuple(
        _key(name, key, required=name in required)
        for name, key in definition["properties"].items()
        if name not in without
    )


def _key(name: str, key: Mapping[str, Any], *, required: bool) -> Key:
    meaning, _, default = _DEFAULT.sub("\n", key.get("description", ""), count=1).partition("\n")
    return Key(name, _takes(key), None if required else default or _default(key), meaning)


def _takes(key: Mapping[str, Any]) -> str:
    """The values of a key, in a few words."""
    if "anyOf" in key:
        kinds = [_takes(each) for each in key["anyOf"] if each.get("type") != "null"]
        if "a number" in kinds:
            kinds = [each for each in kinds if each != "a whole number"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in key or "enum" in key:
        return ", ".join(_code(each) for each in key.get("enum", [key.get("const")]))
    if key.get("type") == "array":
        return _list(key.get("items", {}))
    if "pattern" in key:
        return next(words for mark, words in _PATTERNS.items() if mark in key["pattern"])
    return _TYPES.get(str(key.get("type")), "a table") + _limits(key)


def _list(items: Mapping[str, Any]) -> str:
    if "enum" in items:
        return f"a list of {_takes(items)}"
    return {"string": "a list of texts", "integer": "a list of whole numbers"}.get(
        str(items.get("type")), "a list of tables" if items else "a list of values"
    )


def _limits(key: Mapping[str, Any]) -> str:
    least = key.get("minimum", key.get("exclusiveMinimum"))
    most = key.get("maximum", key.get("exclusiveMaximum"))
    if least is None and most is None:
        return ""
    if most is None:
        return f", {_number(least)} or more" if "minimum" in key else f" above {_number(least)}"
    return f", {_number(least)} to {_number(most)}" if least is not None else f", {_number(most)} or less"


def _number(value: float) -> str:
    return "2^63 - 1" if value == 2**63 - 1 else f"{value:,}".replace(",", " ")


def _default(key: Mapping[str, Any]) -> str:
    return "none" if key.get("default") is None else _code(key["default"])


def _code(value: object) -> str:
    return f"`{json.dumps(value)}`"
