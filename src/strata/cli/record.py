# SPDX-License-Identifier: Apache-2.0
"""``strata record``: what an application asks of its filesystem, as a file that a study can repeat."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Annotated, Final

import typer

from strata.actions.record import Recorded
from strata.actions.record import record as record_application
from strata.cli.output import print_json, stdout
from strata.cli.parameters import AsJson, argument, option
from strata.errors import ResultError
from strata.report.table import Table, columns, objects, terminal
from strata.traces.calls import UNSEEN
from strata.units import format_size, format_value

_STDERR: Final = 2


def record(
    command: Annotated[
        list[str] | None, argument("The command and its arguments, after `--`.", "COMMAND")
    ] = None,
    pid: Annotated[
        int | None, option("Record this process and what it starts, until it ends or Ctrl-C.", "PID")
    ] = None,
    folder: Annotated[
        Path | None,
        option("The application's folder. Default: where the command starts or the process works.", "FOLDER"),
    ] = None,
    output: Annotated[Path, option("The file to write.", "--output", "-o")] = Path(
        "application.strata-calls"
    ),
    names: Annotated[
        bool, option("Keep the names of files. Default: hashes of the same length.", "--names")
    ] = False,
    *,
    as_json: AsJson = False,
) -> None:
    """Record what an application asks of its filesystem, by strace.

    Kept are calls on files of one folder with their sizes, offsets and times, in threads, with what each
    waited for; never content. Names are replaced by hashes, but for a short extension. The workload `calls`
    repeats the file on any stack.

    Ctrl-C ends the recording and keeps it. Tracing slows the application down; its own time is taken out of
    the pauses between calls. Requests of io_uring and io_submit, and what is read or written through mapped
    files, strace does not see: the recording says so.

    With --json the command's own output goes to the standard error.

    Examples:
        strata record -o app.strata-calls -- dd if=/dev/zero of=app.data bs=4k count=200 oflag=dsync
        sudo strata record --pid 4711 -o postgres.strata-calls
    """
    if bool(command) == (pid is not None):
        cause = "there are two applications" if command else "there is no application"
        raise ResultError(cause, place="strata record", remedy="name a command after `--`, or --pid PID")

    def left() -> None:
        text = "the command has ended, and processes that it started are still recorded: Ctrl-C ends it"
        typer.echo(text, err=True)

    done = record_application(
        output,
        folder,
        command=command or (),
        pid=pid,
        keep_names=names,
        left_running=left,
        stdout=_STDERR if as_json else None,
    )
    if as_json:
        print_json(done.about, file=output, by_call=objects(_table(done)))
    else:
        _print(output, done)
    if done.exit_code:
        raise typer.Exit(done.exit_code if 0 < done.exit_code < 256 else 1)


def _print(output: Path, done: Recorded) -> None:
    console, about = stdout(), done.about
    console.print(terminal(_table(done)))
    console.print(
        f"{output}: {about.calls} calls in {format_value(about.span_ns, 'ns')}, threads {about.threads}, "
        f"files before {format_size(about.bytes_before)}, at the most {format_size(about.bytes_most)}"
    )
    for name, amount in about.unseen.items():
        if amount:
            console.print(f"[yellow]note[/yellow] {UNSEEN[name]} ({amount})")


def _table(done: Recorded) -> Table:
    """The calls by name, the one that took longest first."""
    took_ns, moved, count = defaultdict[str, int](int), defaultdict[str, int](int), defaultdict[str, int](int)
    for call in done.calls:
        count[call.name] += 1
        took_ns[call.name] += call.end_ns - call.begin_ns
        if call.name in {"read", "pread", "write", "pwrite"}:
            moved[call.name] += int(str(call.words[1]))
    rows = [
        (name, count[name], moved[name] or "", took_ns[name] / count[name])
        for name in sorted(count, key=lambda each: -took_ns[each])
    ]
    titles = columns("call", ("calls", "count"), ("data", "B"), ("mean", "ns"))
    return Table(titles, rows)
