# SPDX-License-Identifier: Apache-2.0
"""A controller with a battery-backed cache, before members so simple that arithmetic gives the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.devices.device import device_folder, find_device
from strata.lab.disk import driver_config
from strata.lab.model import DISCARD, FLUSH, FUA, READ, WRITE, ModelledDisk
from volume_texts import GIB, MIB, MS, S, controller_text, network_lines, slow_member

BLOCK = 8  # sectors
REPLY_NS = 50_000 + 2_048  # of a command with 4 KiB: the controller's overhead and its link
MEMBER_MS = 5
CONSTANT = network_lines(latency_ns=MEMBER_MS * MS)
SLOW = slow_member(iops=100)
RE4 = "controller-bbwc-raid10-4x-wd-re4-500gb"

Sectors = np.ndarray[tuple[int], np.dtype[np.int64]]


def scattered(count: int, seed: int = 1, span_bytes: int = 4 * GIB) -> Sectors:
    """First sectors of blocks of 4 KiB; of a small span, each another block."""
    random = np.random.default_rng(seed)
    if span_bytes > 4 * GIB:
        return random.integers(0, span_bytes // 4096, count) * BLOCK
    return random.permutation(span_bytes // 4096)[:count] * BLOCK


def per_second(disk: ModelledDisk, op: int, sectors: Sectors, depth: int = 64) -> float:
    duration_ns: int = disk.closed_loop(op, sectors, BLOCK, depth=depth).duration_ns
    return len(sectors) * S / duration_ns


def test_a_full_cache_slows_writes_to_what_the_members_destage() -> None:
    disk = ModelledDisk(controller_text(SLOW, cache_bytes=16 * MIB))

    at_first = disk.closed_loop(WRITE, scattered(3000, 1), BLOCK, depth=8)
    per_second(disk, WRITE, scattered(3000, 2), depth=8)
    in_the_end = disk.closed_loop(WRITE, scattered(3000, 3), BLOCK, depth=8)

    assert int(at_first.latency_ns.max()) < 100_000
    # Two pairs, each of which writes 100 blocks a second, twice.
    assert 3000 * S / in_the_end.duration_ns == pytest.approx(200, rel=0.05)
    assert float(in_the_end.part("cache_ns").mean()) > 0.95 * float(in_the_end.latency_ns.mean())


def test_a_write_that_waits_for_room_gets_what_a_discard_frees() -> None:
    text = controller_text(slow_member(iops=1), cache_bytes=16 * MIB)
    writes = list(range(24))

    def accepted_at_once(discarded: list[int]) -> int:
        ops = [WRITE] * len(writes) + [DISCARD] * len(discarded)
        arrivals_ns = [0] * len(writes) + [10 * MS] * len(discarded)
        sectors = [at * MIB // 512 for at in writes + discarded]
        trace = ModelledDisk(text).arrivals(ops, sectors, MIB // 512, arrivals_ns)
        return int((trace.latency_ns[: len(writes)] < 30 * MS).sum())

    assert accepted_at_once([14, 15]) == accepted_at_once([]) + 2


def test_a_read_that_is_dirty_in_part_comes_from_the_members() -> None:
    disk = ModelledDisk(controller_text(CONSTANT))
    disk.closed_loop(WRITE, [0], BLOCK, depth=1)

    trace = disk.closed_loop(READ, [0], 2 * BLOCK, depth=1)

    assert int(trace.latency_ns[0]) == MEMBER_MS * MS + 50_000 + 4_096
    assert disk.account()["cache_hits"] == 0


def test_with_a_dead_battery_a_write_takes_a_member_s_time() -> None:
    disk = ModelledDisk(controller_text(CONSTANT, battery=0))

    trace = disk.closed_loop(WRITE, scattered(100), BLOCK, depth=1)

    assert set(trace.latency_ns.tolist()) == {MEMBER_MS * MS + REPLY_NS}
    assert disk.account()["media_write_bytes"] == 2 * 100 * 4096


def test_random_reads_scale_with_the_members() -> None:
    for level, factor in (("raid0", 4), ("raid10", 4), ("raid5", 4), ("raid6", 4), ("single", 4)):
        text = controller_text(slow_member(capacity_bytes=GIB), level=level, capacity_sectors=2 * GIB // 512)
        if level == "single":
            text = controller_text(slow_member(capacity_bytes=GIB), level=level)
        span = 4 * GIB if level == "single" else 2 * GIB
        rate = per_second(ModelledDisk(text), READ, scattered(4000, span_bytes=span))
        assert rate == pytest.approx(100 * factor, rel=0.05)


def test_what_a_member_s_queue_does_not_hold_waits_in_the_controller() -> None:
    disk = ModelledDisk(controller_text(CONSTANT))
    shallow = [line if not line.startswith("queue_depth") else "queue_depth=1" for line in CONSTANT]
    alone = ModelledDisk(controller_text(shallow, level="single"))

    together = disk.closed_loop(READ, np.zeros(200, np.int64), BLOCK, depth=200)
    single_file = alone.closed_loop(READ, np.zeros(200, np.int64), BLOCK, depth=200)

    assert together.duration_ns < 2 * MEMBER_MS * MS
    assert single_file.duration_ns == pytest.approx(200 * MEMBER_MS * MS, rel=0.001)
    assert int(single_file.part("queue_ns").max()) > 190 * MEMBER_MS * MS


def test_a_small_write_with_parity_reads_and_writes_data_and_parity() -> None:
    for level, parities in (("raid5", 1), ("raid6", 2)):
        disk = ModelledDisk(controller_text(CONSTANT, level=level, battery=0))
        trace = disk.closed_loop(WRITE, scattered(50), BLOCK, depth=1)
        assert set(trace.latency_ns.tolist()) == {2 * MEMBER_MS * MS + REPLY_NS}
        account = disk.account()
        assert account["media_read_bytes"] == account["media_write_bytes"] == 50 * 4096 * (1 + parities)


def test_whole_rows_are_written_without_reading() -> None:
    for level, data in (("raid5", 3), ("raid6", 2)):
        row = data * 128
        disk = ModelledDisk(controller_text(CONSTANT, level=level, battery=0))

        trace = disk.closed_loop(WRITE, np.arange(50) * row, row, depth=1)

        account = disk.account()
        assert account["media_read_bytes"] == 0
        assert account["media_write_bytes"] == 50 * 4 * 65_536
        assert int(trace.latency_ns.max()) < (MEMBER_MS + 1) * MS


def test_the_chunks_of_a_row_lie_on_different_members() -> None:
    for level, data in (("raid5", 3), ("raid6", 2)):
        chunk_in_10_ms = network_lines(latency_ns=0, link_bytes_per_s=6_553_600)
        disk = ModelledDisk(controller_text(chunk_in_10_ms, level=level, battery=0))
        trace = disk.closed_loop(WRITE, np.arange(100) * data * 128, data * 128, depth=1)
        assert 100 * S / trace.duration_ns == pytest.approx(100, rel=0.02)


def test_small_sequential_writes_become_whole_rows_in_the_cache() -> None:
    for level in ("raid5", "raid6"):
        disk = ModelledDisk(controller_text(CONSTANT, level=level))
        disk.closed_loop(WRITE, np.arange(6144) * BLOCK, BLOCK, depth=4)  # 24 MiB: whole rows of both
        disk.advance(disk.now_ns + 10 * S)
        account = disk.account()
        assert account["media_read_bytes"] == 0
        assert account["destages"] < 50


def test_an_idle_controller_destages_everything_and_a_busy_one_waits_for_the_high_water_mark() -> None:
    disk = ModelledDisk(controller_text(CONSTANT, cache_bytes=16 * MIB))

    disk.closed_loop(WRITE, scattered(3000), BLOCK, depth=8)  # 73 % of 4096
    busy = disk.account()["destages"]
    disk.advance(disk.now_ns + 10 * S)

    assert busy == 0
    assert disk.account()["media_write_bytes"] == 2 * 3000 * 4096


def test_destaging_stops_at_the_low_water_mark() -> None:
    disk = ModelledDisk(controller_text(CONSTANT, cache_bytes=16 * MIB))
    disk.closed_loop(WRITE, scattered(3300), BLOCK, depth=8)  # 81 %

    disk.closed_loop(FLUSH, np.zeros(100_000), 0, depth=1)  # 5 s of commands that leave the members alone

    left = 3300 - disk.account()["destages"]
    assert left == pytest.approx(2048, abs=20)


def test_the_members_work_is_the_controller_s() -> None:
    disk = ModelledDisk(driver_config(find_device(RE4), name="sda", backing_fd=3))

    trace = disk.closed_loop(READ, scattered(500, 1, 900 * GIB), BLOCK, depth=1)

    account = disk.account()
    mechanism = sum(int(trace.part(f"{part}_ns").sum()) for part in ("seek", "rotation", "transfer"))
    assert account["command_work_ns"] == pytest.approx(mechanism, rel=0.05)
    assert account["destage_work_ns"] == 0


def test_the_driver_refuses_what_makes_no_sense() -> None:
    changed: dict[str, Any]
    for changed, reason in (
        ({"members": 3}, "raid10 needs an even number"),
        ({"members": 3, "level": "raid6"}, "raid6 needs at least 4"),
        ({"members": 2, "level": "raid5"}, "raid5 needs at least 3"),
        ({"members": 33}, "bad value"),
        ({"level": "raid7"}, "bad value"),
        ({"low_percent": 81}, "above high_percent"),
        ({"volatile_cache": 1}, "volatile cache"),
        ({"capacity_sectors": 1 << 40}, "more than the members hold"),
        ({"stripe_bytes": None}, "missing"),
    ):
        with pytest.raises(ValueError, match=reason):
            ModelledDisk(controller_text(CONSTANT, **changed))


def test_the_driver_refuses_a_controller_without_members() -> None:
    with pytest.raises(ValueError, match="members are not described"):
        ModelledDisk(controller_text([]))


def test_the_driver_refuses_a_member_whose_cache_cannot_be_passed_by() -> None:
    null = ["name=sda", "capacity_sectors=8388608", "backing_fd=0", "model=null", "volatile_cache=1"]

    with pytest.raises(ValueError, match="must take FUA"):
        ModelledDisk(controller_text(null))


@pytest.mark.parametrize("member", ["wd-re4-500gb", "samsung-870-evo-1tb", "samsung-pm883-960gb"])
def test_what_goes_through_a_dead_battery_does_not_rest_in_a_member_s_cache(
    member: str, tmp_path: Path
) -> None:
    def latency_ms(name: str, flags: int) -> float:
        disk = ModelledDisk(driver_config(find_device(name), name="sda", backing_fd=3))
        return (
            float(disk.closed_loop(WRITE, scattered(200), BLOCK, depth=1, flags=flags).latency_ns.mean()) / MS
        )

    text = (device_folder() / f"{RE4}.toml").read_text().replace('"wd-re4-500gb"', f'"{member}"')
    file = tmp_path / "behind-a-controller.toml"
    file.write_text(text.replace("battery = { value = 1", "battery = { value = 0"))

    assert latency_ms(str(file), 0) > 0.9 * latency_ms(member, FUA)
