# SPDX-License-Identifier: Apache-2.0
"""What the loss of a disk takes, what a stack joins, and what it leaves unused, as `strata check` says."""

from __future__ import annotations

from pathlib import Path

from strata.model.study import Study
from strata.rules.redundancy import losses_survived, stack_warnings
from study_texts import HEAD, SSD, disk, fio, read

STUDY = f"{HEAD}{disk('disk0')}{disk('disk1')}{disk('ssd', SSD)}[stacks.home]\n"
STUDY += "{devices}\nlayers = [{layers}]\n" + fio("load")
HDDS = 'devices = ["disk0", "disk1"]'
MIRROR = '{ layer = "md", level = 1 }'
PART = '{ layer = "partition", disk = "ssd", sizes = { cache = "8GiB" } }'
EXT4 = '{ layer = "ext4" }'


def study(tmp_path: Path, layers: str, devices: str = HDDS) -> Study:
    return read(tmp_path, STUDY.format(devices=devices, layers=layers))


def codes(found: Study) -> list[str]:
    return [each.code for each in stack_warnings(found)]


def test_the_one_ssd_of_a_mirror_is_a_single_point_of_failure(tmp_path: Path) -> None:
    for layers, role in (
        (
            f'{PART}, {MIRROR}, {{ layer = "dm-writecache", cache = "ssd.cache" }}, {EXT4}',
            "dm-writecache's cache",
        ),
        (
            f'{MIRROR}, {{ layer = "dm-cache", cache = "ssd", mode = "writeback" }}, {EXT4}',
            "dm-cache's cache",
        ),
        (f'{MIRROR}, {{ layer = "bcache", cache = "ssd", mode = "writeback" }}, {EXT4}', "bcache's cache"),
        ('{ layer = "zpool", vdev = "mirror", special = ["ssd"] }, { layer = "zfs" }', "zpool's special"),
    ):
        found = study(tmp_path, layers)
        [warning] = stack_warnings(found)
        assert warning.code == "single-point-of-failure"
        assert warning.text == f"home: ssd is a single point of failure: it alone is {role}"
        assert losses_survived(found.stacks["home"], found.capacities_bytes) == 0


def test_a_cache_or_log_whose_content_lies_elsewhere_too_is_none(tmp_path: Path) -> None:
    for layers in (
        f'{MIRROR}, {{ layer = "bcache", cache = "ssd" }}, {EXT4}',
        '{ layer = "zpool", vdev = "mirror", log = ["ssd"] }, { layer = "zfs" }',
    ):
        found = study(tmp_path, layers)
        assert codes(found) == []
        assert losses_survived(found.stacks["home"], found.capacities_bytes) == 1


def test_without_redundancy_every_disk_is_one_and_no_warning_repeats_it(tmp_path: Path) -> None:
    found = study(tmp_path, f'{{ layer = "md", level = 0 }}, {EXT4}')

    assert codes(found) == []
    assert losses_survived(found.stacks["home"], found.capacities_bytes) == 0


def test_a_mirror_of_all_disks_by_default_joins_kinds_and_wastes_the_larger(tmp_path: Path) -> None:
    found = study(tmp_path, f"{MIRROR}, {EXT4}", devices="")

    mixed, unused = stack_warnings(found)
    assert mixed.code == "mixed-members"
    assert "rotating: disk0, disk1; flash: ssd" in mixed.text
    assert unused.code == "unused-capacity"
    assert "of ssd unused, 25 % of the disks' capacity" in unused.text


def test_layers_that_use_unequal_disks_in_full_leave_nothing_unused(tmp_path: Path) -> None:
    for layers in (
        '{ layer = "btrfs", data = "raid1" }',
        f'{{ layer = "lvm" }}, {EXT4}',
        f'{{ layer = "md", level = 0 }}, {EXT4}',
    ):
        assert codes(study(tmp_path, layers, devices="")) == ["mixed-members"]
