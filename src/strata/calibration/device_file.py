# SPDX-License-Identifier: Apache-2.0
"""A calibrated drive as a device file: each value with its range, and from where it is."""

from __future__ import annotations

from collections.abc import Iterator

from strata.calibration.calibrate import Calibrated, FoundValue
from strata.devices.device import DEFAULT_SOURCE
from strata.devices.kind import Parameter
from strata.toml import toml_table


def device_toml(found: Calibrated, source: str) -> str:
    """The text of the file; ``source`` names what was measured."""
    head = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# Calibrated by Strata from {source}; the class is {found.class_name}.",
        *(f"# {note}" for note in found.notes),
        *(
            f"# In nine of ten cases: {load}, {low:,.0f} to {high:,.0f}/s"
            for load, low, high in found.unsure[:3]
        ),
    ]
    title = toml_table("", {"title": f"{found.name}, calibrated", "kind": found.device.kind})
    values = {value.name: value for value in found.values}
    parameters = dict(_parameters(found, values, source))
    return "\n".join([*head, title.removeprefix("[]\n"), toml_table("parameters", parameters)])


def _parameters(
    found: Calibrated, values: dict[str, FoundValue], source: str
) -> Iterator[tuple[str, dict[str, object]]]:
    for name, stated in found.device.parameters.items():
        value = values.get(name)
        if value is not None and value.is_measured:
            yield name, _measured(stated, value, source)
        elif stated.source != DEFAULT_SOURCE:
            yield name, _of_class(stated, value, found.class_name)


def _measured(stated: Parameter, value: FoundValue, source: str) -> dict[str, object]:
    said = f"fitted to {source}; in {value.interval[0]:g} to {value.interval[1]:g} in nine of ten cases"
    # Another value of the parameter may have a part in it that is no range: a host's ceiling.
    own = value.value if stated.value == value.value or isinstance(stated.value, str) else stated.value
    low, high = min(value.low, own), max(value.high, own)
    ends: dict[str, object] = {"low": low, "high": high}
    reason = f"the measurements leave this: they removed {100 * value.gain:.0f} % of the class's variance"
    return {
        "value": _short(own),
        **(ends if value.low < value.high else {}),
        "unit": stated.unit,
        "source": said,
        **({"range": reason} if value.low < value.high else {}),
        "estimate": True,
    }


def _of_class(stated: Parameter, value: FoundValue | None, class_name: str) -> dict[str, object]:
    """What no measurement shows: the class's value and range; the fit may have moved both a little."""
    shown = stated.model_dump(exclude_none=True)
    if value is None:
        return shown
    own = _short(stated.value)
    assert not isinstance(own, str)
    ends = {"low": min(value.low, own), "high": max(value.high, own)}
    return shown | {
        "value": own,
        **ends,
        "source": f"not measured: of {class_name}",
        "range": stated.range or "as of the class",
        "estimate": True,
    }


def _short(value: float | str) -> float | int | str:
    return float(f"{value:.4g}") if isinstance(value, float) else value
