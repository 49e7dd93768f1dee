# SPDX-License-Identifier: Apache-2.0
"""Lists of calls: one hand-over to the lab's kernel gives what single calls give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lab_factory import head, records, run_text, stacks

from strata.lab import Lab
from strata.runners.base import Task
from strata.runners.lab import LabRunner

STUDY = """
[workloads.storm]
workload = "file-storm"
files = 500
lists = true

[workloads.blog]
workload = "blog"
intervals = 2
interval = "1500ms"
lists = true
"""
LOAD = """
[workloads.{0}]
workload = "load"
personality = "{0}"
files = 500
threads = 8
duration = "150ms"
lists = true
"""


class CallByCall(LabRunner):
    """A lab in which the calls of every list are made one by one."""

    def run(self, task: Task) -> None:
        steps = tuple(
            step.model_copy(update={"argv": tuple(word.replace("=lists", "=calls") for word in step.argv)})
            for step in task.plan.steps
        )
        super().run(replace(task, plan=task.plan.model_copy(update={"steps": steps})))


def measured(runner: LabRunner, folder: Path, study: str) -> dict[str, dict[str, float]]:
    run_text(study, folder, runner, jobs=1)
    found = records(folder / "results").items()
    return {name: {each.name: each.value for each in record.metrics} for name, record in found}


def test_a_list_is_its_calls_to_the_nanosecond(lab: Lab, tmp_path: Path) -> None:
    study = head("lists", [1]).replace("time_limit", "cpus = 4\ntime_limit") + stacks("ext4") + STUDY
    study += "".join(LOAD.format(name) for name in ("webserver", "varmail"))

    lists = measured(LabRunner(lab), tmp_path / "lists", study)
    calls = measured(CallByCall(lab), tmp_path / "calls", study)

    assert len(lists) == 4
    assert all(lists.values())
    assert lists == calls
