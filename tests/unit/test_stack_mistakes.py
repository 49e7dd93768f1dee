# SPDX-License-Identifier: Apache-2.0
"""Stacks that cannot be built are refused by `strata check`, with the cause, the place and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.plan.compile import skipped
from study_texts import mistakes, read, stack_text

PGBENCH = 'workload = "pgbench"\nscale = 1\nclients = 1\nduration = "10s"'
FIO = 'workload = "fio"\npreset = "random-mix-4k"\nsize = "4MiB"'


@dataclass(frozen=True)
class Wrong:
    """Layers on this many disks, and the expected mistake: its place, cause and remedy."""

    layers: str
    disks: int
    key: str
    cause: str
    remedy: str
    capacity: str = "8GiB"


LAYER = "stacks.stack.layers"
JOINTS = {
    "a filesystem under RAID": Wrong(
        '{ layer = "ext4" }, { layer = "md", level = 1 }',
        1,
        f"{LAYER}[1]",
        "md takes 2 or more block devices, but stands on a mounted filesystem (ext4)",
        "put a layer between them that joins them",
    ),
    "several disks under ext4": Wrong(
        '{ layer = "ext4" }',
        2,
        f"{LAYER}[0]",
        "ext4 takes one block device, but stands on 2 block devices (disk0, disk1)",
        "name one disk in `devices`, or use a layer that takes several: btrfs",
    ),
    "an image on disks": Wrong(
        '{ layer = "qcow2" }',
        1,
        f"{LAYER}[0]",
        "qcow2 takes a mounted filesystem, but stands on one block device (disk0)",
        "put a layer between them",
    ),
    "a filesystem on a filesystem": Wrong(
        '{ layer = "btrfs" }, { layer = "xfs" }',
        1,
        f"{LAYER}[1]",
        "xfs takes one block device, but stands on a mounted filesystem (btrfs)",
        "remove one of the two layers",
    ),
    "a volume without a pool": Wrong(
        '{ layer = "zvol" }',
        1,
        f"{LAYER}[0]",
        "zvol takes a pool, but stands on one block device (disk0)",
        "put a layer between them",
    ),
    "RAID of one volume": Wrong(
        '{ layer = "lvm" }, { layer = "md", level = 0 }',
        2,
        f"{LAYER}[1]",
        "md takes 2 or more block devices, but stands on one block device (lvm)",
        "name more disks",
    ),
    "memory on a disk": Wrong(
        '{ layer = "ext4" }, { layer = "tmpfs" }',
        1,
        f"{LAYER}[1]",
        "tmpfs takes no device, but stands on a mounted filesystem (ext4)",
        "remove one of the two layers",
    ),
    "a pool on top": Wrong(
        '{ layer = "zpool" }',
        1,
        LAYER,
        "the stack ends in a pool",
        "add a layer on top that takes a pool: zfs, zvol",
    ),
    "several bare disks on top": Wrong(
        "", 2, LAYER, "the stack ends in 2 block devices", "add a layer that takes several"
    ),
}
TOO_FEW = {
    "RAID 1": ('{ layer = "md", level = 1 }', 1, f"{LAYER}[0]", "2 or more block devices"),
    "RAID 5": ('{ layer = "md", level = 5 }', 2, f"{LAYER}[0].level", "RAID 5 needs 3 disks"),
    "RAID 6": ('{ layer = "md", level = 6 }', 3, f"{LAYER}[0].level", "RAID 6 needs 4 disks"),
    "RAID 10 with 3 copies": (
        '{ layer = "md", level = 10, copies = 3 }',
        2,
        f"{LAYER}[0].level",
        "RAID 10 with 3 copies needs 3 disks",
    ),
    "LVM striped": ('{ layer = "lvm", type = "striped" }', 1, f"{LAYER}[0].type", "needs 2 devices"),
    "LVM raid10": ('{ layer = "lvm", type = "raid10" }', 3, f"{LAYER}[0].type", "needs 4 devices"),
    "btrfs raid1": ('{ layer = "btrfs", data = "raid1" }', 1, f"{LAYER}[0].data", "needs 2 disks"),
    "btrfs metadata": (
        '{ layer = "btrfs", metadata = "raid1c3" }',
        2,
        f"{LAYER}[0].metadata",
        "needs 3 disks",
    ),
    "ZFS mirror": (
        '{ layer = "zpool", vdev = "mirror" }, { layer = "zfs" }',
        1,
        f"{LAYER}[0].vdev",
        "needs 2 disks",
    ),
    "ZFS raidz2": (
        '{ layer = "zpool", vdev = "raidz2" }, { layer = "zfs" }',
        2,
        f"{LAYER}[0].vdev",
        "needs 3 disks",
    ),
}
SIZES = {
    "a small XFS": ('{ layer = "xfs" }', "64MiB", f"{LAYER}[0]", "xfs needs devices of at least 300MiB"),
    "a volume larger than its disk": (
        '{ layer = "lvm", size = "16GiB" }',
        "8GiB",
        f"{LAYER}[0].size",
        "need 16GiB, and there are 8188MiB",
    ),
    "snapshots larger than the group": (
        '{ layer = "lvm", snapshot_size = "8GiB" }',
        "8GiB",
        f"{LAYER}[0].snapshot_size",
        "the volume and its snapshots need 8196MiB",
    ),
    "a ZFS volume larger than its pool": (
        '{ layer = "zpool" }, { layer = "zvol", size = "16GiB" }',
        "8GiB",
        f"{LAYER}[1].size",
        "does not fit into the pool",
    ),
    "an image larger than its filesystem": (
        '{ layer = "ext4" }, { layer = "raw", size = "16GiB", preallocation = "falloc" }',
        "8GiB",
        f"{LAYER}[1].size",
        "does not fit on a filesystem",
    ),
    "a disk that the header of LUKS fills": (
        '{ layer = "crypt" }',
        "16MiB",
        f"{LAYER}[0]",
        "the header of LUKS2 alone takes 16MiB",
    ),
    "a small XFS on stripes": (
        '{ layer = "lvm", type = "striped" }, { layer = "xfs" }',
        "256MiB",
        f"{LAYER}[1].align",
        "xfs aligned to stripes needs 520MiB at least",
    ),
    "half an extent": ('{ layer = "lvm", size = "6MiB" }', "8GiB", f"{LAYER}[0].size", "not a multiple"),
}
KEYS = {
    "an unknown layer": ('{ layer = "ext5" }', f"{LAYER}[0].layer", 'no layer "ext5"', "did you mean"),
    "an unknown key": (
        '{ layer = "md", level = 1, chunks = "64KiB" }',
        f"{LAYER}[0].chunks",
        'unknown key "chunks"',
        'did you mean "chunk"',
    ),
    "an unknown value": (
        '{ layer = "md", level = 7 }',
        f"{LAYER}[0].level",
        "7 is not valid here",
        "valid here",
    ),
    "a key that is missing": ('{ layer = "md" }', f"{LAYER}[0].level", "missing", "for example level = 10"),
    "a size without a unit": (
        '{ layer = "md", level = 0, chunk = 64 }',
        f"{LAYER}[0].chunk",
        "a size needs a unit",
        "for example chunk",
    ),
    "a key of another level": (
        '{ layer = "md", level = 1, layout = "far" }',
        f"{LAYER}[0].layout",
        "RAID 1 has no layout",
        "leave it out",
    ),
    "an option that Strata gives": (
        '{ layer = "btrfs", mkfs = ["-d", "raid1"] }',
        f"{LAYER}[0].mkfs",
        "Strata gives the mkfs option -d itself",
        'write data = "raid1" instead',
    ),
    "a device that is not there": (
        '{ layer = "bcache", cache = "ssd" }',
        f"{LAYER}[0].cache",
        'there is no device "ssd"',
        "valid here",
    ),
}


def found(folder: Path, layers: str, disks: int, capacity: str = "8GiB") -> dict[str, str]:
    return mistakes(folder, stack_text(layers, disks, FIO, model="null", capacity=capacity))


@pytest.mark.parametrize("name", JOINTS)
def test_layers_that_do_not_join_are_named_with_what_lies_below(name: str, tmp_path: Path) -> None:
    wrong = JOINTS[name]

    said = found(tmp_path, wrong.layers, wrong.disks)

    assert list(said) == [wrong.key]
    assert wrong.cause in said[wrong.key]
    assert wrong.remedy in said[wrong.key]


@pytest.mark.parametrize("name", TOO_FEW)
def test_too_few_disks_for_a_level_are_counted(name: str, tmp_path: Path) -> None:
    layers, disks, key, cause = TOO_FEW[name]

    said = found(tmp_path, layers, disks)

    assert list(said) == [key]
    assert cause in said[key]
    assert "disks" in said[key].splitlines()[-1] or "devices" in said[key].splitlines()[-1]


@pytest.mark.parametrize("name", SIZES)
def test_what_does_not_fit_is_said_with_the_sizes(name: str, tmp_path: Path) -> None:
    layers, capacity, key, cause = SIZES[name]

    said = found(tmp_path, layers, 2 if "striped" in layers else 1, capacity)

    assert list(said) == [key]
    assert cause in said[key]
    assert len(said[key].splitlines()) > 1, "there is a remedy"


@pytest.mark.parametrize("name", KEYS)
def test_a_wrong_key_is_named_with_the_right_one(name: str, tmp_path: Path) -> None:
    layers, key, cause, remedy = KEYS[name]

    said = found(tmp_path, layers, 2 if "md" in layers else 1)

    assert list(said) == [key]
    assert cause in said[key]
    assert remedy in said[key]


def test_a_device_is_used_once_in_a_stack(tmp_path: Path) -> None:
    text = stack_text('{ layer = "bcache", cache = "disk0" }', 2, FIO, model="null")
    named = text.replace("[stacks.stack]", '[stacks.stack]\ndevices = ["disk0"]')

    said = mistakes(tmp_path, named)

    assert list(said) == [f"{LAYER}[0].cache"]
    assert '"disk0" is used elsewhere in this stack' in said[f"{LAYER}[0].cache"]
    assert "name another device" in said[f"{LAYER}[0].cache"]


def test_a_device_is_named_once_by_the_layers(tmp_path: Path) -> None:
    layers = '{ layer = "zpool", log = ["disk1"], cache = ["disk1"] }, { layer = "zfs" }'

    assert list(found(tmp_path, layers, 2)) == [f"{LAYER}[0].cache"]


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    layers = '{ layer = "md", level = 1, layout = "far", chunk = "64KiB" }, { layer = "ext4" }'

    assert list(found(tmp_path, layers, 2)) == [f"{LAYER}[0].layout", f"{LAYER}[0].chunk"]


def test_a_workload_that_needs_a_filesystem_is_skipped_on_a_block_device(tmp_path: Path) -> None:
    study = read(tmp_path, stack_text('{ layer = "crypt" }', 1, PGBENCH, model="null", capacity="8GiB"))

    assert skipped(study) == {
        ("stack", "load"): "pgbench needs a mounted filesystem, and the stack ends in a block device"
    }


def test_what_no_kernel_has_any_longer_is_skipped_with_the_reason(tmp_path: Path) -> None:
    study = read(tmp_path, stack_text('{ layer = "xfs", barriers = false }', 1, FIO, model="null"))

    (reason,) = skipped(study).values()
    assert "removed in Linux 4.19" in reason
