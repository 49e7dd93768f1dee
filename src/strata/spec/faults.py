# SPDX-License-Identifier: Apache-2.0
"""Faults of a modelled disk, which a study declares: ``faults = [{ fault = "gone", at = "30s" }]``.

Times are virtual, since the lab's boot. A fault ends with the boot that it was declared for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictFloat, StrictInt

from strata.spec.names import Diagnostic
from strata.spec.registry import Registry
from strata.units import Duration, format_duration

FAULTS_MAX: Final = 64
_FACTOR_MAX: Final = 10_000


def _check_factor(factor: float) -> float:
    if not 1 <= factor <= _FACTOR_MAX:
        raise Diagnostic(
            f"the factor {factor:g} is not in 1 to {_FACTOR_MAX}", remedy="10 is ten times as slow"
        )
    return factor


class Fault(BaseModel, ABC):
    """The base of the faults. A subclass names itself as ``fault: Literal["gone"] = "gone"``."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    fault: str

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, ...]:
        """The driver's arguments, in the order of ``kernel/disk/faults.h``."""

    def diagnostics(self, capacity_sectors: int) -> Iterable[Diagnostic]:
        """The parts of this fault that a disk of ``capacity_sectors`` cannot have."""
        return ()

    def identity(self) -> dict[str, Any]:
        return {"fault": self.fault, "numbers": list(self.numbers)}


class _Place(Fault):
    first_sector: Annotated[StrictInt, Field(ge=0, le=1 << 55)] = Field(
        description="The first of the sectors, of 512 bytes", examples=[2048]
    )
    sectors: Annotated[StrictInt, Field(ge=1, le=1 << 55)] = Field(description="How many", examples=[8])

    def diagnostics(self, capacity_sectors: int) -> Iterable[Diagnostic]:
        if self.first_sector + self.sectors > capacity_sectors:
            yield Diagnostic(
                f"the disk ends before sector {self.first_sector + self.sectors}",
                remedy=f"it has {capacity_sectors} sectors",
                key="sectors",
            )


class Unreadable(_Place):
    """Reading the sectors fails until they are written again."""

    fault: Literal["unreadable"] = "unreadable"

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.first_sector, self.sectors)


class Corrupt(_Place):
    """From then on the sectors read as something else, without any error, until they are written again."""

    fault: Literal["corrupt"] = "corrupt"
    at_ns: Duration = Field(alias="at", description="From when on", examples=["10s"])

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.first_sector, self.sectors, self.at_ns)


class Gone(Fault):
    """From then on every command fails, including commands in progress."""

    fault: Literal["gone"] = "gone"
    at_ns: Duration = Field(alias="at", description="From when on", examples=["30s"])

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.at_ns,)


class Slow(Fault):
    """Commands that arrive meanwhile take `factor` times as long."""

    fault: Literal["slow"] = "slow"
    from_ns: Duration = Field(default=0, alias="from", description="The beginning", examples=["10s"])
    until_ns: Duration | None = Field(
        default=None, alias="until", description="The end; default: never", examples=["20s"]
    )
    factor: Annotated[StrictFloat | StrictInt, AfterValidator(_check_factor)] = Field(
        description="How many times as long", examples=[10]
    )

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.from_ns, self.until_ns or 0, round(self.factor * 100))

    def diagnostics(self, capacity_sectors: int) -> Iterable[Diagnostic]:
        if self.until_ns is not None and self.until_ns <= self.from_ns:
            yield Diagnostic(
                f"it ends at {format_duration(self.until_ns)} but begins at {format_duration(self.from_ns)}",
                remedy="let it end later",
                key="until",
            )


class IgnoresFlush(Fault):
    """The disk acknowledges a flush at once, whatever is in its write cache."""

    fault: Literal["ignores-flush"] = "ignores-flush"

    @property
    def numbers(self) -> tuple[int, ...]:
        return ()


FAULTS: Final = Registry[Fault]("fault", [Unreadable, Corrupt, Gone, Slow, IgnoresFlush])
"""Every fault by its name."""
