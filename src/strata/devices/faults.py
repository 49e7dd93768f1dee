# SPDX-License-Identifier: Apache-2.0
"""Faults of a modelled disk, which a study declares: ``faults = [{ fault = "gone", at = "30s" }]``.

Times are virtual, since the lab's boot. A fault ends with the boot that it was declared for.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt

from strata.diagnostics.names import Diagnostic, checked
from strata.diagnostics.registry import Registry
from strata.units import Duration, format_duration

FAULTS_MAX: Final = 64
_HUNDREDTHS: Final = ("factor",)

Sector = Annotated[StrictInt, Field(ge=0, le=1 << 55)]
From = Annotated[Duration, Field(alias="at", description="From when on", examples=["10s"])]
Factor = Annotated[
    StrictFloat | StrictInt,
    checked(
        lambda factor: 1 <= factor <= 10_000,
        "the factor {:g} is not in 1 to 10000",
        "10 is ten times as slow",
    ),
]


class Fault(BaseModel, ABC):
    """The base of the faults. A subclass names itself as ``fault: Literal["gone"] = "gone"``.

    Its other keys are the driver's arguments, in the order of ``kernel/disk/faults.h``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    fault: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """The driver's arguments: times in ns, 0 for none; factors in hundredths."""
        stated = ((name, value or 0) for name, value in self if name != "fault")
        return tuple(round(value * 100) if name in _HUNDREDTHS else value for name, value in stated)

    def diagnostics(self, capacity_sectors: int) -> Iterable[Diagnostic]:
        """The parts of this fault that a disk of ``capacity_sectors`` cannot have."""
        return ()

    def power_risk(self) -> str | None:
        """How it loses what the disk acknowledged as durable when the power fails; None: it does not."""
        return None

    def identity(self) -> dict[str, Any]:
        return {"fault": self.fault, "numbers": list(self.numbers)}


class _Place(Fault):
    first_sector: Sector = Field(examples=[2048])
    """The first of the sectors, of 512 bytes"""
    sectors: Annotated[Sector, Field(ge=1)] = Field(examples=[8])
    """How many"""

    def diagnostics(self, capacity_sectors: int) -> Iterable[Diagnostic]:
        end = self.first_sector + self.sectors
        if end > capacity_sectors:
            remedy = f"it has {capacity_sectors} sectors"
            yield Diagnostic(f"the disk ends before sector {end}", remedy=remedy, key="sectors")


class Unreadable(_Place):
    """Reading the sectors fails until they are written again."""

    fault: Literal["unreadable"] = "unreadable"


class Corrupt(_Place):
    """From then on the sectors read as something else, without any error, until they are written again."""

    fault: Literal["corrupt"] = "corrupt"
    at_ns: From


class Gone(Fault):
    """From then on every command fails, including commands in progress."""

    fault: Literal["gone"] = "gone"
    at_ns: Annotated[From, Field(examples=["30s"])]


class Slow(Fault):
    """Commands that arrive meanwhile take `factor` times as long."""

    fault: Literal["slow"] = "slow"
    from_ns: Duration = Field(0, alias="from", examples=["10s"])
    """The beginning"""
    until_ns: Duration | None = Field(None, alias="until", examples=["20s"])
    """The end; default: never"""
    factor: Factor = Field(examples=[10])
    """How many times as long"""

    def diagnostics(self, capacity_sectors: int) -> Iterable[Diagnostic]:
        if self.until_ns is not None and self.until_ns <= self.from_ns:
            ends, begins = format_duration(self.until_ns), format_duration(self.from_ns)
            cause = f"it ends at {ends} but begins at {begins}"
            yield Diagnostic(cause, remedy="let it end later", key="until")


class IgnoresFlush(Fault):
    """The disk acknowledges a flush at once, whatever is in its write cache."""

    fault: Literal["ignores-flush"] = "ignores-flush"

    def power_risk(self) -> str | None:
        return "ignores-flush: it acknowledges what is only in its write cache"


FAULTS: Final = Registry[Fault]("fault", [Unreadable, Corrupt, Gone, Slow, IgnoresFlush])
"""Every fault by its name."""
