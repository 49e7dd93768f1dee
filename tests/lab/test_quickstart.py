# SPDX-License-Identifier: Apache-2.0
"""The bundled study as a newcomer runs it, and once more with its labs one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import environment, records, shared_lab, strata

from record_hashes import hashes
from strata.lab import Lab

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies" / "quickstart.toml"


def test_the_quickstart_gives_the_same_records_however_many_labs_run_at_once(
    lab: Lab, tmp_path: Path
) -> None:
    env = environment(tmp_path / "cache", shared_lab(lab, tmp_path / "shared"))

    strata("run", str(STUDY), "--results", "together", env=env, cwd=tmp_path)
    strata("run", str(STUDY), "--results", "alone", "--jobs", "1", env=env, cwd=tmp_path)

    assert len(hashes(tmp_path / "alone")) == 36
    assert hashes(tmp_path / "together") == hashes(tmp_path / "alone")
    assert all(record.validity.valid for record in records(tmp_path / "alone").values())
