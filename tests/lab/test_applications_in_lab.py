# SPDX-License-Identifier: Apache-2.0
"""The bundled applications in the lab, on three filesystems, twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import records, run_text

from strata.lab import Lab
from strata.results.record import record_sha256
from strata.runners.lab import LabRunner

pytestmark = [pytest.mark.lab, pytest.mark.slow]

STUDY = Path(__file__).parents[2] / "studies/applications.toml"


def test_each_application_is_measured_on_three_stacks_and_equal_on_a_second_run(
    lab: Lab, tmp_path: Path
) -> None:
    found = []
    for name in ("first", "again"):
        (tmp_path / name).mkdir()
        run_text(STUDY.read_text(), tmp_path / name, LabRunner(lab))
        found.append(records(tmp_path / name / "results"))

    first, again = found
    for trial, record in first.items():
        assert record.validity.valid, f"{trial}: {record.validity.reasons}"
        assert record_sha256(again[trial]) == record_sha256(record), trial
