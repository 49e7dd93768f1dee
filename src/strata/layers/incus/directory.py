# SPDX-License-Identifier: Apache-2.0
"""A container whose root is a plain folder of the filesystem below: the pool `dir` of Incus."""

from __future__ import annotations

from typing import Literal

from strata.layers.incus.container import PREREQUISITES, IncusContainer
from strata.model.layer import LayerContext, LowerInterface
from strata.model.step import Step


class IncusDir(IncusContainer):
    """A container of Incus on a folder of the filesystem below.

    The folder is Incus's pool `dir`. All steps above run in the container, which shares the kernel and has a
    memory limit.
    """

    requires = LowerInterface("filesystem")
    prerequisites = PREREQUISITES
    also_called = ("lxc-dir", "lxd-dir")

    layer: Literal["incus-dir"] = "incus-dir"

    def pool_argv(self, context: LayerContext) -> tuple[str, ...]:
        return ("dir", f"source={_source(context)}")

    def below(self, context: LayerContext) -> list[Step]:
        return [context.step("source", "Make the pool's folder", "install", "-d", _source(context))]


def _source(context: LayerContext) -> str:
    return f"{context.lower[0]}/{context.name}"
