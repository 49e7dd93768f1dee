# SPDX-License-Identifier: Apache-2.0
"""A study in the lab on workers that die, a scheduler that dies, and machines with caches of their own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from lab_factory import STRATA, host_ground

from cluster_world import CLIENT, WITHOUT_SECCOMP, ClusterWorld, kill, network, slow_down, wait_for
from record_hashes import hashes
from shared_stores import free_port

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_STUDY = """\
[study]
name = "tiny"
question = "Which?"
seeds = {seeds}
[devices.disk0]
model = "samsung-970-pro-1tb"
capacity = "4GiB"
[stacks.ext4]
layers = [{{ layer = "ext4" }}]
[stacks.xfs]
layers = [{{ layer = "xfs" }}]
[workloads.copy]
workload = "dd"
size = "16MiB"
content = "random"
"""
_PREPARED = """\
[study]
name = "tiny"
question = "Which?"
seeds = {seeds}
prepare = "once"
[devices.disk0]
model = "samsung-970-pro-1tb"
capacity = "4GiB"
[stacks.ext4]
layers = [{{ layer = "ext4" }}]
"""
_LOAD = """[workloads.depth-{depth}]
workload = "fio"
size = "48MiB"
duration = "200ms"
file = "overwritten"
options = {{ rw = "randread", bs = "4k", iodepth = {depth}, ioengine = "libaio", direct = 1 }}
"""
_SEEDS = 100
_TRIALS: Final = 2 * _SEEDS


def _started(
    folder: Path, results: str, *more: str, text: str = _STUDY, seeds: int = _SEEDS
) -> subprocess.Popen[bytes]:
    file = folder / "tiny.toml"
    file.write_text(text.format(seeds=list(range(1, seeds + 1))))
    argv = (*STRATA, "run", str(file), "--results", str(folder / results))
    with (folder / f"{results}.log").open("ab") as log:
        return subprocess.Popen((*argv, *more), stdout=log, stderr=log)


def _done(results: Path) -> int:
    return len(list(results.glob("records/*/attempt-*/result.json")))


def _content(results: Path) -> dict[str, bytes]:
    """The files of all records; of a result.json the line that its hash covers."""
    found = {}
    for path in results.glob("records/*/*/*"):
        content = path.read_bytes()
        name = str(path.relative_to(results))
        found[name] = content.split(b"\n", 1)[1] if path.name == "result.json" else content
    return found


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("serial")
    assert _started(folder, "serial", "--jobs", "1").wait() == 0
    found = _content(folder / "serial")
    assert sum(name.endswith("result.json") for name in found) == _TRIALS
    return found


def test_killed_workers_and_a_killed_scheduler_cost_nothing_that_was_finished(
    tmp_path: Path, serial: dict[str, bytes]
) -> None:
    world, results = ClusterWorld(tmp_path, port=18_786), tmp_path / "by-cluster"
    cache = Path(os.environ.get("STRATA_CACHE") or Path.home() / ".cache" / "strata")
    try:
        world.start_scheduler()
        for _ in range(4):
            world.start_worker(cache)
        client = _started(tmp_path, "by-cluster", "--cluster", world.address)
        drawn = random.Random(37).sample(range(4), 2)
        for number, at in zip(drawn, (_TRIALS // 10, _TRIALS // 3), strict=True):
            wait_for("a trial", lambda at=at: _done(results) >= at)
            kill(world.workers[number])
        wait_for("a trial", lambda: _done(results) >= _TRIALS // 2)
        assert world.scheduler is not None
        kill(world.scheduler)
        assert client.wait(120) == 4
        assert "the scheduler is gone" in (tmp_path / "by-cluster.log").read_text()
        kept = _done(results)
        world.end()
        world.workers.clear()
        world.start_scheduler()
        world.start_worker(cache)
        world.start_worker(cache)
        assert _started(tmp_path, "by-cluster", "--cluster", world.address).wait(2400) == 0
    finally:
        world.end()
    assert kept >= _TRIALS // 2
    assert _content(results) == serial


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_machines_take_the_lab_and_a_full_one_is_left_out(
    tmp_path: Path, serial: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_SHARED_CACHE", "/nonexistent")
    world, results = ClusterWorld(tmp_path, host=CLIENT, port=18_787), tmp_path / "by-cluster"
    full = tmp_path / "machine-4"
    full.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=200m,mode=755", "tmpfs", str(full)), check=True)
    try:
        with network(5) as machines:
            world.start_scheduler()
            for number, prefix in enumerate(machines, start=1):
                more = {3: ("nice", "-n", "19"), 5: (sys.executable, "-c", WITHOUT_SECCOMP)}.get(number, ())
                if number == 3:
                    slow_down(f"strata-m{number}", "100mbit")
                host = f"{CLIENT[:-2]}.{number + 1}"
                world.start_worker(tmp_path / f"machine-{number}", (*prefix, *more), host)
            client = _started(tmp_path, "by-cluster", "--cluster", world.address)
            wait_for("a trial", lambda: _done(results) >= _TRIALS // 5)
            kill(world.workers[0])
            wait_for("a trial", lambda: _done(results) >= _TRIALS // 2)
            client.kill()
            client.wait()
            assert _started(tmp_path, "by-cluster", "--cluster", world.address).wait(2400) == 0
            world.end()
    finally:
        world.end()
        subprocess.run(("umount", "-l", str(full)), check=True)
    said = (tmp_path / "by-cluster.log").read_text()
    assert "its image cannot be kept: No space left on device" in said
    assert "machine-5) is left out: the system call seccomp may not be used here" in said
    assert _content(results) == serial


def test_prepared_disks_are_fetched_by_the_machine_that_lacks_them(tmp_path: Path) -> None:
    text = _PREPARED + "".join(
        _LOAD.format(depth=depth).replace("{", "{{").replace("}", "}}") for depth in range(1, 9)
    )
    world = ClusterWorld(tmp_path, port=free_port())
    caches = [tmp_path / f"machine-{number}" for number in (1, 2)]
    try:
        world.start_scheduler()
        for cache in caches:
            world.start_worker(cache)
        words = ("--cluster", world.address)
        assert _started(tmp_path, "by-cluster", *words, text=text, seeds=1).wait(600) == 0
    finally:
        world.end()
    assert _started(tmp_path, "serial", "--jobs", "1", text=text, seeds=1).wait(600) == 0

    said = (tmp_path / "by-cluster.log").read_text()
    assert "disks prepared 1 times, found prepared 7 times" in said
    kept = [{path.name: path.read_bytes() for path in cache.glob("prepared/*/*.json*")} for cache in caches]
    assert kept[0] == kept[1], "also the seconds that making them took"
    assert len(kept[0]) > 3
    assert _content(tmp_path / "by-cluster") == _content(tmp_path / "serial")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="a host's trials need root")
def test_a_host_study_runs_on_each_machine_and_its_results_are_not_pooled() -> None:
    with host_ground() as ground:
        world = ClusterWorld(ground, port=free_port())
        try:
            world.start_scheduler()
            for number in (1, 2):
                world.start_worker(ground / f"machine-{number}")
            words = ("--runner", "host", "--scratch", str(ground / "scratch"), "--cluster", world.address)
            done = _started(ground, "both", *words, "--retries-disturbed", "0", seeds=1)
            assert done.wait(600) == 0, (ground / "both.log").read_text()
        finally:
            world.end()
        folders = sorted((ground / "both").iterdir())
        assert len(folders) == 2
        assert [len(hashes(folder)) for folder in folders] == [2, 2]
        assert hashes(folders[0]) != hashes(folders[1]), "each machine measured all of it"
        compared = subprocess.run((*STRATA, "compare", *map(str, folders)), check=False, capture_output=True)
        assert compared.returncode == 0, compared.stderr
