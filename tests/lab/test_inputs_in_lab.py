# SPDX-License-Identifier: Apache-2.0
"""Archives beside a study, read by trials in the lab."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from lab_factory import head, records, run_text, stacks

from strata.lab import Lab
from strata.runners.lab import LabRunner
from strata.traces.table import read_parquet

TREE = '\n[workloads.tree]\nworkload = "tree"\narchive = "tree.tar.xz"\n'
FILES = 40
FILE_BYTES = 8192


def archive(path: Path) -> None:
    """Files of bytes that do not compress, so that it takes several requests to read them."""
    with tarfile.open(path, "w:xz") as tar:
        for number in range(FILES):
            blocks = (hashlib.sha256(f"{number}.{at}".encode()).digest() for at in range(FILE_BYTES // 32))
            member = tarfile.TarInfo(f"tree/{number}")
            member.size = FILE_BYTES
            tar.addfile(member, io.BytesIO(b"".join(blocks)))


def test_an_archive_is_read_from_a_disk_that_no_account_tells_of(lab: Lab, tmp_path: Path) -> None:
    archive(tmp_path / "tree.tar.xz")

    summary = run_text(head("inputs", [1], "1GiB") + stacks("ext4") + TREE, tmp_path, LabRunner(lab), jobs=1)

    assert not summary.invalid
    ((trial, record),) = records(tmp_path / "results").items()
    metrics = {metric.name: metric.value for metric in record.metrics}
    assert (metrics["files"], metrics["bytes"]) == (FILES, FILES * FILE_BYTES)
    assert set(record.disks) == {"disk0"}
    (trace,) = (tmp_path / "results").rglob("trace.parquet")
    read = read_parquet(trace)
    assert (read.disks, set(read.records["disk"].tolist())) == (("rootimage", "disk0"), {1})
    assert trial.startswith("ext4.tree")
