# SPDX-License-Identifier: Apache-2.0
"""The workloads that a weight means: a kind of workload, with conditions on its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import create_model
from pydantic.fields import FieldInfo

from strata.plan.workload_sheet import example_table
from strata.results.snapshot import StudySnapshot
from strata.spec.diagnostics import Diagnostics, keys_of
from strata.spec.names import Path, nearest
from strata.spec.registry import Catalogue
from strata.spec.workload import Workload

# A workload that alters its stack is another measurement: only a pattern that names the key means it.
_INTACT: Final[Mapping[str, Any]] = {"before_measure": [], "snapshot_every_ns": None}


@dataclass(frozen=True)
class Pattern:
    """The condition on a workload.

    Attributes:
        kind: The kind of workload.
        declared: As it stands in the file of uses.
        wanted: The allowed values of the kind's fields, as JSON.
    """

    kind: str
    declared: Mapping[str, Any]
    wanted: Mapping[str, tuple[Any, ...]]

    def fits(self, workload: Mapping[str, Any]) -> bool:
        """Whether it means a workload, given by its fields as JSON."""
        if workload.get("workload") != self.kind:
            return False
        unsaid = {key: value for key, value in _INTACT.items() if key not in self.wanted}
        return all(workload.get(key) in values for key, values in self.wanted.items()) and all(
            workload.get(key, value) == value for key, value in unsaid.items()
        )

    def example(self, catalogue: Catalogue) -> dict[str, Any]:
        """The table of a fitting workload, for a study file."""
        first = {key: self._first(catalogue, key, value) for key, value in self.declared.items()}
        return {**example_table(catalogue.workloads[self.kind]), **first}

    def _first(self, catalogue: Catalogue, key: str, value: Any) -> Any:
        """The declared value, or the first of several that would do."""
        field = _field(catalogue.workloads[self.kind], key)
        several = isinstance(value, list) and field is not None and len(self.wanted[field]) > 1
        return value[0] if several else value


def read_pattern(diagnostics: Diagnostics, catalogue: Catalogue, value: Any, path: Path) -> Pattern | None:
    """Read one of a weight's ``fits``; None with mistakes, which are reported."""
    if not isinstance(value, Mapping):
        diagnostics.add(path, "this must be a table", remedy='such as { workload = "pgbench" }')
        return None
    name = value.get("workload")
    if not isinstance(name, str) or name not in catalogue.workloads:
        cause = f'there is no workload "{str(name)[:60]}"' if "workload" in value else "this key is missing"
        diagnostics.add((*path, "workload"), cause, remedy=nearest(str(name), catalogue.workloads))
        return None
    kind = catalogue.workloads[name]
    wanted: dict[str, tuple[Any, ...]] = {}
    sound = True
    for key, each in value.items():
        if key == "workload":
            continue
        field = _field(kind, key)
        if field is None:
            remedy = nearest(key, keys_of(kind))
            diagnostics.add((*path, key), f'{name} has no key "{key}"', remedy=remedy)
            sound = False
            continue
        values = _values(diagnostics, kind, field, each, (*path, key))
        sound = sound and values is not None
        wanted[field] = values or ()
    return Pattern(name, dict(value), wanted) if sound else None


def _field(kind: type[Workload], key: str) -> str | None:
    """The field that a key of a study file is read into."""
    return next((name for name, info in kind.model_fields.items() if key in (name, info.alias)), None)


def _values(
    diagnostics: Diagnostics, kind: type[Workload], field: str, value: Any, path: Path
) -> tuple[Any, ...] | None:
    """The values that a key may have, as JSON; None if one is not valid."""
    info = kind.model_fields[field]
    whole = Diagnostics(diagnostics.file, "")
    read = _value(whole, info, field, value, path)
    if not whole:
        return (read,)
    several = value if isinstance(value, list) and value else [value]
    before = Diagnostics(diagnostics.file, "")
    found = [_value(before, info, field, each, path) for each in several]
    if not before:
        return tuple(found)
    for each in several:
        _value(diagnostics, info, field, each, path)
    return None


def _value(diagnostics: Diagnostics, info: FieldInfo, field: str, value: Any, path: Path) -> Any:
    key = info.alias or field
    extra = info.json_schema_extra
    known = extra.get("enum") if isinstance(extra, dict) else None
    if isinstance(known, list) and value not in known:
        names = [str(each) for each in known if each is not None]
        diagnostics.add(path, f'"{str(value)[:60]}" is not valid here', remedy=nearest(str(value), names))
        return None
    model = create_model("Key", **{field: (info.annotation, info)})  # type: ignore[call-overload]
    read = diagnostics.model(model, {key: value}, path[:-1])
    return None if read is None else read.model_dump(mode="json")[field]


def declared_workloads(snapshot: StudySnapshot) -> dict[str, dict[str, Any]]:
    """Each workload's fields as JSON, by its name in the study."""
    described = snapshot.described.get("workloads")
    tables = described.items() if isinstance(described, dict) else ()
    return {name: dict(each) for name, each in tables if isinstance(each, dict)}
