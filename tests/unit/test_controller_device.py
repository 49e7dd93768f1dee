# SPDX-License-Identifier: Apache-2.0
"""The device file of a controller: it names its member, and its capacity follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.devices.device import Device, device_folder, find_device, load_device
from strata.errors import StrataError
from strata.lab.disk import driver_config
from strata.lab.model import ModelledDisk

RAID10 = "controller-bbwc-raid10-4x-wd-re4-500gb"
STRIP = 65_536
MEMBER_BYTES = 500_107_862_016


def changed(folder: Path, *replacements: tuple[str, str]) -> Device:
    """The bundled controller after textual replacements."""
    text = (device_folder() / f"{RAID10}.toml").read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    file = folder / "another-controller.toml"
    file.write_text(text)
    return load_device(file)


def test_the_capacity_follows_from_level_and_members(tmp_path: Path) -> None:
    for level, data_members in (("single", 4), ("raid0", 4), ("raid10", 2), ("raid5", 3), ("raid6", 2)):
        device = changed(tmp_path, ('"raid10"', f'"{level}"'))
        assert device.capacity_bytes == MEMBER_BYTES // STRIP * STRIP * data_members
        assert level in device.parameters["capacity"].source


def test_the_driver_finds_room_for_exactly_that_capacity(tmp_path: Path) -> None:
    for level in ("single", "raid0", "raid10", "raid5", "raid6"):
        text = driver_config(changed(tmp_path, ('"raid10"', f'"{level}"')), name="sda", backing_fd=3)
        sectors = next(int(line.split("=")[1]) for line in text.splitlines() if line.startswith("capacity"))
        ModelledDisk(text)
        with pytest.raises(ValueError, match="more than the members hold"):
            ModelledDisk(
                text.replace(f"capacity_sectors={sectors}\n", f"capacity_sectors={sectors + 8}\n", 1)
            )


def test_a_stated_capacity_must_be_what_the_members_hold(tmp_path: Path) -> None:
    stated = 'capacity = { value = 1000000000000, unit = "B", source = "wrong", estimate = true }'

    with pytest.raises(StrataError, match="the members hold 1000215674880"):
        changed(tmp_path, ("[parameters]", f"[parameters]\n{stated}"))


def test_another_member_is_another_device(tmp_path: Path) -> None:
    other = changed(tmp_path, ('"wd-re4-500gb"', '"wd-re3-500gb"'))

    assert other.capacity_bytes == find_device(RAID10).capacity_bytes
    assert other.identity() != find_device(RAID10).identity()


def test_a_renamed_copy_of_the_member_is_the_same_device(tmp_path: Path) -> None:
    (tmp_path / "copy.toml").write_text((device_folder() / "wd-re4-500gb.toml").read_text())

    copy = changed(tmp_path, ('"wd-re4-500gb"', '"copy.toml"'))

    assert copy.identity() == find_device(RAID10).identity()


def test_a_mistake_is_named_with_its_remedy(tmp_path: Path) -> None:
    for old, new, message in (
        ('value = "wd-re4-500gb"', 'value = "wd-re5"', 'there is no device "wd-re5"'),
        ('value = "wd-re4-500gb"', f'value = "{RAID10}"', "a controller cannot be a member"),
        ('value = "raid10"', 'value = "raid7"', "single, raid0, raid10, raid5, raid6"),
        ('value = "raid10"', "value = 10", "single, raid0, raid10, raid5, raid6"),
        ("members = { value = 4", "members = { value = 3", "even number of members"),
        ("members = { value = 4", "members = { value = 33", "out of range"),
        ("low_water = { value = 50, low = 30, high = 60", "low_water = { value = 90", "above the high one"),
    ):
        with pytest.raises(StrataError) as caught:
            changed(tmp_path, (old, new))
        assert message in str(caught.value)
