# SPDX-License-Identifier: Apache-2.0
"""``strata record``: what an application asks of its filesystem, as a file that a study can repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from strata.actions.record import Recorded, record_disk
from strata.actions.record import record as record_application
from strata.cli.output import print_json, stdout
from strata.cli.parameters import AsJson, argument, option
from strata.errors import ResultError
from strata.explanation.sentences import KIND_WORDS
from strata.report.table import Table, columns, objects, terminal
from strata.traces.calls import UNSEEN
from strata.traces.kinds import KINDS
from strata.traces.table import latency_ns
from strata.units import SECTOR_BYTES, format_size, format_value

_STDERR: Final = 2

Disk = Annotated[
    str | None,
    option("Record this disk's requests, while the command runs or until Ctrl-C.", "--disk", "DEVICE"),
]

Output = Annotated[
    Path | None,
    option("The file. Default: application.strata-calls; disk.parquet.", "--output", "-o"),
]


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
    disk: Disk = None,
    output: Output = None,
    *,
    names: Annotated[
        bool, option("Keep the names of files. Default: hashes of the same length.", "--names")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Record an application's calls, or a disk's requests.

    Kept are calls on files of one folder with their sizes, offsets and times, in threads, with what each
    waited for; never content. Names are replaced by hashes, but for a short extension. The workload `calls`
    repeats the file on any stack.

    Ctrl-C ends the recording and keeps it. Tracing slows the application down; its own time is taken out of
    the pauses between calls. Requests of io_uring and io_submit, and what is read or written through mapped
    files, strace does not see: the recording says so.

    With --disk the requests of a whole disk are kept instead, by the kernel's block events, as a table that
    the workload `trace` and `strata trace FILE --on DEVICE` repeat. It needs root.

    With --json the command's own output goes to the standard error.

    Examples:
        strata record -o app.strata-calls -- dd if=/dev/zero of=app.data bs=4k count=200 oflag=dsync
        sudo strata record --pid 4711 -o postgres.strata-calls
        sudo strata record --disk /dev/sda -o sda.parquet
    """
    if disk is not None:
        if pid is not None or folder is not None or names:
            cause = "--pid, --folder and --names are of an application"
            raise ResultError(cause, place="--disk", remedy="leave them out, or --disk")
        _record_disk(Path(disk), output or Path("disk.parquet"), command or (), as_json=as_json)
        return
    output = output or Path("application.strata-calls")
    if bool(command) == (pid is not None):
        cause = "there are two applications" if command else "there is no application"
        raise ResultError(cause, place="strata record", remedy="name a command after `--`, or --pid PID")
    shown = _STDERR if as_json else None
    done = record_application(
        output, folder, command=command or (), pid=pid, keep_names=names, left_running=_say_left, stdout=shown
    )
    if as_json:
        print_json(done.about, file=output, by_call=objects(_table(done)))
    else:
        _print(output, done)
    _end_as(done.exit_code)


def _say_left() -> None:
    text = "the command has ended, and processes that it started are still recorded: Ctrl-C ends it"
    typer.echo(text, err=True)


def _end_as(exit_code: int | None) -> None:
    if exit_code:
        raise typer.Exit(exit_code if 0 < exit_code < 256 else 1)


def _record_disk(disk: Path, output: Path, command: Sequence[str], *, as_json: bool) -> None:
    done = record_disk(output, disk, command=command, stdout=_STDERR if as_json else None)
    records = done.trace.records
    rows = []
    for number, kind in enumerate(KINDS):
        if len(found := records[records["kind"] == number]):
            moved = int(found["sectors"].astype(int).sum()) * SECTOR_BYTES
            rows.append((KIND_WORDS[kind], len(found), moved or "", float(latency_ns(found).mean())))
    table = Table(columns("", ("requests", "count"), ("data", "B"), ("mean", "ns")), rows)
    if as_json:
        print_json({"lost_events": done.lost}, file=output, by_kind=objects(table))
    else:
        stdout().print(terminal(table))
        stdout().print(f"{output}: {len(records)} requests of {disk}")
        if done.lost:
            stdout().print(f"[yellow]note[/yellow] {done.lost} events came too fast, and are left out")
    _end_as(done.exit_code)


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
