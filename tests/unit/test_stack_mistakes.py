# SPDX-License-Identifier: Apache-2.0
"""Stacks that cannot be built are refused by `strata check`, with the cause, the place and the remedy."""

from __future__ import annotations

from pathlib import Path

from strata.plan.catalogue import catalogue
from strata.plan.compile import skipped
from study_texts import mistakes, read, stack_text

PGBENCH = 'workload = "pgbench"\nscale = 1\nclients = 1\nduration = "10s"'
FIO = 'workload = "fio"\npreset = "random-mix-4k"\nsize = "4MiB"'


LAYER = "stacks.stack.layers"
# The layers, how many disks, the place of the mistake, and words of its cause and remedy. The limits of each
# layer are tested with the layer.
MISTAKES = [
    (
        *('{ layer = "ext4" }, { layer = "md", level = 1 }', 1, "[1]"),
        "md takes 2 or more block devices, but stands on a mounted filesystem (ext4)",
        "remove one of the two layers",
    ),
    (
        *('{ layer = "ext4" }', 2, "[0]"),
        "ext4 takes one block device, but stands on 2 block devices (disk0, disk1)",
        "name one disk in `devices`, or use a layer that takes several: btrfs",
    ),
    (
        *('{ layer = "qcow2" }', 1, "[0]"),
        "qcow2 takes a mounted filesystem, but stands on one block device (disk0)",
        "put a layer between them: btrfs, ext2",
    ),
    (
        *('{ layer = "zvol" }', 1, "[0]"),
        "zvol takes a pool, but stands on one block device (disk0)",
        "\n  put a layer between them: zpool",
    ),
    (
        *('{ layer = "lvm" }, { layer = "md", level = 0 }', 2, "[1]"),
        *("md takes 2 or more block devices, but stands on one block device (lvm)", "name more disks"),
    ),
    (
        *('{ layer = "ext4" }, { layer = "tmpfs" }', 1, "[1]"),
        *("tmpfs takes no device, but stands on a mounted filesystem (ext4)", "remove one of the two layers"),
    ),
    ('{ layer = "zpool" }', 1, "", "the stack ends in a pool", "on top that takes a pool: zfs, zvol"),
    ("", 2, "", "the stack ends in 2 block devices", "add a layer that takes several"),
    ('{ layer = "md", level = 5 }', 2, "[0].level", "RAID 5 needs 3 disks", "disks"),
    (
        *('{ layer = "lvm", size = "16GiB" }', 1, "[0].size"),
        *("need 16GiB, and there are 8188MiB", "raise the `capacity` of the devices"),
    ),
    (
        *('{ layer = "md", level = 1, chunks = "64KiB" }', 2, "[0].chunks"),
        *('unknown key "chunks"', 'did you mean "chunk"'),
    ),
    ('{ layer = "md", level = 7 }', 2, "[0].level", "7 is not valid here", "valid here"),
    ('{ layer = "md" }', 2, "[0].level", "missing", "for example level = 10"),
    ('{ layer = "md", level = 0, chunk = 64 }', 2, "[0].chunk", "a size needs a unit", "for example chunk"),
    (
        *('{ layer = "btrfs", mkfs = ["-d", "raid1"] }', 1, "[0].mkfs"),
        *("Strata gives the mkfs option -d itself", 'write data = "raid1" instead'),
    ),
]


def found(folder: Path, layers: str, disks: int) -> dict[str, str]:
    return mistakes(folder, stack_text(layers, disks, FIO, model="null", capacity="8GiB"))


def test_a_layer_by_its_name_elsewhere_is_refused_with_its_name_here(tmp_path: Path) -> None:
    calls = {"LXC": '"incus"', "docker": '"incus" or "nspawn" or "overlay"', "thin": '"lvm-thin"'}
    for name, meant in calls.items():
        said = found(tmp_path, f'{{ layer = "{name}" }}', 1)
        assert list(said) == [f"{LAYER}[0].layer"]
        assert said[f"{LAYER}[0].layer"].endswith(f'there is no layer "{name}"\n  did you mean {meant}?')


def test_no_layer_is_called_as_another_is_named() -> None:
    known = catalogue().layers

    assert not [each for layer in known.values() for each in layer.also_called if each in known]


def test_a_wrong_stack_is_refused_at_its_key_with_the_remedy(tmp_path: Path) -> None:
    for layers, disks, key, cause, remedy in MISTAKES:
        said = found(tmp_path, layers, disks)
        assert list(said) == [LAYER + key]
        assert cause in said[LAYER + key]
        assert remedy in said[LAYER + key]


def test_a_device_is_used_once_in_a_stack(tmp_path: Path) -> None:
    text = stack_text('{ layer = "bcache", cache = "disk0" }', 2, FIO, model="null")
    named = text.replace("[stacks.stack]", '[stacks.stack]\ndevices = ["disk0"]')

    said = mistakes(tmp_path, named)

    assert list(said) == [f"{LAYER}[0].cache"]
    assert '"disk0" is used elsewhere in this stack' in said[f"{LAYER}[0].cache"]
    assert "name another device" in said[f"{LAYER}[0].cache"]
    twice = '{ layer = "zpool", log = ["disk1"], cache = ["disk1"] }, { layer = "zfs" }'
    assert list(found(tmp_path, twice, 2)) == [f"{LAYER}[0].cache"]


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
