# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from golden_studies import LAYER_CASES, compile_case

from strata.errors import ToolError
from strata.plan.model import Plan
from strata.runners.assembled import stack_name
from strata.runners.kernel import Kernel
from strata.runners.sandbox import can_reach, sandbox_of, try_sandbox

TRIAL = Path("/scratch/strata-1")


@pytest.fixture
def machine(tmp_path: Path) -> Kernel:
    """A machine that has everything which the steps of a layer write to."""
    for file in (
        *("dev/mapper/control", "dev/btrfs-control", "dev/zfs", "dev/loop-control", "dev/vda"),
        *("proc/sys/vm/drop_caches", "sys/fs/bcache/register", "sys/module/md_mod/parameters/new_array"),
        *("sys/devices/virtual/block/loop0/size", "sys/module/zfs/parameters/zfs_arc_max"),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    return Kernel(tmp_path, lambda *argv: subprocess.CompletedProcess(argv, 1, "", ""))


def sandbox(plan: Plan, machine: Kernel) -> dict[str, object]:
    return sandbox_of(plan, TRIAL, bound(plan).values(), [], machine)


def bound(plan: Plan) -> dict[str, str]:
    return {device.name: f"/dev/loop{number}" for number, device in enumerate(plan.devices)}


@pytest.mark.parametrize("case", LAYER_CASES)
def test_what_a_plan_destroys_is_what_its_steps_can_reach(case: str, tmp_path: Path, machine: Kernel) -> None:
    plan = compile_case(case, tmp_path)

    made = sandbox(plan, machine)

    destroyed = {name for step in plan.steps for name in step.destroys}
    assert can_reach(made, bound(plan)) == destroyed | {device.name for device in plan.devices}
    assert destroyed <= set(bound(plan))
    beside = set(made["nodes"]) - set(bound(plan).values())  # type: ignore[call-overload]
    assert beside <= {"/dev/mapper/control", "/dev/btrfs-control", "/dev/zfs"}
    assert not {"/dev/loop-control", "/dev/vda"} & beside
