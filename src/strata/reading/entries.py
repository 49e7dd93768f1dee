# SPDX-License-Identifier: Apache-2.0
"""The layers, workloads and faults that a study may name, and reading the tables that name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any, TypeVar

from pydantic import BaseModel

from strata.diagnostics.mistakes import Diagnostics
from strata.diagnostics.names import Diagnostic, Path
from strata.diagnostics.registry import Registry
from strata.model.inputs import read_text
from strata.model.layer import Layer
from strata.model.workload import Workload

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class Catalogue:
    """The layers and workloads that a study file may name: `strata.plan.catalogue.catalogue()`."""

    layers: Registry[Layer]
    workloads: Registry[Workload]
    servers: Mapping[str, Callable[[Mapping[str, Any]], Iterable[Diagnostic]]] = field(default_factory=dict)
    """The mistakes in settings of a database server, by its kind."""


def read_entry(diagnostics: Diagnostics, registry: Registry[T], value: Any, path: Path) -> T | None:
    """A layer or fault, validated by the model that its discriminator names; None if it has mistakes."""
    registered = _registered(diagnostics, registry, value, path)
    return None if registered is None else diagnostics.model(registered, value, path)


def read_workload(
    diagnostics: Diagnostics, registry: Registry[Workload], value: Any, path: Path, folder: File | None = None
) -> Workload | None:
    """A workload, with the workloads that its table holds; None if one has mistakes.

    The texts that it names lie in ``folder``; without one they are not read.
    """
    registered = _registered(diagnostics, registry, value, path)
    if registered is None:
        return None
    table = deepcopy(value)
    sound = _with_texts(diagnostics, registered, table, path, folder)
    for where in registered.nested(table):
        holder = table
        for key in where[:-1]:
            holder = holder[key]
        inner = _read_nested(diagnostics, registry, holder[where[-1]], (*path, *where), folder)
        sound = sound and inner is not None
        # An invalid entry is replaced by a valid one, so that all errors are reported at once.
        holder[where[-1]] = inner or next(iter(registry.values())).model_construct(workload="")
    workload = diagnostics.model(registered, table, path)
    return workload if sound else None


def _with_texts(
    diagnostics: Diagnostics, kind: type[Workload], table: dict[str, Any], path: Path, folder: File | None
) -> bool:
    """Read the texts that a table names into it; whether all could be read."""

    def read(key: str, name: str, *, whole: bool = True) -> str:
        try:
            return read_text(name, folder or File(), whole=whole)
        except Diagnostic as mistake:
            mistake.key = key
            raise

    try:
        if folder is not None:
            kind.with_texts(table, read)
    except Diagnostic as mistake:
        return not diagnostics.extend(path, [mistake])
    return True


def _read_nested(
    diagnostics: Diagnostics, registry: Registry[Workload], value: Any, path: Path, folder: File | None
) -> Workload | None:
    registered = _registered(diagnostics, registry, value, path)
    if registered is None:
        return None
    if registered.is_compound:  # its tenants would have no part of the stack
        cause = f"{value['workload']} cannot be one of several workloads itself"
        diagnostics.add((*path, "workload"), cause, remedy="write each workload as a tenant of its own")
        return None
    table = deepcopy(value)
    sound = _with_texts(diagnostics, registered, table, path, folder)
    workload = diagnostics.model(registered, table, path)
    return workload if sound else None


def _registered(diagnostics: Diagnostics, registry: Registry[T], value: Any, path: Path) -> type[T] | None:
    key = registry.discriminator
    if not isinstance(value, Mapping):
        example = f'such as {{ {key} = "{next(iter(registry))}" }}'
        diagnostics.add(path, "this must be a table", remedy=example)
        return None
    name = value.get(key)
    if not isinstance(name, str):
        shown = ", ".join(f'"{known}"' for known in registry)
        cause = "this key is missing" if name is None else "this must be a name in quotes"
        diagnostics.add((*path, key), cause, remedy=f"it names the {key}: {shown}")
        return None
    if name not in registry:
        diagnostics.add((*path, key), f'there is no {key} "{name[:60]}"', remedy=registry.nearest(name))
        return None
    return registry[name]
