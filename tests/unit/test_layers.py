# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from strata.layers.btrfs import Btrfs
from strata.layers.ext import Ext4
from strata.layers.f2fs import F2fs
from strata.layers.filesystem import Filesystem
from strata.layers.tmpfs import Tmpfs
from strata.layers.xfs import Xfs
from strata.model.layer import Geometry, Layer, LayerContext, Provided
from strata.model.step import Step

RAID5 = Geometry(chunk_bytes=64 << 10, data_chunks=3)


def placed(
    layer: Layer, *disks: str, seed: int = 1, geometry: Geometry | None = None, bytes_each: int = 1 << 40
) -> LayerContext:
    return LayerContext(
        name=layer.layer,
        seed=seed,
        lower=tuple(f"${{{disk}}}" for disk in disks),
        provided=Provided("block", (bytes_each,) * len(disks), geometry),
        devices=disks,
    )


def make_and_mount(layer: Filesystem, *disks: str, seed: int = 1) -> tuple[Step, Step]:
    disks = disks or ("disk0",)
    make, mount, *_ = layer.build(placed(layer, *disks, seed=seed))
    return make, mount


def refused(layer: Filesystem, disks: int = 1, smallest_bytes: int = 1 << 40) -> str:
    return " ".join(
        diagnostic.cause for diagnostic in layer.diagnostics(Provided("block", (smallest_bytes,) * disks), {})
    )


def test_extended_options_of_ext4_are_joined_to_given_ones() -> None:
    make, _ = make_and_mount(Ext4(mkfs=["-E", "stride=16,stripe-width=64", "-m", "0", "-Ediscard"]))

    assert make.argv.count("-E") == 1
    extended = make.argv[make.argv.index("-E") + 1]
    assert extended.startswith("hash_seed=")
    assert extended.endswith("stride=16,stripe-width=64,discard")
    assert make.argv[-3:-1] == ("-m", "0")


def test_what_btrfs_would_not_compress_or_spread_is_refused() -> None:
    for layer, cause in (
        (Btrfs(compression="lzo", cow=False), "compresses nothing"),
        (Btrfs(compression="lzo", cow="attribute"), "compresses nothing"),
        (Btrfs(compression="zlib", compression_level=10), "no level 10"),
        (Btrfs(compression="lzo", compression_level=1), "no levels"),
        (Btrfs(compression_level=1), "no levels"),
    ):
        assert cause in refused(layer)
    for profile, disks in (("raid1", 2), ("raid1c3", 3), ("raid6", 3), ("raid1c4", 4)):
        layer = Btrfs.model_validate({"metadata": profile})
        assert f"needs {disks} disks" in refused(layer, disks - 1)
        assert refused(layer, disks) == ""


def test_mount_options_are_written_singly() -> None:
    for option in ("noatime,commit=5", "-o noatime", "-o", ""):
        with pytest.raises(ValueError, match="not one mount option"):
            Ext4(mount=[option])


def test_a_dollar_sign_in_an_option_stays_one() -> None:
    make, mount = make_and_mount(Ext4(mkfs=["-L", "a$b"], mount=["data=${x}"]))

    assert "a$$b" in make.argv
    assert "noinit_itable,no_prefetch_block_bitmaps,data=$${x}" in mount.argv


def test_a_profile_leaves_what_its_copies_do_not_take() -> None:
    for data, disks_gib, usable_gib in (
        ("single", (4,), 4),
        ("single", (4, 8), 12),
        ("dup", (4,), 2),
        ("raid0", (4, 4), 8),
        ("raid1", (4, 4), 4),
        # The large disk's space beyond the small ones' has no room for a second copy.
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
    ):
        layer = Btrfs.model_validate({"data": data})
        assert layer.usable_bytes([gib << 30 for gib in disks_gib]) == usable_gib << 30, (data, disks_gib)


def test_what_survives_a_loss_is_what_data_and_metadata_survive() -> None:
    for data, metadata, disks, survived in (
        ("single", None, 1, 0),
        ("single", None, 2, 0),
        ("raid0", "raid1", 2, 0),
        ("raid1", None, 2, 1),
        ("raid10", "raid10", 4, 1),
        ("raid1c4", "raid1c3", 4, 2),
        ("raid1c3", None, 4, 1),
        ("raid6", "raid1c3", 4, 2),
        ("raid5", "raid1", 3, 1),
        ("raid1", "single", 2, 0),
    ):
        layer = Btrfs.model_validate({"data": data, "metadata": metadata})
        assert layer.losses_survived(Provided("block", (1 << 40,) * disks)) == survived, (data, metadata)


def make_argv(layer: Filesystem, geometry: Geometry | None = RAID5, bytes_each: int = 1 << 40) -> str:
    return " ".join(layer.build(placed(layer, "md", geometry=geometry, bytes_each=bytes_each))[0].argv)


def test_ext_reckons_with_the_block_size_that_it_will_have() -> None:
    # mke2fs gives less than 512 MiB blocks of 1 KiB.
    assert "stride=64,stripe_width=192" in make_argv(Ext4(), bytes_each=400 << 20)
    assert "stride=32,stripe_width=96" in make_argv(Ext4(mkfs=["-b", "2048"]))
    assert "stride" not in make_argv(Ext4(mkfs=["-T", "largefile"]))


def test_xfs_is_aligned_to_the_stripes_below_and_its_log_as_far_as_it_can() -> None:
    for chunk_kib, log_unit_kib in ((64, 64), (256, 256), (512, 32)):
        geometry = Geometry(chunk_kib << 10, 3)
        assert f"-d su={chunk_kib << 10},sw=3 -l su={log_unit_kib << 10} " in make_argv(Xfs(), geometry)
        assert Xfs().alignment(Provided("block", (1 << 40,), geometry))["log su"] == f"{log_unit_kib}KiB"


def test_xfs_on_stripes_needs_room_for_its_log() -> None:
    def causes(capacity_bytes: int, geometry: Geometry | None) -> list[tuple[str | None, str]]:
        lower = Provided("block", (capacity_bytes,), geometry)
        return [(each.key, each.cause) for each in Xfs().diagnostics(lower, {})]

    assert causes(520 << 20, RAID5) == []
    assert causes(519 << 20, RAID5) == [
        ("align", "xfs aligned to stripes needs 520MiB at least, and there are 519MiB")
    ]
    assert causes(300 << 20, None) == []
    assert [key for key, _ in causes(299 << 20, RAID5)] == [None], "reported once"


def test_an_alignment_that_the_user_gives_wins() -> None:
    for layer, given in (
        (Ext4(mkfs=["-E", "stride=2"]), "nodiscard,stride=2 "),
        (Ext4(mkfs=["-Estripe-width=8"], align=False), "nodiscard,stripe-width=8 "),
        (
            Xfs(mkfs=["-d", "agcount=4,su=16k,sw=2"]),
            f"{'uuid=' + str(placed(Xfs()).derived_uuid('uuid'))} -d agc",
        ),
        (Xfs(mkfs=["-dnoalign"]), "-dnoalign "),
    ):
        made = make_argv(layer)
        assert given in made
        assert made.count("stride=") + made.count("stripe-width=") + made.count("su=") <= 1


def test_what_tools_say_is_counted() -> None:
    xfs = (
        "Info: AG 1 superblock: Optimization is possible.\n"
        "Info: AG 2 inode header: Cross-referencing failed.\n"
        "Info: /mnt/stack: Filesystem has errors, skipping connectivity checks.\n"
        "12 inodes counted; 12 inodes checked.\n"
    )
    # By kind, and not by what became of them.
    btrfs = "\tread_errors: 1\n\tcsum_errors: 24\n\tno_csum: 7\n\tsuper_errors: 2\n\tcorrected_errors: 24\n"
    used = (
        "Overall:\n    Device size:\t\t  4294967296\n    Used:\t\t\t   189366272\n    Free (statfs, df): 1\n"
    )

    assert Xfs().scrub_errors(xfs) == 2
    assert Btrfs().scrub_errors(btrfs) == 27
    assert Btrfs().allocated_bytes(used) == 189366272


def test_tmpfs_has_a_size_that_its_key_gives() -> None:
    keys: dict[str, Any]
    for keys in ({"size": "0B"}, {"mount": ["size=1m"]}):
        assert list(Tmpfs.model_validate(keys).diagnostics(Provided("block", ()), {}))


def test_options_that_the_layer_gives_itself_are_refused() -> None:
    for layer, key in (
        (Ext4(mkfs=["-U", "random"]), "mkfs"),
        (Ext4(mkfs=["-Unil"]), "mkfs"),
        (Ext4(mkfs=["-E", "hash_seed=random"]), "mkfs"),
        (Ext4(mount=["prjquota"]), "mount"),
        (Xfs(mkfs=["-K"]), "mkfs"),
        (Xfs(mkfs=["-m", "crc=1,uuid=5c1e"]), "mkfs"),
        (Xfs(mkfs=["-muuid=5c1e"]), "mkfs"),
        (Xfs(mount=["pquota"]), "mount"),
        (Btrfs(mkfs=["-d", "raid0"]), "mkfs"),
        (Btrfs(mkfs=["--metadata=raid0"]), "mkfs"),
        (Btrfs(mount=["nodatacow"]), "mount"),
        (Btrfs(mount=["device=/dev/sdz"]), "mount"),
        (Btrfs(mount=["subvol=other"]), "mount"),
        (F2fs(mkfs=["-c", "/dev/sdz"]), "mkfs"),
    ):
        (mistake,) = layer.diagnostics(Provided("block", (1 << 40,)), {})
        assert mistake.key == key
        assert "itself" in mistake.cause
