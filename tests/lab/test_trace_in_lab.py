# SPDX-License-Identifier: Apache-2.0
"""A trial's own trace as the load of other stacks, and several disks of one at once."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from lab_factory import head, public_folder, records, run_text, stacks

from record_hashes import attempt_of, hashes
from strata.lab import Lab
from strata.results.record import ResultRecord
from strata.runners.host import HostRunner
from strata.runners.lab import LabRunner
from strata.traces.kinds import OPS
from strata.traces.requests import request_lines
from strata.traces.table import Trace, read_parquet

RECORDED = """
[workloads.mix]
workload = "fio"
preset = "fsync-write-4k"
size = "8MiB"
duration = "2s"
"""
REPLAYED = """
[stacks.bare]
layers = []
[workloads.then]
workload = "trace"
trace = "recorded.parquet"
[workloads.fast]
workload = "trace"
trace = "recorded.parquet"
timing = "asap"
queue_depth = 8
"""


def blocks(trace: Trace) -> Counter[tuple[str, int]]:
    """How often each block of 4 KiB of the studied disk was read or written, whatever the requests."""
    rows = trace.records[(trace.records["disk"] > 0) & (trace.records["sectors"] > 0)]
    columns = (rows[name].tolist() for name in ("op", "sector", "sectors"))
    requests = zip(*columns, strict=True)
    return Counter((OPS[op], at) for op, first, count in requests for at in range(first, first + count, 8))


def metric(record: ResultRecord, name: str) -> float:
    return next(each.value for each in record.metrics if each.name == name)


def test_a_recorded_trial_is_repeated_on_a_device_and_in_a_file(lab: Lab, tmp_path: Path) -> None:
    source, first, second = (tmp_path / name for name in ("source", "first", "second"))
    for folder in (source, first, second):
        folder.mkdir()
    run_text(head("source", [1], "1GiB") + stacks("ext4") + RECORDED, source, LabRunner(lab), jobs=1)
    (recorded,) = source.rglob("trace.parquet")
    trace = read_parquet(recorded)
    lines = [line.split() for line in request_lines(trace)]
    text = head("again", [1], "1GiB") + stacks("ext4") + REPLAYED
    for folder in (first, second):
        shutil.copy(recorded, folder / "recorded.parquet")
        assert not run_text(text, folder, LabRunner(lab)).invalid

    found = records(first / "results")
    assert hashes(first / "results") == hashes(second / "results")
    assert {name.rpartition(".")[0] for name in found} == {
        f"{stack}.{load}" for stack in ("ext4", "bare") for load in ("then", "fast")
    }
    for name, record in found.items():
        assert metric(record, "operations") == len(lines), name
        written = sum(int(size) for _, kind, _, size, _ in lines if kind in {"write", "fua"})
        took_s = metric(record, "replay_ns") / 1e9
        assert metric(record, "write_bytes_per_s") * took_s == pytest.approx(written), name
    then, fast = (found[f"bare.{load}.s1"] for load in ("then", "fast"))
    span_ns = int(lines[-1][0])
    assert span_ns <= metric(then, "replay_ns") < span_ns * 1.05 + 1e9
    assert metric(fast, "replay_ns") < metric(then, "replay_ns")
    # Nothing is between the replay and the disk, so that the disk sees the same blocks once more.
    again = attempt_of(first / "results", "bare.then.s1") / "trace.parquet"
    assert blocks(trace) - blocks(read_parquet(again)) == Counter()


SEVERAL = """
[devices.disk1]
model = "wd-re4-500gb"
capacity = "1GiB"
[stacks.bare]
layers = []
[stacks.home]
devices = ["disk0"]
layers = [{ layer = "ext4" }]
[stacks.home.filesystems.disk1]
devices = ["disk1"]
layers = [{ layer = "xfs" }]
mount = "/wal"
[workloads.both]
workload = "trace"
trace = "recorded.iolog"
disk = "/dev/sda"
beside = { "/dev/sdb" = "disk1" }
"""
IOLOG = "".join(
    f"{at} /dev/sd{'ab'[at % 2]} {'write' if at % 3 else 'read'} {at * 7919 % 60000 * 4096} 4096\n"
    for at in range(200)
)


def study_of_several(folder: Path) -> str:
    folder.mkdir()
    (folder / "recorded.iolog").write_text(f"fio version 3 iolog\n{IOLOG}")
    return head("several", [1], "1GiB") + SEVERAL


def test_several_disks_are_repeated_at_once(lab: Lab, tmp_path: Path) -> None:
    folder = tmp_path / "several"
    assert not run_text(study_of_several(folder), folder, LabRunner(lab)).invalid

    results = folder / "results"
    assert {metric(record, "operations") for record in records(results).values()} == {200}
    repeated = attempt_of(results, "bare.both.s1") / "trace.parquet"
    trace = read_parquet(repeated)
    lines = [line.split() for line in request_lines(trace)]
    by_disk = {
        disk: [int(place) for _, kind, place, size, name in lines if (name, size) == (disk, "4096")]
        for disk in trace.disks[1:]
    }
    for number, places in enumerate(by_disk.values()):
        recorded = Counter(at * 7919 % 60000 * 4096 for at in range(number, 200, 2))
        assert recorded - Counter(places) == Counter(), number


@pytest.mark.root
def test_several_disks_are_repeated_on_this_kernel(lab: Lab) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, for loop devices")
    with public_folder() as path:
        scratch = path / "scratch"
        scratch.mkdir(mode=0o755)
        runner = HostRunner(lab.agent, scratch=scratch, journal=path / "results", load=lab.load)
        done = run_text(study_of_several(path / "study"), path / "study", runner, retries=0)

        if done.skipped:
            pytest.skip("; ".join(done.skipped.values()))
        found = records(path / "study" / "results")
        assert {name for name, record in found.items() if record.validity.valid} == {
            "bare.both.s1",
            "home.both.s1",
        }
        assert {metric(record, "operations") for record in found.values()} == {200}
        assert list(scratch.iterdir()) == []
