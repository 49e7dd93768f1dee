# SPDX-License-Identifier: Apache-2.0
"""The results folder's format, held by a golden example; a file of another version is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command_line import shown
from strata.errors import ResultError
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


@pytest.mark.parametrize("version", [0, 2])
def test_a_study_of_another_version_is_refused_with_a_remedy(tmp_path: Path, version: int) -> None:
    shutil.copytree(GOLDEN, tmp_path / "in")
    path = tmp_path / "in/study.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "study_version": version}))

    with pytest.raises(ResultError, match=f"of version {version}, this Strata reads version 1") as caught:
        ResultsFolder.open(tmp_path / "in").study()

    assert "run the study into another folder" in (caught.value.remedy or "")


@pytest.mark.parametrize("version", [0, 2])
def test_a_result_of_another_version_does_not_count_and_the_others_do(tmp_path: Path, version: int) -> None:
    shutil.copytree(GOLDEN, tmp_path / "in")
    path = tmp_path / "in" / RESULT.replace(".s1", ".s2")
    path.parent.mkdir(parents=True)
    text = (GOLDEN / RESULT).read_text()
    path.write_text(text.replace('"result_version": 1', f'"result_version": {version}'))

    readings = {each.trial_id: each for each in ResultsFolder.open(tmp_path / "in").readings()}

    assert f"of version {version}, this Strata reads version 1" in (readings["ext4.oltp.s2"].problem or "")
    assert readings["ext4.oltp.s1"].usable
