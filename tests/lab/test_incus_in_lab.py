# SPDX-License-Identifier: Apache-2.0
"""Containers in the lab: loads are confined to them, their disk is the pool's, and their life is measured."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from lab_factory import head, records, run_text, shell_step

from strata.lab import Lab
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.results.events import read_events
from strata.runners.base import EVENTS_NAME, PLAN_NAME, Task
from strata.runners.lab import LabRunner
from strata.spec.load import load_study
from study_texts import written

pytestmark = pytest.mark.lab

POOLS = {
    "dir": '{ layer = "xfs" }, { layer = "incus-dir", memory = "128MiB" }',
    "btrfs": '{ layer = "incus", memory = "128MiB" }',
    "lvm-thin": '{ layer = "incus", pool = "lvm-thin", memory = "128MiB" }',
    "zfs": '{ layer = "incus", pool = "zfs", arc_max = "128MiB", memory = "128MiB" }',
}


def pools(often: Collection[str]) -> list[object]:
    """All pools; each boot starts a daemon, so that some are for `make test-all`."""
    return [pytest.param(pool, marks=[] if pool in often else [pytest.mark.slow]) for pool in POOLS]


STACK = "\n[stacks.stack]\nlayers = [{layers}]\n"
SYNC = '\n[workloads.sync]\nworkload = "fio"\npreset = "fsync-write-4k"\nsize = "1MiB"\n'
LIFE = '\n[workloads.life]\nworkload = "container-life"\nsize = "16MiB"\n'
FSYNCS = 256
SEEN = """
cat /sys/fs/cgroup/memory.high
cut -c1-30 /proc/self/uid_map
touch /usr/x 2>/dev/null || echo read-only
mount -t tmpfs x /dev/sda 2>/dev/null || echo no devices
echo 1 2>/dev/null > /proc/sys/vm/drop_caches || echo no rights
"""


@pytest.mark.parametrize("pool", pools(["dir", "btrfs"]))
def test_a_load_in_a_container_is_confined_and_its_flushes_reach_the_disk(
    pool: str, lab: Lab, tmp_path: Path
) -> None:
    text = head("containers", [1], capacity="4GiB") + STACK.format(layers=POOLS[pool]) + SYNC
    study = load_study(written(tmp_path / "study.toml", text), catalogue())
    plan = compile_trial(study, "stack", "sync", 1)
    machine = next(step.machine for step in plan.steps if step.machine is not None)
    seen = shell_step("seen", SEEN).model_copy(update={"machine": machine})
    plan = plan.model_copy(update={"steps": (*plan.steps, seen)})
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / PLAN_NAME).write_bytes(plan.to_json())

    LabRunner(lab).run(Task(plan=plan, devices=study.drawn_devices("stack", 1), folder=folder, trace=False))

    events = read_events(folder / EVENTS_NAME)
    assert events.end is not None
    assert (events.end.outcome, events.end.reason) == ("ok", None), events.end
    memory, ids, *refused = events.output("seen").splitlines()
    assert int(memory) == 128 << 20
    assert ids.split()[:2] == ["0", "1000000"]
    assert refused == ["read-only", "no devices", "no rights"]
    flushes = [each.account["flushes"] for each in events.accounts if each.step == "fio-measure"]
    # On ZFS one flush can commit several fsyncs.
    assert flushes[1] - flushes[0] > FSYNCS // 2


@pytest.mark.parametrize("pool", pools(["btrfs"]))
def test_the_life_of_containers_is_measured(pool: str, lab: Lab, tmp_path: Path) -> None:
    text = head("containers", [1], capacity="4GiB") + STACK.format(layers=POOLS[pool]) + LIFE

    run_text(text, tmp_path, LabRunner(lab))

    (record,) = records(tmp_path / "results").values()
    assert record.validity.valid, record.validity.reasons
    took_ns = {each.name: each.value for each in record.metrics if each.name.endswith("_ns")}
    assert len(took_ns) == 7
    assert min(took_ns.values()) > 0
