# SPDX-License-Identifier: Apache-2.0
"""Any stack, drawn from the registry: layers that join or do not, with keys of values that they can take."""

from __future__ import annotations

import tomllib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from strata.model.layer import Interface, Layer
from strata.plan.catalogue import catalogue
from study_texts import stack_text, toml

DISKS_MAX: Final = 5
_LAYERS: Final = catalogue().layers
_SIZES: Final = ("4KiB", "64KiB", "16MiB", "256MiB", "512MiB")
_KEYS_MAX: Final = 3
# Handed on as they are: what one mkfs takes, another does not, and what a set of ZFS's features allows is in
# ZFS's own files.
_HANDED_ON: Final = ("mkfs", "mount", "compatibility")
_UNKNOWN: Final = "disk77"


@dataclass(frozen=True)
class Drawn:
    """A drawn stack: tables of layers, and the number of disks; keys may name some of the disks."""

    tables: tuple[dict[str, object], ...]
    disks: int

    @property
    def layers(self) -> str:
        return ", ".join(toml(table) for table in self.tables)

    def text(self, workload: str, *, model: str, capacity: str) -> str:
        """It as a study."""
        return stack_text(self.layers, self.disks, workload, model=model, capacity=capacity)


def _fields(layer: type[Layer]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in layer.model_fields.items():
        if name not in ("layer", *_HANDED_ON):
            yield field.alias or name, field


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types and literals of a key's annotation, at any depth."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from _kinds(each)
    else:
        yield annotation


def _values(field: FieldInfo) -> list[object]:
    """Values that a key can take: all of a choice, the examples of anything else, and some like them."""
    values = [_read(example) for example in field.examples or []]
    for kind in _kinds(field.annotation):
        if get_origin(kind) is Literal:
            values += get_args(kind)
        elif kind is bool:
            values += [True, False]
        elif kind is int and any(isinstance(value, int) for value in values):
            values += [1, 2, 3, 4, 12]
    if any(isinstance(value, str) and value.endswith("iB") for value in values):
        values += _SIZES
    return values


def _read(example: object) -> object:
    """An example as read from a file; examples of tables are text."""
    if isinstance(example, str) and example.startswith("{"):
        return tomllib.loads(f"value = {example}")["value"]
    return example


@st.composite
def tables(draw: st.DrawFn, name: str, free: list[str]) -> dict[str, object]:
    """A layer's table with some of its keys; devices that it names are taken from ``free``."""
    fields = dict(_fields(_LAYERS[name]))
    devices = _LAYERS[name].device_keys
    optional = [key for key, field in fields.items() if not field.is_required() and _values(field)]
    chosen = draw(st.sets(st.sampled_from(optional), max_size=_KEYS_MAX)) if optional else set()
    table: dict[str, object] = {"layer": name}
    for key, field in fields.items():
        if key in devices and (key in chosen or field.is_required()):
            table[key] = _named(draw, field, free)
        elif key in chosen or field.is_required():
            table[key] = draw(st.sampled_from(_values(field)))
    return table


def _named(draw: st.DrawFn, field: FieldInfo, free: list[str]) -> object:
    several = any(get_origin(kind) is list for kind in _kinds(field.annotation))
    count = draw(st.integers(1, 2)) if several else 1
    names = [free.pop() for _ in range(min(count, len(free)))] or [_UNKNOWN]
    return names if several else names[0]


@st.composite
def joined_stacks(draw: st.DrawFn, *, layers_min: int = 1, layers_max: int = 3) -> Drawn:
    """A stack of layers that join, as far as the kinds of their joints say; keys may still contradict."""
    names: list[str] = []
    kind: Interface = "block"
    for place in range(draw(st.integers(layers_min, layers_max))):
        fitting = [each for each, layer in _LAYERS.items() if _stands_on(layer, kind, place)]
        names.append(draw(st.sampled_from(fitting)))
        kind = _LAYERS[names[-1]].provides
    if kind == "pool":
        names.append(
            draw(st.sampled_from([n for n, layer in _LAYERS.items() if layer.requires.kind == "pool"]))
        )
    return _drawn(draw, names)


def _stands_on(layer: type[Layer], kind: str, place: int) -> bool:
    """Whether a layer can stand at this place: above the first place there is at most one device."""
    requires = layer.requires
    if requires.kind != kind:
        return False
    return place == 0 or requires.fits(1)


@st.composite
def any_stacks(draw: st.DrawFn) -> Drawn:
    """A stack of any layers in any order, which need not join."""
    return _drawn(draw, draw(st.lists(st.sampled_from(list(_LAYERS)), min_size=0, max_size=4)))


def _drawn(draw: st.DrawFn, names: list[str]) -> Drawn:
    disks = draw(st.integers(1, DISKS_MAX))
    # Keys name disks from the end of the list; the lowest layer stands on the remaining ones.
    free = [f"disk{index}" for index in range(disks)]
    return Drawn(tuple(draw(tables(name, free)) for name in names), disks)
