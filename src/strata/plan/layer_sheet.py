# SPDX-License-Identifier: Apache-2.0
"""The facts about a layer that `strata layers` and the reference show."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, get_args

from strata.diagnostics.described_keys import Key, described_keys
from strata.model.abilities import Abilities
from strata.model.allowed import by_form
from strata.model.layer import INTERFACES, Family, Layer
from strata.plan.catalogue import catalogue
from strata.reading.schema import table_schema

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
