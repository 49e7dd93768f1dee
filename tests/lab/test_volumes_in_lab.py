# SPDX-License-Identifier: Apache-2.0
"""A volume in the network and a controller's array as fio sees them inside the lab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_factory import bare_task, carried_out, environment, public_folder, records, shared_lab, strata

from strata.datasheet.measure import Subject
from strata.devices.device import find_device
from strata.devices.provisioning import provision
from strata.lab import Lab
from strata.lab.disk import driver_config
from strata.lab.model import READ, ModelledDisk
from strata.model.step import Step
from strata.results.events import Events
from strata.units import NS_PER_S

DEVICES = {
    # Without slow phases and tail, which the library's run meets at other times.
    "cloud": Subject(find_device("aws-ebs-gp3")).with_values({"slow_share": 0, "read_tail_share": 0}).device,
    "array": find_device("controller-bbwc-raid10-4x-wd-re4-500gb"),
}


def fio(disk: str, mode: str, depth: int, ios: int) -> Step:
    common = ("--ioengine=libaio", "--direct=1", "--clocksource=clock_gettime", "--randseed=7", "--bs=4k")
    shape = (f"--rw={mode}", f"--iodepth={depth}", f"--number_ios={ios}", "--norandommap", "--invalidate=0")
    name = f"{disk}-{mode}-{depth}"
    return Step(
        id=name,
        phase="measure",
        title=f"fio {name}",
        argv=("fio", f"--name={name}", f"--filename=${{{disk}}}", *common, *shape, "--output-format=json"),
        time_limit_ns=3600 * NS_PER_S,
    )


STEPS = (
    fio("cloud", "randread", 1, 3000),
    fio("cloud", "randread", 32, 9000),
    fio("array", "randread", 1, 1000),
    fio("array", "randread", 32, 3000),
    fio("array", "randwrite", 1, 3000),
)


@pytest.fixture(scope="module")
def events(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Events:
    return carried_out(lab, bare_task(tmp_path_factory.mktemp("volumes"), DEVICES, STEPS))


def job(events: Events, step: str) -> dict[str, Any]:
    text = events.output(step)
    found = json.loads(text[text.index("{") :])["jobs"][0]
    direction: dict[str, Any] = found["write" if "write" in step else "read"]
    return direction


def modelled_iops(disk: str, depth: int, count: int) -> float:
    """The IOPS of the same C code in user space."""
    device = DEVICES[disk]
    blocks = np.random.default_rng(1).integers(0, device.capacity_bytes // 4096, count)
    model = ModelledDisk(driver_config(device, name="sda", backing_fd=3, seed=1))
    return count * NS_PER_S / model.closed_loop(READ, blocks * 8, 8, depth=depth).duration_ns


@pytest.mark.parametrize(
    ("disk", "depth", "count"),
    [("cloud", 1, 3000), ("cloud", 32, 9000), ("array", 1, 1000), ("array", 32, 3000)],
)
def test_random_reads_are_as_fast_in_the_lab_as_in_the_library(
    events: Events, disk: str, depth: int, count: int
) -> None:
    seen = job(events, f"{disk}-randread-{depth}")["iops"]

    assert seen == pytest.approx(modelled_iops(disk, depth, count), rel=0.04)


def test_a_random_write_to_the_array_returns_from_the_cache(events: Events) -> None:
    latency_ns = job(events, "array-randwrite-1")["lat_ns"]

    assert latency_ns["mean"] == pytest.approx(72_048, rel=0.05)


def test_neither_of_them_is_sent_flushes(events: Events) -> None:
    assert all(dict(each.account)["flushes"] == 0 for each in events.accounts)


def test_a_provisioned_volume_with_slow_phases_is_equal_on_a_second_run(lab: Lab, tmp_path: Path) -> None:
    volume, refused = provision(find_device("aws-ebs-gp3"), 500 << 30, 6000)
    assert not refused
    often = {"slow_share": 30, "slow_length_mean": 20}
    devices = {"cloud": Subject(volume).with_values(often).device}
    steps = (fio("cloud", "randread", 1, 2000),)
    runs = [carried_out(lab, bare_task(tmp_path / name, devices, steps)) for name in ("first", "second")]

    jobs = [job(each, "cloud-randread-1") for each in runs]
    assert jobs[0] == jobs[1]
    assert [dict(each.account) for each in runs[0].accounts] == [
        dict(each.account) for each in runs[1].accounts
    ]
    # 30 % of the time at five times 0.5 ms, which one I/O in twelve meets.
    assert jobs[0]["lat_ns"]["mean"] > 700_000
    assert jobs[0]["lat_ns"]["max"] > 3_000_000


@pytest.mark.slow
def test_the_machine_s_limit_bounds_its_striped_volumes_together(lab: Lab) -> None:
    volume = 'model = "aws-ebs-gp3"\ncapacity = "20GiB"\niops = 3000\n'
    load = 'rw = "randread", bs = "4k", direct = 1, ioengine = "libaio", iodepth = 64'
    rates = {}
    with public_folder() as path:
        env = environment(path / "cache", shared_lab(lab, path / "shared"))
        for limit in ("machine_iops = 2000", ""):
            study = path / f"limit-{len(limit)}.toml"
            study.write_text(
                f'[study]\nname = "stripe"\nquestion = "How fast?"\nseeds = [1]\n{limit}\n'
                f"[devices.disk0]\n{volume}[devices.disk1]\n{volume}"
                '[stacks.stripe]\nlayers = [{ layer = "md", level = 0 }, { layer = "ext4" }]\n'
                f'[workloads.reads]\nworkload = "fio"\nsize = "1GiB"\noptions = {{ {load} }}\n'
                'warmup = "500ms"\nduration = "5s"\n'
            )
            strata("run", str(study), "--results", study.stem, env=env, cwd=path)
            metric = records(path / study.stem)["stripe.reads.s1"].metric("operations_per_s")
            assert metric is not None
            rates[limit] = metric.value

    assert rates["machine_iops = 2000"] == pytest.approx(2000, rel=0.03)
    assert rates[""] == pytest.approx(6000, rel=0.1)  # both volumes' own
