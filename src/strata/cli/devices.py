# SPDX-License-Identifier: Apache-2.0
"""``strata devices``: the modelled devices and where their parameters come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strata.spec.device import PARAMETERS, TEXT_PARAMETERS, Device, bundled_devices, find_device
from strata.units import format_size

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

devices = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    app.add_typer(devices, name="devices", help="The modelled devices, and where their parameters come from.")


@devices.callback(epilog="Example: strata devices show wd-re4-500gb")
def list_devices(context: typer.Context, as_json: AsJson = False) -> None:
    """List the bundled devices; `show` prints one with its parameters."""
    if context.invoked_subcommand is not None:
        return
    found = [find_device(name) for name in bundled_devices()]
    if as_json:
        summary = [
            {"name": d.name, "title": d.title, "kind": d.kind, "capacity_bytes": d.capacity_bytes}
            for d in found
        ]
        print(json.dumps(summary, indent=2))
        return
    table = Table("name", "kind", "capacity", "what it is", box=None, pad_edge=False)
    for device in found:
        table.add_row(device.name, device.kind, format_size(device.capacity_bytes), device.title)
    Console().print(table)


@devices.command(epilog="Example: strata devices show wd-re4-500gb --json")
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="A bundled device, or the path of a device file ending in .toml.", show_default=False
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show one device: each parameter with its value, unit and source."""
    device = find_device(name, Path())
    if as_json:
        print(json.dumps(_describe(device), indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(Text.assemble((device.name, "bold"), f"  {device.title}  ({device.kind})"))
    table = Table("parameter", "value", "unit", "source", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for parameter, stated in device.parameters.items():
        source = Text(stated.source, "yellow" if stated.estimate else "")
        table.add_row(parameter, str(stated.value), stated.unit, source)
    console.print(table)
    estimates = sum(stated.estimate for stated in device.parameters.values())
    console.print(f"{estimates} of {len(device.parameters)} parameters are estimates")


def _describe(device: Device) -> dict[str, Any]:
    meanings = {name: expected.meaning for name, expected in PARAMETERS[device.kind].items()}
    meanings |= TEXT_PARAMETERS
    return {
        "name": device.name,
        "title": device.title,
        "kind": device.kind,
        "parameters": {
            name: {"meaning": meanings[name], **stated.model_dump(mode="json")}
            for name, stated in device.parameters.items()
        },
    }
