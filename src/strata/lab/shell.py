# SPDX-License-Identifier: Apache-2.0
"""``strata lab enter``: a shell inside a lab, on a study's disks, at the user's own terminal."""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from strata.devices.device import Device, find_device
from strata.diagnostics.names import nearest
from strata.errors import LabError, StudyError
from strata.lab.boot import Wiring, start_lab
from strata.lab.folder import private_folder, remove_stale, run_root
from strata.lab.initrd import MOUNT_POINT, block_names, lab_bindings, lab_disks, lab_initrd, plan_files
from strata.lab.lab import ensure_for, require_lab
from strata.lab.machine import lacking_in_lab
from strata.lab.progress import console_progress
from strata.model.trial import TrialKey
from strata.plan.catalogue import catalogue
from strata.plan.compile import ENVIRONMENT, compile_stack
from strata.plan.model import Monitors, Plan, PlanDevice, Trial, canonical_json
from strata.reading.load import load_study
from strata.seeds import derive_seed
from strata.units import NS_PER_S, format_size

DEFAULT_DEVICE: Final = "wd-re4-500gb"
# A shell has no end of its own, but a plan must state a limit: a month.
_LIMIT_NS: Final = 30 * 24 * 3600 * NS_PER_S


def open_shell(*, study: Path | None, stack: str | None, device: str | None, virtual: bool) -> int:
    """Boot a lab and join the terminal to its console until it powers off; returns the exit code.

    It has the study's disks, and its stack if one is named; without a study, one disk of a model.

    Raises LabError if there is no terminal, or the lab cannot be started, and StudyError if the study, stack
    or device cannot be used.
    """
    plan, devices = _shell_plan(study, stack, device)
    lab = ensure_for(require_lab(console_progress()), plan, console_progress())
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LabError(
            "the shell needs a terminal", remedy="run it in one, without redirecting its input or output"
        )
    remove_stale(run_root())
    print(_greeting(plan, devices, built=stack is not None, virtual=virtual), flush=True)
    bindings = canonical_json(lab_bindings(plan, interactive=True))
    initrd = lab_initrd(lab.agent.path.read_bytes(), plan.to_json(), bindings, *plan_files(plan, lab))
    with private_folder(run_root()) as private, _own_terminal():
        events_path = private.path / "events.jsonl"
        events = os.open(events_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            wiring = Wiring(
                private.path, console=sys.stdout.fileno(), events=events, keyboard=sys.stdin.fileno()
            )
            with start_lab(
                lab,
                wiring,
                initrd=initrd,
                disks=lab_disks(plan, devices),
                entropy_seed=derive_seed(plan.trial.seed, "entropy"),
                memory_bytes=plan.memory_bytes,
                processor=plan.processor if virtual else (),
                virtual=virtual,
            ) as running:
                running.wait(None)
        finally:
            os.close(events)
    return 0 if running.exit_status == 0 else LabError.exit_code


def _shell_plan(
    file: Path | None, stack: str | None, device: str | None
) -> tuple[Plan, Mapping[str, Device]]:
    if file is None:
        if stack is not None:
            raise StudyError("a stack belongs to a study", place="--stack", remedy="name the study file, too")
        model = find_device(device or DEFAULT_DEVICE, Path.cwd())
        only = PlanDevice(name="disk0", capacity_bytes=model.capacity_bytes)
        return _empty_plan("shell", (only,)), {"disk0": model}
    if device is not None:
        raise StudyError(
            "the disks are those of the study", place="--device", remedy="leave out one of the two"
        )
    study = load_study(file, catalogue())
    models = {name: each.device for name, each in study.devices.items()}
    if stack is None:
        used = tuple(
            PlanDevice(name=each.name, capacity_bytes=each.capacity_bytes) for each in study.devices.values()
        )
        return _empty_plan(study.name, used), models
    if stack not in study.stacks:
        raise StudyError(
            f'the study has no stack "{stack}"', place="--stack", remedy=nearest(stack, study.stacks)
        )
    plan = compile_stack(study, stack, study.seeds[0])
    if lacking := lacking_in_lab(plan):
        raise StudyError(lacking, place=f"stacks.{stack}", remedy="enter another stack")
    return plan.model_copy(update={"time_limit_ns": _LIMIT_NS}), models


def _empty_plan(name: str, used: tuple[PlanDevice, ...]) -> Plan:
    return Plan(
        trial=Trial.of(name, TrialKey("none", "shell", 0)),
        devices=used,
        variables=(*(each.name for each in used), "mount", "scratch"),
        environment=ENVIRONMENT,
        monitors=Monitors(interval_ns=60 * NS_PER_S, disks=()),
        time_limit_ns=_LIMIT_NS,
        steps=(),
    )


def _greeting(plan: Plan, devices: Mapping[str, Device], *, built: bool, virtual: bool) -> str:
    names = block_names(plan)
    disks = ", ".join(
        f"/dev/{names[used.name]} is {used.name} "
        f"({devices[used.name].name}, {format_size(used.capacity_bytes)})"
        for used in plan.devices
    )
    lines = [f"The lab's disks: {disks}."]
    if built:
        lines.append(f"The stack {plan.trial.stack} is mounted at {MOUNT_POINT}.")
    clock = "virtual: waiting costs nothing" if virtual else "real; --virtual makes waiting free"
    lines.append(f"Time is {clock}. Leave with Ctrl-D; what was written is then gone.")
    return "\n".join(lines)


@contextmanager
def _own_terminal() -> Iterator[None]:
    """Give every key to the lab, Ctrl-C too; however the context ends, the terminal is as before."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    try:
        for number in handlers:
            signal.signal(number, leave)
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
