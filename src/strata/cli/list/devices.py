# SPDX-License-Identifier: Apache-2.0
"""``strata list devices``: the modelled devices, their sources, and what the models make of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from strata.cli.output import print_json, print_wrote, stdout, task_bar
from strata.cli.parameters import AsJson, argument, option
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import Picture
from strata.datasheet.sheet import DataSheet, Rating
from strata.devices.device import DEFAULT_SOURCE, TEXT_PARAMETERS, Device, bundled_devices, find_device
from strata.devices.kind import Parameter
from strata.devices.provisioning import provision
from strata.errors import DiagnosticsError, StudyError
from strata.files import write_page
from strata.report.device_plot import check_suffix, picture_tables, render
from strata.report.table import Cell, Table, columns, terminal
from strata.units import format_size, parse_rate, parse_size, significant, unit_label


def devices(  # noqa: PLR0917  typer makes options of them
    name: Annotated[
        str | None, argument("A device, or a device file, *.toml. Default: all, in two lines each.", "DEVICE")
    ] = None,
    as_json: AsJson = False,
    quick: Annotated[bool, option("Measure less: figures are some per cent off.", "--quick")] = False,
    capacity: Annotated[
        str | None, option("Of a cloud volume: its size, such as 500GiB.", "--capacity")
    ] = None,
    iops: Annotated[int | None, option("Of a cloud volume: its operations per second.", "--iops")] = None,
    throughput: Annotated[
        str | None, option("Of a cloud volume: its data rate, such as 250MB/s.", "--throughput")
    ] = None,
    plot: Annotated[Path | None, option("Draw its curves into a .svg, .html or .png file.", "--plot")] = None,
) -> None:
    """List the modelled devices, or show one with its data sheet.

    Of one: its parameters, their sources, its data sheet. The data sheet is measured on the model when the
    command runs, with fixed seeds, so it is the same everywhere. As JSON the list has what it shows of each
    device, and one device has everything.

    Examples:
        strata list devices
        strata list devices --json | jq -r '.devices[].name'
        strata list devices wd-re4-500gb
        strata list devices wd-re4-500gb --plot re4.svg
        strata list devices aws-ebs-gp3 --capacity 500GiB --iops 6000
    """
    if name is not None:
        _show(_provisioned(find_device(name, Path()), capacity, iops, throughput), plot, as_json, quick)
        return
    if plot is not None or capacity or iops or throughput:
        raise StudyError("only one device is drawn or sized", place="DEVICE", remedy="name the device")
    found = [find_device(each) for each in bundled_devices()]
    if as_json:
        rows = [(each.name, each.title, each.kind, each.capacity_bytes, _interface(each)) for each in found]
        names = ("name", "title", "kind", "capacity_bytes", "interface")
        print_json(devices=[dict(zip(names, row, strict=True)) for row in rows])
        return
    # Two lines a device, because a title does not fit beside the name and the interface.
    width = max(len(device.name) for device in found)
    console = stdout()
    for device in found:
        facts = f"  {device.kind:<10}  {format_size(device.capacity_bytes):>8}  {_interface(device)}"
        console.print(Text.assemble((f"{device.name:<{width}}", "bold"), facts), soft_wrap=True)
        console.print(Text(f"    {device.title}", "dim"), soft_wrap=True)


def _interface(device: Device) -> str:
    stated = device.parameters.get("interface")
    return str(stated.value) if stated else ""


def _show(device: Device, plot: Path | None, as_json: bool, quick: bool) -> None:
    if plot is not None:
        check_suffix(plot)
    console = stdout()
    if not as_json:
        _print_parameters(console, device)
    sheet = sheet_of(device, quick=quick)
    ratings = _measure(sheet)
    drawn = () if as_json and plot is None else sheet.pictures()
    if as_json:
        meanings = {name: spec.meaning for name, spec in device.model.parameters.items()}
        print_json(device, meanings=meanings | TEXT_PARAMETERS, data_sheet=ratings)
    else:
        _print_sheet(console, ratings, sheet.note)
        _print_curves(console, drawn)
    if plot is not None and drawn:
        write_page(plot, render(f"{device.name}: {device.title}", drawn, plot.suffix))
        print_wrote(plot)


def _provisioned(device: Device, capacity: str | None, iops: int | None, throughput: str | None) -> Device:
    place = "--capacity"
    try:
        size_bytes = parse_size(capacity) if capacity else None
        place = "--throughput"
        bytes_per_s = parse_rate(throughput) if throughput else None
    except ValueError as error:
        raise StudyError(str(error), place=place) from error
    device, refused = provision(device, size_bytes, iops, bytes_per_s)
    mistakes = [StudyError(each.cause, place=f"--{each.key}", remedy=each.remedy) for each in refused]
    if len(mistakes) > 1:
        raise DiagnosticsError([*mistakes], place=device.name)
    if mistakes:
        raise mistakes[0]
    return device


def _measure(sheet: DataSheet) -> tuple[Rating, ...]:
    with task_bar("compiling the models", None) as update:
        return sheet.ratings(
            begin=lambda count: update(total=count + 1),
            step=lambda title: update(advance=1, description=title),
        )


def _print_parameters(console: Console, device: Device) -> None:
    console.print(Text.assemble((device.name, "bold"), f"  {device.title}  ({device.kind})"))
    rows = []
    for name, stated in device.parameters.items():
        # A parameter whose default is zero or empty is not used.
        unused = _is_default(stated) and not stated.value
        source = Cell(stated.source, tone="doubt" if stated.estimate else "")
        value, unit = (None, "") if unused else (str(stated.value), unit_label(stated.unit))
        rows.append((name, value, stated.ends, unit, source))
    heads = columns("parameter", ("value", "figure"), ("plausible", "figure"), "unit", "source")
    console.print(terminal(Table(heads, rows)))
    defaults = sum(_is_default(stated) for stated in device.parameters.values())
    estimates = sum(stated.estimate for stated in device.parameters.values()) - defaults
    console.print(
        f"{len(device.parameters) - defaults} parameters are stated, {estimates} of them as estimates; "
        f"{defaults} are the kind's defaults (–: not used)"
    )


def _is_default(stated: Parameter) -> bool:
    return stated.source == DEFAULT_SOURCE


def _print_sheet(console: Console, ratings: Sequence[Rating], note: str) -> None:
    if not ratings:
        console.print("\nIts kind has no data sheet: it takes no time, or its sheet measures nothing yet.")
        return
    console.print()
    rows: list[tuple[str | None, ...]] = []
    sources: dict[str, bool] = {}
    for rated in ratings:
        beside: tuple[str, str, str] = ("", "", "")
        if rated.published is not None and rated.ratio is not None:
            sources[rated.published.source] = rated.published.estimate
            number = [*sources].index(rated.published.source) + 1
            beside = (significant(float(rated.published.value)), f"{rated.ratio:.2f}", f"({number})")
        rows.append((rated.title, significant(rated.value), *beside[:2], unit_label(rated.unit), beside[2]))
    figures = columns("data sheet", ("model", "figure"), ("published", "figure"), ("ratio", "figure"))
    console.print(terminal(Table((*figures, *columns("unit", "")), rows)))
    for number, (source, estimate) in enumerate(sources.items(), start=1):
        console.print(Text(f"({number}) {source}", "yellow" if estimate else ""))
    if not sources:
        console.print(Text("No published figures are in its file's table [published]."))
    if note:
        console.print(Text(note))


def _print_curves(console: Console, drawn: Sequence[Picture]) -> None:
    for table in chain(*map(picture_tables, drawn)):
        console.print()
        console.print(terminal(table))
    if drawn:
        console.print(Text("\n`--plot FILE.svg` draws these curves.", "dim"))
