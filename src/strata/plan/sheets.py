# SPDX-License-Identifier: Apache-2.0
"""The facts about layers and workloads that lists and the reference show."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from strata.devices.device import find_device
from strata.diagnostics.described_keys import Key, described_keys
from strata.diagnostics.mistakes import Diagnostics, keys_of
from strata.model.abilities import Abilities
from strata.model.allowed import by_form
from strata.model.layer import INTERFACES, Family, Layer
from strata.model.metric import MetricSpec
from strata.model.stack import Stack
from strata.model.step import Step
from strata.model.study import Study, StudyDevice
from strata.model.trial import TrialKey
from strata.model.workload import Workload, loads_of
from strata.plan.catalogue import catalogue
from strata.plan.compile import PHASES
from strata.plan.placement import placements_of, workload_steps
from strata.reading.entries import Catalogue, read_workload
from strata.reading.schema import table_schema
from strata.toml import toml_table
from strata.units import NS_PER_S
from strata.workloads.generator.output import PROGRAM

_ABILITIES: Final = {
    "snapshot": "snapshots",
    "clone": "clones of them",
    "restore": "going back to one",
    "send": "sending differences",
    "quota": "limiting a folder",
    "resize": "resizing in use",
    "scrub": "scrubbing",
    "rebuild": "rebuilding onto a spare",
    "allocated": "telling what it has taken",
    "free_space": "telling how its free space is divided",
    "share": "being shared by tenants",
}


@dataclass(frozen=True)
class LayerSheet:
    """The facts of one layer, in texts with code between backticks."""

    name: str
    family: Family
    summary: str
    description: str  # paragraphs after the summary
    stands_on: str
    gives: str
    can_try: tuple[str, ...]
    tools: tuple[str, ...]
    kernel: tuple[str, ...]  # features and modules
    keys: tuple[Key, ...]
    allowed: Mapping[str, Mapping[str, tuple[str, ...]]]  # as `WorkloadSheet.allowed`


def layer_sheet(name: str) -> LayerSheet:
    layer = catalogue().layers[name]
    summary, _, description = inspect.cleandoc(layer.__doc__ or "").replace("``", "`").partition("\n\n")
    needs = layer.prerequisites
    return LayerSheet(
        name=name,
        family=layer.family,
        summary=summary,
        description="\n\n".join(" ".join(each.split()) for each in description.split("\n\n")),
        stands_on=str(layer.requires),
        gives=INTERFACES[layer.provides],
        can_try=_abilities(layer),
        tools=needs.tools,
        kernel=(*needs.features, *(f"module:{each}" for each in needs.modules)),
        keys=described_keys(table_schema(layer), without={"layer"}),
        allowed={key: by_form(forms) for key, forms in layer.allowed.items()},
    )


def grouped(sheets: Iterable[LayerSheet]) -> dict[Family, list[LayerSheet]]:
    """The sheets by family, in the order of `Family`."""
    found: dict[Family, list[LayerSheet]] = {family: [] for family in get_args(Family)}
    for sheet in sheets:
        found[sheet.family].append(sheet)
    return found


def _abilities(layer: type[Layer]) -> tuple[str, ...]:
    """The abilities that it overrides; `strata capabilities` tries whether they work with given keys."""
    return tuple(
        words
        for ability, words in _ABILITIES.items()
        if getattr(layer, ability) is not getattr(Layer if ability == "share" else Abilities, ability)
    )


_DEVICE: Final = "generic-sata-ssd"
_EXAMPLE: Final = "example"


@dataclass(frozen=True)
class WorkloadSheet:
    name: str
    summary: str
    rationale: str
    phases: tuple[str, ...]  # the phases of its example, without the building of the stack
    runs_on: tuple[str, ...]
    tools: tuple[str, ...]
    uses_load_generator: bool  # whether its example runs Strata's own
    inputs: tuple[str, ...]  # the files its example reads from the machine: a path, or ``strata:`` and a name
    is_compound: bool
    metric_specs: tuple[MetricSpec, ...]
    check_questions: Mapping[str, str]
    keys: tuple[Key, ...]  # its own; ``common_keys`` are the keys of every workload
    common_keys: tuple[Key, ...]
    allowed: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Of each key that holds options of another program: the options that a study may give, by the form of
    their values."""
    example: str  # its table in a study file


def workload_sheet(catalogue: Catalogue, name: str) -> WorkloadSheet:
    kind = catalogue.workloads[name]
    table = example_table(kind)
    example = toml_table(f"workloads.{_EXAMPLE}", table).rstrip()
    diagnostics = Diagnostics(_EXAMPLE, example)
    load = read_workload(diagnostics, catalogue.workloads, table, ("workloads", _EXAMPLE))
    diagnostics.raise_all()
    assert load is not None
    common = set(keys_of(Workload))
    steps = _steps(catalogue, load)
    keys = described_keys(table_schema(kind), without={"workload"})
    return WorkloadSheet(
        name=name,
        summary=(kind.__doc__ or "").strip().partition("\n")[0],
        rationale=kind.rationale,
        phases=tuple(phase for phase in PHASES if phase in {step.phase for step in steps}),
        runs_on=kind.runs_on,
        tools=kind.tools,
        uses_load_generator=any(step.argv[0] == PROGRAM for step in steps),
        inputs=tuple(sorted({source for each in loads_of(load) for source in each.inputs().values()})),
        is_compound=kind.is_compound,
        metric_specs=kind.metric_specs,
        check_questions=dict(kind.check_questions),
        keys=tuple(key for key in keys if key.name not in common),
        common_keys=tuple(key for key in keys if key.name in common),
        allowed={key: by_form(forms) for key, forms in kind.allowed.items()},
        example=example,
    )


def example_table(kind: type[Workload]) -> dict[str, Any]:
    """The table of its example: the required keys and the keys that it names, with their examples."""
    table: dict[str, Any] = {"workload": kind.model_fields["workload"].default}
    for field, info in kind.model_fields.items():
        key = info.alias or field
        if field != "workload" and (info.is_required() or key in kind.example):
            table[key] = _value((info.examples or [None])[0])
    return table


def _value(example: Any) -> Any:
    """The value of a key's example; a list of tables is written as in a file."""
    if isinstance(example, str) and example.startswith(("[", "{")):
        return tomllib.loads(f"value = {example}")["value"]
    return example


def _steps(catalogue: Catalogue, load: Workload) -> list[Step]:
    device = find_device(_DEVICE, Path())
    stack = Stack(_EXAMPLE, ("disk0",), (catalogue.layers["ext4"].model_validate({"layer": "ext4"}),))
    study = Study(
        name=_EXAMPLE,
        question="",
        seeds=(1,),
        time_limit_ns=NS_PER_S,
        sample_interval_ns=NS_PER_S,
        devices={"disk0": StudyDevice("disk0", device, device.capacity_bytes)},
        stacks={_EXAMPLE: stack},
        workloads={_EXAMPLE: load},
        file=Path(),
    )
    _, placements = placements_of(study, TrialKey(_EXAMPLE, _EXAMPLE, 1))
    return workload_steps(placements, load.tenants())
