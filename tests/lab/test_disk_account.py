# SPDX-License-Identifier: Apache-2.0
"""In the measured window the disk serves what the workload asked for, and nothing from behind its back."""

from __future__ import annotations

import pytest
from lab_factory import head, records, run_text, stacks

from examples import SHARE
from strata.lab import Lab
from strata.results.record import ResultRecord
from strata.runners.lab import LabRunner

FILESYSTEMS = ("ext4", "xfs", "btrfs") if SHARE == 1 else ("ext4",)
# The file's metadata are in memory since it was written, so that none is needed: all three have read exactly
# what fio asked for. ext4's prefetch of the block bitmaps added 9 requests on 100 GiB.
FURTHER_READS_MAX = 2
LOAD = """
[workloads.load]
workload = "fio"
preset = "random-read-4k"
size = "64MiB"
duration = "4s"
"""


@pytest.fixture(scope="module")
def found(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ResultRecord]:
    folder = tmp_path_factory.mktemp("account")
    run_text(head("account", [1]) + stacks(*FILESYSTEMS) + LOAD, folder, LabRunner(lab))
    return records(folder / "results")


@pytest.mark.parametrize("stack", FILESYSTEMS)
def test_the_disk_reads_what_fio_reads(found: dict[str, ResultRecord], stack: str) -> None:
    record = found[f"{stack}.load.s1"]
    operations = next(metric.value for metric in record.metrics if metric.name == "operations")
    account = record.disks["disk0"]

    assert operations > 100
    assert 0 <= account["reads"] - operations <= FURTHER_READS_MAX
    assert 0 <= account["read_bytes"] - 4096 * operations <= FURTHER_READS_MAX * (128 << 10)
