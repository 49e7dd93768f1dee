# SPDX-License-Identifier: Apache-2.0
"""A filesystem that commands of the study make, in a virtual machine from the user's image."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from pydantic import Field, StrictStr

from strata.diagnostics.names import Diagnostic
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided
from strata.model.step import Prerequisites, Step, literal
from strata.units import NS_PER_S

_PLACE: Final = re.compile(r"\$\{(disk|mount)\}")
_LIMIT_NS: Final = 1200 * NS_PER_S


class Commands(Layer):
    """A filesystem that the study's own commands make.

    For a system whose filesystems Strata does not know, such as FreeBSD: only a machine from an image
    (`image` of `vm`) runs them, as root.
    """

    family = "images and guests"
    requires = LowerInterface("block")
    provides = "filesystem"
    prerequisites = Prerequisites(tools=("sh",))
    kernel_log = KernelLog(
        silent="The messages of its kernel are the output of the step that starts the machine."
    )
    no_free_space = "Strata does not know the filesystem."
    no_periods = "Strata does not know the filesystem."
    runs_commands = True

    layer: Literal["commands"] = "commands"
    make: list[StrictStr] = Field([], examples=[["zpool create -f -m ${mount} tank ${disk}"]])
    """Commands for sh: they make the filesystem on the machine's disk `${disk}` and mount it at `${mount}`"""

    def diagnostics(self, lower: Provided, named: object) -> Iterable[Diagnostic]:
        if not any("${mount}" in each for each in self.make):
            yield Diagnostic(
                "no command mounts a filesystem at ${mount}",
                remedy='such as make = ["mkfs.ext4 -q ${disk}", "mount ${disk} ${mount}"]',
                key="make",
            )

    def path(self, context: LayerContext) -> str:
        return context.mount

    def build(self, context: LayerContext) -> list[Step]:
        return [
            context.step(
                f"make-{number}",
                f"Run command {number} of the study for the filesystem",
                *("sh", "-c", self._filled(text, context)),
                time_limit_ns=_LIMIT_NS,
            )
            for number, text in enumerate(self.make, 1)
        ]

    def assemble(self, context: LayerContext) -> list[Step]:
        return []

    @staticmethod
    def _filled(text: str, context: LayerContext) -> str:
        places = {"disk": context.lower[0], "mount": context.mount}
        parts = _PLACE.split(text)
        return "".join(places[part] if at % 2 else literal(part) for at, part in enumerate(parts))
