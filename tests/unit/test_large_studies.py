# SPDX-License-Identifier: Apache-2.0
"""Limits that are meant for strangers' files, against the files of Strata's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from strata.execution.schedule import snapshot_of
from strata.files import JSON_BYTES_MAX
from strata.model.design import TRIALS_MAX
from strata.plan.compile import trials
from strata.results.reading import read_snapshot, write_model
from strata.runners.fake import FakeRunner
from study_texts import EXT4_AND_XFS, read

LEVELS = 200
TEXT = f"""
[study]
name = "many"
question = "Which?"
seeds = [1]
{EXT4_AND_XFS}
[workloads.oltp]
workload = "pgbench"
scale = 1
clients = 1
duration = "10s"
[matrix]
clients = {{ key = "workloads.oltp.clients", values = {list(range(1, LEVELS + 1))} }}
"""


def test_the_study_json_of_the_most_trials_can_be_read_again(tmp_path: Path) -> None:
    study = read(tmp_path, TEXT)
    planned: list[Any] = [SimpleNamespace(key=each.key, spec_sha256="0" * 64) for each in trials(study)]

    write_model(tmp_path / "study.json", snapshot_of(study, planned, {}, FakeRunner(), "strata run"))

    # A level of a matrix takes the most for each trial.
    of_level_bytes = (tmp_path / "study.json").stat().st_size / LEVELS
    assert of_level_bytes * TRIALS_MAX < JSON_BYTES_MAX
    assert len(read_snapshot(tmp_path / "study.json").trials) == 2 * LEVELS
