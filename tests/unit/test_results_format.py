# SPDX-License-Identifier: Apache-2.0
"""The results folder's format, held by a golden example; a file of another version is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command_line import shown
from record_hashes import attempt_of
from strata.errors import ResultError
from strata.results.reading import read_record, result_text
from strata.results.store import ResultsFolder

OLDER, GOLDEN = (Path(__file__).parents[1] / "golden/results" / f"version-{each}" for each in (2, 3))
RESULT = attempt_of(GOLDEN, "ext4.oltp.s1") / "result.json"


def test_the_golden_folder_is_read_with_its_numbers() -> None:
    readings = {reading.trial_id: reading for reading in ResultsFolder.open(GOLDEN).readings()}

    reading = readings["ext4.oltp.s1"]
    assert reading.usable
    assert reading.record is not None
    rate = reading.record.metric("transactions_per_s")
    assert rate is not None
    assert rate.value == pytest.approx(352, rel=0.05)
    assert reading.record.trace
    assert reading.record.checks
    assert reading.record.throughput
    assert readings["xfs.oltp.s1"].problem == "not run yet"


def test_a_record_is_written_in_the_golden_bytes() -> None:
    assert result_text(read_record(RESULT).record) == RESULT.read_bytes()


def test_every_command_reads_the_golden_folder(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "in")
    for command, *words in (["show"], ["report", "-o", tmp_path / "out"], ["query", "select * from trials"]):
        shown(command, tmp_path / "in", *words)


def test_a_folder_of_an_older_version_is_refused_with_a_remedy(tmp_path: Path) -> None:
    shutil.copytree(OLDER, tmp_path / "in")
    with pytest.raises(ResultError, match="of version 2, this Strata reads version 3") as caught:
        ResultsFolder.open(tmp_path / "in").readings()

    assert "run the study into another folder" in (caught.value.remedy or "")
