# SPDX-License-Identifier: Apache-2.0
"""The exported tables as CSV, Parquet and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from strata.report.exports.rows import CELLS, TRIALS, Row
from strata.results.offline import offline_connection
from strata.statistics.study import StudyResults

Columns = Sequence[tuple[str, str, str]]


def to_csv(rows: Iterable[Row], columns: Columns) -> bytes:
    """Comma-separated, one header line, UTF-8, lines that end with a line feed.

    Numbers have all their digits, so that reading them gives the same ones; what is not known is empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(name for name, _, _ in columns)
    for row in rows:
        writer.writerow(_cell(row[name]) for name, _, _ in columns)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def to_parquet(rows: Iterable[Row], columns: Columns) -> bytes:
    """A Parquet file, in the order of the rows; its bytes are the same with one version of DuckDB."""
    with TemporaryDirectory(prefix="strata-export-") as folder, offline_connection(threads=1) as connection:
        lines, table = Path(folder) / "rows.jsonl", Path(folder) / "table.parquet"
        with lines.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        types = {name: kind for name, kind, _ in columns}
        found = connection.read_json(str(lines), format="newline_delimited", columns=types)
        found.write_parquet(str(table))
        return table.read_bytes()


def to_json(results: StudyResults, trials: Sequence[Row], cells: Sequence[Row]) -> bytes:
    """The study with both tables, and what their columns mean."""
    snapshot = results.snapshot
    plain = {
        "study": snapshot.name,
        "question": snapshot.question,
        "time_domain": snapshot.time_domain,
        "runner": snapshot.runner,
        "stacks": {choice.name: choice.title for choice in snapshot.stacks},
        "workloads": {choice.name: choice.title for choice in snapshot.workloads},
        "seeds": list(snapshot.seeds),
        "columns": {name: meaning for name, _, meaning in (*TRIALS, *CELLS)},
        "warnings": [
            {
                "workload": workload,
                "stack": stack,
                "code": each.code,
                "text": each.text,
                "remedy": each.remedy,
            }
            for workload in results.workloads
            for stack in results.stacks
            for each in results.warnings(stack, workload)
        ],
        "cells": cells,
        "trials": trials,
    }
    return (json.dumps(plain, indent=1, ensure_ascii=False) + "\n").encode()
