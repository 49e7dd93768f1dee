# SPDX-License-Identifier: Apache-2.0
"""Descriptions of layers and workloads for people: meanings of keys, and keys without their default."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final, get_args

from pydantic import BaseModel

from strata.spec.layer import Layer
from strata.spec.workload import Workload
from strata.units import describe_duration, describe_size

# The kind is shown first anyway.
_UNSAID: Final = frozenset({"layer", "workload"})


def declared(entry: BaseModel) -> list[tuple[str, str]]:
    """The keys that differ from their defaults, and a layer's `Layer.stated`, each with its value as text."""
    found = []
    stated = dict(entry.stated()) if isinstance(entry, Layer) else {}
    implied = entry.implied() if isinstance(entry, Workload) else ()
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


def description_of(model: type[BaseModel], name: str) -> str:
    """The meaning of a key: its field's ``description``, or else the text below the field."""
    declaring = (each for each in model.__mro__ if name in vars(each).get("__annotations__", ()))
    below = (_texts_below(each.__module__).get((each.__name__, name)) for each in declaring)
    return model.model_fields[name].description or next(filter(None, below), "")


def models_in(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model, and those of the tables within its own."""
    yield model
    for field in model.model_fields.values():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from models_in(kind)


@cache
def _texts_below(module: str) -> dict[tuple[str, str], str]:
    """The texts below fields. Pydantic's `use_attribute_docstrings` would read them at each start, slowly."""
    classes = ast.parse(inspect.getsource(sys.modules[module])).body
    return {
        (each.name, field.target.id): " ".join(str(text.value.value).split())
        for each in classes
        if isinstance(each, ast.ClassDef)
        for field, text in pairwise(each.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


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
