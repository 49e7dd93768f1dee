# SPDX-License-Identifier: Apache-2.0
"""Results of plans whose steps run at the same time, and of services that fail."""

from __future__ import annotations

from pathlib import Path

from results_factory import EventLog, S, plan_of

from strata.model.step import Step
from strata.plan.model import Plan
from strata.results.build import build_record, disk_accounts, measured_window_ns
from strata.results.events import read_events
from strata.results.failure_reasons import event_failures
from strata.results.record import Charges, Fingerprint, RealTime, Versions

ONE = plan_of("btrfs", "oltp", 1)


def step_of(name: str, lane: str | None = None, *, background: bool = False) -> Step:
    return Step(
        id=name,
        phase="measure",
        title=name.capitalize(),
        argv=("run", name),
        lane=lane,
        background=background,
    )


def plan_with(*steps: Step) -> Plan:
    return ONE.model_copy(update={"steps": steps})


def overlapping(plan: Plan) -> EventLog:
    """Two lanes: ``first`` from 1 s to 5 s, ``second`` from 2 s to 9 s; the disk reads once a second."""
    log = EventLog(plan)
    events = [(1, "start", "first"), (2, "start", "second"), (5, "end", "first"), (9, "end", "second")]
    for at_s in range(1, 10):
        log.now_ns = at_s * S
        for _, what, step in (each for each in events if each[0] == at_s):
            if what == "start":
                log.add("step_start", step=step, phase="measure", argv=["run"])
            else:
                log.end(step, "ok", 0)
            log.account(step, f"step_{what}", {"reads": at_s, "in_flight": 1})
            log.sample(f"step_{what}", step)
        log.now_ns += S // 2
        log.sample()
    log.finish()
    return log


def test_a_window_of_lanes_goes_from_the_first_start_to_the_last_end(tmp_path: Path) -> None:
    plan = plan_with(step_of("first", "a"), step_of("second", "b"))
    events = read_events(overlapping(plan).written(tmp_path))

    record = build_record(
        plan,
        events,
        metrics=[],
        spec_sha256="0" * 64,
        fingerprint=Fingerprint(kernel_sha256=None, image_sha256=None, agent_sha256="0" * 64),
        runner="lab",
        time_domain="virtual",
        versions=Versions(strata="0", agent="", kernel="", packages={}),
        charges=Charges(syscall_ns=0, yield_ns=0, clock_read_ns=0),
        real_time=RealTime(started_at="2026-11-20T21:00:00Z", duration_s=1, host="here"),
    )

    assert record.phases_ns["measure"] == 8 * S
    assert record.disks == {"disk0": {"reads": 8}}
    assert disk_accounts(plan, events) == record.disks
    assert measured_window_ns(plan, events) == (1 * S, 9 * S)
    assert record.samples.count == 8
    assert record.samples.cpu_ns["idle"] == 8 * S


def test_a_failed_lane_is_reported_and_lanes_ended_because_of_it_are_not(tmp_path: Path) -> None:
    plan = plan_with(step_of("first", "a"), step_of("second", "b"))
    log = EventLog(plan)
    for step in ("first", "second"):
        log.add("step_start", step=step, phase="measure", argv=["run"])
    log.add("output", step="second", stream="stderr", text="no such table\n")
    log.end("second", "failed", S)
    log.end("first", "interrupted", S)
    log.finish("failed", failed_step="second", reason="exit code 1, expected 0")

    said = event_failures(plan, read_events(log.written(tmp_path)))

    assert said == ['step second ("Second") failed with exit code 1; it said: no such table']


def server_log(plan: Plan, said: dict[str, str]) -> EventLog:
    log = EventLog(plan)
    log.add("step_start", step="server", phase="measure", argv=["postgres"])
    for stream, text in said.items():
        log.add("output", step="server", stream=stream, text=text)
    return log


def test_a_service_that_does_not_get_ready_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    plan = plan_with(step_of("server", background=True), step_of("load"))
    log = server_log(plan, {"stderr": "y" * 2000 + "\nFATAL: could not create shared memory segment\n"})
    log.end("server", "ok", S)  # it ran until it was stopped
    log.finish("failed", failed_step="server", reason="not ready within 60 s: exit code 2")

    said = event_failures(plan, read_events(log.written(tmp_path)))

    assert said[0] == (
        'step server ("Server") not ready within 60 s: exit code 2; '
        f"it said: {'y' * 600}…\n…\nFATAL: could not create shared memory segment"
    )
    assert said[1:] == ["step load was not run"]


def test_a_log_that_a_service_keeps_in_a_file_is_its_last_word(tmp_path: Path) -> None:
    plan = plan_with(step_of("server", background=True))
    log = server_log(plan, {})
    log.add("step_end", step="server", outcome="failed", error="the service ended early: exit code 1")
    log.add("file", step="server", name="log", text="[ERROR] Unknown option\n", last=False)
    log.finish("failed", failed_step="server", reason="the service server ended early: exit code 1")

    assert event_failures(plan, read_events(log.written(tmp_path)))[0].endswith(
        "it said: [ERROR] Unknown option"
    )
