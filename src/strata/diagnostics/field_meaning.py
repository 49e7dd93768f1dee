# SPDX-License-Identifier: Apache-2.0
"""The meanings of a model's keys: each field's description, or the text below it."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import get_args

from pydantic import BaseModel


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
