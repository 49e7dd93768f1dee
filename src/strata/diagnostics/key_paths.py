# SPDX-License-Identifier: Apache-2.0
"""Paths that lead to keys of a study's tables: ``stacks.zfs.layers.zfs.recordsize``, ``study.cpu``.

The factors of ``[matrix]`` and the variations that a claim suspects have them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from strata.diagnostics.names import Diagnostic, Path, nearest

Kind = Literal["devices", "stacks", "workloads"]
KINDS: Final[tuple[Kind, ...]] = ("devices", "stacks", "workloads")
HEAD: Final = "study"
_OF_HEAD: Final = (
    *("kernel", "cpu", "cpus", "memory", "age", "drives", "phases", "trace", "time_limit"),
    *("sample_interval", "sysctl"),
)
"""The keys of ``[study]`` that belong to a trial, and so can differ from stack to stack."""
_MADE: Final = ("queue", "sysctl", "vm")
"""Tables that need not be there: a path makes them."""
_STEPS_MAX: Final = 40
_ANY: Final = "*"
_SEE: Final = 'see "key" in the reference'


def key_places(tables: Mapping[str, Any], key: str) -> list[tuple[Any, ...]]:
    """The kind, the name and the keys within the table of everything that a path names.

    Of ``[study]`` the name is empty. Raises Diagnostic if it names nothing.
    """
    if key.count(".") > _STEPS_MAX:
        raise Diagnostic(f'"{key[:60]}…" has {key.count(".") + 1} parts', remedy=_SEE)
    kind, _, rest = key.partition(".")
    if kind == HEAD and rest.partition(".")[0] in _OF_HEAD:
        place = _resolve(tables.get(HEAD, {}), rest.split("."), HEAD)
        if isinstance(place, str):
            raise Diagnostic(place, remedy=_SEE)
        return [(HEAD, "", *place)]
    name, _, inner = rest.partition(".")
    if kind not in KINDS or not inner:
        remedy = 'write "devices.NAME.KEY", "stacks.NAME.layers.LAYER.KEY", "workloads.NAME.KEY" or '
        remedy += f'"study.KEY" with one of {", ".join(_OF_HEAD)}'
        raise Diagnostic(f'"{key}" is not a key of a device, a stack or a workload', remedy=remedy)
    return _within(tables.get(kind), kind, name, inner)


def _within(stated: object, kind: str, name: str, inner: str) -> list[tuple[Any, ...]]:
    """The same of a path to a key of a device, a stack or a workload, or of any of them."""
    known = stated if isinstance(stated, dict) else {}
    if name != _ANY and name not in known:
        raise Diagnostic(f'there is no "{name}" in {kind}', remedy=nearest(name, known))
    steps = inner.split(".")
    reached = {each: _resolve(known[each], steps, f"{kind}.{each}") for each in known if name in (_ANY, each)}
    found = [(kind, each, *at) for each, at in reached.items() if not isinstance(at, str)]
    if not found:
        whys = (why for why in reached.values() if isinstance(why, str))
        raise Diagnostic(next(whys, f"there are no {kind}"), remedy=_SEE)
    return found


def put(table: Any, place: Iterable[str | int], value: object) -> None:
    """Set the key at a place within a table."""
    *inner, last = place
    for step in inner:
        table = table.setdefault(step, {}) if step in _MADE else table[step]
    table[last] = copy.deepcopy(value)


def with_changes(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a study's tables with other values at these paths. Raises Diagnostic if one names nothing."""
    made = copy.deepcopy(dict(tables))
    for key, value in changes.items():
        for kind, name, *place in key_places(made, key):
            put(made[kind][name] if name else made.setdefault(kind, {}), place, value)
    return made


def _resolve(table: object, steps: list[str], shown: str) -> Path | str:
    """The keys and indices that ``steps`` name in a table; a sentence if there are none."""
    place: list[str | int] = []
    node = table
    for position, step in enumerate(steps):
        is_last = position == len(steps) - 1
        if isinstance(node, dict):
            if step not in node and not is_last and step not in _MADE:
                return f'there is no "{step}" in {shown}'
            place.append(step)
            node = node.get(step, {})
        elif isinstance(node, list):
            named = [
                at for at, each in enumerate(node) if isinstance(each, dict) and step == each.get("layer")
            ]
            named = [int(step)] if step.isdigit() and int(step) < len(node) else named
            if len(named) != 1:
                count = "several" if named else "no"
                return f'{shown} has {count} "{step}"' + (": give its index" if named else "")
            place.append(named[0])
            node = node[named[0]]
        else:
            return f"{shown} is no table"
        shown += f".{step}"
    return tuple(place)
