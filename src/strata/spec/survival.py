# SPDX-License-Identifier: Apache-2.0
"""What a study measures of failures: the table ``[survival]``; what a workload finds of its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from strata.spec.names import Diagnostic
from strata.units import NS_PER_S

if TYPE_CHECKING:
    from strata.spec.workload import Workload

WINDOW_NS_MIN: Final = 2 * NS_PER_S
"""The shortest measured window in which an instant is drawn: a server has to work before it is cut."""
CUTS_MAX: Final = 1000


class Survival(BaseModel):
    """``[survival]``: the failures that the study tries on every stack, in the lab."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    power_cuts: Annotated[StrictInt, Field(ge=0, le=CUTS_MAX)] = Field(0, examples=[4])
    """Power cuts under each workload on each stack: cut N is at the same drawn instant of the measured window
    on every stack. The stack is recovered and checked, and what pgbench had acknowledged is counted again"""
    disk_loss: StrictBool = Field(False, examples=[True])
    """Lose each disk of each stack in turn, as `strata capabilities --probe disk-loss` does"""
    corruption: StrictBool = Field(False, examples=[True])
    """Change data on a disk behind the stack's back, as the capability probes of corruption do"""

    def probes(self) -> list[str]:
        """The probes of `strata capabilities` that it asks for."""
        tried = {"disk-loss": self.disk_loss, "corruption-detected": self.corruption}
        tried["corruption-healed"] = self.corruption
        return [name for name, is_asked in tried.items() if is_asked]


def survival_diagnostics(survival: Survival, workloads: Mapping[str, Workload]) -> Iterator[Diagnostic]:
    """The mistakes of ``[survival]`` among the study's workloads."""
    if not (survival.power_cuts or survival.disk_loss or survival.corruption):
        cause = "nothing is to be survived"
        yield Diagnostic(cause, remedy="write for example power_cuts = 4, or leave the table out")
    if survival.power_cuts and workloads and not any(map(has_instants, workloads.values())):
        yield Diagnostic(
            "no workload has a measured window of 2s or more, in which an instant could be drawn",
            remedy="give one a longer duration, or leave power_cuts out",
            key="power_cuts",
        )


def has_instants(load: Workload) -> bool:
    """Whether the instant of a power cut can be drawn within a load's measured window."""
    return load.window_ns >= WINDOW_NS_MIN


@dataclass(frozen=True)
class Kept:
    """What is left of the operations that a workload had acknowledged before a power cut.

    Attributes:
        acknowledged: The operations that were acknowledged.
        lost: The acknowledged operations that are gone.
        damage: What contradicts itself in the content; empty: nothing.
    """

    acknowledged: int
    lost: int
    damage: str = ""
