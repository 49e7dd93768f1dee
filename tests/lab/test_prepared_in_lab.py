# SPDX-License-Identifier: Apache-2.0
"""Disks that are prepared once: results do not depend on who made them, nor on when."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import STRATA, environment, public_folder, records, shared_lab, strata

from record_hashes import hashes
from strata.lab import Lab

HEAD = """\
[study]
name = "prepared"
question = "Which?"
seeds = [1]
prepare = "once"
phases = "fixed"
[devices.ssd]
model = "generic-sata-ssd"
capacity = "2GiB"
[devices.hdd]
model = "generic-smr-hdd"
capacity = "60GiB"
"""
STACKS = """\
[stacks.ssd]
devices = ["ssd"]
layers = [{ layer = "ext4" }]
"""
LOAD = """\
[workloads.{name}]
workload = "fio"
size = "24MiB"
duration = "200ms"
options = {{ rw = "{pattern}", bs = "4k", iodepth = {depth}, ioengine = "libaio", direct = 1 }}
file = "overwritten"
"""
LOADS = LOAD.format(name="reads", pattern="randread", depth=1) + LOAD.format(
    name="writes", pattern="randwrite", depth=16
)


class Place:
    """A folder with a study, and a cache of its own beside the shared lab."""

    def __init__(self, path: Path, lab: Lab, text: str) -> None:
        self.path = path
        self.study = path / "study.toml"
        self.study.write_text(text)
        self.env = environment(path / "cache", shared_lab(lab, path / "shared"), HOME="/root")
        self.prepared = path / "cache" / "prepared"

    def run(self, results: str, *words: str) -> dict[str, str]:
        found = self.path / results
        strata("run", str(self.study), "--results", str(found), *words, env=self.env, cwd=self.path)
        assert all(record.validity.valid for record in records(found).values())
        return hashes(found)


@pytest.fixture(scope="module")
def place(lab: Lab) -> Iterator[Place]:
    with public_folder() as path:
        yield Place(path, lab, HEAD + STACKS + LOADS)


@pytest.fixture(scope="module")
def first(place: Place) -> dict[str, str]:
    found = place.run("first", "--jobs", "1")
    assert len(found) == 2
    assert len([*place.prepared.iterdir()]) == 1
    return found


def test_the_same_bytes_whoever_prepared_and_in_whatever_order(place: Place, first: dict[str, str]) -> None:
    shutil.rmtree(place.prepared)

    place.run("again", "--trial", "ssd.writes.s1")
    again = place.run("again", "--trial", "ssd.reads.s1")

    assert again == first


def test_a_kept_disk_with_a_changed_byte_is_made_again(place: Place, first: dict[str, str]) -> None:
    (kept,) = place.prepared.glob("*/0.disk")
    content = kept.read_bytes()
    middle = next(at for at in range(len(content) // 2, len(content)) if content[at])
    with kept.open("r+b") as file:
        file.seek(middle)
        file.write(bytes([content[middle] ^ 1]))

    assert place.run("second", "--jobs", "1") == first
    assert kept.read_bytes() == content


@pytest.mark.slow
def test_a_killed_maker_leaves_nothing_that_is_used(place: Place, first: dict[str, str]) -> None:
    shutil.rmtree(place.prepared)
    words = [*STRATA, "run", str(place.study), "--results", str(place.path / "killed")]
    killed = subprocess.Popen(words, env=place.env, cwd=place.path, start_new_session=True)
    while not [*place.prepared.glob(".*/events.jsonl")]:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()

    assert not [*place.prepared.glob("[!.]*")]
    assert place.run("killed") == first
    assert not [*place.prepared.glob(".*")]


SLOW_STACKS = """\
[stacks.md-xfs]
devices = ["ssd", "ssd1"]
layers = [{ layer = "md", level = 1 }, { layer = "xfs" }]
[stacks.zfs]
devices = ["ssd", "ssd1"]
layers = [{ layer = "zpool", vdev = "mirror", width = 2, arc_max = "128MiB" }, { layer = "zfs" }]
[stacks.thin]
devices = ["ssd"]
layers = [{ layer = "lvm-thin" }, { layer = "ext4" }]
[stacks.crypt]
devices = ["ssd"]
layers = [{ layer = "crypt" }, { layer = "btrfs" }]
[stacks.smr]
devices = ["hdd"]
layers = [{ layer = "f2fs" }]
[stacks.bare]
devices = ["ssd"]
layers = []
[stacks.image]
devices = ["ssd"]
layers = [
    { layer = "xfs" }, { layer = "qcow2", size = "1GiB" }, { layer = "guest", memory = "256MiB" },
    { layer = "ext4" },
]
[stacks.vm]
devices = ["ssd"]
layers = [{ layer = "lvm" }, { layer = "vm", memory = "128MiB" }, { layer = "ext4" }]
[stacks.qemu]
devices = ["ssd"]
layers = [{ layer = "vm", emulator = "qemu" }, { layer = "ext4" }]
"""
SECOND_SSD = '[devices.ssd1]\nmodel = "generic-sata-ssd"\ncapacity = "2GiB"\n'


@pytest.mark.slow
def test_every_kind_of_stack_comes_up_again_with_equal_results(lab: Lab) -> None:
    with public_folder() as path:
        place = Place(path, lab, HEAD + SECOND_SSD + SLOW_STACKS + LOADS)
        first = place.run("first")
        assert len(first) == 18
        shutil.rmtree(place.prepared)

        assert place.run("second", "--jobs", "1") == first
