# SPDX-License-Identifier: Apache-2.0
"""The devices that a stack's table names, before it is read: factors of devices make variants of stacks."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from strata.diagnostics.names import disk_of
from strata.model.layer import Layer

Layers = Mapping[str, type[Layer]]
_Slot = tuple[Any, Any]
"""A list and an index, or a table and a key, where a device's name stands."""


def with_devices(table: Any, declared: Iterable[str], layers: Layers) -> Any:
    """A copy of a stack's table that names its devices, also where they are the default."""
    made = copy.deepcopy(table)
    if not isinstance(made, dict) or "devices" in made:
        return made
    lowest = next((each.get("layer") for each in _tables(made.get("layers"))), None)
    if not isinstance(lowest, str) or lowest not in layers or layers[lowest].requires.maximum != 0:
        named = {holder[key] for holder, key in _slots(made, layers)}
        made["devices"] = [name for name in declared if name not in named]
    return made


def disks_in(table: Any, layers: Layers) -> list[str]:
    """The disks that a stack's table names, each once."""
    return list(dict.fromkeys(disk_of(holder[key]) for holder, key in _slots(table, layers)))


def rename_devices(table: Any, names: Mapping[str, str], layers: Layers) -> None:
    """Replace the names of disks in a stack's table, those of partitions likewise."""
    for holder, key in _slots(table, layers):
        disk, point, part = holder[key].partition(".")
        holder[key] = names.get(disk, disk) + point + part


def _slots(table: Any, layers: Layers) -> Iterator[_Slot]:
    parts = table.get("filesystems") if isinstance(table, dict) else None
    for part in (table, *(parts.values() if isinstance(parts, dict) else ())):
        if not isinstance(part, dict):
            continue
        yield from _slots_at(part, "devices")
        for layer in (*_tables(part.get("layers")), *_tables(part.get("each"))):
            known = layers.get(layer["layer"]) if isinstance(layer.get("layer"), str) else None
            for key in known.device_keys if known else ():
                yield from _slots_at(layer, key)


def _slots_at(table: dict[str, Any], key: str) -> Iterator[_Slot]:
    names = table.get(key)
    if isinstance(names, str):
        yield table, key
    elif isinstance(names, list):
        yield from ((names, index) for index, each in enumerate(names) if isinstance(each, str))


def _tables(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
