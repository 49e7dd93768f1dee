# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from strata.layers.btrfs import Btrfs
from strata.layers.ext4 import Ext4
from strata.layers.xfs import Xfs
from strata.spec.filesystem import Filesystem
from strata.spec.joint import Offer
from strata.spec.layer import LayerContext
from strata.spec.step import Step


def make_and_mount(layer: Filesystem, *disks: str, seed: int = 1) -> tuple[Step, Step]:
    disks = disks or ("disk0",)
    make, mount = layer.build(
        LayerContext(
            name=layer.layer,
            seed=seed,
            lower=tuple(f"${{{disk}}}" for disk in disks),
            offer=Offer("block", (1 << 40,) * len(disks)),
            devices=disks,
        )
    )
    return make, mount


def refused(layer: Filesystem, disks: int = 1, smallest_bytes: int = 1 << 40) -> str:
    return " ".join(
        refusal.cause for refusal in layer.refusals(Offer("block", (smallest_bytes,) * disks), {})
    )


@pytest.mark.parametrize("layer", [Ext4(), Xfs(), Btrfs()])
def test_identities_derive_from_the_seed(layer: Filesystem) -> None:
    first, again, other = (make_and_mount(layer, seed=seed)[0].argv for seed in (1, 1, 2))

    assert first == again
    assert first != other


@pytest.mark.parametrize("layer", [Ext4(), Xfs(), Btrfs()])
def test_making_names_what_it_destroys_and_mounting_can_be_undone(layer: Filesystem) -> None:
    make, mount = make_and_mount(layer)

    assert make.destroys == ("disk0",)
    assert make.argv[-1] == "${disk0}"
    assert mount.undo is not None
    assert mount.undo.argv == ("umount", "${mount}")


def test_extended_options_of_ext4_are_joined_to_those_given_already() -> None:
    make, _ = make_and_mount(Ext4(mkfs=["-E", "stride=16,stripe-width=64", "-m", "0", "-Eroot_owner"]))

    assert make.argv.count("-E") == 1
    extended = make.argv[make.argv.index("-E") + 1]
    assert extended.startswith("hash_seed=")
    assert extended.endswith("stride=16,stripe-width=64,root_owner")
    assert make.argv[-3:-1] == ("-m", "0")


def test_ext4_is_not_initialised_behind_the_workloads_back() -> None:
    _, mount = make_and_mount(Ext4(mount=["noatime"]))

    assert mount.argv[mount.argv.index("-o") + 1] == "noinit_itable,no_prefetch_block_bitmaps,noatime"


def test_btrfs_without_copy_on_write_mounts_with_nodatacow() -> None:
    assert "nodatacow" in make_and_mount(Btrfs(cow=False))[1].argv
    assert "-o" not in make_and_mount(Btrfs())[1].argv


def test_btrfs_names_its_further_disks_to_mount() -> None:
    make, mount = make_and_mount(Btrfs(data="raid1"), "disk0", "disk1", "disk2")

    assert make.argv[-3:] == ("${disk0}", "${disk1}", "${disk2}")
    assert make.destroys == ("disk0", "disk1", "disk2")
    assert "device=${disk1},device=${disk2}" in mount.argv
    assert mount.argv[-2:] == ("${disk0}", "${mount}")


def test_metadata_of_btrfs_are_kept_twice_by_default() -> None:
    assert make_and_mount(Btrfs())[0].argv[-3:-1] == ("-m", "dup")
    make, _ = make_and_mount(Btrfs(), "disk0", "disk1")
    assert make.argv[make.argv.index("-m") + 1] == "raid1"


@pytest.mark.parametrize(("profile", "disks"), [("raid1", 2), ("raid1c3", 3), ("raid6", 3), ("raid1c4", 4)])
def test_a_profile_needs_its_disks(profile: str, disks: int) -> None:
    layer = Btrfs.model_validate({"metadata": profile})

    assert f"needs {disks} disks" in refused(layer, disks - 1)
    assert refused(layer, disks) == ""


@pytest.mark.parametrize(
    "layer",
    [
        Ext4(mkfs=["-U", "random"]),
        Ext4(mkfs=["-Urandom"]),
        Xfs(mkfs=["-K"]),
        Btrfs(mkfs=["-d", "raid0"]),
        Btrfs(mkfs=["--metadata=raid0"]),
        Btrfs(mount=["nodatacow"]),
        Btrfs(mount=["device=/dev/sdz"]),
    ],
)
def test_options_that_the_layer_gives_itself_are_refused(layer: Filesystem) -> None:
    assert "itself" in refused(layer)


@pytest.mark.parametrize("option", ["noatime,commit=5", "-o noatime", "-o", ""])
def test_mount_options_are_written_singly(option: str) -> None:
    with pytest.raises(ValueError, match="not one mount option"):
        Ext4(mount=[option])


def test_a_dollar_sign_in_an_option_stays_one() -> None:
    make, mount = make_and_mount(Ext4(mkfs=["-L", "a$b"], mount=["data=${x}"]))

    assert "a$$b" in make.argv
    assert "noinit_itable,no_prefetch_block_bitmaps,data=$${x}" in mount.argv


@pytest.mark.parametrize(
    ("data", "disks_gib", "usable_gib"),
    [
        ("single", (4,), 4),
        ("single", (4, 8), 12),
        ("dup", (4,), 2),
        ("raid0", (4, 4), 8),
        ("raid1", (4, 4), 4),
        # What the large disk has beyond the small ones has no second place.
        ("raid1", (4, 10), 4),
        ("raid1", (4, 4, 10), 8),
        ("raid1", (4, 4, 8), 8),
        ("raid10", (4, 4, 4, 4), 8),
        ("raid1c3", (4, 4, 4), 4),
        ("raid1c3", (1, 3, 6, 6), 4),
        ("raid1c4", (4, 4, 4, 4), 4),
        ("raid5", (4, 4, 4), 8),
        ("raid5", (2, 4, 6), 6),
        ("raid6", (4, 4, 4, 4), 8),
    ],
)
def test_a_profile_leaves_what_its_copies_do_not_take(
    data: str, disks_gib: tuple[int, ...], usable_gib: int
) -> None:
    layer = Btrfs.model_validate({"data": data})

    assert layer.usable_bytes([gib << 30 for gib in disks_gib]) == usable_gib << 30
