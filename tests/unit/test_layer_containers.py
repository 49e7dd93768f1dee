# SPDX-License-Identifier: Apache-2.0
"""The layers incus, incus-dir and nspawn: where steps run, what does not fit, what a host says."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import checked
from strata.errors import DiagnosticsError
from strata.lab.machine import lacking_in_lab
from strata.model.study import Study
from strata.plan.aspects.restart import after_restart
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, skipped
from strata.plan.model import Plan
from strata.reading.load import load_study
from study_texts import mistakes, written

TEXT = """
[study]
name = "container"
question = "Which?"
seeds = [1]
{head}

[devices.disk0]
model = "wd-re4-500gb"
capacity = "40GiB"

[stacks.stack]
layers = [{layers}]

[workloads.load]
{load}
"""
DD = 'workload = "dd"\ncontent = "random"'
TENANTS = """
workload = "tenants"
[[workloads.load.tenants]]
name = "one"
memory = "128MiB"
load = { workload = "fio", preset = "random-mix-4k", size = "16MiB", duration = "5s" }
[[workloads.load.tenants]]
name = "two"
load = { workload = "fio", preset = "random-mix-4k", size = "16MiB", duration = "5s" }
"""
LIFE = 'workload = "container-life"'


def study_of(folder: Path, layers: str, load: str = DD, head: str = "") -> Study:
    text = TEXT.format(layers=layers, load=load, head=head)
    return load_study(written(folder / "study.toml", text), catalogue())


def plan_of(folder: Path, layers: str, load: str = DD) -> Plan:
    return compile_trial(study_of(folder, layers, load), "stack", "load", 1)


def test_each_tenant_has_a_container_of_its_own_with_its_own_limit(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '{ layer = "incus", memory = "256MiB" }', TENANTS)

    machines = {step.lane: step.machine for step in plan.steps if step.lane and step.machine}
    assert set(machines) == {"one", "two"}
    assert machines["one"] != machines["two"]
    limits = {
        step.id: [word for word in step.argv if word.startswith("limits.memory=")]
        for step in plan.steps
        if step.id.endswith("-container")
    }
    assert limits == {
        "incus-one-container": [f"limits.memory={160 << 20}B"],
        "incus-two-container": [f"limits.memory={320 << 20}B"],
    }


def test_containers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for layers, cause in (
        ('{ layer = "incus" }, { layer = "directory" }', "nothing but the load stands on it"),
        ('{ layer = "vm" }, { layer = "incus" }', "do not run in a virtual machine"),
        ('{ layer = "incus", filesystem = "xfs" }', "is a filesystem itself"),
        ('{ layer = "xfs" }, { layer = "overlay" }, { layer = "overlay" }', "cannot write to another"),
        ('{ layer = "xfs" }, { layer = "overlay" }, { layer = "nspawn" }', "cannot map the users"),
        ('{ layer = "xfs" }, { layer = "overlay", mount = ["upperdir=/etc"] }', "makes these folders"),
        ('{ layer = "incus", pool = "zfs", arc_max = "1MiB" }', "ignores a limit of the ARC below"),
    ):
        with pytest.raises(DiagnosticsError, match=cause):
            study_of(tmp_path, layers)


def test_what_was_prepared_is_the_overlays_image_once_the_machine_starts_anew(tmp_path: Path) -> None:
    for commit, image, moves in (("", "committed", 1), (", commit = false", "image", 0)):
        study = study_of(
            tmp_path, f'{{ layer = "xfs" }}, {{ layer = "overlay"{commit} }}', head='prepare = "once"'
        )
        again = after_restart(compile_trial(study, "stack", "load", 1).steps)
        mounted = next(step.argv for step in again if "lowerdir" in "".join(step.argv))
        assert f"lowerdir=${{mounts}}/xfs/overlay/{image}" in mounted[5]
        assert [step.argv[0] for step in again].count("mv") == moves
        # The index of `index=on` is of one writable layer, and lies in the work folder.
        work = mounted[5].partition("workdir=")[2].partition(",")[0]
        assert work.endswith("/work") is (commit != "")
        assert any(step.argv[0] == "mkdir" and work in step.argv for step in again) is (commit == "")


def test_a_second_nfs_in_one_kernel_is_refused(tmp_path: Path) -> None:
    xfs, nfs, raw = (f'{{ layer = "{each}" }}' for each in ("xfs", "nfs", "raw"))
    folders = '{ layer = "xfs" }, { layer = "directory" }'
    for layers, load, refused in (
        (f"{xfs}, {nfs}]\neach = [{nfs}", TENANTS, ["stacks.stack.each[0].layer"]),
        (f"{folders}]\neach = [{nfs}", TENANTS, ["stacks.stack.each[0].layer"]),
        (f"{xfs}, {nfs}, {nfs}", DD, ["stacks.stack.layers[2].layer"]),
        (f"{xfs}, {nfs}", TENANTS, []),
        (f'{xfs}, {nfs}, {raw}, {{ layer = "vm" }}, {xfs}, {nfs}', DD, []),
    ):
        found = mistakes(tmp_path, TEXT.format(layers=layers, load=load, head=""))
        assert [key for key, said in found.items() if "a kernel can have one nfs" in said] == refused, found


def test_loads_that_cannot_run_are_skipped_with_the_reason(tmp_path: Path) -> None:
    for layers, load, head, cause in (
        ('{ layer = "incus" }', 'workload = "tree"', "", "reads a file that the container does not have"),
        ('{ layer = "ext4" }', LIFE, "", "no layer of the stack is a container"),
        ('{ layer = "incus" }', LIFE, 'prepare = "once"', "keeps its images in memory"),
    ):
        assert cause in "".join(skipped(study_of(tmp_path, layers, load, head)).values())


def test_a_check_names_the_stacks_that_no_host_can_run(tmp_path: Path) -> None:
    file = study_of(tmp_path, '{ layer = "incus" }').file

    (found,) = checked(file)["lab_only"].items()

    assert 'layer = "nspawn"' in found[0]
    assert found[1] == ["stack"]


def test_nspawn_on_a_host_is_the_wardens_and_limits_memory_if_the_study_does(tmp_path: Path) -> None:
    for memory, limits in (("", 0), (', memory = "256MiB"', 1)):
        study = study_of(tmp_path, f'{{ layer = "xfs" }}, {{ layer = "nspawn"{memory} }}').on_host()
        plan = compile_trial(study, "stack", "load", 1)

        asking = [step for step in plan.steps if step.container]
        made = next(step.argv for step in plan.steps if step.id == "nspawn-root-folders")
        assert [step.id for step in asking] == ["nspawn-enter"]
        assert asking[0].argv[-2:] == ("${mounts}/xfs/nspawn", "${stack}_nspawn")
        assert made == ("install", "-d", "${mounts}/xfs/nspawn${mount}")
        assert not any("systemd-nspawn" in step.argv for step in plan.steps)
        assert len([step for step in plan.steps if step.id == "nspawn-memory"]) == limits
        assert ("cgroup:memory" in plan.prerequisites.features) is bool(limits)
        assert plan.prerequisites.packages == ()


def test_guests_and_containers_can_have_processors_in_the_lab_and_on_a_host(tmp_path: Path) -> None:
    for layers, whose in (
        ('{ layer = "guest", cpus = 2 }, { layer = "xfs" }', "guest"),
        ('{ layer = "xfs" }, { layer = "nspawn", cpus = 2 }', "nspawn"),
    ):
        study = study_of(tmp_path, layers)
        for plan in (compile_trial(each, "stack", "load", 1) for each in (study, study.on_host())):
            (limit,) = (step for step in plan.steps if step.id == f"{whose}-cpus")
            assert limit.argv[-1].endswith(f"_{whose}/cpu.max")
            assert limit.stdin == "200000 100000\n"
            assert "cgroup:cpu" in plan.prerequisites.features
            assert lacking_in_lab(plan) is None
        free = study_of(tmp_path, layers, head='cpu = "free"')
        assert "takes no time" in str(lacking_in_lab(compile_trial(free, "stack", "load", 1)))
    incus = plan_of(tmp_path, '{ layer = "xfs" }, { layer = "incus-dir", cpus = 2 }')
    assert any("lxc.cgroup2.cpu.max = 200000 100000" in word for step in incus.steps for word in step.argv)
    assert "cgroup:cpu" in incus.prerequisites.features
    assert not [
        step for step in plan_of(tmp_path, '{ layer = "guest" }, { layer = "xfs" }').steps if "cpu" in step.id
    ]
