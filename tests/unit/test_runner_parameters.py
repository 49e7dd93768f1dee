# SPDX-License-Identifier: Apache-2.0
"""A trial on a host restores the parameters of kernel modules that it sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from execution_factory import fake_runner, study_in

from strata.errors import RunError
from strata.execution.schedule import plan_study
from strata.model.step import Step
from strata.plan.model import Plan
from strata.runners.kernel import (
    BOOT_NAME,
    HostKernel,
    endangered_pools,
    note_parameters,
    parameters_set,
    set_back,
)

PARAMETERS = "sys/module/zfs/parameters"


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def plan_setting(tmp_path: Path, *names: str) -> Plan:
    plan = plan_study(study_in(tmp_path), fake_runner())[0][0].plan
    steps = [
        Step(
            id=f"set-{index}",
            phase="build",
            title="Set",
            argv=("tee", f"/{PARAMETERS}/{name}"),
            stdin="1\n",
        )
        for index, name in enumerate(names)
    ]
    return plan.model_copy(update={"steps": (*steps, *plan.steps)})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with a pool of its own, whose ZFS has chosen the limit of its cache."""
    root = tmp_path / "root"
    write(root, "proc/sys/kernel/random/boot_id", "this-boot\n")
    write(root, "proc/spl/kstat/zfs/arcstats", "13 1 0x01 147\nname type data\nc_max   4   8388608\n")
    write(root, "proc/spl/kstat/zfs/tank/state", "ONLINE\n")
    write(root, "proc/spl/kstat/zfs/strata_x_zpool/state", "ONLINE\n")
    write(root, f"{PARAMETERS}/zfs_arc_max", "0\n")
    write(root, f"{PARAMETERS}/zfs_txg_timeout", "5\n")
    write(root, f"{PARAMETERS}/zfs_nocacheflush", "0\n")
    return root


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    trial = tmp_path / "strata-y"
    trial.mkdir()
    (trial / BOOT_NAME).write_text("this-boot")
    return trial


def values(root: Path) -> dict[str, str]:
    return {each.name: each.read_text().strip() for each in sorted((root / PARAMETERS).iterdir())}


def test_parameters_of_a_killed_trial_are_set_back(root: Path, trial: Path, tmp_path: Path) -> None:
    plan = plan_setting(tmp_path, "zfs_arc_max", "zfs_txg_timeout", "zfs_nocacheflush", "zfs_no_such")
    note_parameters(plan, {}, trial, HostKernel(root))
    write(root, f"{PARAMETERS}/zfs_arc_max", "67108864\n")
    write(root, f"{PARAMETERS}/zfs_txg_timeout", "60\n")

    said = set_back(trial, HostKernel(root))

    # A limit that ZFS chose comes back by its number only.
    assert said == ["set zfs_arc_max back to 8388608", "set zfs_txg_timeout back to 5"]
    assert values(root) == {"zfs_arc_max": "8388608", "zfs_nocacheflush": "0", "zfs_txg_timeout": "5"}
    assert set_back(trial, HostKernel(root)) == []


def test_what_was_not_set_or_was_set_back_is_left_alone(root: Path, trial: Path, tmp_path: Path) -> None:
    note_parameters(plan_setting(tmp_path, "zfs_arc_max", "zfs_txg_timeout"), {}, trial, HostKernel(root))

    assert set_back(trial, HostKernel(root)) == []
    assert values(root)["zfs_arc_max"] == "0"


def test_after_a_restart_nothing_is_set_back(root: Path, trial: Path, tmp_path: Path) -> None:
    note_parameters(plan_setting(tmp_path, "zfs_txg_timeout"), {}, trial, HostKernel(root))
    write(root, f"{PARAMETERS}/zfs_txg_timeout", "60\n")
    (trial / BOOT_NAME).write_text("another-boot")

    assert set_back(trial, HostKernel(root)) == []
    assert values(root)["zfs_txg_timeout"] == "60"


def test_a_parameter_that_cannot_be_written_is_named(root: Path, trial: Path, tmp_path: Path) -> None:
    note_parameters(plan_setting(tmp_path, "zfs_txg_timeout"), {}, trial, HostKernel(root))
    file = root / PARAMETERS / "zfs_txg_timeout"

    class Refusing(HostKernel):
        def text(self, path: str | Path) -> str:
            return "60" if str(path).endswith("zfs_txg_timeout") else super().text(path)

    file.unlink()
    file.mkdir()
    with pytest.raises(RunError, match="cannot be set back to 5"):
        set_back(trial, Refusing(root))


def test_a_plan_that_endangers_other_pools_says_so(root: Path, tmp_path: Path) -> None:
    assert parameters_set(plan_setting(tmp_path), {}, HostKernel(root)) == []
    assert endangered_pools(plan_setting(tmp_path, "zfs_arc_max"), HostKernel(root)) is None
    endangering = plan_setting(tmp_path, "zfs_arc_max", "zfs_nocacheflush")
    assert (
        endangered_pools(endangering, HostKernel(root))
        == "zfs_nocacheflush would hold for other ZFS pools, too: tank"
    )
    (root / "proc/spl/kstat/zfs/tank/state").unlink()
    (root / "proc/spl/kstat/zfs/tank").rmdir()
    assert endangered_pools(endangering, HostKernel(root)) is None
