# SPDX-License-Identifier: Apache-2.0
"""Limits of requests to the disks: of guests, containers and tenants, on every disk of the stack."""

from __future__ import annotations

from pathlib import Path

from strata.plan.compile import compile_trial, skipped
from study_texts import HEAD, disk, fio, mistakes, read

LIMITS = '{ read_iops = 300, write_rate = "5MB/s", latency = "20ms", weight = 200 }'
DISKS = disk("disk0") + disk("disk1")
MIRROR = '{ layer = "md", level = "raid1" }'
STACKS = {
    "guest": f'{MIRROR}, {{ layer = "guest", io = {LIMITS} }}, {{ layer = "ext4" }}',
    "nspawn": f'{MIRROR}, {{ layer = "ext4" }}, {{ layer = "nspawn", io = {LIMITS} }}',
    "ext4": f'{MIRROR}, {{ layer = "ext4" }}',
}


def text_of(stack: str, load: str) -> str:
    return f"{HEAD}{DISKS}[stacks.{stack}]\nlayers = [{STACKS[stack]}]\n{load}"


def tenant(limits: str) -> str:
    load = '{ workload = "fio", preset = "random-read-4k", size = "64MiB", duration = "5s" }'
    one = f'{{ name = "a", io = {limits}, load = {load} }}'
    return f'[workloads.load]\nworkload = "tenants"\ntenants = [{one}]\n'


def test_every_disk_limits_the_group_before_anything_runs_in_it(tmp_path: Path) -> None:
    for stack, load in (("guest", fio("load")), ("nspawn", fio("load")), ("ext4", tenant(LIMITS))):
        plan = compile_trial(read(tmp_path, text_of(stack, load)), stack, "load", 1)

        files = [step for step in plan.steps if step.argv[0] == "tee" and "/io." in step.argv[-1]]
        told = sorted(
            (step.argv[-1].rpartition("/")[2], (step.stdin or "").partition(" ")[2]) for step in files
        )
        assert told == [
            ("io.bfq.weight", ""),
            *[("io.cost.qos", "enable=1 ctrl=auto\n")] * 2,
            *[("io.latency", "target=20000\n")] * 2,
            *[("io.max", "riops=300 wbps=5000000\n")] * 2,
            ("io.weight", "200\n"),
        ], stack
        (group,) = {step.argv[-1].rpartition("/")[0] for step in files} - {"/sys/fs/cgroup"}
        used = [at for at, step in enumerate(plan.steps) if step.cgroup == group]
        assert used
        assert max(map(plan.steps.index, files)) < used[0]
        assert any(step.stdin and "+io" in step.stdin for step in plan.steps)
        assert {"cgroup:io", "io:latency", "io:weight"} <= {*plan.prerequisites.features}


def test_a_disk_with_bfq_is_not_weighed_by_its_cost_too(tmp_path: Path) -> None:
    text = text_of("guest", fio("load"))
    text = text.replace("[devices.disk1]", '[devices.disk1]\nqueue = { scheduler = "bfq" }')
    for limits, numbers in ((LIMITS, 2), ("{ weight = 200 }", 1)):
        plan = compile_trial(read(tmp_path, text.replace(LIMITS, limits)), "guest", "load", 1)
        names = [step.id for step in plan.steps]
        assert [name for name in names if "io-cost" in name] == ["guest-io-cost-disk0"]
        assert sum(name.startswith("guest-number-") for name in names) == numbers
        assert "guest-io-bfq" in names


def test_processor_time_is_limited_by_its_own_controller(tmp_path: Path) -> None:
    text = text_of("guest", fio("load")).replace(f"io = {LIMITS}", "cpus = 2")
    plan = compile_trial(read(tmp_path, text), "guest", "load", 1)

    told = {step.argv[-1].rpartition("/")[2]: step.stdin for step in plan.steps if step.argv[0] == "tee"}
    assert told["cpu.max"] == "200000 100000\n"
    assert told["cgroup.subtree_control"] == "+memory +cpu\n"
    assert "cgroup:cpu" in plan.prerequisites.features
    assert "cgroup:io" not in plan.prerequisites.features


def test_limits_without_effect_are_refused(tmp_path: Path) -> None:
    assert [*mistakes(tmp_path, text_of("guest", fio("load")).replace(LIMITS, "{}"))]
    assert [*mistakes(tmp_path, text_of("guest", fio("load")).replace("300", "0"))]
    beyond = text_of("guest", fio("load")).replace("weight = 200", "weight = 1001")
    assert [*mistakes(tmp_path, beyond)], "bfq has no such weight"
    inside = read(tmp_path, text_of("guest", tenant("{ read_iops = 5 }")))
    assert "guest" in str(skipped(inside))
