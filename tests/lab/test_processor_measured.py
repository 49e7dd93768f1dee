# SPDX-License-Identifier: Apache-2.0
"""What the lab's kernel counts of the benchmark's operations, which prices are fitted to."""

from __future__ import annotations

import pytest

from strata.lab import Lab
from strata.lab.progress import SILENCE
from strata.pricing.benchmark import measure_lab


def test_the_lab_counts_the_same_work_of_each_operation_every_time(lab: Lab) -> None:
    first, second = (measure_lab(lab, ["ext4"], SILENCE, shorten=200) for _ in range(2))

    assert first == second
    assert first["getppid"].counted["system_calls"] == pytest.approx(1, abs=0.05)
    assert first["page-fault"].counted["page_faults"] == pytest.approx(1, abs=0.3)
    assert first["read-64k"].counted["copy_bytes"] == pytest.approx(65_536, rel=0.1)
    assert first["socket-turn"].counted["switches"] == pytest.approx(2, rel=0.3)
    # The loop device's thread is woken for a read, and wakes the reader; a second processor would be idle.
    assert first["ext4-read-4k-direct"].counted["idle_wakeups"] == pytest.approx(2, rel=0.3)
    assert first["ext4-read-4k-direct"].counted["block_units"] > first["read-4k"].counted["block_units"]
