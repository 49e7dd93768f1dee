# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from layer_factory import GIB, context, on, refused, refused_keys, step_of

from present import present
from strata.layers.lvm.lvm import Lvm
from strata.layers.lvm.lvm_thin import LvmThin
from strata.model.layer import Geometry, Layer, Provided
from strata.units import parse_size

EXTENT = 4 << 20


def lvm(**keys: Any) -> Lvm:
    return Lvm.model_validate(keys)


def thin(**keys: Any) -> LvmThin:
    return LvmThin.model_validate(keys)


def test_a_type_leaves_what_copies_and_metadata_do_not_take() -> None:
    keys: dict[str, Any]
    for keys, disks_gib, usable in (
        ({}, (1, 2), 255 * EXTENT + 511 * EXTENT),
        ({"size": "1GiB"}, (2,), GIB),
        ({"snapshot_size": "100MiB", "snapshots": 2}, (1,), 205 * EXTENT),
        ({"type": "striped"}, (1, 2), 510 * EXTENT),
        ({"type": "raid1"}, (1, 2), 254 * EXTENT),
        ({"type": "raid10"}, (1, 1, 1, 1), 508 * EXTENT),
        ({"type": "raid5"}, (1, 1, 1), 508 * EXTENT),
    ):
        assert lvm(**keys).provided(on(*disks_gib)).capacities_bytes == (usable,)


def test_stripes_are_offered_to_filesystems() -> None:
    stripes = Geometry(64 << 10, 3)
    keys: dict[str, Any]
    for keys, disks, geometry in (
        ({}, 2, None),
        ({"type": "striped"}, 4, Geometry(64 << 10, 4)),
        ({"type": "striped", "stripes": 2, "stripe_size": "256KiB"}, 4, Geometry(256 << 10, 2)),
        ({"type": "raid1"}, 2, None),
        ({"type": "raid10"}, 4, Geometry(64 << 10, 2)),
        ({"type": "raid5"}, 4, Geometry(64 << 10, 3)),
    ):
        assert lvm(**keys).provided(on(*(4,) * disks)).geometry == geometry
    assert lvm().provided(Provided("block", (GIB,), stripes)).geometry == stripes


def test_a_thin_volume_keeps_stripes_that_its_chunks_and_extents_consist_of() -> None:
    for chunk, stripes, keeps in (
        ("64KiB", 1, True),
        ("64KiB", 2, False),
        ("128KiB", 2, True),
        ("192KiB", 3, False),
    ):
        below, own = Geometry(64 << 10, stripes), Geometry(parse_size(chunk), 1)
        offered = thin(chunk=chunk).provided(Provided("block", (GIB,), below)).geometry
        assert offered == (below if keeps else own)
        assert thin(chunk=chunk).provided(Provided("block", (GIB,))).geometry == own


def test_what_does_not_fit_or_is_not_the_types_is_refused_at_its_key() -> None:
    keys: dict[str, Any]
    for keys, disks, key in (
        ({"type": "striped"}, 1, "type"),
        ({"type": "raid1"}, 1, "type"),
        ({"type": "raid10"}, 2, "type"),
        ({"type": "raid10"}, 5, "type"),
        ({"type": "raid5"}, 2, "type"),
        ({"type": "striped", "stripes": 3}, 4, "stripes"),
        ({"stripes": 2}, 2, "stripes"),
        ({"type": "raid1", "stripe_size": "64KiB"}, 2, "stripe_size"),
        ({"initial_sync": "wait"}, 1, "initial_sync"),
        ({"spares": ["disk9"]}, 1, "spares"),
        ({"snapshot_chunk": "64KiB"}, 1, "snapshot_chunk"),
        ({"snapshots": 2}, 1, "snapshots"),
        ({"size": "9GiB"}, 2, "size"),
        ({"size": "8GiB", "type": "raid1"}, 2, "size"),
        ({"snapshot_size": "4GiB", "snapshots": 2}, 2, "snapshot_size"),
    ):
        assert refused_keys(lvm(**keys), on(*(4,) * disks), disk9=4 * GIB) == [key]
    for key, value in (("stripes", 3), ("stripe_size", "64KiB"), ("metadata_size", "20GiB")):
        assert refused_keys(thin(**{key: value}), on(40, 40)) == [key]


def test_a_spare_is_as_large_as_what_it_may_replace() -> None:
    layer = lvm(type="raid1", spares=["disk9"])

    assert refused(layer, on(4, 4), disk9=4 * GIB) == ""
    assert "the spare disk9 is smaller" in refused(layer, on(4, 4), disk9=4 * GIB - 1)


def test_a_size_is_rounded_up_to_whole_stripes_and_what_is_set_aside_stays() -> None:
    layer = lvm(type="striped", size="12MiB", snapshot_size="4MiB")

    assert layer.usable_bytes((GIB, GIB)) == 16 << 20
    assert lvm(size="12MiB").usable_bytes((GIB,)) == 12 << 20


def test_metadata_on_a_disk_need_a_pool_of_the_disks_sectors() -> None:
    layer = thin(metadata="ssd")

    assert refused(layer, on(4), ssd=GIB) == ""
    assert "metadata: LVM makes no group" in refused(layer, on(4).with_sectors(4096), ssd=GIB)
    assert refused(thin(), on(4).with_sectors(4096)) == ""


def test_volumes_have_the_sectors_of_what_is_below() -> None:
    for layer in (lvm(), thin()):
        assert layer.provided(on(4).with_sectors(4096)).sector_bytes == 4096


def test_sizes_have_the_form_that_lvm_takes() -> None:
    whole = "not a multiple of 64KiB, 64KiB at least, 1GiB at most"
    layer: Callable[..., Layer]
    for layer, key, size, cause in (
        (lvm, "size", "10MiB", "not a multiple of 4MiB"),
        (lvm, "snapshot_size", "10MiB", "not a multiple of 4MiB"),
        (lvm, "snapshot_chunk", "1MiB", "not a power of two from 4KiB to 512KiB"),
        (thin, "chunk", "96KiB", whole),
        (thin, "chunk", "2GiB", whole),
    ):
        with pytest.raises(ValueError, match=cause):
            layer(**{key: size})


def test_a_scrub_reads_what_differed() -> None:
    layer = lvm(type="raid1")

    assert layer.scrub_errors("0 614400 raid raid1 2 AA 614400/614400 idle 256 0 -\n") == 256
    assert layer.scrub(context("lvm", 2)) is not None
    assert lvm().scrub(context("lvm")) is None


def test_more_than_the_pool_has_is_refused_unless_it_is_meant() -> None:
    assert "larger than its pool" in refused(thin(size="4GiB"), on(2))
    assert refused(thin(size="4GiB", overcommit=True), on(2)) == ""
    assert refused(thin(size="1GiB"), on(2)) == ""
    assert thin(size="4GiB", overcommit=True).provided(on(2)).capacities_bytes == (4 * GIB,)
    # 64 bytes for each of 32 752 chunks, rounded to an extent, are not the pool's.
    assert thin().provided(on(2)).capacities_bytes == (510 * EXTENT,)


def test_metadata_on_a_device_of_their_own_must_fit_there() -> None:
    layer = thin(metadata="disk9")

    assert refused(layer, on(40), disk9=GIB) == ""
    assert "metadata: the metadata take 40MiB" in refused(layer, on(40), disk9=32 << 20)
    steps = layer.build(context("lvm", 1, ("disk9",)))
    assert step_of(steps, "metadata").argv[-1] == "${disk9}"
    assert step_of(steps, "pool").argv[0] == "lvconvert"


def test_a_pool_tells_what_is_taken_of_it() -> None:
    status = (
        "0 67076096 thin-pool 1 4266/2096128 120/524032 - rw no_discard_passdown error_if_no_space - 1024\n"
    )

    assert thin(chunk="128KiB").allocated_bytes(status) == 120 * (128 << 10)


def test_a_spare_of_the_group_or_a_new_one_takes_the_lost_ones_place() -> None:
    layer = lvm(type="raid1", spares=["disk9"])
    where = context("lvm", 2, ("disk9",)).during("alter", "lvm-rebuild")

    own = present(layer.rebuild(where, "${disk1}", "${disk9}"))
    new = present(layer.rebuild(where, "${disk1}", "${disk8}"))

    assert [each.argv[0] for each in own] == ["lvconvert"]
    assert [each.argv[0] for each in new] == ["vgreduce", "pvcreate", "vgextend", "lvconvert"]
    waited = layer.rebuilt(where.during("alter", "lvm-rebuilt"))
    assert step_of(waited, "rebuilt").background
    assert lvm().rebuild(where, "${disk1}", "${disk9}") is None
