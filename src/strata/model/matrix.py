# SPDX-License-Identifier: Apache-2.0
"""``[matrix]``: every combination of stated values of keys, as stacks and workloads of their own.

A factor of a device makes variants of the device, and of the stacks that stand on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from strata.diagnostics.names import KebabName


class FactorTable(BaseModel):
    """A key of ``[matrix]``: one factor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: StrictStr | list[StrictStr] = Field(examples=["stacks.zfs.layers.zfs.recordsize"])
    """What it sets: the keys that lead to it, joined by points; an element of a list by its layer's name, or
    its index from 0; `*` for every stack or workload that has it. A list sets several at once"""
    values: list[Any] | dict[KebabName, Any] = Field(examples=[["8KiB", "128KiB"]])
    """Its values, two at least; as a table, each with a name"""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class FactorLevel(_Frozen):
    """One value of a factor: its name within names, its text, and its number if it has one."""

    name: str
    text: str
    number: float | None = None


class Factor(_Frozen):
    """A key, or several, with the values that are tried; ``unit`` is that of the levels' numbers."""

    name: str
    levels: tuple[FactorLevel, ...]
    unit: str | None = None

    @property
    def is_number(self) -> bool:
        return self.unit is not None

    def level(self, name: str) -> FactorLevel:
        return next(each for each in self.levels if each.name == name)


class Variant(_Frozen):
    """A stack or workload that the matrix made: of which declared one, and the level of each factor."""

    base: str
    levels: dict[str, str]


class Matrix(_Frozen):
    """The factors of a study, and what was made of them.

    Attributes:
        stacks: By name; stacks that no factor concerns are not among them. So are workloads.
        heads: The keys of ``[study]`` that a stack has of its own, as written.
        exclude: Combinations that are left out: for each, the levels of factors that must all be met.
        same: Names of variants that equal another one, with the name of that one, which is run for both.
    """

    factors: dict[str, Factor] = {}
    stacks: dict[str, Variant] = {}
    workloads: dict[str, Variant] = {}
    heads: dict[str, dict[str, Any]] = {}
    exclude: tuple[dict[str, tuple[str, ...]], ...] = ()
    same: dict[str, str] = {}

    def levels_of(self, stack: str, workload: str) -> dict[str, str]:
        """The levels of all factors that concern a cell."""
        found = (self.stacks.get(stack), self.workloads.get(workload))
        return {name: level for each in found if each is not None for name, level in each.levels.items()}

    def excludes(self, stack: str, workload: str) -> bool:
        return bool(self.exclude) and self.leaves_out(self.levels_of(stack, workload))

    def leaves_out(self, levels: Mapping[str, str]) -> bool:
        return any(all(levels.get(name) in names for name, names in each.items()) for each in self.exclude)
