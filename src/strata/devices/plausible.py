# SPDX-License-Identifier: Apache-2.0
"""Plausible drives and processors: estimates are drawn from their ranges.

Each seed of a study draws one drive of a model: the same for all members of an array, all stacks and all
workloads, because the drives of one purchase have one design and one firmware. What differs between two of
them, the platter's angle and its speed, the driver draws for each disk. Likewise each seed draws the prices
of one processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Context, Decimal
from functools import lru_cache
from typing import Final

from strata.devices.device import Device
from strata.devices.kind import Parameter, nearest
from strata.devices.kinds import KINDS
from strata.devices.processor import Processor
from strata.errors import StudyError
from strata.seeds import derive_seed

_EXACT: Final = Context(prec=28)
_DIGITS: Final = Context(prec=4)  # of a drawn value: more say nothing, and fewer show as steps
_ATTEMPTS_MAX: Final = 200
_HALF: Final = Decimal("0.5")
SD_OF_RANGE: Final = 6**0.5
"""A range's half over the standard deviation of the drawn values, whose density falls linearly to zero."""


def plausible_drive(device: Device, seed: int) -> Device:
    """A drive that may be of this model: every parameter with a range is drawn, from the seed and the model.

    Half of all drives lie below the stated value and half above. In each half the density of the logarithm
    (of the value itself, if the range begins at zero) falls linearly from the stated value to zero at the end
    of the range: a value near the stated one is likelier, and the ends are limits. One draw decides what one
    design makes low or high, such as the times of a word line's pages. Draws that contradict each other, such
    as a mean seek that no curve between the drawn intercept and full stroke has, are drawn again.

    Raises StudyError if the ranges contradict each other nearly everywhere.
    """
    if device.kind not in KINDS:
        return device
    member = device.member and plausible_drive(device.member, seed)
    device = replace(device, member=member)
    ranged = {name: each for name, each in device.parameters.items() if each.low is not None}
    why = ""
    for attempt in range(_ATTEMPTS_MAX if ranged else 0):
        drive = _drawn(device, ranged, derive_seed(seed, "drive", device.name, str(attempt)))
        problems = [*_outside(drive, ranged), *(each.cause for each in device.model.diagnostics(drive))]
        if not problems:
            return drive
        why = why or problems[0]
    if ranged:
        raise StudyError(
            f"{device.name}: {_ATTEMPTS_MAX} draws from its ranges contradicted each other, first by: {why}",
            place="drives",
            remedy='narrow its ranges (low, high), or write drives = "exact" under [study]',
        )
    return device


def plausible_processor(processor: Processor, seed: int) -> Processor:
    """A processor that may be of this kind: every price is drawn, from the seed and the name, as of drives.

    A program's prices vary together, by a factor from the range of its loads.
    """
    own = {
        name: (each.low, each.value, each.high)
        for name, each in processor.parameters.items()
        if name != "processors" and each.value and not isinstance(each.value, str)
    }
    programs = {f"programs.{name}": (each.low, 1, each.high) for name, each in processor.programs.items()}
    ranges = own if processor.is_free else {**own, **programs}
    drawn = {
        name: _value(*ends, derive_seed(seed, "processor", processor.name, name))
        for name, ends in ranges.items()
        if ends[0] < ends[2]
    }
    return processor.with_values(drawn)


def drawn_drives(devices: Iterable[Device]) -> dict[str, Mapping[str, float]]:
    """The drawn values of plausible drives and of their members, by the model's name."""
    found: dict[str, Mapping[str, float]] = {}
    for device in devices:
        found |= {device.name: device.drawn} if device.drawn else {}
        found |= drawn_drives([device.member] if device.member is not None else [])
    return found


def recorded_drive(device: Device, drives: Mapping[str, Mapping[str, float]]) -> Device:
    """The drive of a trial, whose result has the ``drives`` that `drawn_drives` gave."""
    member = device.member and recorded_drive(device.member, drives)
    return replace(_with_values(device, drives.get(device.name, {})), member=member)


def _drawn(device: Device, ranged: Mapping[str, Parameter], seed: int) -> Device:
    numbers = {
        name: each.value for name, each in device.parameters.items() if not isinstance(each.value, str)
    }
    whole = {name for name in ranged if device.model.parameters[name].whole}
    together = device.model.together
    drawn = {
        name: _value(each.low, each.value, each.high, derive_seed(seed, together.get(name, name)))
        for name, each in ranged.items()
    }
    drawn = {name: nearest(value) if name in whole else value for name, value in drawn.items()}
    values = device.model.reconciled({**numbers, **drawn})
    return _with_values(device, {name: values[name] for name in ranged})


def _outside(drive: Device, ranged: Mapping[str, Parameter]) -> Iterator[str]:
    """The values that the others have pushed out of their ranges."""
    for name, each in ranged.items():
        if each.low is not None and each.high is not None and not each.low <= drive.number(name) <= each.high:
            yield f"{name} would have to be {drive.number(name):.4g}, and is {each.ends} at most"


def _with_values(device: Device, drawn: Mapping[str, float]) -> Device:
    known = {name: each for name, each in device.parameters.items() if name in drawn}
    changed = {name: each.model_copy(update={"value": drawn[name]}) for name, each in known.items()}
    return replace(device, parameters={**device.parameters, **changed}, drawn=drawn)


# All stacks of a seed have the same drive, and each trial draws it twice: for its plan and its identity.
@lru_cache(maxsize=1 << 14, typed=True)
def _value(first: object, stated: object, last: object, seed: int) -> float:
    """A value of the range; decimal arithmetic, which is the same on every machine."""
    low, middle, high = (Decimal(str(each)) for each in (first, stated, last))
    place = _EXACT.divide(Decimal(seed), Decimal(1 << 64))
    end = low if place < _HALF else high
    uniform = _EXACT.multiply(2, place if place < _HALF else place - _HALF)
    share = _EXACT.subtract(1, _EXACT.sqrt(_EXACT.subtract(1, uniform)))  # of the way to the end
    if end == 0:
        value = _EXACT.multiply(middle, _EXACT.subtract(1, share))
    else:
        value = _EXACT.multiply(middle, _EXACT.power(_EXACT.divide(end, middle), share))
    return float(min(max(_DIGITS.plus(value), low), high))
