# SPDX-License-Identifier: Apache-2.0
"""A study on a Dask cluster: a worker in this process, which has a cache and records of its own."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from execution_factory import TRIALS, RecordingDisplay, fake_runner, identity_of, run_tiny, study_in

from strata.errors import LabError, StrataError, StudyError, ToolError
from strata.execution.cluster import connection, pool, worker
from strata.execution.cluster.connection import Cluster
from strata.execution.pool import ClusterNow
from strata.experiment.run import RunSummary, run_study
from strata.plan.model import Trial
from strata.results.record import ResultRecord
from strata.results.records import RecordStore
from strata.results.shared import SharedStore
from strata.results.store import CLUSTER_NAME, ResultsFolder
from strata.runners.fake import FakeRunner
from strata.serve.watch import WatchedFolder

_HERE = """\
cluster = "distributed.LocalCluster"
workers = 1
[arguments]
processes = false
n_workers = 1
threads_per_worker = 2
protocol = "tcp://"
host = "127.0.0.1"
dashboard_address = "127.0.0.1:0"
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "here.toml"
    file.write_text(_HERE)
    found = Cluster(str(file))
    yield found
    found.close()


@dataclass
class _Watching(RecordingDisplay):
    """Looks into the results folder at every finished trial, as `strata serve` does."""

    folder: Path = Path()
    seen: list[ClusterNow | None] = field(default_factory=list)

    def finished(self, trial: Trial, record: ResultRecord) -> None:
        super().finished(trial, record)
        self.seen.append(WatchedFolder(self.folder).cluster())


def _run(folder: Path, cluster: Cluster, runner: FakeRunner, display: RecordingDisplay) -> RunSummary:
    return run_study(study_in(folder), folder / "results", runner, display, jobs=cluster)


def _records(results: Path) -> dict[str, list[str]]:
    store = ResultsFolder(results).store
    assert isinstance(store, RecordStore)
    return {
        identity: [store.read(each, identity).record_sha256 for each in store.attempts(identity)]
        for identity in store.identities()
    }


def test_a_cluster_gives_the_records_of_a_serial_run(tmp_path: Path, cluster: Cluster) -> None:
    behaviours = {"xfs__mix__s2": "fail", "ext4__mix__s1": "die"}
    display = _Watching(folder=tmp_path / "results")

    summary = _run(tmp_path, cluster, fake_runner(**behaviours), display)

    (tmp_path / "serial").mkdir()
    serial = run_tiny(tmp_path / "serial", fake_runner(**behaviours))
    assert (set(summary.valid), summary.invalid) == (set(serial.valid), serial.invalid)
    assert _records(tmp_path / "results") == _records(tmp_path / "serial" / "results")
    for attempt in (tmp_path / "serial" / "results").glob("records/*/*"):
        there = tmp_path / "results" / attempt.relative_to(tmp_path / "serial" / "results")
        assert {path.name for path in attempt.iterdir()} == {path.name for path in there.iterdir()}
    assert RecordStore(tmp_path / "cache" / "records").identities() == [], "they were taken"
    assert sum(event.startswith("finished") for event in display.events) == len(TRIALS)
    (tally,) = summary.machines.values()
    assert (tally.finished, tally.failed, tally.left_out) == (len(TRIALS), 2, "")
    labs = min(2, len(os.sched_getaffinity(0)))  # `make test` gives each of its processes one CPU
    assert {now.labs for now in display.seen if now} == {labs}, "it is watched while it runs"
    assert not (tmp_path / "results" / CLUSTER_NAME).exists()


def test_a_record_that_no_client_took_is_not_measured_again(tmp_path: Path, cluster: Cluster) -> None:
    first = tmp_path / "first"
    first.mkdir()
    run_tiny(first, fake_runner())
    identity = identity_of("ext4.mix.s1")
    held = first / "results" / "records" / identity, tmp_path / "cache" / "records" / identity
    died = fake_runner(ext4__mix__s1="die")  # if it were measured again

    study, results = study_in(tmp_path), tmp_path / "results"
    shutil.copytree(*held)
    summary = run_study(study, results, died, RecordingDisplay(), jobs=cluster)
    shutil.copytree(*held)
    again = run_study(study, tmp_path / "again", died, RecordingDisplay(), jobs=cluster, fresh=True)

    assert set(summary.valid) == TRIALS
    assert [str(key) for key in again.invalid] == ["ext4.mix.s1"], "--fresh measures it"


@dataclass
class _Acting(RecordingDisplay):
    """Acts once, when the first trial has finished."""

    act: Callable[[], object] = lambda: None

    def finished(self, trial: Trial, record: ResultRecord) -> None:
        super().finished(trial, record)
        if sum(event.startswith("finished") for event in self.events) == 1:
            self.act()


def test_ctrl_c_twice_loses_nothing_and_the_same_command_goes_on(tmp_path: Path, cluster: Cluster) -> None:
    waits = fake_runner(**dict.fromkeys(("xfs__mix__s1", "xfs__mix__s2"), "wait"))

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    first = _run(tmp_path, cluster, waits, _Acting(act=interrupt))
    last = _run(tmp_path, cluster, fake_runner(), RecordingDisplay())

    assert (first.signal_number, first.invalid) == (signal.SIGINT, {})
    assert {*last.kept, *last.valid} == TRIALS
    assert set(first.valid) == set(last.kept) != set(), "what was finished is not measured again"


def test_two_clients_with_one_study_both_end_well(tmp_path: Path, cluster: Cluster) -> None:
    address = str(cluster.client.scheduler_info()["address"])
    folders = [tmp_path / name for name in ("one", "two")]

    def run(folder: Path) -> RunSummary:
        folder.mkdir()
        own = Cluster(address)
        try:
            return _run(folder, own, fake_runner(), RecordingDisplay())
        finally:
            own.close()

    with ThreadPoolExecutor() as threads:
        summaries = list(threads.map(run, folders))

    assert [set(each.valid) for each in summaries] == [TRIALS, TRIALS]
    assert _records(folders[0] / "results") == _records(folders[1] / "results")


def test_a_store_that_cannot_be_written_is_said_and_nothing_is_lost(tmp_path: Path, cluster: Cluster) -> None:
    said: list[str] = []
    folder = ResultsFolder(tmp_path / "results", shared=SharedStore("/proc/none", say=said.append))

    summary = run_study(study_in(tmp_path), folder, fake_runner(), RecordingDisplay(), jobs=cluster)

    assert set(summary.valid) == TRIALS
    assert len(said) == 1, said
    assert "results are kept here" in said[0]


def test_a_worker_of_another_strata_is_left_out(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.client  # noqa: B018  connected before the version is another one
    monkeypatch.setattr(worker, "this_strata", lambda: ("0.0.9", "0" * 64))

    with pytest.raises(LabError, match=r"no worker can run a trial: .*it has Strata 0\.0\.9"):
        _run(tmp_path, cluster, fake_runner(), RecordingDisplay())


def test_a_cluster_without_workers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_LOOK_S", 0.3)
    file = tmp_path / "empty.toml"
    none = _HERE.replace("n_workers = 1", "n_workers = 0").replace("workers = 1\n", "")
    file.write_text(f'wait = "1s"\n{none}')
    empty = Cluster(str(file))

    with pytest.raises(LabError, match="no worker came within 1 s"):
        _run(tmp_path, empty, fake_runner(), display := RecordingDisplay())

    empty.close()
    assert sum("waiting for one" in event for event in display.events) == 1


def test_what_is_no_cluster_is_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_TIMEOUT_S", 1)
    (tmp_path / "typo.toml").write_text("adress = 'tcp://a:1'")
    (tmp_path / "foreign.toml").write_text("cluster = 'os.system'")
    (tmp_path / "missing.toml").write_text("workers = 3")
    (tmp_path / "wrong.toml").write_text("cluster = 'distributed.Nothing'")
    refused: dict[str, type[StrataError]] = {
        "tcp://127.0.0.1:1": LabError,
        "somewhere": StudyError,
        "local:0": StudyError,
        **{
            str(tmp_path / f"{name}.toml"): StudyError
            for name in ("typo", "foreign", "missing", "wrong", "none")
        },
    }
    wrong = []
    for where, kind in refused.items():
        try:
            Cluster(where).client  # noqa: B018
        except StrataError as error:
            if type(error) is not kind or error.remedy is None or str(error).count("\n") > 1:
                wrong.append(f"{where}: {error!r}")
        else:
            wrong.append(f"{where}: accepted")
    assert not wrong


def test_a_host_study_is_refused_on_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    class Wall(FakeRunner):
        time_domain = "wall"

    with pytest.raises(ToolError, match="a host's results are its own"):
        _run(tmp_path, cluster, Wall(), RecordingDisplay())
