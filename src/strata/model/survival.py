# SPDX-License-Identifier: Apache-2.0
"""The table ``[survival]``, the failures that a study tries, and a workload's losses by one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic, nearest
from strata.units import NS_PER_S

if TYPE_CHECKING:
    from strata.model.stack import Stack
    from strata.model.step import Step
    from strata.model.workload import Intervention, Outputs, Workload, WorkloadContext

WINDOW_NS_MIN: Final = 2 * NS_PER_S
"""The shortest measured window in which an instant is drawn: a server has to work before it is cut."""
CUTS_MAX: Final = 1000
Variant = Literal["degraded", "rebuilding"]
DEGRADED: Final = "degraded"
REBUILDING: Final = "rebuilding"
VARIANTS: Final[Mapping[Variant, list[Intervention]]] = {
    DEGRADED: ["lose-disk"],
    REBUILDING: ["lose-disk", "rebuild"],
}
"""The variants of a workload with a disk lost, and while it is replaced, by their interventions."""
REBUILT: Final = "rebuild_ns"
"""The metric of the time from the loss of a disk to the end of the rebuild under the load."""


class Survival(BaseModel):
    """``[survival]``: the failures that the study tries on every stack, in the lab."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    power_cuts: Annotated[StrictInt, Field(ge=0, le=CUTS_MAX)] = Field(0, examples=[4])
    """Power cuts under each workload on each stack: cut N is at the same drawn instant of the measured window
    on every stack. The stack is recovered and checked, and what `pgbench`, `sysbench-oltp` and `load` had
    acknowledged is looked for again. A disk that the workload itself loses (`before_measure`) stays lost; the
    workloads that `disk_loss` adds are not cut"""
    disk_loss: StrictBool = Field(False, examples=[True])
    """Lose each disk of each stack in turn, and each two, as the probes `disk-loss` and `second-disk-loss` of
    `strata capabilities` do, and measure each workload also with a disk lost, as the workload NAME-degraded;
    where a stack has spares also while it is rebuilt onto one, as NAME-rebuilding"""
    corruption: StrictBool = Field(False, examples=[True])
    """Change data on a disk behind the stack's back, as the capability probes of corruption do"""
    workloads: tuple[StrictStr, ...] | None = Field(None, examples=[["oltp"]])
    """The workloads under which the power is cut and disks are lost; default: all"""

    def chosen(self, workloads: Mapping[str, Workload]) -> dict[str, Workload]:
        """The workloads under which failures are tried."""
        wanted = workloads if self.workloads is None else self.workloads
        return {name: load for name, load in workloads.items() if name in wanted}

    def variants(self, workloads: Mapping[str, Workload], stacks: Iterable[Stack]) -> dict[str, Workload]:
        """The workloads that ``disk_loss`` adds, by their names."""
        return _with_lost_disks(self.chosen(workloads), stacks) if self.disk_loss else {}

    def cut(self, workloads: Mapping[str, Workload], stacks: Iterable[Stack]) -> dict[str, Workload]:
        """The workloads under which the power is cut; never those that ``disk_loss`` adds."""
        added = self.variants(workloads, stacks)
        return {
            name: load
            for name, load in (self.chosen(workloads).items() if self.power_cuts else ())
            if name not in added and without_instants(load) is None
        }

    def probes(self) -> list[str]:
        """The probes of `strata capabilities` that it asks for."""
        tried = dict.fromkeys(("disk-loss", "second-disk-loss"), self.disk_loss)
        tried |= dict.fromkeys(("corruption-detected", "corruption-healed"), self.corruption)
        return [name for name, is_asked in tried.items() if is_asked]


def survival_diagnostics(
    survival: Survival, workloads: Mapping[str, Workload], declared: Collection[str]
) -> Iterator[Diagnostic]:
    """The mistakes of ``[survival]`` among the sound workloads; ``declared`` are the names of all."""
    if not (survival.power_cuts or survival.disk_loss or survival.corruption):
        cause = "[survival] requests no failure"
        yield Diagnostic(cause, remedy="write for example power_cuts = 4, or leave the table out")
    if survival.workloads == ():
        yield Diagnostic("no workload is named", remedy="name one, or leave the key out", key="workloads")
    for name in survival.workloads or ():
        if name not in declared:
            cause = f'there is no workload "{name}"'
            yield Diagnostic(cause, remedy=nearest(name, declared), key="workloads")
    chosen = survival.chosen(workloads)
    for name in [_named(base, DEGRADED) for base in chosen] if survival.disk_loss else ():
        if name in workloads:
            cause = f'the workload "{name}" has the name of a variant that disk_loss makes'
            yield Diagnostic(cause, remedy="rename it, or leave disk_loss out", key="disk_loss")
    if survival.power_cuts and chosen and all(map(without_instants, chosen.values())):
        yield Diagnostic(
            "no workload has a measured window of 2s or more, in which an instant could be drawn",
            remedy="give one a longer duration, or leave power_cuts out",
            key="power_cuts",
        )


def without_instants(load: Workload) -> str | None:
    """Why the power cannot be cut within a load's measured window, as a clause; None: it can."""
    if "rebuild" in load.before_measure:
        return "the boot after the cut would have to continue the rebuild"
    if not load.window_ns:
        return "its window ends when its work is done, so that no instant can be drawn in it"
    return None if load.window_ns >= WINDOW_NS_MIN else "its window is shorter than 2s"


def _named(workload: str, variant: Variant) -> str:
    return f"{workload}-{variant}"


def _with_lost_disks(workloads: Mapping[str, Workload], stacks: Iterable[Stack]) -> dict[str, Workload]:
    """The workloads that are measured also with a disk lost, by the names of these variants."""
    spared = any(layer.named_devices().get("spares") for stack in stacks for layer in stack.layers)
    return {
        _named(name, variant): load.model_copy(update={"before_measure": interventions})
        for name, load in workloads.items()
        if not load.before_measure and not load.needs_layers
        for variant, interventions in VARIANTS.items()
        if spared or variant != REBUILDING
    }


def lost_disk_variants(load: Workload, workloads: Mapping[str, Workload]) -> dict[Variant, str]:
    """The names of the workloads that are this one with a disk lost."""
    return {
        variant: name
        for variant, interventions in (() if load.before_measure else VARIANTS.items())
        for name, other in workloads.items()
        if other == load.model_copy(update={"before_measure": interventions})
    }


@dataclass(frozen=True)
class Kept:
    """The operations that a workload had acknowledged before a power cut, and how many survived it.

    Attributes:
        acknowledged: The operations that were acknowledged.
        lost: The acknowledged operations that are gone.
        damage: Contradictions in the content; empty: none.
    """

    acknowledged: int
    lost: int
    damage: str = ""


class CountsAcknowledged(ABC):
    """The ability of a workload to say which operations a power cut took."""

    @property
    @abstractmethod
    def uncounted(self) -> str | None:
        """Why nobody can say what was acknowledged with these keys, as a clause; None: it is counted."""

    @abstractmethod
    def acknowledged(self, context: WorkloadContext) -> Step:
        """The step that prints, beside the load, which operations are acknowledged."""

    @abstractmethod
    def recovered(self, context: WorkloadContext, said: str) -> list[Step]:
        """The steps that bring up its server after a power cut and compare with what `acknowledged` said."""

    @abstractmethod
    def kept(self, said: str, outputs: Outputs) -> Kept:
        """What the steps of `recovered` found; without the output of its count nothing can be read."""


def why_uncounted(load: Workload) -> str | None:
    """Why nobody can say what a power cut took from a load, as a clause; None: that is counted."""
    if isinstance(load, CountsAcknowledged):
        return load.uncounted
    return f"{load.workload} keeps no count of what is acknowledged to it"
