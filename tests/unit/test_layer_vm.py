# SPDX-License-Identifier: Apache-2.0
"""The layer vm: where steps run, what does not fit, and what a host says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import DiagnosticsError
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.runners.kernel import Kernel
from strata.spec.load import load_study
from strata.spec.study import Study
from study_texts import written

TEXT = """
[study]
name = "machine"
question = "Which?"
seeds = [1]
memory = "{memory}"

[devices.disk0]
model = "wd-re4-500gb"
capacity = "40GiB"

[stacks.stack]
layers = [{layers}, {{ layer = "ext4" }}]

[workloads.load]
workload = "fio"
preset = "random-mix-4k"
duration = "2s"
"""


def study_of(folder: Path, layers: str, memory: str = "1GiB") -> Study:
    return load_study(written(folder / "study.toml", TEXT.format(layers=layers, memory=memory)), catalogue())


def plan_of(folder: Path, layers: str) -> Plan:
    return compile_trial(study_of(folder, layers), "stack", "load", 1)


def test_what_is_above_a_machine_runs_in_it_and_all_else_outside(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '{ layer = "lvm" }, { layer = "vm" }')

    inside = {step.id for step in plan.steps if step.machine is not None}
    outside = {step.id for step in plan.steps if step.machine is None}

    assert inside == {"vm-flushing", "ext4-make", "ext4-mount", "owner", "fio-layout", "fio-measure"}
    assert {"lvm-volume", "vm-serve", "vm-start", "drawn-pause"} <= outside


def test_a_control_group_above_a_machine_is_the_machines(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '{ layer = "vm" }, { layer = "guest", memory = "128MiB" }')

    made = next(step for step in plan.steps if step.id == "guest-group")
    measured = next(step for step in plan.steps if step.id == "fio-measure")

    assert made.machine == measured.machine is not None
    assert measured.cgroup is not None


def test_plans_without_a_machine_do_not_speak_of_one(tmp_path: Path) -> None:
    assert b"machine" not in plan_of(tmp_path, '{ layer = "lvm" }').to_json().replace(
        b'"study":"machine"', b""
    )


@pytest.mark.parametrize(
    ("layers", "memory", "cause"),
    [
        ('{ layer = "vm" }, { layer = "vm" }', "1GiB", "cannot start another one"),
        ('{ layer = "vm" }', "256MiB", "its memory is a part of the lab's"),
        ('{ layer = "vm", cache = "writeback", aio = "native" }', "1GiB", "without the page cache only"),
    ],
)
def test_machines_that_cannot_be_are_refused(tmp_path: Path, layers: str, memory: str, cause: str) -> None:
    with pytest.raises(DiagnosticsError, match=cause):
        study_of(tmp_path, layers, memory)


def test_a_host_says_why_it_runs_none(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '{ layer = "vm" }')

    assert any("run in the lab only" in reason for reason in Kernel(tmp_path).unmet(plan.prerequisites))


def test_ignored_flushes_are_a_risk_that_results_name(tmp_path: Path) -> None:
    unsafe = study_of(tmp_path, '{ layer = "vm", cache = "unsafe" }')
    assert any("ignores flushes" in risk for risk in unsafe.power_risks("stack", "load"))
    assert not study_of(tmp_path, '{ layer = "vm" }').power_risks("stack", "load")
