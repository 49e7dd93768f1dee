# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from execution_factory import fake_runner, study_in
from rich.console import Console

from strata.execution.display import LineDisplay, LiveDisplay
from strata.execution.schedule import plan_study
from strata.plan.model import Plan
from strata.runners.base import EventTail, Progress, teardown_limit_ns
from strata.units import NS_PER_S


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_study(study_in(tmp_path), fake_runner())[0][0].plan


def line(**event: Any) -> bytes:
    return json.dumps({"monotonic_ns": 5, **event}).encode() + b"\n"


def test_progress_follows_the_events_as_they_are_written(tmp_path: Path, plan: Plan) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventTail(path, plan)
    step = plan.steps[0]

    tail.read()
    assert tail.title == "boot"
    path.write_bytes(line(type="agent_start"))
    tail.read()
    path.write_bytes(path.read_bytes() + line(type="step_start", step=step.id, phase=step.phase))
    tail.read()

    assert (tail.step_id, tail.title, tail.phase) == (step.id, step.title, step.phase)


def test_teardown_may_take_what_its_steps_may_take(plan: Plan) -> None:
    undo_ns = sum(step.undo.time_limit_ns for step in plan.steps if step.undo)

    assert teardown_limit_ns(plan) > undo_ns > 0


def test_off_a_terminal_there_are_lines_without_control_characters(plan: Plan) -> None:
    written = io.StringIO()
    display = LineDisplay(Console(file=written), virtual=True)

    display.begin([plan.trial], 0, 1)
    display.started(plan.trial)
    display.say("a line")
    display.end()

    assert written.getvalue() == "a line\n"


def test_on_a_terminal_a_trial_shows_its_step_and_both_times(plan: Plan) -> None:
    written = io.StringIO()
    display = LiveDisplay(Console(file=written, force_terminal=True, width=120), virtual=True)

    display.begin([plan.trial], 0, 1)
    display.started(plan.trial)
    display.progress(plan.trial, Progress("Measure for 20 s", "measure", 7 * NS_PER_S))
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(display)
    display.end()

    shown = console.export_text()
    for words in (plan.trial.stack, "mix", "Measure for 20 s", "7 s", "0/1 trials"):
        assert words in shown
