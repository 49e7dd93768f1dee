# SPDX-License-Identifier: Apache-2.0
"""Control groups, bound variables and leavings as the agent sees them on a real kernel, without any layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab_factory import bare_task

from strata.lab import Lab
from strata.model.step import Command, Step
from strata.results.events import Events, read_events
from strata.results.failure_reasons import event_failures
from strata.runners.lab import LabRunner

DEVICE = "samsung-870-evo-1tb"
GROUP = "/sys/fs/cgroup/${stack}_guest"


def step(name: str, *argv: str, undo: Sequence[str] = (), **fields: Any) -> Step:
    return Step(
        id=name,
        phase="build",
        title=name,
        argv=argv,
        undo=Command(argv=tuple(undo)) if undo else None,
        **fields,
    )


def run(lab: Lab, folder: Path, *steps: Step) -> tuple[Events, list[str]]:
    task = bare_task(folder, DEVICE, steps, capacity_bytes=1 << 30, features=("driver:loop", "dm:zero"))
    LabRunner(lab).run(task)
    events = read_events(folder / "events.jsonl")
    return events, event_failures(task.plan, events)


def test_a_bound_loop_device_and_a_control_group_leave_nothing(lab: Lab, tmp_path: Path) -> None:
    events, troubles = run(
        lab,
        tmp_path,
        step("group", "mkdir", GROUP, undo=("rmdir", GROUP)),
        step("make", "mkfs.ext4", "-q", "${disk0}"),
        step("mount", "mount", "${disk0}", "${mounts}", undo=("umount", "${mounts}")),
        step("image", "truncate", "--size=16M", "${mounts}/image"),
        step(
            "attach",
            *("losetup", "--find", "--show", "${mounts}/image"),
            undo=("losetup", "--detach", "${loop}"),
            binds="loop",
        ),
        step("inside", "cat", "/proc/self/cgroup", cgroup=GROUP),
        step("file", "losetup", "--noheadings", "--output", "BACK-FILE", "${loop}"),
    )

    assert troubles == []
    assert events.output("inside") == "0::/strata_guest\n"
    assert events.output("file").strip() == "/mnt/lower/image"
    assert events.end is not None
    assert events.end.left_behind == ()


def test_all_that_a_plan_leaves_behind_is_named(lab: Lab, tmp_path: Path) -> None:
    _, troubles = run(
        lab,
        tmp_path,
        step("group", "mkdir", GROUP),
        step("folder", "mkdir", "/run/elsewhere"),
        step("mount", "mount", "-t", "tmpfs", "none", "/run/elsewhere"),
        step("image", "truncate", "--size=16M", "/run/elsewhere/image"),
        step("attach", "losetup", "--find", "--show", "/run/elsewhere/image"),
        step("map", "dmsetup", "create", "${stack}_zero", "--table", "0 2048 zero"),
    )

    assert troubles == [
        f"left behind by the teardown: {each}"
        for each in (
            "tmpfs from none mounted on /run/elsewhere",
            "dm-0 (strata_zero)",
            "loop0 (/run/elsewhere/image)",
            "the control group strata_guest",
        )
    ]
