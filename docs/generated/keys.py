# SPDX-License-Identifier: Apache-2.0
"""The keys of a table of study files, from its JSON schema: `strata schema` prints the same for editors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from generated.markdown import code, codes, prose, table
from strata.plan.catalogue import catalogue
from strata.spec.schema import study_schema

_HEAD: Final = ("Key", "Takes", "Default", "Meaning")
# What the absence of a key means stands at the end of its description.
_DEFAULT: Final = re.compile(r"[.;,]? [Dd]efault: ")
_TYPES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "object": "a table",
}
# What is in the patterns of texts that stand for something else.
_PATTERNS: Final = {"ns|": "a time", "iB": "a size", "%": "a share", "": "a text"}


@cache
def schema() -> Mapping[str, Any]:
    """The schema of study files."""
    return study_schema(catalogue())


def keys_table(definition: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> str:
    """The keys of a table, with what each takes, its default and its meaning."""
    required = set(definition.get("required", ()))
    rows = []
    for name, key in definition["properties"].items():
        if name not in without:
            meaning, _, default = _DEFAULT.sub("\n", key.get("description", ""), count=1).partition("\n")
            default = "required" if name in required else prose(default) or _default(key)
            rows.append((code(name), takes(key), default, prose(_sentence(meaning))))
    return table(_HEAD, rows)


def takes(key: Mapping[str, Any]) -> str:
    """What a key takes, in a few words."""
    if "anyOf" in key:
        kinds = [takes(each) for each in key["anyOf"] if each.get("type") != "null"]
        if "a number" in kinds:  # which any whole one is
            kinds = [each for each in kinds if each != "a whole number"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in key or "enum" in key:
        return codes(json.dumps(each) for each in key.get("enum", [key.get("const")]))
    if key.get("type") == "array":
        return _list(key.get("items", {}))
    if "pattern" in key:
        return next(words for mark, words in _PATTERNS.items() if mark in key["pattern"])
    return _TYPES.get(str(key.get("type")), "a table") + _limits(key)


def _list(items: Mapping[str, Any]) -> str:
    if "enum" in items:
        return f"a list of {takes(items)}"
    return {"string": "a list of texts", "integer": "a list of whole numbers"}.get(
        str(items.get("type")), "a list of tables"
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
    return "none" if key.get("default") is None else code(json.dumps(key["default"]))


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "?")) else f"{text}."
