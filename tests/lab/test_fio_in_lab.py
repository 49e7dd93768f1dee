# SPDX-License-Identifier: Apache-2.0
"""What the disk serves of fio's window: what fio asked for, and the journal of what its writes find."""

from __future__ import annotations

from pathlib import Path

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


WRITES = """\
workload = "fio"
options = { rw = "write", bs = 2300, fdatasync = 1 }
size = "1MiB"
"""
KINDS = ("new", "preallocated", "overwritten")


def test_the_first_write_of_a_block_costs_the_journal_a_write_and_overwriting_does_not(
    lab: Lab, tmp_path: Path
) -> None:
    text = head("files", [1], "1GiB") + '\n[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n'
    text += "".join(f'\n[workloads.{kind}]\n{WRITES}file = "{kind}"\n' for kind in KINDS)
    run_text(text, tmp_path, LabRunner(lab), jobs=1)

    written = {}
    for record in records(tmp_path / "results").values():
        assert record.validity.valid, record.validity.reasons
        [disk] = record.disks.values()
        operations = record.metric("operations")
        assert operations is not None
        written[record.trial.workload] = disk["writes"] / operations.value

    # fio by itself, the same on ext4: 1.12 writes of the journal for each operation.
    assert written["preallocated"] > 1.9
    assert written["new"] > 1.9
    assert written["overwritten"] < 1.3
