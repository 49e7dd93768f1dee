# SPDX-License-Identifier: Apache-2.0
"""``strata list processors``: the lab's processors and their sources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from strata.cli.output import print_json, stdout
from strata.cli.parameters import AsJson, argument
from strata.devices.processor import PROCESSOR_PARAMETERS, Processor, bundled_processors, find_processor
from strata.report.table import Cell, Table, columns, terminal
from strata.units import significant, unit_label


def processors(
    name: Annotated[
        str | None, argument("A processor, or its file, *.toml. Default: all, in a line each.", "PROCESSOR")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the lab's processors, or show one.

    Of one: its times, their ranges and sources, and the prices of programs.

    Examples:
        strata list processors
        strata list processors generic-server-2024
        strata list processors ./my-server.toml --json
    """
    if name is None:
        _list(as_json)
        return
    found = find_processor(name, Path())
    if as_json:
        print_json(found, meanings={key: PROCESSOR_PARAMETERS[key].meaning for key in found.parameters})
        return
    console = stdout()
    console.print(f"{found.name}  {found.title}", markup=False)
    console.print(terminal(parameters_table(found)))
    console.print(terminal(programs_table(found)))


def _list(as_json: bool) -> None:
    found = [find_processor(name) for name in bundled_processors()]
    if as_json:
        print_json(processors=found)
        return
    heads = columns("processor", ("kernel code", "ps"), ("system call", "ns"), ("switch", "ns"), "title")
    rows = [
        (
            each.name,
            *(each.number(key) for key in ("unit_time", "system_call_time", "switch_time")),
            each.title,
        )
        for each in found
    ]
    stdout().print(terminal(Table(heads, rows)))


def parameters_table(found: Processor) -> Table:
    """Each parameter with its range, unit and source."""
    heads = columns("parameter", ("value", "figure"), ("range", "figure"), "unit", "source")
    rows = [
        (
            name,
            f"{each.value:g}",
            f"{each.low:g} … {each.high:g}",
            unit_label(each.unit),
            Cell(each.source, tone="doubt" if each.estimate else ""),
        )
        for name, each in found.parameters.items()
    ]
    return Table(heads, rows)


def programs_table(found: Processor) -> Table:
    """The prices of programs, as they are on the reference processor."""
    figures = ("call", "fault", "byte read", "byte written")
    heads = columns("program", *((each, "figure") for each in (*figures, "range")), "")
    rows = []
    for name, each in found.programs.items():
        prices = (
            (each.system_call_ns, "ns"),
            (each.page_fault_ns, "ns"),
            (each.read_ps_per_byte, "ps"),
            (each.write_ps_per_byte, "ps"),
        )
        shown = (f"{significant(value)} {unit}" if value else None for value, unit in prices)
        kind = Cell("est.", tone="doubt") if each.estimate else ""
        rows.append((name, *shown, f"{each.low:g} … {each.high:g} ×", kind))
    factor = significant(found.number("user_factor"))
    note = f"This processor takes {factor} times as long. --json has the sources."
    return Table(heads, rows, "User time of programs", note)
