# SPDX-License-Identifier: Apache-2.0
"""The results folder's format, held by a golden example; a file of another version is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command_line import shown
from strata.results.reading import read_record, result_text
from strata.results.store import ResultsFolder

GOLDEN = Path(__file__).parents[1] / "golden/results/version-1"
RESULT = "trials/ext4.oltp.s1/attempt-001/result.json"


def test_the_golden_folder_is_read_with_its_numbers() -> None:
    readings = {reading.trial_id: reading for reading in ResultsFolder.open(GOLDEN).readings()}

    reading = readings["ext4.oltp.s1"]
    assert reading.usable
    assert reading.record is not None
    rate = reading.record.metric("transactions_per_s")
    assert rate is not None
    assert rate.value == pytest.approx(329, rel=0.05)
    assert reading.record.trace
    assert reading.record.checks
    assert reading.record.throughput
    assert readings["xfs.oltp.s1"].problem == "not run yet"


def test_a_record_is_written_in_the_golden_bytes() -> None:
    assert result_text(read_record(GOLDEN / RESULT).record) == (GOLDEN / RESULT).read_bytes()


@pytest.mark.parametrize("words", [["show"], ["report", "-o", "OUT"], ["query", "select * from trials"]])
def test_every_command_reads_the_golden_folder(tmp_path: Path, words: list[str]) -> None:
    shutil.copytree(GOLDEN, tmp_path / "in")
    command, *others = [str(tmp_path / "out.html") if word == "OUT" else word for word in words]

    shown(command, tmp_path / "in", *others)
