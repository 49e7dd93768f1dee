# SPDX-License-Identifier: Apache-2.0
"""``[survival]`` in the lab: lost disks, a rebuild under the load, and wrong data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab_factory import surveyed, valid_record

from strata.lab import Lab
from strata.model.survival import REBUILT
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.results.capabilities import Capability
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S
from study_texts import SSD, disk

HEAD = """\
[study]
name = "losses"
question = "Which stack goes on without its disks?"
seeds = [1]
phases = "fixed"
"""
DISKS = "".join(disk(f"disk{index}", SSD, "256MiB") for index in range(3))
# So little that MD rebuilds at full speed beside it: other requests slow it down to 1 MB/s.
MAIL = """\
[workloads.mail]
workload = "load"
personality = "varmail"
files = 100
rate = 2
duration = "20s"
"""


def stack(name: str, layers: str, disks: int = 2) -> str:
    devices = ", ".join(f'"disk{number}"' for number in range(disks))
    return f"[stacks.{name}]\ndevices = [{devices}]\nlayers = [{layers}]\n"


TWO = stack("two", '{ layer = "md", level = 1 }, { layer = "ext4" }')
THREE = stack("three", '{ layer = "md", level = 1 }, { layer = "ext4" }', 3)
BTRFS = stack("btrfs", '{ layer = "btrfs", data = "raid1" }')
SPARE = stack("spare", '{ layer = "md", level = 1, spares = ["disk2"] }, { layer = "ext4" }')


def probed(lab: Lab, folder: Path, stacks: str, probe: str) -> Mapping[str, Capability]:
    file = folder / "study.toml"
    file.write_text(f"{HEAD}{DISKS}{stacks}{MAIL}")
    study = load_study(file, catalogue())
    return {cell.stack: cell for cell in surveyed(lab, study, folder, [probe]).cells}


def test_a_second_lost_disk_takes_the_content_of_two_copies_and_not_of_three(
    lab: Lab, tmp_path: Path
) -> None:
    found = probed(lab, tmp_path, TWO + THREE, "second-disk-loss")

    assert {name: cell.verdict for name, cell in found.items()} == {"two": "no", "three": "yes"}, found
    assert "cannot be read" in found["two"].note


def test_wrong_data_of_a_disk_are_returned_where_no_checksum_says_so(lab: Lab, tmp_path: Path) -> None:
    found = probed(lab, tmp_path, TWO + BTRFS, "corruption-detected")

    assert {name: cell.returned_as_data for name, cell in found.items()} == {"two": True, "btrfs": False}


def test_a_rebuild_under_the_load_ends_in_its_window_and_is_timed(lab: Lab, tmp_path: Path) -> None:
    lost = 'before_measure = ["lose-disk", "rebuild"]\n'
    record = valid_record(f"{HEAD}{DISKS}{SPARE}{MAIL}{lost}", tmp_path, LabRunner(lab), jobs=1)
    took_ns = next((metric.value for metric in record.metrics if metric.name == REBUILT), None)

    # 128 MiB and more at the speed of the interface at the most, and the window at the least.
    assert took_ns is not None
    assert 0.2 * NS_PER_S < took_ns < 20 * NS_PER_S
