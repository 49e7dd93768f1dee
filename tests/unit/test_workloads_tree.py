# SPDX-License-Identifier: Apache-2.0
"""The workloads that unpack an archive: tree and filesystem-life."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.plan.compile import compile_trial, skipped
from strata.plan.model import Plan
from strata.plan.placement import placed_layers
from strata.workloads.filesystem_life import FilesystemLife
from strata.workloads.tree import Tree
from study_texts import read, stack_text

LIFE = 'workload = "filesystem-life"\nmembers = ["linux-*/fs"]'
COUNTED = "26 entries, 20 files, 4000000 bytes\n"
S = 1_000_000_000


def tree_outputs(counted: str = COUNTED) -> Outputs:
    durations = {"unpack": 1, "sync": 3, "read": 2, "delete": 1, "delete-sync": 1}
    steps = {f"tree-{name}": StepOutput(duration_ns=each * S) for name, each in durations.items()}
    return Outputs({"tree-count": StepOutput(stdout=counted), **steps})


def study_of(folder: Path, layers: str, disks: int = 1) -> Study:
    return read(folder, stack_text(layers, disks, LIFE, model="wd-re4-500gb"))


def plan_of(folder: Path, layers: str, disks: int = 1) -> Plan:
    return compile_trial(study_of(folder, layers, disks), "stack", "load", 1)


def test_an_archive_without_files_is_no_tree() -> None:
    for counted in ("0 entries, 0 files, 0 bytes\n", "3 entries, 0 files, 0 bytes\n", ""):
        with pytest.raises(RunError, match="no files"):
            Tree().metrics(tree_outputs(counted))


def test_only_the_filesystem_is_taken_down(tmp_path: Path) -> None:
    for layers, disks, first in (
        ('{ layer = "md", level = 1 }, { layer = "ext4" }', 2, "ext4-mount"),
        ('{ layer = "ext4" }, { layer = "directory" }', 1, "ext4-mount"),
        ('{ layer = "ext4" }, { layer = "raw" }, { layer = "xfs" }', 1, "xfs-mount"),
    ):
        plan = plan_of(tmp_path, layers, disks)
        ids = [step.id for step in plan.steps]
        assert [step.takes_down for step in plan.steps if step.takes_down] == [(first,), (f"life-{first}",)]
        assert (
            ids.index(f"life-{first}") < ids.index("life-unmounted-again") < ids.index(f"life-again-{first}")
        )


def test_what_is_only_in_memory_has_no_life_after_this_one(tmp_path: Path) -> None:
    study = study_of(tmp_path, '{ layer = "tmpfs" }')

    assert "only in memory" in skipped(study)[CellKey("stack", "load")]


def test_a_lifes_metrics_are_the_times_of_the_steps_it_names(tmp_path: Path) -> None:
    study = study_of(tmp_path, '{ layer = "ext4" }')
    context = WorkloadContext("load", 1, layers=tuple(placed_layers(study, study.stacks["stack"])))
    life = FilesystemLife()
    down = next(step for step in life.steps(context) if step.id == "life-unmounted")
    outputs = Outputs(
        {
            "life-count": StepOutput(stdout=COUNTED),
            "life-unmounted": StepOutput(stdout="\n".join(down.argv[2:]) + "\n"),
            "ext4-make": StepOutput(duration_ns=1 * S),
            "ext4-mount": StepOutput(duration_ns=2 * S, undo_ns=3 * S),
            "life-check-ext4": StepOutput(duration_ns=4 * S),
            "life-ext4-mount": StepOutput(duration_ns=5 * S, undo_ns=9 * S),
        }
    )
    found = {metric.name: metric for metric in life.metrics(outputs)}

    assert [found[f"{part}_ns"].value / S for part in ("make", "mount", "unmount", "check", "remount")] == [
        *range(1, 6)
    ]
    assert found["make_ns"].phase == "build"
    assert found["files"].value == 20
    with pytest.raises(RunError, match="took down"):
        life.metrics(Outputs({**outputs.steps, "life-unmounted": StepOutput()}))
