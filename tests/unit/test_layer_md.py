# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from layer_factory import GIB, on, refused, refused_keys

from strata.layers.md import Md
from strata.model.layer import Geometry, Provided


def md(**keys: Any) -> Md:
    return Md.model_validate(keys)


def test_copies_and_parities_take_their_space_and_survive_losses() -> None:
    keys: dict[str, Any]
    for keys, disks_gib, usable_gib, losses in (
        ({"level": 0}, (4, 8), 12, 0),
        ({"level": 1}, (4, 8), 4, 1),
        ({"level": 1}, (4, 4, 4), 4, 2),
        ({"level": 4}, (4, 4, 8), 8, 1),
        ({"level": 5}, (4, 4, 4, 4), 12, 1),
        ({"level": 6}, (4, 4, 4, 4), 8, 2),
        ({"level": 10}, (4, 4, 4, 4), 8, 1),
        ({"level": 10}, (4, 4, 4), 6, 1),
        ({"level": 10, "copies": 3}, (4, 4, 4, 9), 16 / 3, 2),
    ):
        assert md(**keys).provided(on(*disks_gib)).capacities_bytes == (int(usable_gib * GIB),)
        assert md(**keys).losses_survived(on(*disks_gib)) == losses


def test_filesystems_are_aligned_to_the_disks_that_hold_data() -> None:
    keys: dict[str, Any]
    for keys, disks, data_chunks in (
        ({"level": 0}, 3, 3),
        ({"level": 4}, 3, 2),
        ({"level": 5}, 4, 3),
        ({"level": 6}, 6, 4),
        ({"level": 10}, 4, 2),
        ({"level": 10}, 3, 3),
        ({"level": 10, "layout": "far"}, 4, 4),
        ({"level": 10, "layout": "offset"}, 4, 4),
    ):
        provided = md(chunk="64KiB", **keys).provided(on(*(4,) * disks))
        assert provided.geometry == Geometry(64 << 10, data_chunks)
    assert md(level=1).provided(on(4, 4)).geometry is None


def test_a_level_needs_its_disks() -> None:
    for level, least in ((0, 2), (1, 2), (4, 3), (5, 3), (6, 4), (10, 2)):
        assert refused(md(level=level), on(*(4,) * least)) == ""
        assert (
            refused(md(level=level), on(*(4,) * (least - 1)))
            == f"level: RAID {level} needs {least} disks, the stack has {least - 1}"
        )


def test_copies_need_a_disk_each() -> None:
    assert "with 3 copies needs 3 disks" in refused(md(level=10, copies=3), on(4, 4))


def test_what_a_level_does_not_have_is_refused_at_its_key() -> None:
    keys: dict[str, Any]
    for keys, key in (
        ({"level": 5, "layout": "far"}, "layout"),
        ({"level": 10, "layout": "left-symmetric"}, "layout"),
        ({"level": 4, "layout": "near"}, "layout"),
        ({"level": 5, "copies": 2}, "copies"),
        ({"level": 1, "chunk": "64KiB"}, "chunk"),
        ({"level": 0, "bitmap": "internal"}, "bitmap"),
        ({"level": 0, "spares": ["disk9"]}, "spares"),
        ({"level": 0, "initial_sync": "wait"}, "initial_sync"),
        ({"level": 1, "stripe_cache_size": 512}, "stripe_cache_size"),
        ({"level": 0, "sync_speed_max": "9MB/s"}, "sync_speed_max"),
        ({"level": 6, "partial_parity_log": True}, "partial_parity_log"),
        ({"level": 10, "journal": "disk9"}, "journal"),
        ({"level": 5, "journal_mode": "write-back"}, "journal_mode"),
        ({"level": 5, "journal": "disk9", "bitmap": "internal"}, "bitmap"),
        ({"level": 5, "journal": "disk9", "partial_parity_log": True}, "partial_parity_log"),
        ({"level": 5, "chunk": "1GiB"}, "chunk"),
    ):
        assert refused_keys(md(**keys), on(4, 4, 4, 4), disk9=4 * GIB) == [key]


def test_a_chunk_is_a_power_of_two() -> None:
    for chunk in ("96KiB", "2KiB", "0B"):
        with pytest.raises(ValueError, match="is not a power of two from 4KiB on"):
            md(level=5, chunk=chunk)


def test_a_disk_holds_eight_chunks_at_least() -> None:
    layer, disks = md(level=5, chunk="1MiB"), 3

    assert refused(layer, Provided("block", (8 << 20,) * disks)) == ""
    assert (
        refused(layer, Provided("block", ((8 << 20) - 512,) * disks))
        == "chunk: the chunk 1MiB is too large for disks of 8388096B"
    )


def test_a_spare_must_be_large_enough() -> None:
    layer = md(level=1, spares=["disk2"])

    assert refused(layer, on(4, 4), disk2=4 * GIB) == ""
    assert "smaller" in refused(layer, on(4, 4), disk2=3 * GIB)
