# SPDX-License-Identifier: Apache-2.0
"""The comparison of the lab with a machine: errors, rankings, verdict."""

from __future__ import annotations

import pytest
from bench.agreement import Cell, rankings, summary, verdicts
from bench.processor import missing


def rate(stack: str, host: tuple[float, ...], lab: float, workload: str = "storm") -> Cell:
    return Cell(stack, workload, "create_files_per_s", host, lab, is_rate=True)


EXT4 = rate("ext4", (100.0, 101.0, 102.0), 110.0)
XFS = rate("xfs", (100.0, 102.0, 103.0), 60.0)
BTRFS = rate("btrfs", (50.0, 51.0, 52.0), 70.0)


def test_a_ranking_counts_the_pairs_that_the_machine_tells_apart() -> None:
    (found,) = rankings([EXT4, XFS, BTRFS])

    assert found.host == "xfs = ext4 > btrfs"
    assert found.lab == "ext4 > btrfs > xfs"
    assert found.pairs == 2
    assert found.contradicted == ("xfs, btrfs",)


def test_trials_without_a_cell_are_named() -> None:
    assert missing(["ext4.*", "xfs.tar", "zfs.storm"], [EXT4, XFS]) == ["xfs.tar", "zfs.storm"]


def test_two_repetitions_separate_nothing() -> None:
    (found,) = rankings([rate("ext4", (100.0, 100.0), 1.0), rate("xfs", (1.0, 1.0), 2.0)])

    assert (found.pairs, found.contradicted) == (0, ())


def test_less_processor_time_is_better() -> None:
    cells = [
        Cell(stack, "tar", "processor_ns", (ns, ns * 1.01, ns * 0.99), ns * 2, is_rate=False)
        for stack, ns in (("ext4", 10.0), ("xfs", 20.0))
    ]

    (found,) = rankings(cells)

    assert (found.host, found.lab) == ("ext4 > xfs", "ext4 > xfs")
    assert summary(cells).bias == pytest.approx(2 / 0.99)


def test_the_verdict_judges_each_aim() -> None:
    few = {each.found: each.is_met for each in verdicts([EXT4, XFS, BTRFS])}
    many = [rate("ext4", (100.0, 101.0, 102.0), 95.0, f"load-{index}") for index in range(16)]

    assert few == {"3": False, "× 1.43": False, "67%": False, "1 of 2 pairs": False}
    assert [each.is_met for each in verdicts(many)] == [True, True, True, False]  # there are no pairs
