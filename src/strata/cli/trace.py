# SPDX-License-Identifier: Apache-2.0
"""``strata trace``: a trial's requests as text or as a table, or replayed on another modelled disk."""

from __future__ import annotations

import shutil
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from strata.actions.replay import Mode, Replayed, replay_trace
from strata.cli.output import print_json, stdout
from strata.cli.parameters import argument, option
from strata.errors import ResultError
from strata.explanation.replay import Latencies
from strata.explanation.sentences import KIND_WORDS
from strata.explanation.source import find_trials, read_source
from strata.files import explained
from strata.printable import printable
from strata.report.table import Table, columns, terminal
from strata.traces.blkparse import blkparse_lines
from strata.traces.table import write_csv
from strata.units import format_value, percent, significant


class Format(StrEnum):
    BLKPARSE = "blkparse"
    PARQUET = "parquet"
    CSV = "csv"


On = Annotated[
    str | None,
    option(
        'Replay on this disk: a bundled device, a file ending in .toml, or "same" for the trial\'s own.',
        "--on",
        "DEVICE",
    ),
]
ReplayMode = Annotated[
    Mode | None,
    option("With --on: open, at recorded arrivals (default); closed, as requests complete.", "--mode"),
]


def trace(  # noqa: PLR0917  typer makes options of them
    trial: Annotated[
        list[str],
        argument(
            "RESULTS/TRIAL, or the folder and then the trial's id; with --on also a file: a trace.parquet, "
            "fio's iolog, blkparse's text or blktrace's own.",
            "TRIAL",
        ),
    ],
    form: Annotated[Format | None, option("What to write. Default: blkparse.", "--format")] = None,
    output: Annotated[Path | None, option("The file. Default: the terminal.", "--output", "-o")] = None,
    whole: Annotated[
        bool, option("blkparse and --on: the whole trial, not its measured window only.", "--whole")
    ] = False,
    device: On = None,
    disk: Annotated[
        str | None, option("With --on: which of the trial's disks, such as disk0.", "NAME")
    ] = None,
    mode: ReplayMode = None,
    as_json: Annotated[bool, option("With --on: print everything as JSON.", "--json")] = False,
) -> None:
    """Write a trial's disk requests, or replay them on another disk.

    The text has the form of blkparse(1) and covers the measured window, in seconds from its start. CSV and
    Parquet hold the whole trial in nanoseconds from the lab's boot, and the parts of each request's time.

    With --on a modelled disk serves the requests of a trial, or of a real disk's trace. Their latencies are
    printed beside the recorded ones, of the measured window. All requests before it are replayed, too. An
    open load that is too much for the disk is called overloaded, with the share that the disk can carry.

    Examples:
        strata trace results/quickstart/ext4.oltp.s1 | less
        strata trace results/quickstart/ext4.oltp.s1 --format csv -o requests.csv
        strata trace results/quickstart/ext4.oltp.s1 --on wd-re4-500gb --mode closed
        strata trace results/quickstart/ext4.oltp.s1 --on same
        strata trace sda.blktrace.0 --on generic-nvme-consumer
    """
    writing, replaying = {"--format": form, "--output": output}, {"--disk": disk, "--mode": mode}
    unused = writing if device is not None else {**replaying, "--json": as_json or None}
    if unfit := [name for name, given in unused.items() if given is not None]:
        remedy = "leave it out" if device is not None else "add --on DEVICE, or leave it out"
        raise ResultError("it belongs to the other use of the command", place=unfit[0], remedy=remedy)
    if device is None:
        _write(trial, form or Format.BLKPARSE, output, whole=whole)
        return
    replayed = replay_trace(trial, device, disk, mode or Mode.OPEN, whole=whole)
    if as_json:
        print_json(replayed)
    else:
        _print(replayed)


def _write(trial: list[str], form: Format, output: Path | None, *, whole: bool) -> None:
    """Write the requests as text, CSV or Parquet. Raises ResultError."""
    named = find_trials(trial)
    if len(named) > 1:
        raise ResultError(f"{len(named)} trials were named", place="strata trace", remedy="name one")
    if output is not None and output.is_dir():
        raise ResultError("it is a folder", place=str(output), remedy="name a file")
    if whole and form is not Format.BLKPARSE:
        raise ResultError(
            f"{form.value} always holds the whole trial", place="--whole", remedy="leave --whole out"
        )
    source = read_source(*named[0])
    found = source.trace()  # checked against its record, whatever the form
    if form is Format.PARQUET:
        if output is None:
            raise ResultError("Parquet is no text", place="--format parquet", remedy="name a file with -o")
        with explained(output, "write the trace"):
            shutil.copyfile(source.attempt.trace_path, output)
    elif form is Format.CSV:
        with tempfile.TemporaryDirectory(prefix="strata-trace-") as folder:
            made = Path(folder) / "trace.csv"
            write_csv(made, found)
            if output is None:
                with made.open() as file:
                    shutil.copyfileobj(file, sys.stdout)
            else:
                with explained(output, "write the trace"):
                    shutil.copyfile(made, output)
    elif output is None:
        sys.stdout.writelines(map(printable, blkparse_lines(found, None if whole else source.window_ns)))
    else:
        with explained(output, "write the trace"), output.open("w") as file:
            file.writelines(blkparse_lines(found, None if whole else source.window_ns))


def _print(replayed: Replayed) -> None:
    found, device = replayed.result, replayed.device
    console = stdout()
    first, second = (format_value(span, "ns") for span in (found.recorded_span_ns, found.replayed_span_ns))
    console.print(
        f"[bold]{replayed.disk}[/bold] on [bold]{device}[/bold], {replayed.mode.value}: {second}, "
        f"recorded {first}"
    )

    if found.carried_share is not None:
        share = percent(float(significant(found.carried_share, 2)))
        console.print(
            f"[red]overloaded[/red]: the backlog grows to the end; {device} carries {share} of this load, "
            "and its latencies depend on how long the load lasts"
        )

    def times(each: Latencies) -> tuple[float, ...]:
        return (each.mean, each.p50, each.p99, each.max)

    rows: list[tuple[object, ...]] = []
    for kind, recorded in found.recorded.items():
        again = found.replayed[kind]
        ratio: float | str | None = again.mean / recorded.mean if recorded.mean else None
        if found.carried_share is not None:
            ratio = "overloaded"
        name = KIND_WORDS.get(kind, "all requests")
        if replayed.has_latencies:
            rows.append((name, recorded.requests, "recorded", *times(recorded), ""))
            rows.append(("", "", "replayed", *times(again), ratio))
        else:
            rows.append((name, recorded.requests, "replayed", *times(again), ""))
    titles = columns(
        ("mean", "ns"), ("p50", "ns"), ("p99", "ns"), ("max", "ns"), ("mean to recorded", "ratio")
    )
    console.print(terminal(Table((*columns("", ("requests", "count"), ""), *titles), rows)))
