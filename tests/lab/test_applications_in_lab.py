# SPDX-License-Identifier: Apache-2.0
"""The bundled applications in the lab, cut short, on three filesystems, twice."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from lab_factory import records, run_text

from strata.lab import Lab
from strata.results.record import record_sha256
from strata.runners.lab import LabRunner
from strata.workloads.command.command import applications
from study_texts import toml

pytestmark = pytest.mark.slow

STUDY: Final = (Path(__file__).parents[2] / "studies/applications.toml").read_text()
LOADS: Final[dict[str, dict[str, Any]]] = tomllib.loads(STUDY)["workloads"]
_TREE: Final = {"members": ["linux-*/mm"]}
SHORT: Final[dict[str, dict[str, Any]]] = {
    "etcd": {"variables": {"puts": 100}},
    "git": _TREE,
    "mail-queue": {"variables": {"messages": 200}},
    "redis": {"variables": {"requests": 1000}},
    "restic": _TREE,
    "rocksdb": {"variables": {"keys": 20000, "writes": 100, "reads": 2000}},
    "rsync": _TREE,
    "sqlite": {"variables": {"transactions": 200, "rows": 2000}},
}


def test_the_study_runs_every_application() -> None:
    assert {each["preset"] for each in LOADS.values()} == set(applications()) == set(SHORT)


@pytest.mark.parametrize("name", LOADS)
def test_an_application_is_measured_on_three_stacks_and_equal_on_a_second_run(
    name: str, lab: Lab, tmp_path: Path
) -> None:
    load = LOADS[name]
    short = dict(SHORT[load["preset"]])
    if "variables" in load:
        short["variables"] = {**short["variables"], **load["variables"]}
    keys = "".join(f"{key} = {toml(value)}\n" for key, value in {**load, **short}.items())
    text = f"{STUDY.partition('[workloads')[0]}[workloads.{name}]\n{keys}".replace("[1, 2, 3]", "[1]")

    found = []
    for run in ("first", "again"):
        run_text(text, tmp_path / run, LabRunner(lab), jobs=1)
        found.append(records(tmp_path / run / "results"))

    first, again = found
    assert len(first) == 3
    for trial, record in first.items():
        assert record.validity.valid, f"{trial}: {record.validity.reasons}"
        assert record_sha256(again[trial]) == record_sha256(record), trial
