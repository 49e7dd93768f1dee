# SPDX-License-Identifier: Apache-2.0
"""The design of the experiment on the real lab: order, ageing, further seeds, the A/A test."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from lab_factory import head, mix, run_text, stacks, strata, valid_record

from record_hashes import hashes
from strata.lab import Lab
from strata.runners.lab import LabRunner

AGED = '\nage = { fill = "40%", overwrites = 2 }'
WRITE = '\n[workloads.write]\nworkload = "dd"\nsize = "32MiB"\ncontent = "random"\nfragmentation = true\n'


def keyed(text: str, keys: str) -> str:
    return text.replace('question = "Which?"', f'question = "Which?"{keys}', 1)


@pytest.mark.slow  # test_identical.py runs the trials of a study one by one in another order
def test_a_trial_does_not_depend_on_the_order_in_which_a_study_is_run(lab: Lab, tmp_path: Path) -> None:
    text = head("order", [1, 2], "1GiB") + stacks("ext4", "xfs") + mix()
    found = []
    for keys in ('\norder = "abba"', '\norder = "file"'):
        folder = tmp_path / keys[-5:-1]
        run_text(keyed(text, keys), folder, LabRunner(lab), jobs=1)
        found.append(hashes(folder / "results"))

    assert len(found[0]) == 4
    assert found[0] == found[1]


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


@pytest.mark.slow  # tests/unit/test_precision_rounds.py has the same with trials that take no time
def test_a_study_goes_on_until_it_is_precise(lab: Lab, tmp_path: Path) -> None:
    text = head("precise", [1], "1GiB") + stacks("ext4", "xfs") + mix()
    file = tmp_path / "study.toml"
    file.write_text(keyed(text, '\nprecision = "50%"'))

    done = strata(
        "run", str(file), "--results", str(tmp_path / "results"), "--json", env=os.environ, cwd=tmp_path
    )

    summary = json.loads(done.stdout)
    assert summary["added_seeds"] == {"mix": [2, 3, 4, 5, 6]}
    assert summary["not_converged"] == {}
    assert len(summary["valid"]) == 12


@pytest.mark.slow  # tests/unit/test_selftest_cli.py has the same with trials that take no time
def test_the_self_test_measures_one_stack_once(lab: Lab, tmp_path: Path) -> None:
    words = (
        "lab",
        "selftest",
        "--seeds",
        "6",
        "--group",
        "3",
        "--json",
        "--results",
        str(tmp_path / "selftest"),
    )

    first = strata(*words, env=os.environ, cwd=tmp_path, check=False)
    again = strata(*words, env=os.environ, cwd=tmp_path, check=False)

    (found,) = json.loads(first.stdout)["tests"]
    assert (found["values"], found["found"]["n"], found["found"]["by_verdict"]["total"]) == (6, 3, 2000)
    assert "6 measured" in first.stderr
    assert "6 kept of earlier runs" in again.stderr
    assert again.stdout == first.stdout
