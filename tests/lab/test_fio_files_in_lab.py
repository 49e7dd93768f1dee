# SPDX-License-Identifier: Apache-2.0
"""What fio's writes find: a new file, one whose space is set aside, or one that was written before."""

from __future__ import annotations

from pathlib import Path

from lab_factory import head, records, run_text

from strata.lab import Lab
from strata.runners.lab import LabRunner

LOAD = """\
workload = "fio"
options = { rw = "write", bs = 2300, fdatasync = 1 }
size = "1MiB"
"""
KINDS = ("new", "preallocated", "overwritten")


def test_the_first_write_of_a_block_costs_the_journal_a_write_and_overwriting_does_not(
    lab: Lab, tmp_path: Path
) -> None:
    text = head("files", [1], "1GiB") + '\n[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n'
    text += "".join(f'\n[workloads.{kind}]\n{LOAD}file = "{kind}"\n' for kind in KINDS)
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
