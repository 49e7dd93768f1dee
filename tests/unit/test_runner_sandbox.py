# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from for_all import for_all
from golden_studies import LAYER_CASES, compile_case
from strata.errors import ToolError
from strata.lab.folder import private_folder
from strata.model.step import Step
from strata.plan.model import Plan
from strata.runners.assembled import CGROUPS
from strata.runners.kernel import BOOT_NAME, HostKernel, boot_id
from strata.runners.sandbox import INNER, make_folders, remove_spares, sandbox_of, spare_loops, try_sandbox

TRIAL = Path("/scratch/strata-1")


@pytest.fixture
def machine(tmp_path: Path) -> HostKernel:
    """A machine that has everything which the steps of a layer write to."""
    for file in (
        *("dev/mapper/control", "dev/btrfs-control", "dev/zfs", "dev/loop-control", "dev/vda"),
        *("proc/sys/vm/drop_caches", "sys/fs/bcache/register", "sys/module/md_mod/parameters/new_array"),
        *("sys/devices/virtual/block/loop0/size", "sys/module/zfs/parameters/zfs_arc_max"),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    return HostKernel(tmp_path, lambda *argv: subprocess.CompletedProcess(argv, 1, "", ""))


def sandbox(plan: Plan, machine: HostKernel) -> dict[str, Any]:
    return sandbox_of(plan, TRIAL, bound(plan).values(), [], machine, disks=bound(plan))


def bound(plan: Plan) -> dict[str, str]:
    return {device.name: f"/dev/loop{number}" for number, device in enumerate(plan.devices)}


@for_all("case", LAYER_CASES)
def test_what_a_plan_destroys_is_what_its_steps_can_reach(
    case: str, tmp_path: Path, machine: HostKernel
) -> None:
    plan = compile_case(case, tmp_path)

    nodes = set(sandbox(plan, machine)["nodes"])

    destroyed = {bound(plan)[name] for step in plan.steps for name in step.destroys}
    controls = {"/dev/mapper/control", "/dev/btrfs-control", "/dev/zfs"}
    assert nodes - controls == destroyed


def test_only_what_a_plan_assembles_can_be_assembled_and_only_its_filesystems_mounted(
    tmp_path: Path, machine: HostKernel
) -> None:
    ext4, md, zfs = (
        sandbox(compile_case(case, tmp_path), machine) for case in ("layer-ext4", "layer-md", "layer-zpool")
    )

    assert (ext4["kinds"], ext4["filesystems"], ext4["nodes"]) == ([], ["ext4"], ["/dev/loop0"])
    assert ext4["writes"] == ["/proc/sys/vm/drop_caches"]
    assert md["kinds"] == ["md"]
    assert "/sys/devices/virtual/block" in md["writes"]
    assert zfs["kinds"] == ["zd"]
    assert "zfs" in zfs["filesystems"]
    assert "/dev/zfs" in zfs["nodes"]
    assert "/sys/module/zfs/parameters/zfs_arc_max" in zfs["writes"]


def test_the_records_of_a_trial_are_not_where_its_steps_can_write(
    tmp_path: Path, machine: HostKernel
) -> None:
    plan = compile_case("layer-ext4", tmp_path)
    with private_folder(tmp_path) as private:
        make_folders(private)
        made = list((private.path / INNER).iterdir())

    assert Path(sandbox(plan, machine)["folder"]) == TRIAL / INNER
    assert made == []


def test_a_machine_that_can_make_no_sandbox_runs_no_plan(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\necho 'Linux 5.12 or later is needed' >&2\nexit 1\n")
    agent.chmod(0o755)

    with pytest.raises(ToolError, match=r"Linux 5\.12 or later is needed") as error:
        try_sandbox(agent)

    assert "--runner host" in str(error.value)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for control groups")
def test_the_control_group_of_a_killed_try_out_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchies = [each for each in (Path("/", place) for place in CGROUPS) if is_unified(each)]
    if not hierarchies:
        pytest.skip("no control groups of version 2")
    left = hierarchies[0] / "strata_sandbox_killed"
    (left / "steps").mkdir(parents=True)
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\nexit 0\n")
    agent.chmod(0o755)

    try_sandbox(agent)
    kept = left.exists()  # it may be another run's
    monkeypatch.setattr("strata.runners.sandbox._TRY_LIMIT_S", 0.0)
    try_sandbox(agent)

    assert (kept, left.exists()) == (True, False)


def is_unified(hierarchy: Path) -> bool:
    return (hierarchy / "cgroup.controllers").exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for loop devices")
def test_loop_devices_that_were_made_for_a_trial_go_with_it(tmp_path: Path) -> None:
    attach = Step(
        id="attach", title="Attach", phase="build", argv=("losetup", "--find", "--show", "${scratch}/raw")
    )
    plan = compile_case("layer-ext4", tmp_path).model_copy(update={"steps": (attach, attach)})
    (tmp_path / BOOT_NAME).write_text(boot_id(HostKernel()))

    made = spare_loops(plan, tmp_path)
    there = [Path(device).exists() for device in made]
    remove_spares(tmp_path)

    assert there == [True, True]
    assert [Path("/sys/block", Path(device).name).exists() for device in made] == [False, False]
