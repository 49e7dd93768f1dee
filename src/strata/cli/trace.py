# SPDX-License-Identifier: Apache-2.0
"""``strata trace``: a trial's requests as text or as a table, for other tools."""

from __future__ import annotations

import shutil
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from strata.cli.parameters import argument, option
from strata.errors import ResultError
from strata.files import explained
from strata.printable import printable


class Format(StrEnum):
    BLKPARSE = "blkparse"
    PARQUET = "parquet"
    CSV = "csv"


def trace(
    trial: Annotated[list[str], argument("RESULTS/TRIAL, or the folder and then the trial's id.", "TRIAL")],
    form: Annotated[Format, option("What to write.", "--format")] = Format.BLKPARSE,
    output: Annotated[Path | None, option("The file. Default: the terminal.", "--output", "-o")] = None,
    whole: Annotated[bool, option("blkparse: the whole trial, not its window only.", "--whole")] = False,
) -> None:
    """Write a trial's disk requests as text, CSV or Parquet.

    The text has the form of blkparse(1) and covers the measured window, in seconds from its start. CSV and
    Parquet hold the whole trial in nanoseconds from the lab's boot, and the parts of each request's time.

    Examples:
        strata trace results/quickstart/ext4.oltp.s1 | less
        strata trace results/quickstart/ext4.oltp.s1 --format csv -o requests.csv
    """
    # NumPy and DuckDB take a second to load.
    from strata.explanation.source import find_trials, read_source  # noqa: PLC0415
    from strata.traces.blkparse import blkparse_lines  # noqa: PLC0415
    from strata.traces.table import write_csv  # noqa: PLC0415

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
