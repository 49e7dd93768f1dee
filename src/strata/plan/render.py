# SPDX-License-Identifier: Apache-2.0
"""A plan for people to read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from rich.text import Text

from strata.devices.device import Device
from strata.devices.plausible import drawn_drives
from strata.model.step import Command, Step
from strata.plan.model import Plan
from strata.units import format_duration, format_size

_PLAIN: Final = re.compile(r"""[^ \t\n'"\\;&|<>*?()[\]`]+""")


def plan_lines(plan: Plan, devices: Mapping[str, Device] = {}) -> Iterator[Text]:
    """The plan, line by line: the trial, its disks, and by phase each step with everything it does.

    ``devices`` are the trial's, by name: of plausible drives the drawn values are shown.
    """
    trial = plan.trial
    yield Text.assemble("trial ", (trial.id, "bold"), f" of study {trial.study}")
    for device in plan.devices:
        yield Text(f"  {device.name}: {format_size(device.capacity_bytes)}", "dim")
    for model, drawn in drawn_drives(devices.values()).items():
        values = ", ".join(f"{name} {value:g}" for name, value in drawn.items())
        yield Text(f"  {model}, drawn for seed {trial.seed}: {values}", "dim")
    yield Text(
        f"  at most {format_duration(plan.time_limit_ns)}; "
        f"sampled every {format_duration(plan.monitors.interval_ns)}",
        "dim",
    )
    phase = ""
    for number, step in enumerate(plan.steps, 1):
        if step.phase != phase:
            phase = step.phase
            yield Text()
            yield Text(phase, "bold cyan")
        yield from _step_lines(number, step)
    undo = [step for step in reversed(plan.steps) if step.undo is not None or step.background]
    if undo:
        yield Text()
        yield Text("teardown, whatever happened", "bold cyan")
        for step in undo:
            if step.background:
                yield Text(f"      stop {step.id} with SIG{step.stop_signal or 'TERM, if it runs'}")
            if step.undo is not None:
                yield _command_line(step.undo, "")


def _step_lines(number: int, step: Step) -> Iterator[Text]:
    yield Text.assemble(f"{number:>4}  ", (step.title, "bold"), (f"  [{step.id}]", "dim"))
    yield _command_line(step, " &" if step.background else "")
    notes = [f"as {step.user}"] if step.user != "root" else []
    notes.append(f"at most {format_duration(step.time_limit_ns)}")
    if step.machine is not None:
        notes.append(f"in the machine behind {step.machine}")
    if step.lane is not None:
        due = f", not before {format_duration(step.not_before_ns)}" if step.not_before_ns else ""
        notes.append(f"in lane {step.lane}{due}")
    if step.expect_exit != (0,):
        notes.append("exit " + " or ".join(map(str, step.expect_exit)))
    if step.ready is not None:
        notes.append(f"ready when `{_words(step.ready)}` exits 0")
    notes += [f"keeps {collect.path} as {collect.name}" for collect in step.collect]
    line = Text("      " + "; ".join(notes), "dim")
    if step.destroys:
        line.append(f"; destroys {', '.join(step.destroys)}", "red")
    yield line


def _words(command: Command) -> str:
    # Variables stay readable: ${disk0} needs no quotes here, because no shell reads this.
    return " ".join(word if _PLAIN.fullmatch(word) else shlex.quote(word) for word in command.argv)


def _command_line(command: Command, suffix: str) -> Text:
    environment = "".join(f"{name}={value} " for name, value in sorted(command.environment.items()))
    return Text(f"      {environment}{_words(command)}{suffix}", "green")
