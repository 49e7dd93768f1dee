# SPDX-License-Identifier: Apache-2.0
"""The modelled disk as fio sees it inside the lab, against the formulas of its mechanism."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from lab_factory import bare_task, carried_out

from strata.datasheet.formulas import random_read_ns_mean, sustained_bytes_per_s
from strata.devices.device import find_device
from strata.devices.kinds.mechanism import mechanism
from strata.lab import Lab
from strata.model.step import Step
from strata.results.events import Events
from strata.units import NS_PER_S

DEVICE = find_device("wd-re4-500gb")
DISK = mechanism(DEVICE)
DEPTHS = (1, 2, 4, 8, 16, 32)
SEQUENTIAL_BYTES = 256 << 20
REQUEST_BYTES_MAX = 512 << 10
PARTS = ("queue_ns", "overhead_ns", "seek_ns", "rotation_ns", "transfer_ns", "flush_ns")


def fio(name: str, *options: str) -> Step:
    common = ("--ioengine=libaio", "--direct=1", "--clocksource=clock_gettime", "--randseed=7")
    output = ("--output-format=json", "--invalidate=0", "--norandommap")
    return Step(
        id=name,
        phase="measure",
        title=f"fio {name}",
        argv=("fio", f"--name={name}", "--filename=${disk0}", *common, *output, *options),
        time_limit_ns=3600 * NS_PER_S,
    )


def sequential(name: str, offset: int) -> Step:
    return fio(
        name, "--rw=read", "--bs=1M", "--iodepth=4", f"--offset={offset}", f"--size={SEQUENTIAL_BYTES}"
    )


STEPS = (
    fio("random", "--rw=randread", "--bs=4k", "--iodepth=1", "--number_ios=20000"),
    sequential("outer", 0),
    sequential("inner", (DEVICE.capacity_bytes - SEQUENTIAL_BYTES) >> 20 << 20),
    *(
        fio(f"depth-{depth}", "--rw=randread", "--bs=4k", f"--iodepth={depth}", "--number_ios=3000")
        for depth in DEPTHS
    ),
)


@dataclass(frozen=True)
class Measured:
    """The figures of fio and of the disk's account for each step."""

    events: Events

    def job(self, step: str) -> dict[str, Any]:
        text = self.events.output(step)
        job: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]["read"]
        return job

    def account(self, step: str) -> dict[str, int]:
        before, after = (dict(each.account) for each in self.events.accounts if each.step == step)
        return {key: after[key] - before[key] for key in after}


@pytest.fixture(scope="module")
def measured(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return Measured(carried_out(lab, bare_task(tmp_path_factory.mktemp("disk"), DEVICE, STEPS)))


def test_random_reads_take_the_time_of_the_formula(measured: Measured) -> None:
    mean_ns = measured.job("random")["lat_ns"]["mean"]

    assert mean_ns == pytest.approx(random_read_ns_mean(DISK), rel=0.01)


@pytest.mark.parametrize(("step", "zone"), [("outer", 0), ("inner", -1)])
def test_sequential_reads_have_the_rate_of_their_zone(measured: Measured, step: str, zone: int) -> None:
    assert measured.job(step)["bw_bytes"] == pytest.approx(sustained_bytes_per_s(DISK, zone), rel=0.01)


def test_throughput_never_falls_with_queue_depth(measured: Measured) -> None:
    rates = [measured.job(f"depth-{depth}")["iops"] for depth in DEPTHS]

    # The mean of 3000 random requests is known to about 1 %.
    for shallower, deeper in pairwise(rates):
        assert deeper >= 0.99 * shallower
    assert rates[-1] > 1.3 * rates[0]


@pytest.mark.parametrize("step", [step.id for step in STEPS])
def test_no_request_is_lost_or_counted_twice(measured: Measured, step: str) -> None:
    job, account = measured.job(step), measured.account(step)

    # The block layer passes a request of 1 MiB on as two.
    pieces = -(-job["io_bytes"] // job["total_ios"] // REQUEST_BYTES_MAX)
    assert account["read_bytes"] == job["io_bytes"]
    assert account["reads"] == pieces * job["total_ios"]
    assert account["writes"] == 0


@pytest.mark.parametrize("step", [step.id for step in STEPS])
def test_the_parts_of_the_time_add_up_to_what_fio_saw(measured: Measured, step: str) -> None:
    job, account = measured.job(step), measured.account(step)

    seen_ns = job["lat_ns"]["mean"] * job["total_ios"]
    # fio also counts the way to the disk and back; a request of 1 MiB may be served in several.
    assert sum(account[part] for part in PARTS) >= 0.99 * seen_ns


def test_at_queue_depth_one_the_disk_is_busy_just_while_it_serves(measured: Measured) -> None:
    account = measured.account("random")

    assert account["queue_ns"] == 0
    assert sum(account[part] for part in PARTS) == account["busy_ns"]
