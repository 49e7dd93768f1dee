# SPDX-License-Identifier: Apache-2.0
"""Measurements of real drives: their files, the load on the model, and how both are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strata.datasheet.measure import Pattern, Subject, measure, rate_per_s
from strata.devices.device import find_device
from strata.units import NS_PER_S
from strata.validation.subjects.real import (
    DriveCell,
    DriveCompared,
    Figures,
    RealDrive,
    _figures,
    aims,
    real_drives,
)

RE4 = "wd-re4-500gb"


def test_every_real_drive_has_a_source_and_either_a_model_or_is_an_array() -> None:
    drives = real_drives()

    assert len(drives) >= 12
    for drive in drives:
        assert "github" in drive.source
        assert drive.cells
        assert bool(drive.array) == (drive.device is None)
        assert any(not cell.limit for cell in drive.cells)


def test_a_load_keeps_its_depth_outstanding_also_where_the_host_holds_a_part() -> None:
    for depth in (1, 8, 64):
        subject = Subject(find_device(RE4))
        trace = measure(subject, subject.open(), Pattern("randread", 4096, depth), 4000)
        inside = trace.latency_ns[500:-500].astype(np.float64).mean() / NS_PER_S
        assert inside * rate_per_s(trace, depth=depth) == pytest.approx(depth, rel=0.03)  # Little's law


def test_a_machine_s_link_that_is_slower_than_the_drive_s_bounds_the_model() -> None:
    (slow,) = (each for each in real_drives() if each.link and "pm883" in each.name)
    depth_32 = replace(slow, cells=tuple(each for each in slow.cells if each.pattern.depth == 32))
    assert depth_32.device is not None

    linked, free = (
        _figures(drive, depth_32.device, quick=True)[0].iops
        for drive in (depth_32, replace(depth_32, link=0))
    )

    assert linked < 285e6 / 4096 < free
    assert linked == pytest.approx(depth_32.cells[0].real.iops, rel=0.15)


def compared(rate: float, *, depth: int = 1, limit: str = "", p99: float = 1.0) -> DriveCompared:
    """A model whose rate is this part of the real one's; half of the drawn drives are faster."""
    cell = DriveCell(Pattern("randread", 4096, depth), Figures(100.0, None, 10.0), limit)
    drive = RealDrive("one", "One", "here", (cell,), find_device(RE4), "used", "")
    own = Figures(100.0 * rate, 5.0, 10.0 * p99)
    return DriveCompared(
        drive, cell, own, (replace(own, iops=own.iops * 0.9), replace(own, iops=own.iops * 1.1))
    )


def test_a_real_drive_is_judged_by_rate_tail_gain_and_the_drawn_range() -> None:
    assert compared(1.2).check().verdict == "passed"
    assert compared(1.3).check().verdict == "noted"
    assert compared(1.0, p99=0.6).check().verdict == "noted"
    assert compared(1.0).within_drawn() == {"rate": True, "p99": True}
    assert compared(1.2).within_drawn() == {"rate": False, "p99": True}
    (gain,) = (
        each
        for each in aims([compared(1.0), compared(1.2, depth=4), compared(1.3, depth=8)])
        if each.title.startswith("rotating: gains")
    )
    assert (gain.found, gain.verdict) == ("50.0 %", "noted")
    assert gain.note == "1 of 2; missed: one randread 8"


def test_a_cell_where_the_host_was_the_limit_counts_for_no_aim() -> None:
    limited = compared(9.0, depth=4, limit="the link")

    assert limited.check().verdict == "noted"
    assert limited.check().note.startswith("the link")
    assert all(each.verdict == "passed" for each in aims([compared(1.0), compared(1.0, depth=2), limited]))
