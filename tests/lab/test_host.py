# SPDX-License-Identifier: Apache-2.0
"""The same plans on this machine's kernel, on loop devices."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import (
    STRATA,
    environment,
    head,
    mix,
    oltp,
    on_host,
    public_folder,
    records,
    run_text,
    shared_lab,
    stacks,
    strata,
)

from left_behind import loops_under
from strata.disks.machine import mounts_under
from strata.lab import Lab
from strata.model.trial import CellKey
from strata.plan.catalogue import catalogue
from strata.plan.compile import ENVIRONMENT, compile_trial, trials
from strata.reading.load import load_study
from strata.runners.host import HostRunner
from strata.runners.leftovers import processes_of

pytestmark = pytest.mark.root

OLTP = oltp(2)
STUDY = head("host", [1], "4GiB") + stacks("ext4", "xfs", "btrfs") + OLTP + mix()
# The others run with fio in the tests of every layer.
STACKS = ("ext4", *(pytest.param(each, marks=pytest.mark.slow) for each in ("xfs", "btrfs")))
VERIFY = """
[workloads.verify]
workload = "fio"
preset = "random-mix-4k"
size = "16MiB"
duration = "1s"
scrub = true
"""
PAIR = """
[stacks.folder]
layers = [{ layer = "ext4" }]
[stacks.container]
layers = [{ layer = "ext4" }, { layer = "nspawn" }]
"""
OTHERS = {
    "ext2": '{ layer = "ext2" }',
    "ext3": '{ layer = "ext3" }',
    "f2fs": '{ layer = "f2fs" }',
    "quota": '{ layer = "ext4", project_quota = true }',
    "directory": '{ layer = "ext4" }, { layer = "directory" }',
    "raw": '{ layer = "ext4" }, { layer = "raw", server = "loop" }, { layer = "btrfs" }',
    "xfs": '{ layer = "xfs" }',
    "qcow2": '{ layer = "ext4" }, { layer = "qcow2" }, { layer = "ext4" }',
    "guest": '{ layer = "guest" }, { layer = "ext4" }',
    "md": '{ layer = "md", level = 1 }, { layer = "ext4" }',
    "lvm": '{ layer = "lvm" }, { layer = "ext4" }',
    "lvm-thin": '{ layer = "lvm-thin", zero = false }, { layer = "xfs" }',
    "crypt": '{ layer = "crypt" }, { layer = "ext4" }',
    "partition": '{ layer = "partition", disk = "disk1", sizes = { log = "rest" } }, { layer = "ext4" }',
    "bcache": '{ layer = "bcache", cache = "disk1" }, { layer = "ext4" }',
    "zfs": '{ layer = "zpool", barriers = false }, { layer = "zfs" }',
}
TWO_DISKS = ("md", "partition", "bcache")


def unmet_need(folder: Path) -> str | None:
    """Why this machine cannot run the tests; None when it can."""
    if os.geteuid() != 0:
        return "needs root, for loop devices"
    study = load_study(folder / "study.toml", catalogue())
    plans = [compile_trial(study, *each.key) for each in trials(study)]
    tools = sorted({tool for plan in plans for tool in plan.prerequisites.tools})
    missing = [tool for tool in tools if not shutil.which(tool, path=ENVIRONMENT["PATH"])]
    if missing:
        return f"this machine lacks {', '.join(missing)}"
    file = folder / "probe.img"
    file.touch()
    os.truncate(file, 1 << 20)
    attach = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
    try:
        loop = subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run(["losetup", "--detach", loop], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no loop devices with direct I/O here: {error}"
    finally:
        file.unlink()
    return None


@pytest.fixture(scope="module")
def ground(lab: Lab) -> Iterator[Path]:
    with public_folder() as path:
        (path / "study.toml").write_text(STUDY)
        if reason := unmet_need(path):
            pytest.skip(reason)
        shared_lab(lab, path / "shared")
        (path / "scratch").mkdir(mode=0o755)
        yield path
        assert loops_under(path) == {}
        assert mounts_under(path) == []


def words(path: Path, results: str, *more: str) -> list[str]:
    return ["run", str(path / "study.toml"), *on_host(path / "scratch", path / results), *more]


@pytest.mark.parametrize("stack", STACKS)
def test_a_filesystem_runs_with_fio_and_postgresql_on_this_kernel(ground: Path, stack: str) -> None:
    filesystems = Path("/proc/filesystems").read_text().split()
    if stack not in filesystems:
        pytest.skip(f"this machine's kernel has no {stack}")

    done = strata(
        *words(ground, "results", "--trial", f"{stack}.*"),
        env=environment(ground / "cache", ground / "shared"),
        cwd=ground,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    for workload, metric in (("oltp", "transactions_per_s"), ("mix", "operations_per_s")):
        record = records(ground / "results")[f"{stack}.{workload}.s1"]
        found = record.metric(metric)
        assert record.time_domain == "wall"
        assert record.fingerprint.kernel_sha256 is None
        assert found is not None
        assert found.value > 0
        assert record.disks["disk0"]["write_bytes"] > 0
    assert list((ground / "scratch").iterdir()) == []
    assert not (ground / "results" / ".journal").exists()


def test_a_container_runs_the_loads_of_its_host_and_leaves_nothing(ground: Path) -> None:
    if not shutil.which("systemd-nspawn", path=ENVIRONMENT["PATH"]):
        pytest.skip("this machine lacks systemd-nspawn")
    study = ground / "pair.toml"
    study.write_text(head("pair", [1], "4GiB") + PAIR + OLTP + mix())
    place = on_host(ground / "scratch", ground / "pair")

    done = strata(
        *("run", str(study), *place, "--allow-containers"),
        env=environment(ground / "cache", ground / "shared"),
        cwd=ground,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = records(ground / "pair")
    for stack in ("folder", "container"):
        for workload, metric in (("oltp", "transactions_per_s"), ("mix", "operations_per_s")):
            record = found[f"{stack}.{workload}.s1"]
            assert {each.name: each.value for each in record.metrics}[metric] > 0
            assert record.disks["disk0"]["write_bytes"] > 0
    assert leftovers(ground / "scratch") == []


@pytest.mark.parametrize("stack", OTHERS)
def test_every_layer_that_this_kernel_has_runs_and_leaves_nothing(lab: Lab, ground: Path, stack: str) -> None:
    disk = '\n[devices.disk1]\nmodel = "wd-re4-500gb"\ncapacity = "4GiB"\n' if stack in TWO_DISKS else ""
    stacked = f"\n[stacks.{stack}]\nlayers = [{OTHERS[stack]}]\n"
    text = head(stack, [1], "4GiB") + disk + stacked + VERIFY
    folder, before = ground / f"others-{stack}", set(Path("/sys/block").iterdir())
    folder.mkdir()
    runner = HostRunner(lab.agent, scratch=ground / "scratch", journal=folder / "results", load=lab.load)

    done = run_text(text, folder, runner, retries=0)

    if reason := done.skipped.get(CellKey(stack, "verify")):
        assert reason.startswith("on this machine ")
        assert not (folder / "results" / ".journal").exists()
        pytest.skip(reason)
    record = records(folder / "results")[f"{stack}.verify.s1"]
    assert record.validity.valid, record.validity
    assert record.disks["disk0"]["write_bytes"] > 0
    assert leftovers(ground / "scratch") == []
    assert {each for each in set(Path("/sys/block").iterdir()) - before if "loop" not in each.name} == set()


def test_incus_is_skipped_with_the_layer_that_runs_in_its_place(lab: Lab, ground: Path) -> None:
    layers = {"pool": "incus-dir", "folder": "directory"}
    text = head("host", [1], "4GiB") + mix()
    for name, layer in layers.items():
        text += f'[stacks.{name}]\nlayers = [{{ layer = "ext4" }}, {{ layer = "{layer}" }}]\n'
    folder = ground / "containers"
    folder.mkdir()
    runner = HostRunner(lab.agent, scratch=ground / "scratch", journal=folder / "results")

    done = run_text(text, folder, runner, retries=0)

    assert 'there { layer = "nspawn" } on a filesystem' in done.skipped[CellKey("pool", "mix")]
    assert records(folder / "results")["folder.mix.s1"].validity.valid
    assert list((ground / "scratch").iterdir()) == []


def leftovers(scratch: Path) -> list[object]:
    folders = list(scratch.iterdir())
    processes = [pid for folder in folders for pid in processes_of(folder)]
    return [*processes, *mounts_under(scratch), *loops_under(scratch), *folders]


@pytest.mark.parametrize("how", ["clean", "run"])
def test_what_a_killed_run_left_is_removed(ground: Path, how: str) -> None:
    env = environment(ground / "cache", ground / "shared")
    line = words(ground, f"killed-{how}", "--trial", "ext4.mix.*")
    process = subprocess.Popen([*STRATA, *line], env=env, cwd=ground, stderr=subprocess.DEVNULL)
    while not loops_under(ground / "scratch") and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.5)  # so that there is a filesystem, too
    process.kill()
    process.wait()
    assert leftovers(ground / "scratch") != []

    if how == "clean":
        done = strata("lab", "clean", str(ground / f"killed-{how}"), env=env, cwd=ground)
        assert "detached /dev/loop" in done.stdout
    else:
        strata(*line, env=env, cwd=ground)

    assert leftovers(ground / "scratch") == []
    assert not (ground / f"killed-{how}" / ".journal").exists()


def test_asked_to_stop_it_tears_down_at_once(ground: Path) -> None:
    env = environment(ground / "cache", ground / "shared")
    line = words(ground, "stopped", "--trial", "xfs.mix.*")
    process = subprocess.Popen([*STRATA, *line], env=env, cwd=ground, stderr=subprocess.DEVNULL)
    while not any(processes_of(folder) for folder in (ground / "scratch").iterdir()):
        assert process.poll() is None
        time.sleep(0.01)

    process.send_signal(signal.SIGINT)

    assert process.wait(60) == 128 + signal.SIGINT
    assert leftovers(ground / "scratch") == []
    assert not (ground / "stopped" / ".journal").exists()
