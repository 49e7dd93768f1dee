# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from layer_factory import GIB, MIB, context, refused, step_of

from strata.layers.bcache import Bcache
from strata.layers.lvm.caches import DmCache, DmWritecache
from strata.model.layer import Geometry, Layer, LayerContext, Provided
from study_texts import HEAD, SSD, disk, fio, mistakes

DISK = Provided("block", (8 * GIB,))

STUDY = (
    f"{HEAD}{disk('disk0', capacity='8GiB')}{disk('ssd', SSD, '2GiB')}"
    '[stacks.cached]\n{devices}\nlayers = [{{ layer = "{layer}", {keys} }}, {{ layer = "ext4" }}]\n'
    f"{fio('mix')}"
)


def study(layer: str, keys: str, devices: str = "") -> str:
    return STUDY.format(layer=layer, keys=keys, devices=devices)


def bcache(**keys: Any) -> Bcache:
    return Bcache.model_validate({"cache": "ssd", **keys})


def dm_cache(**keys: Any) -> DmCache:
    return DmCache.model_validate({"cache": "ssd", **keys})


def dm_writecache(**keys: Any) -> DmWritecache:
    return DmWritecache.model_validate({"cache": "ssd", **keys})


def beside_ssd(layer: str, cache_bytes: int = 2 * GIB, **fields: Any) -> LayerContext:
    return context(layer, 1, ["ssd"], capacities={"ssd": cache_bytes}, **fields)


@pytest.mark.parametrize("layer", [bcache(), dm_cache(), dm_writecache()], ids=lambda layer: layer.layer)
def test_a_cache_adds_nothing_to_what_is_held_and_leaves_the_stripes(layer: Layer) -> None:
    striped = Provided("block", (8 * GIB,), Geometry(chunk_bytes=256 << 10, data_chunks=2))

    assert layer.provided(striped).geometry == striped.geometry
    assert 8 * GIB - 8 * MIB <= layer.provided(striped).smallest_bytes < 8 * GIB


@pytest.mark.parametrize("layer", [dm_cache(), dm_writecache()], ids=lambda layer: layer.layer)
def test_a_cache_of_lvm_has_room_beside_its_metadata(layer: Layer) -> None:
    assert "no room beside its metadata" in refused(layer, DISK, ssd=32 * MIB)
    assert refused(layer, DISK, ssd=36 * MIB) == ""


@pytest.mark.parametrize("layer", [dm_cache(), dm_writecache()], ids=lambda layer: layer.layer)
def test_lvm_caches_nothing_that_has_other_sectors_than_the_cache(layer: Layer) -> None:
    assert "sectors of 4096 and 512 bytes" in refused(layer, DISK.with_sectors(4096), ssd=2 * GIB)


def test_blocks_of_a_cache_are_no_smaller_than_the_sectors_below() -> None:
    below = DISK.with_sectors(4096)

    assert "smaller than the sectors below" in refused(bcache(block="512B"), below, ssd=2 * GIB)
    assert refused(bcache(block="4KiB"), below, ssd=2 * GIB) == ""


def test_what_a_cache_gives_has_its_blocks_as_sectors() -> None:
    for layer, sector_bytes in (
        (bcache(block="4KiB"), 4096),
        (bcache(block="512B"), 512),
        (dm_writecache(), 4096),
        (dm_writecache(block_size=512), 512),
        (dm_cache(), 512),
    ):
        assert layer.provided(DISK).sector_bytes == sector_bytes


def test_a_cache_has_more_buckets_than_the_kernel_refuses() -> None:
    assert "513 buckets" in refused(bcache(bucket="1MiB"), DISK, ssd=512 * MIB)
    assert not refused(bcache(bucket="1MiB"), DISK, ssd=513 * MIB)


def test_bcache_data_begin_at_a_full_stripe() -> None:
    striped = Provided("block", (8 * GIB,), Geometry(chunk_bytes=64 << 10, data_chunks=3))

    made = step_of(bcache().build(beside_ssd("bcache", lower=striped)), "make").argv

    assert made[made.index("--data-offset") + 1] == str(3 * (64 << 10) // 512)
    assert bcache().provided(striped).smallest_bytes == 8 * GIB - 3 * (64 << 10)


def test_values_that_the_kernel_does_not_take_are_refused(tmp_path: Path) -> None:
    for layer, keys, mistake in (
        ("bcache", 'bucket = "100KiB"', "not a power of two"),
        ("bcache", 'bucket = "8KiB", block = "4KiB"', "too small for blocks"),
        ("bcache", 'writeback_delay = "100ms"', "whole seconds"),
        ("bcache", "writeback_percent = 50", "40"),
        ("dm-cache", 'chunk = "48KiB"', "not a multiple of 32KiB"),
        ("dm-cache", 'policy = "mq"', "smq"),
        ("dm-writecache", "low_watermark = 60", "lies above"),
        ("dm-writecache", "block_size = 1024", "4096"),
        ("dm-writecache", 'max_age = "1us"', "whole milliseconds"),
    ):
        (found,) = mistakes(tmp_path, study(layer, f'cache = "ssd", {keys}')).values()
        assert mistake in found


def test_a_million_chunks_are_enough() -> None:
    assert "million" in refused(dm_cache(chunk="32KiB"), DISK, ssd=40 * GIB)
    assert not refused(dm_cache(), DISK, ssd=40 * GIB)


def test_the_chunk_follows_from_the_size_of_the_cache() -> None:
    keys: dict[str, str]
    for cache_bytes, keys, chunk in (
        (61 * GIB, {}, None),  # LVM's own, 64 KiB: a million at most
        (500_107_862_016, {}, "524288b"),
        (1_920_383_410_176, {}, "1933312b"),
        (500_107_862_016, {"chunk": "1MiB"}, "1048576b"),
    ):
        layer = dm_cache(**keys)
        argv = step_of(layer.build(beside_ssd("dm-cache", cache_bytes)), "attach").argv
        assert (argv[argv.index("--chunksize") + 1] if "--chunksize" in argv else None) == chunk
        assert refused(layer, DISK, ssd=cache_bytes) == ""


def test_a_cache_whose_tables_exceed_the_labs_memory_is_refused(tmp_path: Path) -> None:
    for layer, keys, memory in (
        ("dm-writecache", 'cache = "ssd"', "16896MiB"),
        ("dm-writecache", 'cache = "ssd", block_size = 512', "130304MiB"),
        ("bcache", 'cache = "ssd", bucket = "4KiB"', "3GiB"),
        ("bcache", 'cache = "ssd"', None),
        ("dm-cache", 'cache = "ssd"', None),
    ):
        text = study(layer, keys).replace('capacity = "2GiB"\n', "")
        found = mistakes(tmp_path, text)
        assert list(found) == (["stacks.cached.layers[0].cache"] if memory else [])
        if memory:
            assert memory in str(found)
