# SPDX-License-Identifier: Apache-2.0
"""Containers in the lab: loads are confined to them, their disk is the pool's, and their life is measured."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from lab_factory import head, oltp, shell_step, surveyed, valid_record

from strata.execution.power import cut_and_recover
from strata.lab import Lab
from strata.lab.disk_image import PowerCut
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.reading.load import load_study
from strata.results.events import Events, read_events
from strata.runners.base import EVENTS_NAME, PLAN_NAME, Task
from strata.runners.lab import LabRunner
from study_texts import written

POOLS = {
    "dir": '{ layer = "xfs" }, { layer = "incus-dir", memory = "128MiB" }',
    "btrfs": '{ layer = "incus", memory = "128MiB" }',
    "lvm-thin": '{ layer = "incus", pool = "lvm-thin", memory = "128MiB" }',
    "zfs": '{ layer = "incus", pool = "zfs", arc_max = "128MiB", memory = "128MiB" }',
}
NSPAWN = '{ layer = "xfs" }, { layer = "nspawn", memory = "128MiB" }'


def pools(often: Collection[str]) -> list[object]:
    """All pools; each boot starts a daemon, so that some are for `make test-all`."""
    return [pytest.param(pool, marks=[] if pool in often else [pytest.mark.slow]) for pool in POOLS]


STACK = "\n[stacks.stack]\nlayers = [{layers}]\n"
SYNC = """
[workloads.sync]
workload = "dd"
content = "random"
size = "1MiB"
bs = "4KiB"
oflag = ["dsync"]
"""
LIFE = '\n[workloads.life]\nworkload = "container-life"\nsize = "16MiB"\n'
TENANTS = """
[workloads.two]
workload = "tenants"
[[workloads.two.tenants]]
name = "each"
count = 2
load = { workload = "fio", preset = "random-mix-4k", size = "64MiB", warmup = "1s", duration = "5s" }
"""
FSYNCS = 256
SEEN = """
cut -c1-30 /proc/self/uid_map
touch /usr/x 2>/dev/null || echo read-only
mount -t tmpfs x /dev/sda 2>/dev/null || echo no devices
echo 1 2>/dev/null > /proc/sys/vm/drop_caches || echo no rights
"""


def confined(lab: Lab, folder: Path, layers: str, limit: str) -> Events:
    """The events of a load in a container, with a look around in it and at its limit."""
    text = head("containers", [1], capacity="4GiB") + STACK.format(layers=layers) + SYNC
    study = load_study(written(folder / "study.toml", text), catalogue())
    plan = compile_trial(study, "stack", "sync", 1)
    machine = next(step.machine for step in plan.steps if step.machine is not None)
    seen = shell_step("seen", SEEN).model_copy(update={"machine": machine})
    plan = plan.model_copy(update={"steps": (*plan.steps, seen, shell_step("limit", f"cat {limit}"))})
    run = folder / "run"
    run.mkdir()
    (run / PLAN_NAME).write_bytes(plan.to_json())

    LabRunner(lab).run(Task(plan=plan, devices=study.drawn_devices("stack", 1), folder=run, trace=False))

    events = read_events(run / EVENTS_NAME)
    assert events.end is not None
    assert (events.end.outcome, events.end.reason) == ("ok", None), events.end
    ids, *refused = events.output("seen").splitlines()
    assert ids.split()[:2] == ["0", "1000000"]
    assert refused == ["read-only", "no devices", "no rights"]
    assert int(events.output("limit")) == 128 << 20
    flushes = [each.account["flushes"] for each in events.accounts if each.step == "dd-write"]
    # On ZFS one flush can commit several fsyncs.
    assert flushes[1] - flushes[0] > FSYNCS // 2
    return events


@pytest.mark.parametrize("pool", pools(["btrfs"]))
def test_a_load_in_a_container_is_confined_and_its_flushes_reach_the_disk(
    pool: str, lab: Lab, tmp_path: Path
) -> None:
    confined(lab, tmp_path, POOLS[pool], "/sys/fs/cgroup/lxc.payload.*/memory.high")


def test_a_container_without_a_daemon_is_confined_and_two_runs_are_equal(lab: Lab, tmp_path: Path) -> None:
    runs = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        runs.append(confined(lab, tmp_path / name, NSPAWN, "/sys/fs/cgroup/*_nspawn/memory.high"))

    assert runs[0].sha256 == runs[1].sha256


@pytest.mark.parametrize("pool", pools(["btrfs"]))
def test_the_life_of_containers_is_measured(pool: str, lab: Lab, tmp_path: Path) -> None:
    text = head("containers", [1], capacity="4GiB") + STACK.format(layers=POOLS[pool]) + LIFE

    record = valid_record(text, tmp_path, LabRunner(lab))

    took_ns = {each.name: each.value for each in record.metrics if each.name.endswith("_ns")}
    assert len(took_ns) == 7
    assert min(took_ns.values()) > 0


@pytest.mark.parametrize(
    "layers",
    [pytest.param(POOLS["btrfs"], id="btrfs", marks=pytest.mark.slow), pytest.param(NSPAWN, id="nspawn")],
)
def test_a_database_server_runs_in_a_container(layers: str, lab: Lab, tmp_path: Path) -> None:
    text = head("containers", [1], capacity="4GiB") + STACK.format(layers=layers) + oltp(2, "2s")

    record = valid_record(text, tmp_path, LabRunner(lab))

    rates = {each.name: each.value for each in record.metrics}
    assert rates["transactions_per_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("pool", [*POOLS, "nspawn"])
def test_two_tenants_have_a_container_each_and_one_is_held_to_its_rate(
    pool: str, lab: Lab, tmp_path: Path
) -> None:
    layers = (
        NSPAWN
        if pool == "nspawn"
        else POOLS[pool].replace('memory = "128MiB"', 'memory = "128MiB", read_max = "100kB/s"')
    )
    text = head("containers", [1], capacity="4GiB") + STACK.format(layers=layers) + TENANTS

    record = valid_record(text, tmp_path, LabRunner(lab))

    rates = {each.name: each.value for each in record.metrics if each.name.endswith("read_bytes_per_s")}
    assert len(rates) == 2
    if pool not in ("zfs", "nspawn"):  # ZFS's threads read beyond the limit; nspawn has none
        assert max(rates.values()) < 110_000, rates


@pytest.mark.slow
@pytest.mark.parametrize("layers", [POOLS["dir"], POOLS["btrfs"], NSPAWN], ids=["dir", "btrfs", "nspawn"])
def test_after_a_power_cut_the_container_is_found_on_its_pool_or_folder(
    layers: str, lab: Lab, tmp_path: Path
) -> None:
    text = head("containers", [1], capacity="4GiB") + STACK.format(layers=layers) + SYNC
    study = load_study(written(tmp_path / "study.toml", text), catalogue())

    result = cut_and_recover(
        *(LabRunner(lab), study, "stack", "sync"), cut=PowerCut(seed=1), after_step="owner", folder=tmp_path
    )

    assert result.verdict == "sound", result.said


@pytest.mark.slow
def test_a_directory_goes_back_to_an_older_snapshot_and_zfs_does_not(lab: Lab, tmp_path: Path) -> None:
    stacks = "".join(f"[stacks.{pool}]\nlayers = [{POOLS[pool]}]\n" for pool in ("dir", "zfs"))
    text = f"{head('containers', [1], capacity='4GiB')}\n{stacks}{SYNC}"
    study = load_study(written(tmp_path / "study.toml", text), catalogue())

    cells = surveyed(lab, study, tmp_path, ["restore-older"]).cells

    assert [cell.verdict for cell in cells] == ["yes", "no"], [cell.note for cell in cells]
