# SPDX-License-Identifier: Apache-2.0
"""Probes, power cuts and snapshots of stacks with a virtual machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lab_factory import records, run_text, surveyed

from examples import SHARE
from present import present
from strata.experiment.strategies.power_cuts import drawn_cuts
from strata.lab import Lab
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.runners.lab import LabRunner
from study_texts import HEAD, disk, written

TEXT = HEAD + 'memory = "1GiB"\n' + disk("disk0", capacity="4GiB") + disk("disk1", capacity="4GiB")
TEXT += """
[stacks.volume]
devices = ["disk0"]
layers = [{ layer = "lvm-thin" }, { layer = "vm" }, { layer = "ext4" }]
[stacks.inside]
devices = ["disk0"]
layers = [{ layer = "vm", memory = "320MiB", cache = "writeback" }, { layer = "btrfs" }]
[stacks.mirror]
layers = [{ layer = "md", level = 1, initial_sync = "assume-clean" }, { layer = "vm" }, { layer = "xfs" }]

[workloads.database]
workload = "pgbench"
scale = 1
clients = 2
duration = "3s"

[survival]
power_cuts = 1
workloads = ["database"]
"""
SNAPSHOTS = """
[workloads.snapshots]
workload = "sysbench-fileio"
preset = "random-mix-4k-fsync"
size = "4MiB"
files = 4
duration = "3s"
before_measure = ["snapshot"]
snapshot_every = "1s"
"""
FOUND = {
    ("volume", "restore-latest"): "yes",
    ("volume", "discard"): "yes",
    ("inside", "corruption-detected"): "yes",
    ("mirror", "disk-loss"): "yes",
    ("volume", "grow"): "no",
}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    if SHARE < 1:  # in a machine the content takes longer than all else
        monkeypatch.setattr("strata.capabilities.probe_plan.CONTENT_BYTES", 8 << 20)
    return load_study(written(tmp_path / "study.toml", TEXT), catalogue())


@pytest.mark.parametrize(
    ("stack", "probe"),
    # The others differ less from the same probes without a machine: test_capabilities_in_lab.py.
    [
        pytest.param(*each, marks=pytest.mark.slow) if each[1] in ("discard", "disk-loss", "grow") else each
        for each in FOUND
    ],
)
def test_probes_find_what_a_stack_with_a_machine_can_do(
    lab: Lab, tmp_path: Path, study: Study, stack: str, probe: str
) -> None:
    [cell] = surveyed(lab, study, tmp_path, [probe], [stack]).cells

    assert cell.verdict == FOUND[stack, probe], cell.note


def test_what_a_database_in_a_machine_acknowledged_survives_a_power_cut(lab: Lab, tmp_path: Path) -> None:
    text = TEXT if SHARE == 1 else re.sub(r"\[stacks\.(volume|mirror)\]\n([^\[\n].*\n)+", "", TEXT)
    study = load_study(written(tmp_path / "study.toml", text), catalogue())
    found = surveyed(lab, study, tmp_path).cuts

    assert [each.stack for each in drawn_cuts(study, present(study.survival))] == [*study.stacks]
    for each in found:
        assert (each.verdict, each.lost) == ("sound", 0), each.note
        assert (each.acknowledged or 0) > 10


def test_snapshots_are_taken_below_a_machine_and_in_it(lab: Lab, tmp_path: Path) -> None:
    run_text(TEXT.partition("[workloads.database]")[0] + SNAPSHOTS, tmp_path, LabRunner(lab), jobs=1)

    found = records(tmp_path / "results")

    assert sorted(found) == ["inside.snapshots.s1", "volume.snapshots.s1"]
    for record in found.values():
        assert record.validity.valid, record.validity
        assert next(each.value for each in record.metrics if each.name == "snapshots_taken") == 2
