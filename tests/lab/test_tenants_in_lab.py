# SPDX-License-Identifier: Apache-2.0
"""Tenants on the real lab: twice the same, side by side, each within its memory, and named when one fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from lab_factory import head, records, run_text

from examples import SHARE
from record_hashes import attempt_of, hashes
from strata.lab import Lab
from strata.model.memory_limit import memory_bytes_max
from strata.results.events import Events, read_events
from strata.runners.lab import LabRunner

_MIB = 1 << 20
_WINDOW_NS = 2 * 10**9
_STACKS = """
[stacks.ext4]
layers = [{ layer = "ext4" }]

[stacks.lvm]
layers = [{ layer = "lvm" }]
each = [{ layer = "guest" }, { layer = "xfs" }]

[stacks.thin]
layers = [{ layer = "lvm-thin" }]
each = [{ layer = "ext4" }]

[stacks.btrfs]
layers = [{ layer = "btrfs" }]

[stacks.zfs]
layers = [{ layer = "zpool", arc_max = "128MiB" }, { layer = "zfs" }]

[stacks.zvol]
layers = [{ layer = "zpool", arc_max = "128MiB" }]
each = [{ layer = "zvol" }, { layer = "guest" }, { layer = "ext4" }]
"""
STACKS = ("ext4", "lvm", "thin", "btrfs", "zfs", "zvol")
SNAPSHOTS = ("btrfs", "zfs")
# Reserved names are tried on `thin`, and `zvol` has a pool of ZFS, too.
OFTEN = STACKS if SHARE == 1 else ("ext4", "lvm", "btrfs", "zvol")
# The trials with a database server and fio, on folders and, in `make test-all`, volumes and datasets: their
# starts take most of a trial's time. `test_names_that_lvm_reserves…` has servers on volumes.
SERVERS = ("ext4", "lvm", "zfs") if SHARE == 1 else ("ext4",)
_TENANTS = """
[workloads.two]
workload = "tenants"
alone = "1s"
{keys}
[[workloads.two.tenants]]
name = "db"
memory = "192MiB"
load = {{ {load}, duration = "2s" }}

[[workloads.two.tenants]]
name = "mix"
memory = "64MiB"
load = {{ {mix}, duration = "2s" }}
"""


_SERVER = 'workload = "pgbench", scale = 1, clients = 4, warmup = "1s"'
_FILES = 'workload = "sysbench-fileio", preset = "random-mix-4k-fsync", size = "4MiB", files = 4'


_FIO = 'workload = "fio", preset = "random-mix-4k", size = "16MiB"'


def study(stacks: str, keys: str, load: str, mix: str) -> str:
    return head("tenants", [1], capacity="8GiB") + stacks + _TENANTS.format(keys=keys, load=load, mix=mix)


def only(*names: str) -> str:
    parts = _STACKS.split("\n[stacks.")
    return "".join(f"\n[stacks.{part}" for part in parts if part.partition("]")[0] in names)


def events_of(results: Path, trial: str) -> Events:
    return read_events(attempt_of(results, trial) / "events.jsonl")


KEYS = 'before_measure = ["snapshot"]\nsnapshot_every = "1s"\nscrub = true\n'
# The trials that are run a second time in `make test`: volumes with guests on them.
AGAIN = ("lvm",)


def run(lab: Lab, folder: Path, stacks: Sequence[str]) -> Path:
    """Run the tenants on these stacks, with snapshots where they are cheap; a folder of results for each."""
    for stack in stacks:
        place = folder / stack
        place.mkdir(parents=True)
        loads = (_SERVER, _FIO) if stack in SERVERS else (_FILES, _FILES)
        run_text(study(only(stack), KEYS * (stack in SNAPSHOTS), *loads), place, LabRunner(lab), jobs=1)
    return folder


def found_in(folder: Path, stack: str) -> Path:
    return folder / stack / "results"


@pytest.fixture(scope="module")
def first(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(lab, tmp_path_factory.mktemp("first"), OFTEN)


@pytest.mark.parametrize("stack", OFTEN)
def test_tenants_run_side_by_side_on_every_kind_of_share(first: Path, stack: str) -> None:
    record = records(found_in(first, stack))[f"{stack}.two.s1"]

    assert record.validity.valid, record.validity.reasons
    speeds = {each.name: each.value for each in record.metrics if each.name.endswith("relative_speed")}
    assert set(speeds) == {"db_relative_speed", "mix_relative_speed", "aggregate_relative_speed"}
    alone = [speeds["db_relative_speed"], speeds["mix_relative_speed"]]
    # A window of a second alone may lie within one of ZFS's transaction groups, which last several.
    assert all(0 < value < (8 if stack == "zvol" else 2) for value in alone), speeds
    assert speeds["aggregate_relative_speed"] == pytest.approx(sum(alone) / 2)


@pytest.mark.parametrize(
    "stack", [pytest.param(each, marks=[pytest.mark.slow] * (each not in AGAIN)) for each in STACKS]
)
def test_a_trial_of_tenants_is_the_same_twice(lab: Lab, first: Path, tmp_path: Path, stack: str) -> None:
    trial = f"{stack}.two.s1"
    again = run(lab, tmp_path / "again", [stack])

    assert hashes(found_in(again, stack))[trial] == hashes(found_in(first, stack))[trial]


@pytest.mark.parametrize("stack", [stack for stack in SNAPSHOTS if stack in OFTEN])
def test_snapshots_are_taken_of_every_tenants_share(first: Path, stack: str) -> None:
    trial = f"{stack}.two.s1"
    steps = events_of(found_in(first, stack), trial).steps
    loads = ("db-pgbench", "mix-fio") if stack in SERVERS else ("db-fileio", "mix-fileio")
    for name in ("db", "mix"):
        # One before the window; one a second after its beginning: the window takes two seconds.
        assert [step for step in steps if step.startswith(f"{stack}-snapshot-{name}-")]
        during = [step for step in steps if step.startswith(f"{stack}-{name}-snapshot-1-")]
        assert len(during) == 1
        for load in loads:
            run = steps[f"{load}-measure"]
            assert run.started_ns < steps[during[0]].started_ns < (run.ended_ns or 0)
    record = records(found_in(first, stack))[trial]
    # Figures of both tenants.
    assert {each.name: each.value for each in record.metrics}["snapshots_taken"] == 2


def test_windows_begin_together_and_overlap_whole(first: Path) -> None:
    steps = events_of(found_in(first, "ext4"), "ext4.two.s1").steps
    windows = [steps[f"{name}-measure"] for name in ("db-pgbench", "mix-fio")]
    begins, ends = [run.started_ns for run in windows], [run.ended_ns or 0 for run in windows]

    assert max(begins) - min(begins) < 10**8
    assert min(ends) - max(begins) >= _WINDOW_NS - 10**8
    alone = [steps[f"{name}-measure"] for name in ("db-alone-pgbench", "mix-alone-fio")]
    assert (alone[0].ended_ns or 0) <= alone[1].started_ns
    assert (alone[1].ended_ns or 0) <= min(begins)


_RESERVED = """
[workloads.two]
workload = "tenants"
before_measure = ["snapshot"]
[[workloads.two.tenants]]
name = "tdata"
load = { workload = "sysbench-fileio", preset = "random-mix-4k-fsync", size = "4MiB", duration = "1s" }

[[workloads.two.tenants]]
name = "rimage-0"
before = { workload = "pgbench", scale = 1, clients = 1, duration = "1s" }
load = { workload = "pgbench", scale = 1, clients = 1, duration = "1s" }
"""


def test_names_that_lvm_reserves_and_a_server_after_a_server(lab: Lab, tmp_path: Path) -> None:
    text = head("tenants", [1], capacity="8GiB") + only("thin") + _RESERVED
    run_text(text, tmp_path, LabRunner(lab), jobs=1)
    record = records(tmp_path / "results")["thin.two.s1"]

    assert record.validity.valid, record.validity.reasons
    names = {each.name for each in record.metrics}
    assert {"rimage_0_before_transactions_per_s", "rimage_0_transactions_per_s"} <= names


_READ = """
[workloads.two]
workload = "tenants"
[[workloads.two.tenants]]
name = "small"
memory = "64MiB"
load = { workload = "script", duration = "2s", script = "SCRIPT" }

[[workloads.two.tenants]]
name = "other"
memory = "128MiB"
load = { workload = "script", duration = "2s", script = "sleep 2" }
"""


def test_memory_limits_hold_also_of_the_page_cache(lab: Lab, tmp_path: Path) -> None:
    script = (
        "dd if=/dev/zero of=MOUNT/file bs=1M count=256 2>/dev/null; sync; cat MOUNT/file > /dev/null; "
        "cat /sys/fs/cgroup$$(cut -d: -f3 /proc/self/cgroup)/memory.peak"
    )
    text = head("tenants", [1], capacity="8GiB") + only("ext4") + _READ.replace("SCRIPT", script)
    run_text(text, tmp_path, LabRunner(lab), scripts=True, jobs=1)
    peak_bytes = int(events_of(tmp_path / "results", "ext4.two.s1").output("small-script"))

    assert 32 * _MIB < peak_bytes <= memory_bytes_max(64 * _MIB)


def test_a_tenant_that_fails_fails_the_trial_with_its_name(lab: Lab, tmp_path: Path) -> None:
    text = head("tenants", [1], capacity="8GiB") + only("ext4") + _READ.replace("SCRIPT", "exit 3")
    run_text(text, tmp_path, LabRunner(lab), scripts=True, jobs=1)
    record = records(tmp_path / "results")["ext4.two.s1"]

    assert not record.validity.valid
    assert any("small-script" in reason and "exit code 3" in reason for reason in record.validity.reasons)
