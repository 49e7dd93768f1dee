# SPDX-License-Identifier: Apache-2.0
"""A volume in the network: tokens, latency, link, against arithmetic that anyone can redo."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from strata.datasheet.measure import Subject
from strata.devices.device import bundled_devices, device_folder, find_device, load_device
from strata.devices.kind import nearest
from strata.devices.kinds.network import latency_table, tail_probability
from strata.errors import StrataError
from strata.lab.disk import driver_config
from strata.lab.model import READ, WRITE, ModelledDisk
from volume_texts import GIB, MIB, MS, S, network_text

VOLUMES = [name for name in bundled_devices() if find_device(name).kind == "network"]


def sectors(count: int, seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(0, 10 * GIB // 4096, count) * 8


def bundled(name: str, seed: int = 0) -> ModelledDisk:
    return ModelledDisk(driver_config(find_device(name), name="sda", backing_fd=3, seed=seed))


def test_without_tokens_to_wait_for_only_the_latency_counts() -> None:
    trace = ModelledDisk(network_text(latency_ns=700_000)).closed_loop(READ, sectors(50), 8, depth=8)

    assert set(trace.latency_ns.tolist()) == {700_000}
    assert set(trace.part("overhead_ns").tolist()) == {700_000}


def test_reads_and_writes_have_latencies_of_their_own() -> None:
    disk = ModelledDisk(network_text(latency_ns=700_000, write_latency_ns=",".join(["900000"] * 257)))

    trace = disk.closed_loop([READ, WRITE], [0, 0], 8, depth=1)

    assert trace.latency_ns.tolist() == [700_000, 900_000]


def test_the_link_carries_one_after_the_other() -> None:
    disk = ModelledDisk(network_text(link_bytes_per_s=100_000_000, latency_ns=0))

    trace = disk.arrivals(READ, [0, 8, 16], 200, [0, 0, 0])

    assert trace.part("transfer_ns").tolist() == [1_024_000] * 3
    assert trace.part("queue_ns").tolist() == [0, 1_024_000, 2_048_000]


def gp2_in_few_commands() -> ModelledDisk:
    """The bundled volume, but each 64 KiB count as 128 operations: 3000 a second are then 23.4 commands."""
    text = driver_config(find_device("aws-ebs-gp2"), name="sda", backing_fd=3)
    return ModelledDisk(text.replace("unit_bytes=262144\n", "unit_bytes=512\n"))


def reads_s(disk: ModelledDisk, operations: int) -> float:
    """Virtual seconds for this many operations."""
    return disk.closed_loop(READ, np.zeros(operations // 128), 128, depth=8).duration_ns / S


def test_gp2_of_100_gib_bursts_as_long_as_amazon_s_table_says() -> None:
    # AWS guide, General Purpose SSD volumes: 2000 s at 3000 IOPS for 100 GiB, then 300 IOPS.
    disk = gp2_in_few_commands()

    assert reads_s(disk, 3000 * 2000) == pytest.approx(2000, rel=0.001)
    assert reads_s(disk, 300 * 1000) == pytest.approx(1000, rel=0.005)


def test_gp2_of_100_gib_refills_as_fast_as_amazon_s_table_says() -> None:
    # The same table: 18 000 s from no credits to 5.4 million. Half of that gives half of the burst.
    disk = gp2_in_few_commands()
    reads_s(disk, 3000 * 2000 + 30_000)
    disk.advance(disk.now_ns + 9000 * S)

    assert reads_s(disk, 3000 * 1000) == pytest.approx(1000, rel=0.001)
    assert reads_s(disk, 300 * 1000) == pytest.approx(1000, rel=0.005)


def test_gp3_has_its_rates_for_ever() -> None:
    disk = bundled("aws-ebs-gp3")

    small = disk.closed_loop(READ, sectors(60_000), 8, depth=32)
    start = disk.now_ns
    large = disk.closed_loop(READ, sectors(4000), 512, depth=32, start_ns=start)

    assert 60_000 * S / float(small.complete_ns.max()) == pytest.approx(3000, rel=0.01)
    assert 4000 * 262_144 / MIB * S / (float(large.complete_ns.max()) - start) == pytest.approx(125, rel=0.02)


def test_median_and_tail_follow_the_lognormal_distribution() -> None:
    text = network_text(read_latency_ns=",".join(map(str, latency_table(0.6, 0.3))), seed=1)
    latency = ModelledDisk(text).closed_loop(READ, np.zeros(1_000_000), 8, depth=1).latency_ns

    for p in (0.001, 0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999):
        expected = 600_000 * math.exp(0.3 * NormalDist().inv_cdf(p))
        assert float(np.quantile(latency, p)) == pytest.approx(expected, rel=0.004), p
    assert float(latency.mean()) == pytest.approx(600_000 * math.exp(0.3**2 / 2), rel=0.002)


def test_the_table_s_grid_runs_from_the_median_far_into_both_tails() -> None:
    probabilities = [tail_probability(j) for j in range(129)]

    assert probabilities[0] == 0.5
    assert probabilities[-1] == 2.0**-17
    assert probabilities == sorted(probabilities, reverse=True)
    table = latency_table(1.0, 0.5)
    assert table == sorted(table)
    assert (len(table), table[128]) == (257, MS)


def test_a_part_of_the_reads_and_another_one_of_the_writes_takes_a_multiple() -> None:
    tails = {
        "read_tail_ppm": 10_000,
        "read_tail_percent": 500,
        "write_tail_ppm": 30_000,
        "write_tail_percent": 2600,
    }
    disk = ModelledDisk(network_text(latency_ns=1000, seed=1, **tails))
    found = disk.closed_loop([READ, WRITE] * 100_000, np.zeros(200_000), 8, depth=4).latency_ns
    for side, share, latency_ns in ((found[::2], 0.01, 5000), (found[1::2], 0.03, 26_000)):
        assert set(side.tolist()) == {1000, latency_ns}
        tail = side == latency_ns
        assert tail.mean() == pytest.approx(share, rel=0.07), "five standard errors of the rarer one"
        assert (tail[1:] & tail[:-1]).mean() == pytest.approx(share**2, abs=2e-4), "each on its own"
    again = ModelledDisk(network_text(latency_ns=1000, seed=1, **tails))
    same = again.closed_loop([READ, WRITE] * 100_000, np.zeros(200_000), 8, depth=4)
    assert same.latency_ns.tolist() == found.tolist()


def test_every_bundled_volume_s_writes_take_longer_than_its_reads_and_both_have_a_second_mode() -> None:
    for name in VOLUMES:
        device = find_device(name)
        assert device.number("write_latency_median") > device.number("read_latency_median")
        lines = driver_config(device, name="sda", backing_fd=3).splitlines()
        for op in ("read", "write"):
            share = nearest(device.number(f"{op}_tail_share") * 10_000)
            times = device.number(f"{op}_tail_latency") / device.number(f"{op}_latency_median")
            assert {f"{op}_tail_ppm={share}", f"{op}_tail_percent={nearest(100 * times)}"} <= set(lines)
            assert share > 0
            assert times > 2


SLOW_S, SLOW_STEP_MS = 10, 10  # an interval, and the time between arrivals


def slow_at(seed: int, seconds: int = 1000) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Of each arrival, one every 10 ms, whether it met a slow phase: of 1 s on average, every 10 s."""
    phases = {"slow_interval_ns": SLOW_S * S, "slow_length_ns": S, "slow_factor_percent": 500}
    disk = ModelledDisk(network_text(latency_ns=1000, seed=seed, **phases))
    count = seconds * 1000 // SLOW_STEP_MS
    latency = disk.arrivals(READ, np.zeros(count), 8, np.arange(count) * (SLOW_STEP_MS * MS)).latency_ns
    assert set(latency.tolist()) == {1000, 5000}
    return latency > 1000


def test_slow_phases_have_the_share_length_and_autocorrelation_of_the_formula() -> None:
    slow = slow_at(1, 10_000)
    begins = int(np.count_nonzero(slow[1:] & ~slow[:-1]))

    assert slow.mean() == pytest.approx(0.1, rel=0.06)
    assert slow.sum() * SLOW_STEP_MS / 1000 / begins == pytest.approx(1.0, rel=0.06)
    for lag_s in (0.1, 0.5, 1.0, 1.5):
        lag = round(lag_s * 1000 / SLOW_STEP_MS)
        both = float((slow[lag:] & slow[:-lag]).mean())
        # Another slot's phase is in reach rarely, which adds a little.
        assert both == pytest.approx((1 - lag_s + lag_s**2 / 4) / SLOW_S, abs=0.006), lag_s


def test_slow_phases_depend_on_the_seed_and_on_time_alone() -> None:
    first, other = slow_at(1), slow_at(2)
    phases = {"slow_interval_ns": SLOW_S * S, "slow_length_ns": S, "slow_factor_percent": 500}
    late = ModelledDisk(network_text(latency_ns=1000, seed=1, **phases))

    trace = late.arrivals(READ, np.zeros(50_000), 8, 500 * S + np.arange(50_000) * (SLOW_STEP_MS * MS))

    assert not np.array_equal(first, other)
    assert np.array_equal(trace.latency_ns > 1000, first[50_000:])


def test_without_a_share_there_are_no_slow_phases() -> None:
    lines = driver_config(find_device("aws-ebs-gp3"), name="sda", backing_fd=3)
    quiet = Subject(find_device("aws-ebs-gp3")).with_values({"slow_share": 0})

    assert "slow_interval_ns=100000000000\nslow_length_ns=1000000000\nslow_factor_percent=500\n" in lines
    assert "slow" not in quiet.text()


GOLDEN = [163_932, 199_623, 252_457, 343_130, 600_000, 1_049_164, 1_425_988, 1_803_399, 2_196_028]


def test_a_table_is_the_same_to_the_nanosecond_on_every_machine() -> None:
    assert latency_table(0.6, 0.3)[::32] == GOLDEN


def test_the_median_of_a_bundled_volume_at_leisure_is_the_stated_one() -> None:
    for name in VOLUMES:
        device = find_device(name)
        arrivals = np.arange(20_000) * (20 * MS)
        trace = bundled(name, 3).arrivals(READ, np.zeros(20_000), 8, arrivals)

        stated_ns = device.number("read_latency_median") * MS
        # Slow phases and the tail push it up by a hundredth.
        assert float(np.median(trace.part("overhead_ns"))) == pytest.approx(stated_ns, rel=0.02)
        assert int(trace.part("throttle_ns").max()) == 0


def test_the_driver_refuses_what_makes_no_sense() -> None:
    changed: dict[str, Any]
    for changed, reason in (
        ({"buckets": ["operations_bucket=0,1,1"]}, "bad value"),
        ({"buckets": ["operations_bucket=1,1,2"]}, "bad value"),
        ({"buckets": ["operations_bucket=1,1"]}, "bad value"),
        ({"buckets": ["operations_bucket=1,1,1"] * 5}, "bad value"),
        ({"read_latency_ns": "1,2,3"}, "bad value"),
        ({"read_latency_ns": ",".join(["2"] + ["1"] * 256)}, "bad value"),
        ({"unit_bytes": None}, "missing"),
        ({"volatile_cache": 1}, "no volatile cache"),
        ({"slow_interval_ns": 199, "slow_length_ns": 100, "slow_factor_percent": 200}, "longer than half"),
        ({"slow_interval_ns": 200, "slow_length_ns": 100}, "no factor"),
        ({"read_tail_ppm": 1}, "a tail has no factor"),
        ({"write_tail_ppm": 1}, "a tail has no factor"),
        ({"read_tail_ppm": 1, "read_tail_percent": 99}, "bad value"),
    ):
        with pytest.raises(ValueError, match=reason):
            ModelledDisk(network_text(**changed))


def test_a_mistake_in_a_device_file_is_named(tmp_path: Path) -> None:
    for old, new, message in (
        ("operation_credits = { value = 5400000", "operation_credits = { value = 0", "belong together"),
        ('value = 3000, unit = "1/s"', 'value = 300, unit = "1/s"', "not faster"),
        ("slow_share = { value = 1,", "slow_share = { value = 0.00001,", "eleven days apart"),
        (
            "tail_latency = { value = 2.5, low = 1.1",
            "tail_latency = { value = 0.3, low = 0.2",
            "of the tail",
        ),
        ("operation_credits = { value = 5400000", "operation_credits = { value = 5399999", "more credits"),
        ("operation_rate = { value = 300", "operation_rate = { value = 0", "out of range"),
    ):
        head, _, rest = (device_folder() / "aws-ebs-gp2.toml").read_text().partition("[provisioning]")
        fixed = {"capacity": (100 * GIB, "B"), "operation_rate": (300, "1/s"), "byte_rate": (128, "MiB/s")}
        lines = [
            f'{name} = {{ value = {value}, unit = "{unit}", source = "here", estimate = false }}\n'
            for name, (value, unit) in fixed.items()
        ]
        parameters = "[parameters]\n" + "".join(lines) + rest.partition("[parameters]\n")[2]
        text = head + parameters
        assert old in text
        file = tmp_path / "volume.toml"
        file.write_text(text.replace(old, new))

        with pytest.raises(StrataError, match=message):
            load_device(file)
