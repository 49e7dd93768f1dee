# SPDX-License-Identifier: Apache-2.0
"""The bundled devices, with the source of each parameter."""

from __future__ import annotations

from collections.abc import Mapping

from generated.markdown import code, prose, table
from strata.devices.device import DEFAULT_SOURCE, Device, bundled_devices, find_device
from strata.devices.kind import Parameter
from strata.devices.kinds import KINDS
from strata.units import format_size


def part() -> str:
    """For each kind a table of its devices, then each with its parameters."""
    found = [find_device(name) for name in bundled_devices()]
    text = ""
    for kind in KINDS.values():
        of_kind = [device for device in found if device.kind == kind.name]
        text += f"## {kind.title}\n\n" + table(
            ("Device", "Capacity", "Interface", "Stated", "Of them estimates", "What it is"),
            [_row(device) for device in of_kind],
        )
        text += "".join(map(_section, of_kind))
    return text


def _stated(device: Device) -> Mapping[str, Parameter]:
    return {name: each for name, each in device.parameters.items() if each.source != DEFAULT_SOURCE}


def _row(device: Device) -> tuple[str, ...]:
    stated = _stated(device)
    interface = stated.get("interface")
    return (
        f"[`{device.name}`](#{device.name})",
        format_size(device.capacity_bytes),
        str(interface.value) if interface else "",
        str(len(stated)),
        str(sum(each.estimate for each in stated.values())),
        prose(device.title),
    )


def _section(device: Device) -> str:
    text = f"### `{device.name}`\n\n{prose(device.title)}.\n\n" + _parameters("Parameter", _stated(device))
    return text + _parameters("Published", device.published)


def _parameters(title: str, parameters: Mapping[str, Parameter]) -> str:
    rows = [
        (
            *(code(name), str(each.value), each.ends, each.unit, "estimate" if each.estimate else ""),
            prose(each.source) + (f". Range: {prose(each.range)}" if each.range else ""),
        )
        for name, each in parameters.items()
    ]
    return table((title, "Value", "Plausible", "Unit", "", "Source"), rows)
