# SPDX-License-Identifier: Apache-2.0
"""From ``[matrix]`` and ``[[exclude]]`` in a study's file to its stacks and workloads.

The tables of the file are expanded before they are read, so that each combination is checked like one that
was written by hand. `Origins` leads its mistakes back to the file.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from strata.diagnostics.key_paths import HEAD, KINDS, Kind, key_places, put
from strata.diagnostics.mistakes import Diagnostics
from strata.diagnostics.names import Diagnostic, Path, disk_of, kebab_diagnostics, nearest
from strata.model.design import TRIALS_MAX
from strata.model.layer import Layer
from strata.model.matrix import Factor, FactorLevel, FactorTable, Matrix, Variant
from strata.units import parse_duration, parse_rate, parse_size

_EXAMPLE: Final = 'recordsize = { key = "stacks.zfs.layers.zfs.recordsize", values = ["8KiB", "128KiB"] }'
_UNITS: Final[Mapping[str, Callable[[object], int]]] = {
    "B": parse_size,
    "B/s": parse_rate,
    "ns": parse_duration,
}


@dataclass
class Origins:
    """Leads a path in the expanded tables to that in the file."""

    variants: dict[tuple[str, str], Variant] = field(default_factory=dict)
    places: dict[tuple[str, str], dict[str, list[Path]]] = field(default_factory=dict)
    factors: dict[str, Factor] = field(default_factory=dict)

    def __call__(self, path: Path, is_key: bool) -> Path:
        variant = self.variants.get((str(path[0]), str(path[1]))) if len(path) > 1 else None
        if variant is None:
            return path
        for name, places in self.places[str(path[0]), variant.base].items():
            if is_key and path[2:] in places:
                return ("matrix", name, "key")  # the same for every value
            if any(path[2 : 2 + len(place)] == place for place in places):
                names = [each.name for each in self.factors[name].levels]
                return ("matrix", name, "values", names.index(variant.levels[name]))
        return (path[0], *([variant.base] if variant.base else []), *path[2:])


def expand(tables: Mapping[str, Any], found: Diagnostics, layers: Layers) -> tuple[dict[str, Any], Matrix]:
    """The tables with each combination in place of what the factors concern; mistakes are ``found``."""
    kept = {name: table for name, table in tables.items() if name not in {"matrix", "exclude"}}
    if "matrix" not in tables:
        if "exclude" in tables:
            found.add(("exclude",), "there is no [matrix] to exclude from", f"add [matrix] with {_EXAMPLE}")
        return kept, Matrix()
    reader = _Reader(kept, found, layers)
    reader.read(tables["matrix"], tables.get("exclude", []))
    return reader.tables, reader.matrix


class _Reader:
    def __init__(self, tables: dict[str, Any], found: Diagnostics, layers: Layers) -> None:
        self._layers = layers
        self.tables = tables
        self.matrix = Matrix()
        self._found = found
        self._origins = Origins()
        self._values: dict[str, list[Any]] = {}  # of each factor, in the order of its levels
        self._heads: dict[str, dict[str, Any]] = {}

    def read(self, declared: object, exclude: object) -> None:
        if not isinstance(declared, dict) or not declared:
            self._found.add(("matrix",), "this must be a table of factors", f"such as {_EXAMPLE}")
            return
        known = len(self._found)
        for name, value in declared.items():
            self._read_factor(name, value)
        self._read_devices()
        self._read_head()
        excluded = tuple(self._exclusions(exclude))
        if len(self._found) > known:
            return
        factors = self._origins.factors
        if (count := self._count()) > TRIALS_MAX:
            cause = (
                f"the factors make {count:,} combinations of a stack or a workload, more than {TRIALS_MAX:,}"
            )
            self._found.add(("matrix",), cause, "leave values out")
            return
        self.matrix = Matrix(factors=factors, exclude=excluded)
        made = {kind: self._expanded(kind) for kind in KINDS}
        changed = {"stacks": made["stacks"], "workloads": made["workloads"], "heads": self._heads}
        self.matrix = self.matrix.model_copy(update=changed)
        self._found.origin = self._origins

    def _read_factor(self, name: str, value: object) -> None:
        path: Path = ("matrix", name)
        table = self._found.model(FactorTable, value, path)
        if self._found.extend(path, kebab_diagnostics(name)) or table is None:
            return
        levels = self._levels(table, (*path, "values"))
        for key in [table.key] if isinstance(table.key, str) else table.key:
            try:
                reached = key_places(self.tables, key)
            except Diagnostic as error:
                self._found.extend((*path, "key"), [error])
                continue
            for place in reached:
                of_table = self._origins.places.setdefault(place[:2], {})
                if any(place[2:] in places for places in of_table.values()):
                    self._found.add(path, f'another factor sets "{key}", too', "join the two")
                of_table.setdefault(name, []).append(place[2:])
        numbers, unit = _numbers([level for _, _, level in levels])
        made = tuple(
            FactorLevel(name=each, text=text, number=number)
            for (each, text, _), number in zip(levels, numbers, strict=True)
        )
        self._origins.factors[name] = Factor(name=name, levels=made, unit=unit)
        self._values[name] = [value for _, _, value in levels]

    def _read_devices(self) -> None:
        """Let the factors of a device concern the stacks that stand on it."""
        places, factors = self._origins.places, self._origins.factors
        varied = {name: list(of_table) for (kind, name), of_table in places.items() if kind == "devices"}
        stacks = self.tables.get("stacks")
        if not varied or not isinstance(stacks, dict):
            return
        stacks = {
            name: with_devices(each, self.tables["devices"], self._layers) for name, each in stacks.items()
        }
        self.tables = {**self.tables, "stacks": stacks}
        disks = {name: disks_in(each, self._layers) for name, each in stacks.items()}
        for name, named in disks.items():
            known = places.get(("stacks", name), {})
            theirs = {factor for each in named for factor in varied.get(each, ())}
            if theirs:
                mine = {factor: known.get(factor, []) for factor in factors if factor in {*known, *theirs}}
                places["stacks", name] = mine
        for name in varied.keys() - {each for named in disks.values() for each in named}:
            self._found.add(
                ("devices", name), "no stack stands on this factor's device", "leave the factor out"
            )

    def _read_head(self) -> None:
        """Let the factors of ``[study]`` concern every stack, which then has its own keys of it."""
        places = self._origins.places
        for name in self.tables.get("stacks", {}) if places.get((HEAD, "")) else ():
            known = places.get(("stacks", name), {})
            both = {*known, *places[HEAD, ""]}
            places["stacks", name] = {
                each: known.get(each, []) for each in self._origins.factors if each in both
            }

    def _levels(self, table: FactorTable, path: Path) -> list[tuple[str, str, Any]]:
        """Of each value its name, its text and itself."""
        if isinstance(table.values, dict):
            levels = [(name, name, value) for name, value in table.values.items()]
        else:
            levels = []
            for index, value in enumerate(table.values):
                name = _name_of(value)
                if name is None:
                    self._found.add((*path, index), "this value gives no name", "write values = { name = … }")
                elif name in {each for each, _, _ in levels}:
                    cause = f'another value is called "{name}", too'
                    self._found.add((*path, index), cause, "leave one out, or write values = { name = … }")
                else:
                    levels.append((name, _text_of(value), value))
        if len(table.values) < 2:
            self._found.add(path, "a factor has two values at least", "set a single value in its own table")
        return levels

    def _exclusions(self, declared: object) -> Iterator[dict[str, tuple[str, ...]]]:
        if not isinstance(declared, list):
            self._found.add(("exclude",), "this must be tables [[exclude]]", "each with levels of factors")
            return
        for index, each in enumerate(declared):
            path: Path = ("exclude", index)
            if not isinstance(each, dict) or not each:
                self._found.add(path, "this must be a table of factors", 'such as recordsize = "8KiB"')
                continue
            yield {name: tuple(self._excluded(name, value, (*path, name))) for name, value in each.items()}

    def _excluded(self, name: str, value: object, path: Path) -> Iterator[str]:
        factor = self._origins.factors.get(name)
        if factor is None:
            self._found.add(path, f'there is no factor "{name}"', nearest(name, self._origins.factors))
            return
        values = self._values[name]
        for wanted in value if isinstance(value, list) else [value]:
            alike = [index for index, one in enumerate(values) if one == wanted and type(one) is type(wanted)]
            names = [level.name for level in factor.levels]
            alike = alike or [index for index, one in enumerate(names) if one == wanted]
            if alike:
                yield names[alike[0]]
            else:
                self._found.add(path, f'"{wanted}" is no value of {name}', nearest(str(wanted), names))

    def _count(self) -> int:
        factors, places = self._origins.factors, self._origins.places
        return max(
            (math.prod(len(factors[name].levels) for name in each) for each in places.values()), default=0
        )

    def _expanded(self, kind: Kind) -> dict[str, Variant]:
        """Replace the tables of a kind by their combinations."""
        made: dict[str, Variant] = {}
        expanded: dict[str, Any] = {}
        for base, table in self.tables.get(kind, {}).items():
            places = self._origins.places.get((kind, base))
            if places is None:
                expanded[base] = table
                continue
            before = len(made)
            for levels in self._combinations(list(places)):
                name = _variant_name(base, levels)
                if name in self.tables[kind] or name in expanded:
                    self._found.add((kind, base), f'two {kind} would be called "{name}"', "rename a factor")
                expanded[name] = self._set(table, places, levels)
                if kind == "stacks":
                    rename_devices(expanded[name], self._devices_at(levels), self._layers)
                made[name] = self._origins.variants[kind, name] = Variant(base=base, levels=levels)
                if kind == "stacks":
                    self._head_of(name, levels)
            if len(made) == before:
                self._found.add((kind, base), "[[exclude]] leaves nothing of it", "exclude less")
        self.tables = {**self.tables, kind: expanded}
        return made

    def _head_of(self, stack: str, levels: Mapping[str, str]) -> None:
        places = self._origins.places.get((HEAD, ""))
        if not places:
            return
        mine = {name: levels[name] for name in places}
        table = self.tables.get(HEAD, {})
        changed = self._set(table, places, mine)
        self._heads[stack] = {key: value for key, value in changed.items() if value != table.get(key)}
        self._origins.variants[HEAD, stack] = Variant(base="", levels=mine)

    def _devices_at(self, levels: Mapping[str, str]) -> dict[str, str]:
        """The variants of the devices at these levels of their factors, by the devices' names."""
        return {
            name: _variant_name(name, {factor: levels[factor] for factor in places})
            for (kind, name), places in self._origins.places.items()
            if kind == "devices" and levels.keys() >= places.keys()
        }

    def _combinations(self, names: list[str]) -> Iterator[dict[str, str]]:
        """The combinations of a table's levels. `exclude` leaves one out if it names no other factor."""
        factors = self._origins.factors
        for chosen in itertools.product(*(factors[name].levels for name in names)):
            levels = {name: level.name for name, level in zip(names, chosen, strict=True)}
            if not self.matrix.leaves_out(levels):
                yield levels

    def _set(self, table: Any, at: Mapping[str, list[Path]], levels: Mapping[str, str]) -> Any:
        made = copy.deepcopy(table)
        for name, level in levels.items():
            names = [each.name for each in self._origins.factors[name].levels]
            value = self._values[name][names.index(level)]
            for place in at[name]:
                put(made, place, value)
        return made


def _variant_name(base: str, levels: Mapping[str, str]) -> str:
    return "-".join([base, *(f"{factor}-{level}" for factor, level in levels.items())])


def _name_of(value: object) -> str | None:
    """The part of a name that a value gives; None for lists and tables."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, str | int | float):
        return None
    return "-".join(re.findall(r"[a-z0-9]+", str(value).lower())) or None


def _text_of(value: object) -> str:
    return _name_of(value) or "" if isinstance(value, bool) else str(value)


def _numbers(values: list[Any]) -> tuple[list[float | None], str | None]:
    """The values as numbers with their unit, if all are numbers or quantities of one unit."""
    if values and all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        return [float(each) for each in values], "1"
    for unit, parse in _UNITS.items():
        try:
            return [float(parse(each)) for each in values], unit
        except ValueError:
            continue
    return [None] * len(values), None


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
