# SPDX-License-Identifier: Apache-2.0
"""The power of degraded arrays is cut, and the lost disk stays lost."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from strata.execution.power import cut_and_recover
from strata.lab import Lab
from strata.lab.disk_image import PowerCut
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.runners.lab import LabRunner
from strata.units import NS_PER_MS
from study_texts import written

STUDY: Final = """
[study]
name = "write-hole"
question = "Does a degraded array survive a power cut?"
seeds = [1]
"""
DISK: Final = '[devices.{}]\nmodel = "generic-desktop-hdd"\ncapacity = "2GiB"\n'
WORKLOAD: Final = """
[workloads.degraded]
workload = "load"
personality = "varmail"
files = 100
threads = 4
duration = "4s"
before_measure = ["lose-disk"]
"""
# With the verdicts that Linux gives: LVM starts an array that MD refuses to start.
STACKS: Final = {
    "raidz": ('{ layer = "zpool", vdev = "raidz1", arc_max = "128MiB" }, { layer = "zfs" }', {"sound"}),
    "btrfs": ('{ layer = "btrfs", data = "raid1", metadata = "raid1" }', {"sound"}),
    "md": ('{ layer = "md", level = 5 }, { layer = "ext4" }', {"not mountable"}),
    "lvm": (
        '{ layer = "lvm", type = "raid5", initial_sync = "assume-clean" }, { layer = "ext4" }',
        {"sound", "not mountable", "damaged", "content damaged"},
    ),
}


@pytest.mark.parametrize("name", STACKS)
def test_a_degraded_array_loses_its_power_and_comes_up_without_the_lost_disk(
    lab: Lab, tmp_path: Path, name: str
) -> None:
    layers, verdicts = STACKS[name]
    text = STUDY + "".join(map(DISK.format, ("d0", "d1", "d2"))) + f"[stacks.{name}]\nlayers = [{layers}]\n"
    study = load_study(written(tmp_path / "study.toml", text + WORKLOAD), catalogue())

    cut = PowerCut(seed=3)
    found = cut_and_recover(
        *(LabRunner(lab), study, name, "degraded"), cut=cut, in_window_ns=2700 * NS_PER_MS, folder=tmp_path
    )

    assert found.verdict in verdicts, found.said
    assert found.kept is not None
    assert found.kept.acknowledged > 50
    if found.verdict == "sound":
        assert found.kept.lost == 0
    if name == "md":
        assert "Not enough devices to start the array while not clean" in "\n".join(found.said)
    events = (tmp_path / "recovery" / "events.jsonl").read_text()
    assert '"step":"lose-disk"' in events.replace(" ", "")
