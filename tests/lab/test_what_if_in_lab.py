# SPDX-License-Identifier: Apache-2.0
"""A planted reason for a claim's verdict, found by real trials."""

from __future__ import annotations

import json

import pytest
from lab_factory import environment, public_folder, shared_lab, strata, write_two_disks

from strata.lab import Lab

CLAIMS = """\
[[claims]]
id = "alike"
claim = "Both disks read at random places alike"
source = "a test"
[[claims.expect]]
workload = "reads"
metric = "operations_per_s"
stack = "two"
against = "one"
is = "equal"
within = "10%"
[[claims.suspect]]
key = "devices.two.model"
value = "one.toml"
why = "it may have been the other disk"
"""


@pytest.mark.slow  # tests/unit/test_claims_why.py has the same with trials that take no time
def test_the_planted_reason_is_found_by_real_trials(lab: Lab) -> None:
    with public_folder() as folder:
        overheads = {"one": "value = 0.2, estimate = false", "two": "value = 20.0, estimate = false"}
        write_two_disks(folder, 'size = "64MiB"\nwarmup = "1s"\nduration = "10s"\n', overheads)
        (folder / "study.claims.toml").write_text(CLAIMS)
        env = environment(folder / "cache", shared_lab(lab, folder / "shared"), HOME="/root")
        strata("run", "study.toml", "--results", "results", env=env, cwd=folder)
        words = (
            "claims",
            "results",
            "--what-if",
            "alike",
            "--study",
            "study.toml",
            "--budget",
            "9min",
            "--json",
        )

        found = json.loads(strata(*words, env=env, cwd=folder).stdout)

        assert [each["name"] for each in found["flipping"]] == ["devices.two.model = one.toml"]
        untried = [each["name"] for each in found["tried"] if "budget" in each["note"]]
        assert untried == ["kernel = 6.12"]  # compiling it would take more
        verdicts = {each["name"]: each["verdict"] for each in found["tried"] if each["verdict"]}
        assert verdicts.pop("devices.two.model = one.toml") == "reproduced"
        assert set(verdicts.values()) == {"not reproduced"}
        assert {
            "as measured",
            "memory = 1GiB",
            "reads.size = 16MiB",
            "reads.size = 256MiB",
        } <= verdicts.keys()
        before = sorted((folder / "results" / "records").glob("*/attempt-*"))

        assert json.loads(strata(*words, env=env, cwd=folder).stdout) == found
        assert before == sorted((folder / "results" / "records").glob("*/attempt-*"))
