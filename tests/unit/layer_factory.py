# SPDX-License-Identifier: Apache-2.0
"""Layers in a place above disks, and readers of their steps and mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strata.model.layer import Layer, LayerContext, Provided
from strata.model.step import Step

GIB: Final = 1 << 30
MIB: Final = 1 << 20


def on(*disks_gib: int) -> Provided:
    return Provided("block", tuple(gib * GIB for gib in disks_gib))


def context(
    layer: str,
    disks: int = 1,
    further: Sequence[str] = (),
    *,
    lower: Provided | None = None,
    seed: int = 1,
    **fields: Any,
) -> LayerContext:
    """A layer's place above disk0, disk1, … of 8 GiB; ``further`` are the disks that its keys name."""
    names = [f"disk{number}" for number in range(disks)]
    provided, devices = lower or on(*[8] * disks), (*names, *further)
    paths = tuple(f"${{{name}}}" for name in names)
    return LayerContext(layer, seed, lower=paths, provided=provided, devices=devices, **fields)


def step_of(steps: Sequence[Step] | None, name: str) -> Step:
    """The step whose identifier ends in a name."""
    assert steps is not None
    return next(step for step in steps if step.id.endswith(name))


def refused(layer: Layer, lower: Provided, **named: int) -> str:
    """The mistakes of a layer above ``lower``; ``named`` are the sizes of the disks that its keys name."""
    return "; ".join(f"{each.key}: {each.cause}" for each in layer.diagnostics(lower, named))


def refused_keys(layer: Layer, lower: Provided, **named: int) -> list[str | None]:
    return [each.key for each in layer.diagnostics(lower, named)]
