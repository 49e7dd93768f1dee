# SPDX-License-Identifier: Apache-2.0
"""Volumes of any size and rate: the provider's rules, and the parameters that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.devices.kind import Parameter
from strata.diagnostics.names import Diagnostic
from strata.units import GIB, MIB

if TYPE_CHECKING:
    from strata.devices.device import Device

_Number = StrictInt | StrictFloat

PROVISIONED: Final = {
    "capacity": ("capacity", "GiB"),
    "iops": ("operation_rate", "1/s"),
    "throughput": ("byte_rate", "MiB/s"),
}
"""The keys of ``[provisioning]``, in the order in which they depend on each other: parameter, and unit."""


class ProvisioningRule(BaseModel):
    """What a provider offers. With a default a study may choose; otherwise the value follows from the size.

    The value is ``minimum`` to ``maximum``, and at most ``per_gib`` or ``per_iops`` times the size in GiB or
    the operations per second, unless that is below the minimum. A value that follows is the largest of those;
    with ``above_gib`` it is the maximum above that size, and the minimum up to it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum: _Number = Field(gt=0)
    maximum: _Number = Field(gt=0)
    default: _Number | None = None
    per_gib: _Number | None = None
    per_iops: _Number | None = None
    above_gib: _Number | None = None
    unit: StrictStr
    source: StrictStr = Field(min_length=1)
    estimate: StrictBool

    @property
    def follows_size(self) -> bool:
        """Whether the provider sets it by the size, and a smaller volume is a slower one."""
        return self.default is None and (self.per_gib is not None or self.above_gib is not None)

    def most(self, chosen: Mapping[str, float]) -> float:
        if self.above_gib is not None:
            return self.maximum if chosen["capacity"] > self.above_gib else self.minimum
        ratios = (self.per_gib, "capacity"), (self.per_iops, "iops")
        limits = [ratio * chosen[base] for ratio, base in ratios if ratio is not None]
        return max(self.minimum, min([self.maximum, *limits]))

    def refusal(self, name: str, value: float, most: float) -> Diagnostic | None:
        if self.default is None:
            cause = f"the provider sets this by the size: {most:g} {self.unit}"
            return Diagnostic(cause, key=name, remedy="leave the key out")
        if not self.minimum <= value <= most:
            cause = f"the provider does not offer {value:g} {self.unit}"
            return Diagnostic(cause, key=name, remedy=self._offered(most))
        if name == "capacity" and value % 1:
            return Diagnostic("volumes are sold in whole GiB", key=name, remedy=self._offered(most))
        return None

    def _offered(self, most: float) -> str:
        ratios = (self.per_gib, "GiB of capacity"), (self.per_iops, "operation per second")
        bound = "".join(f", at most {ratio:g} for each {base}" for ratio, base in ratios if ratio is not None)
        return f"choose {self.minimum:.12g} to {most:.12g} {self.unit}{bound}"


def _asked(capacity_bytes: int | None, iops: int | None, bytes_per_s: int | None) -> dict[str, float]:
    """What was chosen, in the units of providers."""
    numbers = {
        "capacity": capacity_bytes and capacity_bytes / GIB,
        "iops": iops,
        "throughput": bytes_per_s and bytes_per_s / MIB,
    }
    return {name: value for name, value in numbers.items() if value is not None}


def _provisioned(name: str, rule: ProvisioningRule, value: float, *, is_asked: bool) -> Parameter:
    """The parameter that a choice, or the rule, sets."""
    unit = PROVISIONED[name][1]
    value, unit = (round(value * GIB), "B") if name == "capacity" else (value, unit)
    source = "as it was provisioned" if is_asked else rule.source
    return Parameter(value=_plain(value), unit=unit, source=source, estimate=rule.estimate and not is_asked)


def provision(
    device: Device,
    capacity_bytes: int | None = None,
    iops: int | None = None,
    throughput_bytes_per_s: int | None = None,
) -> tuple[Device, list[Diagnostic]]:
    """The volume of this size and these rates, and what its provider refuses; without rules they all are."""
    asked = _asked(capacity_bytes, iops, throughput_bytes_per_s)
    if not device.provisioning:
        cause = f"{device.name} has its rates from its device file"
        remedy = "leave the key out, or take a cloud volume such as aws-ebs-gp3"
        return device, [Diagnostic(cause, key=name, remedy=remedy) for name in asked]
    refused: list[Diagnostic] = []
    chosen: dict[str, float] = {}
    parameters = dict(device.parameters)
    for name, rule in device.provisioning.items():
        most = rule.most(chosen)
        refusal = rule.refusal(name, asked[name], most) if name in asked else None
        refused += [refusal] if refusal else []
        is_asked = name in asked and refusal is None
        chosen[name] = asked[name] if is_asked else most if rule.default is None else min(most, rule.default)
        parameters[PROVISIONED[name][0]] = _provisioned(name, rule, chosen[name], is_asked=is_asked)
    if asked:
        device = replace(device, published={})  # the figures of the file are for the volume without choices
    shown = ", ".join(f"{chosen[name]:.6g} {word}" for name, word in _TITLES.items() if name in chosen)
    title = f"{device.title.partition(':')[0]}: {shown}"
    ordered = {name: parameters[name] for name in dict.fromkeys((*device.model.parameters, *parameters))}
    return replace(device, title=title, parameters=_without_idle_credits(ordered)), refused


_TITLES: Final = {"capacity": "GiB", "iops": "IOPS", "throughput": "MiB/s"}


@dataclass(frozen=True)
class ProvisionedMachine:
    """The limits that a machine sets to all its volumes in the network together; None: it sets none."""

    iops: int | None = None
    bytes_per_s: int | None = None

    def __bool__(self) -> bool:
        return self.iops is not None or self.bytes_per_s is not None


def _without_idle_credits(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Without a burst that is not above the sustained rate."""
    found = dict(parameters)
    for what in ("operation", "byte"):
        names = [f"{what}_burst_rate", f"{what}_credits", f"{what}_credits_initial"]
        if float(found[names[0]].value) <= float(found[f"{what}_rate"].value):
            found |= {name: found[name].model_copy(update={"value": 0}) for name in names}
    return found


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else float(value)
