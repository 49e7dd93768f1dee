# SPDX-License-Identifier: Apache-2.0
"""``strata lab price``: a processor file of this machine, or the price of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from strata.actions.price import doubts_of, measure_processor
from strata.cli.list.processors import parameters_table
from strata.cli.output import listener, print_json, print_text, print_wrote, stdout, task_bar, warnings
from strata.cli.parameters import AsJson, argument, option
from strata.devices.processor import load_processor
from strata.errors import StrataError
from strata.files import refuse_folder, write_page
from strata.pricing.benchmark import (
    machine,
)
from strata.pricing.files import processor_toml, program_toml
from strata.pricing.fit import Fit
from strata.pricing.programs import measure_load, price_program
from strata.report.table import Cell, Table, columns, terminal
from strata.units import times

_FAR: Final = 1.6


def price(
    command: Annotated[
        list[str] | None, argument("With --program: what to run; another load after each --.", "COMMAND...")
    ] = None,
    output: Annotated[Path, option("Write the processor here, *.toml.", "FILE")] = Path("this-machine.toml"),
    program: Annotated[
        str | None, option("Price the program with this executable's name instead.", "NAME")
    ] = None,
    shorten: Annotated[int, option("Measure this many times less.", "N", min=1, max=1000)] = 1,
    as_json: AsJson = False,
) -> None:
    """Make a processor file of this machine, or price a program.

    A benchmark of kernel operations runs on this machine and in the lab, whose kernel counts its work. The
    prices that fit best become the file; a table says how well they fit. As root it also works on ext4,
    XFS and btrfs. It takes about two minutes, and the machine should do nothing else.

    With --program, as root: run a command and divide the program's user time among its system calls,
    page faults and bytes. Several commands tell these apart. The entry printed belongs into a processor file.

    Examples:
        strata lab price --output my-server.toml
        strata lab price --program gzip -- gzip -k a.tar -- gzip -dk b.gz
        strata lab price --program postgres -- pgbench -T 10 -c 4 bench
    """
    if program is not None:
        _price(program, command or [], as_json)
        return
    if command:
        raise StrataError("a command is run only with --program", place=command[0], remedy="name the program")
    if output.suffix != ".toml":
        raise StrataError("a processor's file ends in .toml", place=str(output), remedy="rename it")
    refuse_folder(output)

    found = measure_processor(listener(), shorten)
    write_page(output, processor_toml(f"Measured on {machine()}", found.parameters))
    doubts = list(doubts_of(found))
    if as_json:
        print_json(found, file=output, warnings=doubts)
    else:
        console = stdout()
        console.print(terminal(_residuals(found)))
        console.print(terminal(parameters_table(load_processor(output))))
    for doubt in doubts:
        warnings().print(f"warning: {doubt}", style="yellow", soft_wrap=True, markup=False)
    print_wrote(output)


def _price(name: str, command: list[str], as_json: bool) -> None:
    loads: list[list[str]] = [[]]
    for word in command:
        if word == "--":
            loads.append([])
        else:
            loads[-1].append(word)
    if not all(loads):
        remedy = "such as `strata lab price --program gzip -- gzip -k a.tar`"
        raise StrataError("there is no command to run", place="--program", remedy=remedy)
    with task_bar(f"running {name}", len(loads)) as update:
        measured = []
        for each in loads:
            measured.append(measure_load(name, each))
            update(advance=1)
    count = f"{len(loads)} load{'s' if len(loads) > 1 else ''}"
    found = price_program(measured, f"{count} on {machine()}")
    if as_json:
        print_json(found, program=name)
    else:
        print_text(program_toml(name, found))


def _residuals(found: Fit) -> Table:
    heads = columns("operation", ("this machine", "ns"), ("lab", "ns"), ("ratio", "figure"))
    rows = [
        (
            each.operation,
            each.host_ns,
            each.lab_ns,
            Cell(f"{each.ratio:.2f}", tone="" if 1 / _FAR < each.ratio < _FAR else "doubt"),
        )
        for each in found.residuals
    ]
    said = f"{times(found.error_factor)} typical error; {found.share_within(_FAR):.0%} within {times(_FAR)}"
    return Table(heads, rows, "Operations of the kernel", said)
