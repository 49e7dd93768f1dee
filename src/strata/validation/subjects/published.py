# SPDX-License-Identifier: Apache-2.0
"""Every published figure of every device against the model's."""

from __future__ import annotations

import math

from strata.datasheet.kinds import sheet_of
from strata.datasheet.sheet import Rating
from strata.devices.device import Device, bundled_devices, find_device
from strata.devices.kind import Parameter
from strata.units import significant, times
from strata.validation.subject import Basis, Found, ModelCheck, Verdict, subject

_NEAR = 0.10
_NEAR_TAIL = 1.5
# Of a parameter's unit, in the units of published figures.
_UNITS = {"MB/s": ("MB/s", 1.0), "MiB/s": ("MB/s", 1.048576), "1/s": ("IOPS", 1.0)}


@subject(
    "published",
    "Published figures of the whole library",
    """Figures of data sheets and reviews against the model's own data sheet. A figure that was read somewhere
must be met within 10 %, a percentile of latencies within a factor of 1.5. Where it was only recalled,
or is itself an estimate, a larger difference proves nothing and is noted. A figure that is a parameter
of the model (an input: a rate of the media, the link or the volume) is only read back. Many other
parameters were chosen so that the model gives the published figure: agreement there says that the model
can be that drive, not that it predicts it.""",
)
def published(quick: bool) -> Found:
    library = [device for device in map(find_device, bundled_devices()) if device.published]
    ratings = ((device, each) for device in library for each in sheet_of(device, quick=quick).ratings())
    return [judge(device, each) for device, each in ratings if each.ratio is not None], ()


def judge(device: Device, figure: Rating) -> ModelCheck:
    """One figure that is published, by where it is from."""
    published, ratio = figure.published, figure.ratio
    assert published is not None
    assert ratio is not None
    basis: Basis = "recalled" if published.estimate else "read"
    if _is_input(device, published):
        basis = "input"
    verdict: Verdict = "passed"
    near = 1 / _NEAR_TAIL < ratio < _NEAR_TAIL if is_tail(figure.name) else abs(ratio - 1) <= _NEAR
    if not near:
        verdict = "noted" if basis == "recalled" else "failed"
    found = f"{significant(figure.value)} {figure.unit} ({times(ratio)})"
    expected = f"{significant(float(published.value))} {published.unit}"
    title = f"{device.name}: {figure.title}"
    return ModelCheck(title, found, expected, verdict, published.source, basis)


def is_tail(name: str) -> bool:
    """Whether a figure is a percentile of latencies."""
    return "_p" in name


def _is_input(device: Device, published: Parameter) -> bool:
    """Whether a parameter of the device states the same rate."""
    for stated in device.parameters.values():
        unit, factor = _UNITS.get(stated.unit, ("", 1.0))
        if unit == published.unit and math.isclose(float(stated.value) * factor, float(published.value)):
            return True
    return False
