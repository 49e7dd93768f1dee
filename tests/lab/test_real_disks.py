# SPDX-License-Identifier: Apache-2.0
"""A study on two loop devices that are named as real disks: refused, erased by serial number, measured."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_factory import STRATA, environment, public_folder, records, shared_lab, strata

from strata.disks.machine import mounts_under
from strata.lab import Lab
from strata.runners.leftovers import processes_of
from study_texts import disk

pytestmark = pytest.mark.root
MIB = 1 << 20
# UUIDs come from the seed, and the kernel mounts no two btrfs of one UUID: others may run this test, too.
SEED = os.getpid()
STUDY = f"""
[study]
name = "two-disks"
question = "One disk or two?"
seeds = [{SEED}]
phases = "fixed"
{disk("disk0", capacity="1GiB")}{disk("disk1", capacity="1GiB")}
[stacks.ext4]
devices = ["disk0"]
layers = [{{ layer = "ext4" }}]
[stacks.btrfs]
layers = [{{ layer = "btrfs", data = "raid1", metadata = "raid1" }}]
[workloads.mix]
workload = "fio"
preset = "random-mix-4k"
size = "16MiB"
warmup = "1s"
duration = "1s"
"""


@dataclass(frozen=True)
class Ground:
    path: Path
    disks: tuple[str, str]
    env: dict[str, str]

    def words(self, results: str, *more: str) -> list[str]:
        named = [
            word
            for name, disk in zip(("disk0", "disk1"), self.disks, strict=True)
            for word in ("--disk", f"{name}={disk}")
        ]
        line = ["run", "study.toml", "--runner", "host", "--scratch", str(self.path / "scratch"), *named]
        # Other tests run at the same time.
        return [*line, "--results", results, "--retries-disturbed", "0", *more]

    def strata(self, *words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        return strata(*words, env=self.env, cwd=self.path, check=check)

    @property
    def serials(self) -> list[str]:
        found = json.loads(self.strata("list", "disks", "--json", check=True).stdout)["disks"]
        serials = {each["disk"]["path"]: each["disk"]["serial"] for each in found}
        return [serials[disk] for disk in self.disks]

    @property
    def erased(self) -> list[str]:
        return [word for serial in self.serials for word in ("--erase", serial)]


@pytest.fixture
def ground(lab: Lab) -> Iterator[Ground]:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and loop devices")
    with public_folder() as path:
        shared_lab(lab, path / "shared")
        (path / "scratch").mkdir(mode=0o755)
        (path / "study.toml").write_text(STUDY)
        loops = []
        try:
            for name in ("a.img", "b.img"):
                (path / name).touch()
                os.truncate(path / name, 1200 * MIB)
                attach = ["losetup", "--find", "--show", str(path / name)]
                loops.append(
                    subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
                )
            yield Ground(path, (loops[0], loops[1]), environment(path / "cache", path / "shared"))
            assert left(path) == []
        finally:
            for loop in loops:
                subprocess.run(["losetup", "--detach", loop], check=True)


def left(path: Path) -> list[object]:
    folders = list((path / "scratch").iterdir())
    return [*folders, *mounts_under(path), *(pid for folder in folders for pid in processes_of(folder))]


def test_two_disks_are_refused_erased_by_their_serial_numbers_and_measured(ground: Ground) -> None:
    subprocess.run(["mkfs.ext4", "-q", "-L", "precious", ground.disks[1]], check=True)

    refused = ground.strata(*ground.words("results"))
    done = ground.strata(*ground.words("results", *ground.erased))

    assert refused.returncode != 0
    assert '"precious"' in refused.stderr
    assert f"add --erase {ground.serials[1]}" in refused.stderr
    assert "will be erased" in done.stderr
    assert done.returncode == 0, done.stderr
    found = records(ground.path / "results")
    assert set(found) == {f"ext4.mix.s{SEED}", f"btrfs.mix.s{SEED}"}
    for record in found.values():
        assert record.validity.valid, record.validity
        assert record.disks["disk0"]["write_bytes"] > 0
        assert "1.17 GiB" in record.versions.packages["disk disk0"]
    assert found[f"btrfs.mix.s{SEED}"].disks["disk1"]["write_bytes"] > 0
    everything = "".join(each.read_text() for each in (ground.path / "results").rglob("*.json"))
    assert not any(serial in everything for serial in ground.serials)


def test_a_prediction_of_the_lab_is_held_against_the_disks(ground: Ground) -> None:
    ground.strata("run", "study.toml", "--results", "predicted", "--jobs", "1", check=True)
    named = [word for word in ground.words("") if "disk" in word]
    words = ["confirm", "predicted", *named, "--scratch", str(ground.path / "scratch")]

    refused = ground.strata(*words, "--erase", "another")
    done = ground.strata(*words, "--json")

    assert "none of the named disks has this serial number" in refused.stderr
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["findings"]
    cells = {each["stack"]: each for each in found["confirmed"]}
    assert set(cells) == {"ext4", "btrfs"}
    for each in cells.values():
        assert each["measured"] > each["predicted"]  # the modelled disk rotates
        assert each["cause"] == "disk"
        requests = each["counts"]["reads"]
        assert requests[0] == pytest.approx(requests[1], rel=0.2)
    assert "strata calibrate" in done.stderr  # the disks are predicted as a model


@pytest.mark.slow
def test_results_of_other_disks_are_neither_taken_over_nor_pooled(ground: Ground) -> None:
    ground.strata(*ground.words("results", "--trial", "ext4.*"), check=True)
    swapped = Ground(ground.path, (ground.disks[1], ground.disks[0]), ground.env)

    done = swapped.strata(*swapped.words("results", "--trial", "ext4.*", *swapped.erased[2:], "--json"))

    assert json.loads(done.stdout)["valid"] == [f"ext4.mix.s{SEED}"], done.stderr


@pytest.mark.slow
def test_after_a_crash_clean_takes_the_stack_down_and_leaves_the_disks_alone(ground: Ground) -> None:
    process = subprocess.Popen(
        [*STRATA, *ground.words("killed", "--trial", "btrfs.*")],
        env=ground.env,
        cwd=ground.path,
        stderr=subprocess.DEVNULL,
    )
    while not any(processes_of(each) for each in (ground.path / "scratch").iterdir()):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(1.0)  # so that there is a filesystem
    process.kill()
    process.wait()

    noted = [each.read_text() for each in (ground.path / "scratch").glob("*/disks.json")]
    done = ground.strata("lab", "clean", str(ground.path / "killed"), check=True)

    assert all(serial in noted[0] for serial in ground.serials)
    assert "deleted " in done.stdout
    assert "detached" not in done.stdout
    assert left(ground.path) == []
    said = ground.strata("list", "disks", ground.disks[0], "--json", check=True).stdout
    assert [each["kind"] for each in json.loads(said)["disks"][0]["content"]] == ["btrfs"]
