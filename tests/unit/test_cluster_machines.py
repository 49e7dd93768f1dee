# SPDX-License-Identifier: Apache-2.0
"""Workers with caches of their own: fetched disks, host studies; and a scheduler that dies."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from execution_factory import TRIALS, RecordingDisplay, fake_runner, run_tiny, study_in

from cluster_world import WITHOUT_SECCOMP, ClusterWorld, kill
from shared_stores import free_port
from strata.errors import LabError, RunError
from strata.execution.cluster import whole
from strata.execution.cluster.connection import Cluster
from strata.execution.cluster.worker import this_strata
from strata.execution.pool import Stop, Work, WorkSite
from strata.experiment.run import run_study
from strata.lab.boot import check_tools
from strata.lab.cache import Cache, Inputs, cache_root
from strata.lab.travel import LabPart, Made
from strata.plan.model import Plan, Trial
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder

_KIND: Final = "prepared"
_FILE: Final = "0.disk"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterWorld]:
    here, folder = Path(__file__).parent, tmp_path_factory.mktemp("world")
    found = ClusterWorld(folder, port=free_port())
    found.start_scheduler()
    for number in (1, 2):
        path = ("env", f"PYTHONPATH={here}:{here.parent}")
        found.start_worker(folder / f"machine-{number}", path)
    yield found
    found.end()


@pytest.fixture
def cluster(world: ClusterWorld) -> Iterator[Cluster]:
    found = Cluster(world.address)
    found.client.wait_for_workers(2, timeout=120)
    yield found
    found.close()


@dataclass(frozen=True)
class _Beginning:
    """What an item began with."""

    machine: str
    was_there: bool
    sha256: str
    made: Made


@dataclass(frozen=True)
class _Sharing(Work[int, _Beginning]):
    """Items of one block, which begins with a sparse file of 64 MiB that takes ``seconds`` to make."""

    seconds: float

    def __call__(self, item: int, site: WorkSite) -> _Beginning:
        cache, inputs = Cache(cache_root()), Inputs({"block": "1"}, {})
        was_there = cache.find(_KIND, inputs) is not None
        entry = cache.build(_KIND, inputs, self._make)
        sha256 = hashlib.sha256((entry.path / _FILE).read_bytes()).hexdigest()
        time.sleep(0.3)
        made = Made(LabPart(_KIND, entry.key, entry.sha256), entry.size_bytes, entry.manifest["seconds"])
        return _Beginning(str(cache_root()), was_there, sha256, made)

    def _make(self, folder: Path) -> Mapping[str, Any]:
        with (folder / _FILE).open("wb") as file:
            for start in (0, 9 << 20, 33 << 20):
                file.seek(start)
                file.write(bytes(range(1, 256)) * 4096)
            file.truncate(64 << 20)
        return {"seconds": self.seconds}

    def lost(self, item: int, site: WorkSite, error: RunError) -> _Beginning:
        raise error

    def plans(self, item: int) -> tuple[Plan, ...]:
        return ()

    def identity(self, item: int) -> str:
        return hashlib.sha256(str(item).encode()).hexdigest()

    def block(self, item: int) -> str:
        return "1"

    def beginning(self, found: _Beginning) -> Made:
        return found.made


def test_what_one_machine_has_made_is_fetched_where_that_is_shorter(
    tmp_path: Path, world: ClusterWorld, cluster: Cluster
) -> None:
    folder = ResultsFolder(tmp_path / "results")
    folder.path.mkdir()
    pool = cluster.pool(fake_runner(), folder, RecordingDisplay(), 1 << 20)

    def beginnings(seconds: float) -> list[_Beginning]:
        found: list[_Beginning] = []
        for entry in world.folder.glob(f"machine-*/{_KIND}/*"):
            entry.rename(tmp_path / f"old-{entry.parts[-3]}")
        pool.run(_Sharing(seconds), range(8), Stop(), lambda item, each: found.append(each))
        return found

    fetched, made = beginnings(3600.0), beginnings(0.0)

    for found, makers in ((fetched, 1), (made, 2)):
        assert len(found) == 8
        assert {each.machine for each in found} == {str(world.folder / f"machine-{n}") for n in (1, 2)}
        assert len({each.machine for each in found if not each.was_there}) == makers
        assert len({each.sha256 for each in found}) == 1
    copies = [*tmp_path.glob(f"old-*/{_FILE}")]
    assert len(copies) == 2
    assert all(each.stat().st_blocks * 512 < 20 << 20 for each in copies), "holes stay holes"


_PROGRAM: Final = """\
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from execution_factory import fake_runner, run_tiny
print("[1/4] measured", file=sys.stderr)
if "--trial" in sys.argv:
    sys.exit("the host runner needs root")
where = Path(sys.argv[sys.argv.index("--results") + 1])
assert "seeds = [1, 2]" in Path(sys.argv[1]).read_text()
run_tiny(where.parent, fake_runner())
"""


def test_each_machine_runs_a_host_study_itself_and_its_results_are_a_folder_of_its_own(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "_PIECE_BYTES", 1000)  # each file comes in several pieces
    path = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    program = (sys.executable, "-c", _PROGRAM.format(path=path))
    said: list[str] = []
    cluster.client.run(setattr, whole, "_PROGRAM", program)
    study = study_in(tmp_path)

    refused = whole.run_on_each(cluster.client, study, ["--trial", "*"], tmp_path / "refused", said.append)
    runs = whole.run_on_each(cluster.client, study, [], tmp_path / "results", said.append)

    assert [each.exit_code for each in refused.values()] == [1, 1]
    assert all(each.said.endswith("the host runner needs root") for each in refused.values())
    assert [each.exit_code for each in runs.values()] == [0, 0]
    (tmp_path / "here").mkdir()
    run_tiny(tmp_path / "here", fake_runner())
    here = ResultsFolder(tmp_path / "here" / "results").store.identities()
    for folder in runs:
        assert folder.parent == tmp_path / "results"
        assert ResultsFolder(folder).store.identities() == here
    assert sum("[1/4] measured" in line for line in said) == 4


def test_a_machine_that_forbids_seccomp_runs_no_lab() -> None:
    check = "from strata.lab.boot import check_tools; check_tools()"
    argv = (sys.executable, "-c", WITHOUT_SECCOMP, sys.executable, "-c", check)

    refused = subprocess.run(argv, check=False, capture_output=True, text=True)

    assert "the system call seccomp may not be used here" in refused.stderr
    check_tools()  # this machine allows it


def test_a_scheduler_that_dies_is_said_and_the_command_goes_on_elsewhere(
    tmp_path: Path, world: ClusterWorld, cluster: Cluster
) -> None:  # the last test: its cluster is gone
    class Killing(RecordingDisplay):
        def finished(self, trial: Trial, record: ResultRecord) -> None:
            super().finished(trial, record)
            assert world.scheduler is not None
            kill(world.scheduler)

    study, results, waits = study_in(tmp_path), tmp_path / "results", fake_runner(xfs__mix__s2="wait")
    with pytest.raises(LabError, match="the scheduler is gone; every finished trial is kept"):
        run_study(study, results, waits, display := Killing(), jobs=cluster)
    kept = sum(event.startswith("finished") for event in display.events)

    summary = run_study(study, results, fake_runner(), RecordingDisplay(), jobs=1)

    assert len(summary.kept) == kept >= 1
    assert {*summary.kept, *summary.valid} == TRIALS


def test_a_host_study_that_a_signal_ends_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    killed = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr(whole, "_PROGRAM", killed)
    worker: Any = None  # the program says nothing

    ran = asyncio.run(whole._run_whole("run", this_strata(), ("name", "a.toml", ""), (), worker))

    assert ran.exit_code == 128 + signal.SIGKILL
