# SPDX-License-Identifier: Apache-2.0
"""An aged filesystem on the real lab."""

from __future__ import annotations

from pathlib import Path

from lab_factory import head, stacks, valid_record

from record_hashes import hashes
from strata.lab import Lab
from strata.runners.lab import LabRunner

AGED = '\nage = { fill = "40%", overwrites = 2 }'
WRITE = '\n[workloads.write]\nworkload = "dd"\nsize = "32MiB"\ncontent = "random"\nfragmentation = true\n'


def keyed(text: str, keys: str) -> str:
    return text.replace('question = "Which?"', f'question = "Which?"{keys}', 1)


def test_an_aged_filesystem_has_its_free_space_in_pieces_and_twice_the_same(lab: Lab, tmp_path: Path) -> None:
    text = head("aged", [1], "512MiB") + stacks("ext4") + WRITE
    aged = keyed(text, AGED)
    free = {}
    for name, each in (("new", text), ("aged", aged), ("again", aged)):
        folder = tmp_path / name
        record = valid_record(each, folder, LabRunner(lab), jobs=1)
        metric = record.metric("fragmentation_ext4_before_free_extents")
        assert metric is not None
        free[name] = metric.value
        verdicts = {check.name: check.verdict for check in record.checks}
        assert verdicts.get("aged") == (None if name == "new" else "yes")

    assert free["aged"] > 20 * free["new"]
    assert hashes(tmp_path / "aged/results") == hashes(tmp_path / "again/results")
