# SPDX-License-Identifier: Apache-2.0
"""Results of every earlier version are read as they are; the Strata of their time wrote the golden ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from strata.cli import app
from strata.results.reading import read_record
from strata.results.record import RESULT_VERSIONS_READ, record_sha256
from strata.results.snapshot import STUDY_VERSIONS_READ
from strata.results.store import ResultsFolder

GOLDEN = Path(__file__).parents[1] / "golden" / "results"
VERSIONS = (1, 2, 3, 4)


def folder_of(version: int) -> Path:
    return GOLDEN / f"version-{version}"


def test_there_is_a_golden_folder_of_every_version() -> None:
    studies = {ResultsFolder.open(folder_of(version)).study().study_version for version in VERSIONS}

    assert set(RESULT_VERSIONS_READ) == set(VERSIONS)
    assert studies == set(STUDY_VERSIONS_READ)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_of_an_older_version_is_read_with_its_numbers(version: int) -> None:
    folder = ResultsFolder.open(folder_of(version))

    readings = {reading.trial_id: reading for reading in folder.readings()}

    for seed in (1, 2, 3):
        reading = readings[f"ext4.oltp.s{seed}"]
        assert reading.usable
        assert reading.record is not None
        assert reading.record.result_version == version
        rate = reading.record.metric("transactions_per_s")
        assert rate is not None
        assert rate.value == pytest.approx(329, rel=0.05)
    assert readings["xfs.oltp.s1"].problem == "not run yet"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_did_not_have_is_absent_and_not_made_up(version: int) -> None:
    path = folder_of(version) / "trials" / "ext4.oltp.s1" / "attempt-001" / "result.json"
    keys = set(json.loads(path.read_text()))

    record = read_record(path).record

    assert (record.trace is not None) == ("trace" in keys) == (version >= 2)
    assert bool(record.checks) == ("checks" in keys) == (version >= 3)
    assert bool(record.throughput) == ("throughput" in keys) == (version >= 4)
    assert set(record.to_plain()) == keys


@pytest.mark.parametrize("version", VERSIONS)
def test_the_hash_of_an_older_record_still_holds(version: int) -> None:
    path = folder_of(version) / "trials" / "ext4.oltp.s1" / "attempt-001" / "result.json"

    found = read_record(path)

    assert found.record_sha256 == record_sha256(found.record)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "words", [["show"], ["report", "-o", "OUT"], ["query", "IN", "select * from trials"]]
)
def test_every_command_reads_older_results(tmp_path: Path, version: int, words: list[str]) -> None:
    shutil.copytree(folder_of(version), tmp_path / "in")
    named = {"IN": str(tmp_path / "in"), "OUT": str(tmp_path / "out.html")}
    words = [named.get(word, word) for word in (words if "IN" in words else [words[0], "IN", *words[1:]])]

    done = CliRunner().invoke(app, words, catch_exceptions=False)

    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_results_of_two_versions_are_compared_and_their_versions_named(version: int) -> None:
    done = CliRunner().invoke(
        app,
        ["compare", str(folder_of(version)), str(folder_of(VERSIONS[-1])), "--json"],
        catch_exceptions=False,
    )

    found = json.loads(done.stdout)
    assert [(each["stack"], each["verdict"], each["ratio"]) for each in found["comparisons"]] == [
        ("ext4", "equal", 1.0)
    ]
    named = {each["name"]: (each["first"], each["second"]) for each in found["differences"]}
    assert named["result format"] == (str(version), str(VERSIONS[-1]))
