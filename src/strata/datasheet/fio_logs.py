# SPDX-License-Identifier: Apache-2.0
"""The measured cells of fio's latency logs (``write_lat_log``): a line for each request.

``time in ms, latency, direction, block size[, offset[, priority]]``; the latency is in ns, and in µs in the
logs of version 2, which have no offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from strata.datasheet.fio_results import PERCENTS, MeasuredCell, guessed_load
from strata.units import NS_PER_S, NS_PER_US

_LOG: Final = re.compile(r"(?P<prefix>.+)_(?P<what>clat|lat)(?:\.(?P<job>\d+))?\.log")
_DIRECTIONS: Final = ("read", "write")
_COLUMNS_2: Final = 4
_REQUESTS_MIN: Final = 100
_AVERAGED: Final = 0.5  # of a request held on average: lines are means of windows, or the job paused


def telling_logs(files: Sequence[Path]) -> Iterator[Path]:
    """Of a folder's files the logs that stand for themselves.

    Beside a JSON they say nothing new, nor does the completion's beside that of the whole latency.
    """
    told = {each.parent for each in files if each.suffix == ".json"}
    logs = [
        (each, found) for each in files if (found := _LOG.fullmatch(each.name)) and each.parent not in told
    ]
    totals = {(each.parent, *found.group("prefix", "job")) for each, found in logs if found["what"] == "lat"}
    for each, found in logs:
        if found["what"] == "lat" or (each.parent, *found.group("prefix", "job")) not in totals:
            yield each


def read_log(text: str, name: str) -> tuple[list[MeasuredCell], list[str]]:
    """The cells of one log, its load taken from its figures, and what was assumed, or why it is left out."""
    notes: list[str] = []
    try:
        if not _LOG.fullmatch(name):
            raise ValueError("it is no latency log of fio, which is called NAME_lat.1.log or NAME_clat.1.log")
        return _cells(text, name, notes), notes
    except ValueError as error:
        return [], [f"it is left out: {error}"]


def _cells(text: str, name: str, notes: list[str]) -> list[MeasuredCell]:
    lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may be cut off
    columns = lines[0].count(",") + 1 if lines else 0
    if columns < _COLUMNS_2:
        raise ValueError("it is no latency log of fio")
    rows = np.loadtxt(lines, delimiter=",", usecols=range(_COLUMNS_2), ndmin=2)
    rows = rows[np.isin(rows[:, 2], range(len(_DIRECTIONS)))]
    if len(rows) < _REQUESTS_MIN or len(set(rows[:, 3])) > 1:
        raise ValueError("it has few requests, or requests of several sizes")
    seconds = float(rows[-1, 0] - rows[0, 0]) / 1000 or 1e-3
    latency_ns = rows[:, 1] * (NS_PER_US if columns == _COLUMNS_2 else 1)
    held = len(rows) / seconds * float(latency_ns.mean()) / NS_PER_S
    if held < _AVERAGED:
        raise ValueError("its lines are averages (log_avg_msec), or its requests paused")
    sides = [each for number, each in enumerate(_DIRECTIONS) if number in rows[:, 2]]
    at_random, load = guessed_load(sides, int(rows[0, 3]), held, notes)
    cells = []
    for side in sides:
        own = latency_ns[rows[:, 2] == _DIRECTIONS.index(side)]
        beside = min(99, max(1, round(100 - 100 * len(own) / len(rows)))) if len(sides) > 1 else 0
        pattern = replace(load, rw=f"{'rand' * at_random}{side}", beside_percent=beside)
        known = dict(zip(PERCENTS, map(float, np.percentile(own, PERCENTS)), strict=True))
        is_total = "_lat." in name
        cells.append(MeasuredCell(pattern, len(own) / seconds, known, seconds, name, is_total=is_total))
    return cells
