# SPDX-License-Identifier: Apache-2.0
"""Descriptions of layers and workloads for people: the keys that differ from their defaults."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from strata.model.duties import RunsPrograms
from strata.model.layer import Layer
from strata.units import describe_duration, describe_size

# The kind is shown first anyway.
_UNSAID: Final = frozenset({"layer", "workload"})


def declared(entry: BaseModel) -> list[tuple[str, str]]:
    """The keys that differ from their defaults, and a layer's `Layer.stated`, each with its value as text."""
    found = []
    stated = dict(entry.stated()) if isinstance(entry, Layer) else {}
    implied = entry.implied() if isinstance(entry, RunsPrograms) else ()
    for name, field in type(entry).model_fields.items():
        value = getattr(entry, name)
        if (
            name not in _UNSAID
            and name not in implied
            and value != field.get_default(call_default_factory=True)
        ):
            found.append((field.alias or name, shown(name, value)))
            stated.pop(field.alias or name, None)
    return [*found, *stated.items()]


def title(kind: str, entry: BaseModel) -> str:
    return " · ".join([kind, *(f"{key} {value}" for key, value in declared(entry))])


def shown(name: str, value: object) -> str:
    """The value of a key for people; the end of its name in the model states the unit."""
    match value:
        case bool():
            return "on" if value else "off"
        case int() if name.endswith("_ns"):
            return describe_duration(value)
        case int() if name.endswith("_bytes"):
            return describe_size(value)
        case dict():
            return ", ".join(f"{key}={shown('', each)}" for key, each in value.items())
        case list() | tuple():
            return ("; " if any(isinstance(each, BaseModel) for each in value) else " ").join(map(str, value))
        case _:
            first, lines, _ = str(value).strip().partition("\n")
            return f"{first} …" if lines else first
