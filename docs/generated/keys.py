# SPDX-License-Identifier: Apache-2.0
"""The keys of a table of study files, from its JSON schema: `strata schema` prints the same for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from generated.markdown import code, codes, prose, table
from strata.plan.catalogue import catalogue
from strata.spec.schema import study_schema

_HEAD: Final = ("Key", "Takes", "Default", "Meaning")
_TYPES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "object": "a table",
}


@cache
def schema() -> Mapping[str, Any]:
    """The schema of study files."""
    return study_schema(catalogue())


def keys_table(definition: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> str:
    """The keys of a table, with what each takes, its default and its meaning."""
    required = set(definition.get("required", ()))
    rows = [
        (code(name), takes(key), _default(name, key, required), prose(_sentence(key.get("description", ""))))
        for name, key in definition["properties"].items()
        if name not in without
    ]
    return table(_HEAD, rows)


def takes(key: Mapping[str, Any]) -> str:
    """What a key takes, in a few words."""
    if "anyOf" in key:
        kinds = [takes(each) for each in key["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in key:
        return code(json.dumps(key["const"]))
    if "enum" in key:
        return codes(json.dumps(each) for each in key["enum"])
    kind = key.get("type")
    if kind == "string" and "pattern" in key:
        return "a time" if "ns|" in key["pattern"] else "a size" if "iB" in key["pattern"] else "a text"
    if kind == "array":
        items = key.get("items", {})
        if "enum" in items:
            return f"a list of {takes(items)}"
        inner = _TYPES.get(items.get("type", ""), "")
        return {"a text": "a list of texts", "a whole number": "a list of whole numbers"}.get(
            inner, "a list of tables"
        )
    limits = _limits(key)
    return _TYPES.get(str(kind), "a table") + limits


def _limits(key: Mapping[str, Any]) -> str:
    least = key.get("minimum", key.get("exclusiveMinimum"))
    most = key.get("maximum", key.get("exclusiveMaximum"))
    if least is None and most is None:
        return ""
    if most is None:
        return f", {least:g} or more" if "minimum" in key else f" above {least:g}"
    return f", {least:g} to {most:g}" if least is not None else f", {most:g} or less"


def _default(name: str, key: Mapping[str, Any], required: set[str]) -> str:
    if name in required:
        return "must be given"
    if key.get("default") is None:
        # What an absent key means stands in its description, where it is not simply nothing.
        return "" if "default:" in key.get("description", "").lower() else "none"
    return code(json.dumps(key["default"]))


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "?")) else f"{text}."
