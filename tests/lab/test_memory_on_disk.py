# SPDX-License-Identifier: Apache-2.0
"""A lab whose memory this machine cannot hold has it in a file on disk, with the same results."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import copy, head, run_text, stacks

from record_hashes import hashes
from strata.lab import Lab
from strata.runners.lab import LabRunner

STUDY = head("memory", [1]) + stacks("ext4") + copy()


def test_memory_on_disk_gives_the_same_bytes(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, said = {}, {}
    for place in ("memory", "disk"):
        on_disk = place == "disk"
        monkeypatch.setattr("strata.lab.boot.lies_on_disk", lambda size, on_disk=on_disk: on_disk)
        folder = tmp_path / place
        run_text(STUDY, folder, LabRunner(lab), jobs=1)
        [console] = folder.rglob("console.log")
        found[place], said[place] = hashes(folder / "results"), console.read_text()

    assert found["memory"] == found["disk"]
    assert "for a tempdir....\n" in said["disk"]
    assert "for a tempdir....\n" not in said["memory"]
