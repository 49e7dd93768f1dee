# SPDX-License-Identifier: Apache-2.0
"""The lab of this tree still measures what README quotes."""

from __future__ import annotations

import json
from pathlib import Path

from lab_factory import environment, records, shared_lab, strata

from examples import SHARE
from strata.lab import Lab

ROOT = Path(__file__).parents[2]


def test_the_lab_measures_the_figures_that_the_readme_quotes(lab: Lab, tmp_path: Path) -> None:
    env = environment(tmp_path / "cache", shared_lab(lab, tmp_path / "shared"))
    kept = json.loads((ROOT / "tests/records/quickstart.json").read_text())["first_seed"]
    study = str(ROOT / "studies/quickstart.toml")

    trials = "ext4.*.s1" if SHARE == 1 else "ext4.random-mix.s1"

    strata("run", study, "--results", "here", "--trial", trials, env=env, cwd=tmp_path)

    measured = records(tmp_path / "here")
    assert len(measured) == (2 if SHARE == 1 else 1)
    for trial, record in measured.items():
        found = {metric.name: metric.value for metric in record.metrics}
        assert found == kept[trial], (
            f"{trial}: run `make figures`, then correct README and tutorial by its tests"
        )
