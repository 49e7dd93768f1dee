# SPDX-License-Identifier: Apache-2.0
"""A rotating disk's surface: defects, physical sectors, shingled bands, short strokes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kernel_model import Geometry
from strata.datasheet.formulas import random_read_ns_mean
from strata.devices.device import Device, device_folder, find_device, load_device
from strata.devices.kinds.mechanism import mechanism
from strata.lab.disk import driver_config
from strata.lab.model import DISCARD, READ, WRITE, ModelledDisk

DRIVE = Geometry()
ALIGNED = Geometry(zones=((20_000, 2344), (20_000, 1736), (20_000, 1120)))
MS = 1_000_000
GIB = 1 << 30
RING_BYTES, BAND_BYTES = 16 << 20, 4 << 20
SHINGLED_SECTORS = ALIGNED.capacity_sectors - RING_BYTES // 512


def spare() -> int:
    """A place in the middle of the disk, far from its start."""
    return DRIVE.first_sector(1)


def test_a_grown_defect_costs_the_way_to_its_spare_and_back() -> None:
    sound = ModelledDisk(DRIVE.text()).closed_loop(READ, [0], 64, depth=1)
    grown = ModelledDisk(DRIVE.text() + f"defect=32,{spare()}\n").closed_loop(READ, [0], 64, depth=1)
    seek_ns = ModelledDisk(DRIVE.text()).seek_ns(DRIVE.zones[0][0])
    assert int(grown.part("seek_ns")[0]) == int(sound.part("seek_ns")[0]) + 2 * seek_ns
    extra = int(grown.latency_ns[0]) - int(sound.latency_ns[0])
    assert 2 * seek_ns < extra < 2 * seek_ns + 2 * DRIVE.rotation_ns
    assert int(grown.sum_ns[0]) == int(grown.latency_ns[0])


def test_only_what_includes_a_defect_is_slower() -> None:
    for sector, sectors in ((0, 32), (33, 64), (500, 100)):
        sound = ModelledDisk(DRIVE.text()).closed_loop(READ, [sector], sectors, depth=1)
        grown = ModelledDisk(DRIVE.text() + f"defect=32,{spare()}\n").closed_loop(
            READ, [sector], sectors, depth=1
        )
        assert int(grown.latency_ns[0]) == int(sound.latency_ns[0])


def test_reading_ahead_stops_before_a_defect() -> None:
    text = DRIVE.text(read_segments=4, read_segment_bytes=1 << 20) + f"defect=80,{spare()}\n"
    disk = ModelledDisk(text)
    disk.closed_loop(READ, [0], 8, depth=1)
    disk.advance(disk.now_ns + 100 * MS)
    disk.closed_loop(READ, [spare()], 8, depth=1)
    assert disk.account()["media_read_bytes"] == (80 + 8) * 512


def test_a_write_of_parts_of_physical_sectors_takes_one_more_turn() -> None:
    for sector, sectors, aligned in ((80, 8, True), (80, 16, True), (84, 8, False), (80, 9, False)):
        small, large = (
            ModelledDisk(ALIGNED.text(physical_block_bytes=size)).closed_loop(
                WRITE, [sector], sectors, depth=1
            )
            for size in (512, 4096)
        )
        more = int(large.latency_ns[0]) - int(small.latency_ns[0])
        assert more == (0 if aligned else DRIVE.rotation_ns)


def test_short_stroking_gains_what_the_intercept_lets_it_gain() -> None:
    """Settling dominates short seeks: from one hundredth of the disk the seek is still the intercept."""
    disk = mechanism(find_device("wd-re4-500gb"))
    from_zero = dataclasses.replace(disk, seek_curve_ns=tuple(t - 1_900_000 for t in disk.seek_curve_ns))

    def gain(of: object, part: float) -> float:
        assert isinstance(of, type(disk))
        whole = random_read_ns_mean(of)
        return whole / random_read_ns_mean(of, span_bytes=int(disk.sectors * 512 * part))

    assert 1.15 < gain(disk, 0.5) < 1.3
    assert 1.5 < gain(disk, 0.01) < 2.0
    assert gain(from_zero, 0.01) > 1.15 * gain(disk, 0.01)


def shingled(**changed: object) -> ModelledDisk:
    values = {
        "physical_block_bytes": 4096,
        "shingle_cache_bytes": RING_BYTES,
        "shingle_band_bytes": BAND_BYTES,
        "cleaning_idle_ns": 1000 * MS,
        "capacity_sectors": SHINGLED_SECTORS,
    }
    return ModelledDisk(ALIGNED.text(**(values | changed)))


def random_blocks(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, SHINGLED_SECTORS // 8, count) * 8


def test_a_shingled_disk_takes_random_writes_fast_until_its_cache_is_full() -> None:
    ring_blocks = RING_BYTES // 4096
    disk = shingled()
    trace = disk.closed_loop(WRITE, random_blocks(ring_blocks + 200), 8, depth=1)
    assert np.array_equal(trace.sum_ns, trace.latency_ns)
    fast, slow = trace.latency_ns[: ring_blocks - 200].mean(), trace.latency_ns[ring_blocks:].mean()
    assert fast < 1.2 * DRIVE.rotation_ns
    assert slow > 5 * fast
    assert int(trace.part("cleaning_ns")[:ring_blocks].sum()) == 0
    account = disk.account()
    assert account["cleaning_ns"] == int(trace.part("cleaning_ns").sum()) > 0
    assert account["cleanings"] >= 190
    assert account["media_write_bytes"] > account["write_bytes"]


def test_a_shingled_disk_that_stands_idle_cleans_its_bands() -> None:
    disk = shingled()
    disk.closed_loop(WRITE, random_blocks(50), 8, depth=1)
    assert disk.account()["cleanings"] == 0
    disk.advance(disk.now_ns + 3_600_000 * MS)
    account = disk.account()
    assert account["cleanings"] == len(set(random_blocks(50) // (BAND_BYTES // 512)))
    again = disk.closed_loop(WRITE, random_blocks(RING_BYTES // 4096 - 1, 2), 8, depth=1)
    assert int(again.part("cleaning_ns").sum()) == 0


def test_a_shingled_disk_is_written_in_order_at_the_rate_of_its_surface() -> None:
    disk = shingled()
    count = 200
    trace = disk.closed_loop(WRITE, 256 * np.arange(count), 256, depth=4)
    seconds = float(trace.complete_ns[-1] - trace.complete_ns[0]) / 1e9
    assert (count - 1) * 256 * 512 / seconds == pytest.approx(ALIGNED.sustained_bytes_per_s(0), rel=0.01)
    disk.advance(disk.now_ns + 3_600_000 * MS)
    assert disk.account()["cleanings"] == 0
    assert disk.account()["media_write_bytes"] == count * 256 * 512


def test_a_shingled_disk_reads_what_it_keeps_elsewhere_from_there() -> None:
    disk = shingled()
    disk.closed_loop(WRITE, 256 * np.arange(8), 256, depth=4)
    disk.closed_loop(WRITE, [800], 8, depth=1)
    trace = disk.closed_loop(READ, [0, 792], [8, 24], depth=1)
    # Its place, the ring, its place again.
    assert int(trace.part("seek_ns")[1]) >= 2 * 2_000_000


def test_discarding_a_band_lets_it_be_written_in_order_again() -> None:
    band = BAND_BYTES // 512
    whole = 256 * np.arange(band // 256)
    disk = shingled(discard=1)
    disk.closed_loop(WRITE, whole, 256, depth=4)
    disk.closed_loop(DISCARD, [0], band, depth=1)
    disk.closed_loop(WRITE, whole, 256, depth=4)
    disk.advance(disk.now_ns + 3_600_000 * MS)
    assert disk.account()["cleanings"] == 0


def changed_device(folder: Path, sound: str, wrong: str) -> Device:
    text = (device_folder() / "wd-re4-500gb.toml").read_text()
    assert sound in text
    file = folder / "mine.toml"
    file.write_text(text.replace(sound, wrong, 1))
    return load_device(file)


def test_a_measured_seek_curve_is_taken_as_it_is(tmp_path: Path) -> None:
    table = (
        'seek_table = { value = "1 0.5, 100 2, 10000 5, 400000 20", unit = "tracks ms", '
        'source = "measured", estimate = false }\nsustained_rate_outer'
    )
    device = changed_device(tmp_path, "sustained_rate_outer", table)
    disk = ModelledDisk(driver_config(device, name="sda", backing_fd=3))
    assert [disk.seek_ns(distance) for distance in (1, 100, 10_000)] == [
        500_000,
        2_000_000,
        pytest.approx(5_000_000, rel=0.02),
    ]


def test_grown_defects_get_places_within_what_is_used(tmp_path: Path) -> None:
    device = changed_device(
        tmp_path,
        "link_rate",
        'grown_defects = { value = 300, unit = "1", source = "chosen", estimate = true }\nlink_rate',
    )
    whole = driver_config(device, name="sda", backing_fd=3)
    part = driver_config(device, name="sda", backing_fd=3, capacity_bytes=50 * GIB)
    assert whole.count("\ndefect=") == 300
    assert 10 < part.count("\ndefect=") < 60
    ModelledDisk(whole)
    ModelledDisk(part)


def test_the_hp_97560_seeks_as_published() -> None:
    """3.24 + 0.400 sqrt(d) ms up to 383 cylinders, 8.00 + 0.008 d from there; 19 tracks a cylinder."""
    disk = ModelledDisk(driver_config(find_device("hp-97560"), name="sda", backing_fd=3))
    for cylinders in (1, 2, 4, 10, 50, 100, 200, 300):
        assert disk.seek_ns(19 * cylinders) / MS == pytest.approx(3.24 + 0.4 * cylinders**0.5, rel=0.02)
    for cylinders in (400, 800, 1600, 1961):
        assert disk.seek_ns(19 * cylinders) / MS == pytest.approx(8.0 + 0.008 * cylinders, rel=0.02)
