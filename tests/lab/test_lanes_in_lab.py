# SPDX-License-Identifier: Apache-2.0
"""Lanes in virtual time: they take as long as the longest, fail together, tell the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from present import present
from strata.devices.device import find_device
from strata.errors import LabError
from strata.lab import Lab
from strata.model.step import LOAD, Command, Step
from strata.plan.compile import ENVIRONMENT
from strata.plan.model import Monitors, Plan, PlanDevice, Trial
from strata.results.events import Events, read_events
from strata.results.failure_reasons import event_failures
from strata.runners.base import Task
from strata.runners.lab import LabRunner
from strata.units import NS_PER_MS, NS_PER_S

DEVICE = find_device("wd-re4-500gb")
MIB, PIB = 1 << 20, 1 << 50


def plan_of(*steps: Step, **fields: Any) -> Plan:
    plan = Plan(
        trial=Trial(study="lanes", stack="none", workload="none", seed=1, id="none.none.s1"),
        devices=(PlanDevice(name="disk0", capacity_bytes=1 << 30),),
        variables=("disk0", "mount", "mounts", "scratch", "stack"),
        environment=dict(ENVIRONMENT),
        monitors=Monitors(interval_ns=NS_PER_S, disks=("disk0",)),
        time_limit_ns=3600 * NS_PER_S,
        steps=steps,
    )
    return plan.model_copy(update=fields)


def run(lab: Lab, folder: Path, plan: Plan) -> tuple[Events, list[str]]:
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_bytes(plan.to_json())
    LabRunner(lab).run(Task(plan=plan, devices={"disk0": DEVICE}, folder=folder, trace=False))
    events = read_events(folder / "events.jsonl")
    return events, event_failures(plan, events)


def step(name: str, *argv: str, lane: str | None = None, undo: Sequence[str] = (), **fields: Any) -> Step:
    command = Command(argv=tuple(undo)) if undo else None
    return Step(id=name, phase="measure", title=name, argv=argv, lane=lane, undo=command, **fields)


def shell(name: str, script: str, lane: str | None = None, **fields: Any) -> Step:
    return step(name, "sh", "-c", script, lane=lane, **fields)


def filesystem() -> list[Step]:
    return [
        step("make", "mkfs.ext4", "-q", "-E", "hash_seed=0d6a4f5c-2b3e-4f0a-9c1d-8e7f6a5b4c3d", "${disk0}"),
        step("mount", "mount", "${disk0}", "${mount}", undo=("umount", "${mount}")),
    ]


def busy_lanes() -> list[Step]:
    """Two lanes that write and sync beside one another, and a third that comes later, more than once."""
    write = "for at in 1 2 3 4 5 6 7 8; do echo $$at >> ${mount}/NAME; sync ${mount}/NAME; echo $$at; done"
    return [
        *filesystem(),
        *(shell(f"write-{name}", write.replace("NAME", name), name) for name in ("a", "b")),
        shell("again-a", "cat ${mount}/a; cat ${mount}/b | wc -l > /dev/null", "a"),
        shell("later", "echo later", "c", not_before_ns=20 * NS_PER_MS),
        shell("latest", "echo latest", "c", not_before_ns=2 * NS_PER_S),
        shell("count", "cat ${mount}/a ${mount}/b | wc -l"),
    ]


def test_two_sleeps_beside_one_another_take_as_long_as_one(lab: Lab, tmp_path: Path) -> None:
    sleeps = [step(f"sleep-{name}", "sleep", "2", lane=name) for name in ("a", "b")]

    events, troubles = run(lab, tmp_path, plan_of(*sleeps, step("after", "sleep", "1")))

    assert troubles == []
    both = present(events.window_ns(["sleep-a", "sleep-b"]))
    assert 2 * NS_PER_S < both[1] - both[0] < 2 * NS_PER_S + 100 * NS_PER_MS
    assert events.steps["after"].started_ns >= both[1]


def test_lanes_tell_the_same_bytes_in_every_run(lab: Lab, tmp_path: Path) -> None:
    runs = [run(lab, tmp_path / name, plan_of(*busy_lanes())) for name in ("one", "two")]

    assert runs[0][1] == runs[1][1] == []
    assert runs[0][0].sha256 == runs[1][0].sha256
    events = runs[0][0]
    assert events.output("count").split() == ["16"]
    one, other = events.steps["write-a"], events.steps["write-b"]
    assert other.started_ns < present(one.ended_ns)
    assert events.steps["latest"].started_ns - one.started_ns >= 2 * NS_PER_S
    # Samples taken while two steps run belong to no step.
    assert {each.step for each in events.samples if each.at == "step_end"} == set(events.steps)


def test_a_lane_that_fails_ends_the_others_and_nothing_is_left(lab: Lab, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; (setsid sleep 1000 &); while :; do sleep 1; done"
    plan = plan_of(
        *filesystem(),
        shell("stubborn", stubborn, "a", undo=("rm", "-f", "${mount}/a")),
        shell("never", "true", "a"),
        shell("fails", "sleep 3; echo not today >&2; exit 4", "b"),
        shell("writes", "exec dd if=/dev/zero of=${mount}/big bs=1M count=100000 oflag=direct", "c"),
        step("after", "true"),
    )

    events, troubles = run(lab, tmp_path, plan)

    assert troubles[0] == 'step fails ("fails") failed with exit code 4; it said: not today'
    assert troubles[1:] == ["step never was not run"]
    assert events.end is not None
    assert (events.end.outcome, events.end.failed_step) == ("failed", "fails")
    assert events.end.left_behind == ()
    outcomes = {run.step: run.ending.outcome for run in events.steps.values() if run.ending is not None}
    assert outcomes["stubborn"] == outcomes["writes"] == "interrupted"
    failed, ended = events.steps["fails"].ended_ns, events.steps["stubborn"].ended_ns
    # Each lane gets SIGTERM, then SIGKILL, without waiting for the other lanes.
    assert present(ended) - present(failed) < 2500 * NS_PER_MS


def test_services_in_two_lanes_are_awaited_beside_one_another(lab: Lab, tmp_path: Path) -> None:
    def service(name: str) -> Step:
        script = f"sleep 3; touch /run/{name}; exec sleep 1000"
        ready = Command(argv=("test", "-e", f"/run/{name}"))
        return shell(f"server-{name}", script, name, background=True, ready=ready)

    clients = [shell(f"client-{name}", f"test -e /run/{name} && echo served", name) for name in ("a", "b")]
    plan = plan_of(service("a"), clients[0], service("b"), clients[1], step("after", "true"))

    events, troubles = run(lab, tmp_path, plan)

    assert troubles == []
    assert [events.output(f"client-{name}") for name in ("a", "b")] == ["served\n", "served\n"]
    begin_ns = events.steps["server-a"].started_ns
    assert events.steps["after"].started_ns - begin_ns < 3200 * NS_PER_MS


def test_a_service_that_does_not_start_is_reported_with_the_end_of_its_log(lab: Lab, tmp_path: Path) -> None:
    script = "echo starting; echo FATAL: no such data folder >&2; exec sleep 1000"
    ready = Command(argv=("sh", "-c", "echo no answer; exit 2"))
    server = shell("server", script, background=True, ready=ready, time_limit_ns=5 * NS_PER_S)

    _, troubles = run(lab, tmp_path, plan_of(server, step("after", "true")))

    said = "not ready within 5 s: exit code 2, expected 0 (no answer); it said: FATAL: no such data folder"
    assert troubles == [f'step server ("server") {said}', "step after was not run"]


def test_what_lanes_run_in_their_control_groups_stays_apart(lab: Lab, tmp_path: Path) -> None:
    """A process outside its lane's session ends with its step; another lane's process is spared."""
    groups = {name: f"/sys/fs/cgroup/${{stack}}_{name}" for name in ("a", "b")}
    made = [step(f"group-{name}", "mkdir", path, undo=("rmdir", path)) for name, path in groups.items()]
    far = "(setsid sh -c 'echo $$$$ > /run/NAME; exec sleep 1000' &); sleep 1"
    look = "kill -0 $$(cat /run/NAME) 2>/dev/null && echo there || echo gone"
    plan = plan_of(
        *made,
        shell("stays", f"{far}; sleep 5; {look}".replace("NAME", "a"), "a", cgroup=groups["a"]),
        shell("leaves", far.replace("NAME", "b"), "b", cgroup=groups["b"]),
        shell("look", look.replace("NAME", "b"), "b"),
    )

    events, troubles = run(lab, tmp_path, plan)

    assert troubles == []
    assert events.output("stays") == "there\n"
    assert events.output("look") == "gone\n"


def test_the_load_generator_is_there_for_a_plan_that_runs_it(lab: Lab, tmp_path: Path) -> None:
    if lab.load is None:
        pytest.skip("the load generator is not built")
    version = step("version", "${load}", "--version")
    plan = plan_of(version, variables=("disk0", "mount", "mounts", "scratch", "stack", LOAD))

    events, troubles = run(lab, tmp_path, plan)

    assert troubles == []
    assert events.output("version").startswith("strata-load ")
    assert LabRunner(lab).setting(plan, {"disk0": DEVICE})[LOAD] == lab.load.sha256
    assert LOAD not in LabRunner(lab).setting(plan_of(), {"disk0": DEVICE})


@pytest.mark.parametrize("memory_bytes", [256 * MIB, 4096 * MIB])
def test_a_lab_has_the_memory_of_its_plan(lab: Lab, tmp_path: Path, memory_bytes: int) -> None:
    events, troubles = run(lab, tmp_path, plan_of(step("idle", "true"), memory_bytes=memory_bytes))

    assert troubles == []
    total_bytes = events.samples[0].memory["total_bytes"]
    # The kernel keeps its image and the table of pages for itself.
    assert 0.9 * memory_bytes < total_bytes < memory_bytes


def test_a_memory_that_a_lab_cannot_have_is_refused(lab: Lab) -> None:
    runner = LabRunner(lab)

    with pytest.raises(LabError, match="cannot have 16777216 bytes") as small:
        runner.check([plan_of(memory_bytes=16 * MIB)])
    with pytest.raises(LabError, match="this machine has no") as large:
        runner.check([plan_of(memory_bytes=PIB)])

    assert "at least" in (small.value.remedy or "")
    assert "lower `memory`" in (large.value.remedy or "")
