# SPDX-License-Identifier: Apache-2.0
"""The price of the processor: the work of one and of several. test_identical.py repeats runs with a price."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import environment, head, public_folder, records, shared_lab, stacks, strata

from record_hashes import attempt_of
from strata.lab import Lab
from strata.lab.progress import SILENCE
from strata.pricing.benchmark import measure_lab
from strata.results.record import ProcessorUse, ResultRecord, record_sha256

LOADS = """
[workloads.reads]
workload = "fio"
size = "16MiB"
options = { rw = "randread", bs = "4k", direct = 1, numjobs = 4 }
duration = "50ms"

[workloads.copy]
workload = "dd"
content = "random"
size = "16MiB"
"""
# Asked for sixteen at a time.
BATCHES = """
[workloads.batches]
workload = "fio"
size = "16MiB"
duration = "50ms"

[workloads.batches.options]
rw = "randread"
bs = "4k"
direct = 1
ioengine = "libaio"
iodepth = 16
iodepth_batch_submit = 16
iodepth_batch_complete_min = 16
"""
# Workers of the loop device and of btrfs serve each read; the program may find it completed without a sleep.
CHAIN = """
[stacks.btrfs]
layers = [
    { layer = "tmpfs", size = "512MiB" },
    { layer = "raw", server = "loop", cache = "writeback", size = "384MiB" },
    { layer = "btrfs" },
]

[workloads.reads]
workload = "fio"
size = "16MiB"
duration = "50ms"
options = { rw = "randread", bs = "4k", direct = 1, ioengine = "libaio" }
"""
# Throttled writeback looks at each request, which a group's processors pay more dearly for.
NULL = 'null"\nqueue = { wbt_lat_usec = 0 }'
GUESTS = """
[stacks.one]
layers = [{ layer = "guest", cpus = 1 }, { layer = "ext4" }]
[stacks.two]
layers = [{ layer = "guest", cpus = 2 }, { layer = "ext4" }]
[stacks.all]
layers = [{ layer = "guest", cpus = 4 }, { layer = "ext4" }]
"""


@pytest.fixture(scope="module")
def place(lab: Lab) -> Iterator[Path]:
    with public_folder() as path:
        env = environment(path / "cache", shared_lab(lab, path / "shared"))
        base = head("price", [1], "1GiB") + stacks("ext4") + LOADS
        for name, cpu in {"free": 'cpu = "free"', "one": "cpus = 1", "four": "cpus = 4"}.items():
            study = path / f"{name}.toml"
            # With neither disk nor processor a load would take long to get anywhere in time.
            text = base if name == "free" else base.replace('wd-re4-500gb"', NULL)
            more = BATCHES if name == "one" else ""
            study.write_text(text.replace("time_limit", f"{cpu}\ntime_limit", 1) + more)
            trials = "*.reads.*" if name == "free" else "*"
            strata("run", str(study), "--results", name, "--trial", trials, env=env, cwd=path)
        yield path


def found(place: Path, name: str, load: str = "reads") -> tuple[ResultRecord, ProcessorUse]:
    record = records(place / name)[f"ext4.{load}.s1"]
    assert record.validity.valid
    assert record.processor is not None
    return record, record.processor


def rate(record: ResultRecord) -> float:
    metric = record.metric("operations_per_s")
    assert metric is not None
    return metric.value


@pytest.mark.parametrize("name", ["one", "four"])
def test_the_parts_add_up_to_the_busy_time(place: Path, name: str) -> None:
    _, used = found(place, name)

    assert sum(used.time_ns.values()) == pytest.approx(used.busy_ns, rel=0.02)
    assert used.time_ns["user"] > 0
    assert 0.1 < used.utilisation <= 1.01


def test_a_program_prepares_each_of_the_ios_that_it_asks_for_at_once(place: Path) -> None:
    record, used = found(place, "one", "batches")
    operations = record.metric("operations")

    assert operations is not None
    assert used.counts["system_calls"] < operations.value / 2
    assert used.time_ns["user"] / operations.value > 400  # fio's price of a call, on a slower processor


def test_four_jobs_are_served_by_four_processors_at_once(place: Path) -> None:
    one, four = (rate(found(place, name)[0]) for name in ("one", "four"))

    assert 2 * one < four < 4.2 * one  # fio's jobs do not begin at once


def test_guests_have_the_processors_that_the_study_gives_them(place: Path, lab: Lab) -> None:
    env = environment(place / "cache", shared_lab(lab, place / "shared"))
    text = (place / "four.toml").read_text().replace('[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n', GUESTS)
    (place / "guests.toml").write_text(text)
    for results, trials in (("guests", "*.reads.*"), ("guests-again", "one.reads.*")):
        strata("run", "guests.toml", "--results", results, "--trial", trials, env=env, cwd=place)
    found, again = (records(place / each) for each in ("guests", "guests-again"))
    rates = {name.partition(".")[0]: rate(record) for name, record in found.items()}
    one, four = (rate(records(place / name)["ext4.reads.s1"]) for name in ("one", "four"))

    assert record_sha256(again["one.reads.s1"]) == record_sha256(found["one.reads.s1"])
    assert rates["one"] == pytest.approx(one, rel=0.25)  # the disk's interrupts find another processor
    assert rates["two"] == pytest.approx(2 * one, rel=0.25)
    assert rates["all"] == pytest.approx(four, rel=0.05)


def test_several_processors_hardly_speed_up_a_read_whose_work_is_a_chain(lab: Lab) -> None:
    rates = {}

    with public_folder() as path:
        env = environment(path / "cache", shared_lab(lab, path / "shared"))
        for cpus in (1, 4):
            study = head("chain", [1], "1GiB").replace("time_limit", f"cpus = {cpus}\ntime_limit", 1)
            (path / "chain.toml").write_text((study + CHAIN).replace("wd-re4-500gb", "null"))
            strata("run", "chain.toml", "--results", str(cpus), env=env, cwd=path)
            rates[cpus] = rate(records(path / str(cpus))["btrfs.reads.s1"])

    # While the program returns from asking, a worker can begin.
    assert rates[4] < 1.7 * rates[1]


def test_another_processor_is_woken_only_if_there_is_one(place: Path) -> None:
    one, four = (found(place, name, "copy")[1].counts["idle_wakeups"] for name in ("one", "four"))

    assert one == 0 < four


def test_a_free_processor_takes_no_time_and_its_charges_are_stated(place: Path) -> None:
    record, used = found(place, "free")

    assert used.busy_ns == sum(used.time_ns.values()) == 0
    assert used.counts["system_calls"] > 0
    assert record.charges.syscall_ns > 0


def test_random_numbers_have_a_price(place: Path) -> None:
    _, used = found(place, "one", "copy")

    assert used.counts["block_units"] > 4.4 * (16 << 20)  # ChaCha takes 280 for 64 bytes


def test_programs_without_a_price_are_told_from_others_by_name(place: Path) -> None:
    _, used = found(place, "one", "copy")

    assert used.unpriced.keys() == {"sync", "tee"}  # not dd
    assert used.unpriced["sync"].system_calls > 10
    assert 0 < used.unpriced_share < 0.5


def test_a_program_that_is_started_by_a_link_has_the_price_of_the_links_name(place: Path) -> None:
    events = attempt_of(place / "one", "ext4.copy.s1") / "events.jsonl"
    accounts = [json.loads(line) for line in events.read_text().splitlines() if "processor_account" in line]

    last = accounts[-1]["account"]
    assert last["unpriced_calls:mount"] > 0
    assert "unpriced_calls:mke2fs" not in last  # mkfs.ext4


def test_the_lab_counts_the_same_work_of_each_operation_every_time(lab: Lab) -> None:
    first, second = (measure_lab(lab, ["ext4"], SILENCE, shorten=200) for _ in range(2))

    assert first == second
    assert first["getppid"].counted["system_calls"] == pytest.approx(1, abs=0.05)
    assert first["page-fault"].counted["page_faults"] == pytest.approx(1, abs=0.3)
    assert first["read-64k"].counted["copy_bytes"] == pytest.approx(65_536, rel=0.1)
    assert first["socket-turn"].counted["switches"] == pytest.approx(2, rel=0.3)
    # The loop device's thread is woken for a read, and wakes the reader; a second processor would be idle.
    assert first["ext4-read-4k-direct"].counted["idle_wakeups"] == pytest.approx(2, rel=0.3)
    assert first["ext4-read-4k-direct"].counted["block_units"] > first["read-4k"].counted["block_units"]
