# SPDX-License-Identifier: Apache-2.0
"""Faults that are added to a disk while it runs: from that instant on, refused where they make no sense."""

from __future__ import annotations

import random

import content_model as cm
from content_model import SECTOR, FullDisk, Io, Store
from strata.lab.model import FLUSH, READ, WRITE

SECTORS = 1 << 21  # a GiB
TEXT = f"name=sda\ncapacity_sectors={SECTORS}\nbacking_fd=0\nmodel=null\n"
CONTENT = random.Random(1).randbytes(8 * SECTOR)


def disk_with_content(text: str = TEXT) -> FullDisk:
    disk = FullDisk(text, Store(64 << 20), options=0)
    for sector in (0, 8, 1 << 20):
        disk.submit(0, Io(WRITE, sector, 8, 0, CONTENT))
    return disk


def read(disk: FullDisk, now_ns: int, sector: int) -> tuple[int, bytes]:
    return disk.submit(now_ns, Io(READ, sector, 8))


def test_a_disk_that_is_gone_comes_back_with_what_it_held() -> None:
    disk = disk_with_content()

    assert disk.fault(100, "gone,50") is None

    assert read(disk, 149, 0)[1] == CONTENT
    assert read(disk, 150, 0)[0] == cm.GONE
    assert disk.submit(151, Io(WRITE, 0, 8, 0, bytes(8 * SECTOR)))[0] == cm.GONE
    assert disk.submit(152, Io(FLUSH))[0] == cm.GONE
    assert disk.fault(200, "back") is None
    assert read(disk, 200, 0)[1] == CONTENT
    assert disk.submit(201, Io(FLUSH))[0] >= 0


def test_a_loss_that_is_still_to_come_outlives_a_return() -> None:
    disk = disk_with_content(TEXT + "fault=gone,1000\n")
    assert disk.fault(10, "gone,0") is None
    assert disk.fault(20, "back") is None

    assert read(disk, 999, 0)[1] == CONTENT
    assert read(disk, 1000, 0)[0] == cm.GONE


def test_a_great_range_is_damaged_at_once_and_healed_by_writing() -> None:
    disk = disk_with_content()

    assert disk.fault(5, f"corrupt,8,{SECTORS - 8},0") is None

    assert read(disk, 5, 0)[1] == CONTENT
    for sector in (8, 1 << 20):
        spoilt = read(disk, 6, sector)[1]
        assert all(one != other for one, other in zip(spoilt, CONTENT, strict=True))
    disk.submit(7, Io(WRITE, 1 << 20, 8, 0, CONTENT))
    assert read(disk, 8, 1 << 20)[1] == CONTENT
    assert read(disk, 8, 8)[1] != CONTENT


def test_damage_on_damage_is_no_repair() -> None:
    disk = disk_with_content()
    disk.fault(1, "corrupt,0,8,0")
    once = read(disk, 1, 0)[1]

    disk.fault(2, "corrupt,0,8,0")

    assert read(disk, 2, 0)[1] not in (once, CONTENT)


def test_what_makes_no_sense_is_refused_and_changes_nothing() -> None:
    for fault, wrong in (
        ("burns", "unknown kind of fault"),
        ("gone", "another number of arguments than this kind of fault has"),
        ("gone,1,2", "another number of arguments than this kind of fault has"),
        ("gone,soon", "what follows the kind is not up to three numbers, separated by commas"),
        ("corrupt,0,0,0", "no sectors, or not between 100 and 1000000 percent"),
        ("slow,0,0,50", "no sectors, or not between 100 and 1000000 percent"),
        (f"unreadable,{SECTORS},1", "the disk has no such sectors"),
        (f"unreadable,1,{SECTORS}", "the disk has no such sectors"),
        (f"corrupt,{(1 << 63) - 1},{(1 << 63) - 1},0", "the disk has no such sectors"),
        ("back", "the disk is not gone"),
        ("", "unknown kind of fault"),
    ):
        disk = disk_with_content()
        assert disk.fault(1, fault) == wrong
        assert read(disk, 2, 0)[1] == CONTENT


def test_the_number_of_a_disks_faults_is_limited() -> None:
    disk = disk_with_content()
    for index in range(64):
        assert disk.fault(1, f"unreadable,{index * 8 + 4096},8") is None

    assert disk.fault(1, "gone,0") == "the disk has as many faults as it can have"
    assert read(disk, 2, 0)[1] == CONTENT
