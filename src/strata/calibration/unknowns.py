# SPDX-License-Identifier: Apache-2.0
"""The unknown values of a drive of a class, as numbers of standard deviations from the class's values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.devices.device import Device
from strata.devices.kind import Parameter, ParameterSpec, nearest
from strata.devices.plausible import SD_OF_RANGE
from strata.units import significant
from strata.words import grouped

Floats = npt.NDArray[np.float64]

REACH: Final = 3.0
"""A value may lie outside its class's range, at most as far as this many times the range."""
KEPT_BACK: Final = "requests that the host keeps back"
"""A scheduler of Linux 4.x (CFQ, deadline) hands a rotating disk fewer requests than it could hold."""
HOST_TIME: Final = "time of a request in the host's link or controller"
"""SATA at 3 Gb/s or a slow controller adds it to each request of a flash drive. No class has its range."""
SUBMIT_TIME: Final = "time of a program and its system call between two requests"
"""fio's completion latency leaves it out, and its rate does not."""
OF_HOST: Final = frozenset({KEPT_BACK, HOST_TIME, SUBMIT_TIME})
_HOSTS: Final = {"rotating": (KEPT_BACK,), "flash": (HOST_TIME, SUBMIT_TIME)}
_KEPT_SD: Final = 2.0
_KEPT_MAX: Final = 8
_HOST_SD_US: Final = 3.0  # an estimate: what a link of half the rate adds to 4 KiB is 7 us
_SUBMIT_US, _SUBMIT_SD = 10.0, 1.6
"""Hosts of 2012 with Linux 4.x: 10 to 13 us (devices/real); newer ones, an estimate: 3 to 6. A factor."""


@dataclass(frozen=True)
class FittedDrive:
    """A device, and its host's part in the measurement."""

    device: Device
    kept_back: int = 0
    host_us: float = 0.0
    submit_us: float = 0.0


@dataclass(frozen=True)
class Unknowns:
    """The parameters of a class that have a range; values that one design decides vary together.

    A value's logarithm (the value itself, if its range begins at zero) is linear in its deviation, which is 1
    at the standard deviation of plausible drives (`strata.devices.plausible`).
    """

    device: Device

    @cached_property
    def groups(self) -> list[list[str]]:
        """Names that vary together, each group with one deviation; the last are the host's."""
        together = self.device.model.together
        ranged = [name for name, each in self.device.parameters.items() if each.low is not None]
        found = list(grouped((together.get(name, name), name) for name in ranged).values())
        return [*found, *([name] for name in _HOSTS.get(self.device.kind, ()))]

    def bounds(self) -> tuple[Floats, Floats]:
        most = REACH * SD_OF_RANGE
        low, high = np.full(len(self.groups), -most), np.full(len(self.groups), most)
        for index, names in enumerate(self.groups):
            if names[0] in {KEPT_BACK, HOST_TIME}:
                low[index], high[index] = -1e-6, 2 * most
        return low, high

    def value(self, name: str, deviation: float) -> float:
        """A parameter's value at a deviation from the class's."""
        parameter, spec = self.device.parameters[name], self.device.model.parameters[name]
        return _value(parameter, spec, deviation)

    def drive(self, deviations: Floats) -> FittedDrive:
        """The device at these deviations; values that depend on each other are reconciled."""
        values: dict[str, float] = {}
        kept_back, host_us, submit_us = 0, 0.0, 0.0
        for names, deviation in zip(self.groups, deviations, strict=True):
            if names == [KEPT_BACK]:
                kept_back = min(_KEPT_MAX, max(0, nearest(float(deviation) * _KEPT_SD)))
            elif names == [HOST_TIME]:
                host_us = max(0.0, float(deviation)) * _HOST_SD_US
            elif names == [SUBMIT_TIME]:
                submit_us = _SUBMIT_US * _SUBMIT_SD ** float(deviation)
            else:
                values |= {name: self.value(name, float(deviation)) for name in names}
        stated = {n: p.value for n, p in self.device.parameters.items() if not isinstance(p.value, str)}
        agreed = self.device.model.reconciled({**stated, **values})
        whole = {name for name in values if self.device.model.parameters[name].whole}
        chosen = {name: nearest(agreed[name]) if name in whole else agreed[name] for name in values}
        changed = {n: self.device.parameters[n].model_copy(update={"value": v}) for n, v in chosen.items()}
        device = replace(self.device, parameters={**self.device.parameters, **changed})
        return FittedDrive(device, kept_back, host_us, submit_us)


def _value(parameter: Parameter, spec: ParameterSpec, deviation: float) -> float:
    assert parameter.low is not None
    assert parameter.high is not None
    middle, end = float(parameter.value), float(parameter.low if deviation < 0 else parameter.high)
    part = abs(deviation) / SD_OF_RANGE
    value = middle * (end / middle) ** part if end > 0 else middle * max(0.0, 1 - part)
    return min(max(value, spec.minimum), spec.maximum if math.isfinite(spec.maximum) else value)


def rounded(value: float, spec: ParameterSpec) -> float | int:
    """Four digits: more say nothing."""
    return nearest(value) if spec.whole else float(significant(value, 4).replace(",", ""))
