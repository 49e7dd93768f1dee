# SPDX-License-Identifier: Apache-2.0
"""From an attempt's events to its record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from strata import __version__
from strata.devices.plausible import drawn_drives
from strata.devices.processor import Processor
from strata.errors import ResultError, RunError, StrataError
from strata.execution.brought_systems import system_checks, systems
from strata.execution.schedule import PlannedTrial, fingerprint_of
from strata.execution.validity_checks import FinishedTrial, checks_of, throughput_of, without_charges
from strata.lab.machine import QemuProcessor
from strata.model.metric import Metric, of_open_loop
from strata.model.stack import Volume
from strata.model.step import QEMU_ACCELERATOR, QEMU_OPTIONS
from strata.model.study import Study
from strata.model.warning import OWN_PROCESSOR, PRECONDITIONED, UNDISTURBED, Check
from strata.plan.aspects import ASPECTS
from strata.results.build import build_record, disk_accounts, measured_window_ns
from strata.results.events import Events, joined, read_events
from strata.results.record import (
    Charges,
    RealTime,
    ResultRecord,
    Throughput,
    TraceSummary,
    Versions,
    VolumeUse,
)
from strata.results.records import Attempt
from strata.runners.base import BINDINGS_NAME, MACHINE_NAME, PREPARED_NAME, Identity, Runner
from strata.units import percent


def finalise(
    attempt: Attempt,
    planned: PlannedTrial,
    study: Study,
    runner: Runner,
    *,
    started_at: str,
    duration_s: float,
    problem: StrataError | None = None,
) -> ResultRecord:
    """Judge an attempt that has ended, and return its record, invalid with a ``problem`` of the runner."""
    named = planned.plan.trial.id  # the record has no names
    problems = [_in_one(problem, attempt).removeprefix(named).lstrip(":, ")] if problem is not None else []
    study = study.of(planned.key.stack)
    devices = study.drawn_devices(planned.key.stack, planned.key.seed)
    trial = FinishedTrial(study, planned.plan, _events(attempt, problems))
    metrics = _metrics(attempt, trial, problems)
    checks, throughput = _checks(attempt, trial, metrics, problems)
    problems += _aspect_problems(attempt, trial)
    trace = _trace(attempt, trial, problems)
    stack = study.stacks[trial.plan.trial.stack]
    identity = runner.identity_of(planned.plan)
    packages = {**identity.packages, **systems(trial)}
    in_lab = runner.time_domain == "virtual"
    return build_record(
        trial.plan,
        trial.events,
        metrics=metrics,
        spec_sha256=planned.spec_sha256,
        fingerprint=fingerprint_of(identity),
        runner=runner.name,
        time_domain=runner.time_domain,
        versions=Versions(strata=__version__, kernel="", agent="", packages=packages),
        charges=_charges(identity, study.processor),
        processor=trial.processor,
        real_time=RealTime(started_at=started_at, duration_s=round(duration_s, 3), host=processor()),
        drives=drawn_drives(devices.values()) if in_lab else {},
        console_log=attempt.console_path if in_lab else None,
        kernel_logs=[layer.kernel_log for layer in stack.every_layer],
        trace=trace,
        problems=problems,
        checks=checks,
        throughput=throughput,
        volumes=_volumes(attempt, trial, stack.volumes(study.capacities_bytes), trace, problems),
    )


def _charges(identity: Identity, processor: Processor) -> Charges:
    """The lab's charges, which a price of the processor replaces."""
    names = Charges.model_fields if processor.is_free else ()
    return Charges(**{name: getattr(identity, name) for name in names})


def _events(attempt: Attempt, problems: list[str]) -> Events:
    """The agent's events; an error in them is added to the problems."""
    try:
        events = read_events(attempt.events_path)
        prepared = attempt.path / PREPARED_NAME
        return joined(read_events(prepared), events) if prepared.is_file() else events
    except ResultError as error:
        problems.append(_in_one(error, attempt))
    return Events(path=attempt.events_path, sha256="0" * 64)


def _aspect_problems(attempt: Attempt, trial: FinishedTrial) -> Sequence[str]:
    if not trial.is_complete:
        return ()
    try:
        return list(dict.fromkeys(why for aspect in ASPECTS for why in aspect.problems(trial)))
    except RunError as error:
        return [_in_one(error, attempt)]


def _metrics(attempt: Attempt, trial: FinishedTrial, problems: list[str]) -> Sequence[Metric]:
    """The metrics of the workload and of the steps beside it, if there is no problem so far."""
    if problems or not trial.is_complete:
        return ()
    try:
        own: Sequence[Metric] = trial.load.metrics(trial.outputs)
        if trial.load.is_open_loop:
            own = of_open_loop(own)
        return [
            *without_charges(own, trial),
            *(metric for aspect in ASPECTS for metric in aspect.metrics(trial)),
        ]
    except RunError as error:
        problems.append(_in_one(error, attempt))
    return ()


def _checks(
    attempt: Attempt, trial: FinishedTrial, metrics: Sequence[Metric], problems: list[str]
) -> tuple[Sequence[Check], Sequence[Throughput]]:
    if trial.events.start is None:
        return (), ()
    try:
        throughput = throughput_of(trial)
        seen = [*_machine_checks(attempt.path), *_emulation_checks(attempt.path), *system_checks(trial)]
        return [*checks_of(trial, throughput, metrics), *seen], throughput
    except (ResultError, RunError) as error:
        problems.append(_in_one(error, attempt))
    return (), ()


def _machine_checks(attempt: Path) -> list[Check]:
    """The runner's record of the machine in the measured window, as checks; none without a record."""
    path = attempt / MACHINE_NAME
    try:
        seen = json.loads(path.read_text())
        found, window = list(seen["disturbances"]), seen["window"]
        detail = "; ".join(found) or _quiet(window)
        checks = [Check(name=UNDISTURBED, verdict="no" if found else "yes", detail=detail)]
        if disks := seen["disks"]:
            reached = all(each["reached"] for each in disks.values())
            done = "; ".join(f"{name} ({each['asked']}): {each['detail']}" for name, each in disks.items())
            checks.append(Check(name=PRECONDITIONED, verdict="yes" if reached else "no", detail=done))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"what was seen of the machine cannot be read: {error}", place=str(path)) from error
    return checks


def _emulation_checks(attempt: Path) -> list[Check]:
    """Whether QEMU emulated the processor of virtual machines; nothing without QEMU."""
    path = attempt / BINDINGS_NAME
    try:
        bound = json.loads(path.read_text()).get("variables", {})
        options, accelerator = bound.get(QEMU_OPTIONS), bound.get(QEMU_ACCELERATOR)
        processor = options and QemuProcessor(options)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"the bindings cannot be read: {error}", place=str(path)) from error
    if processor is None and accelerator is None:
        return []
    emulated = accelerator == "tcg" or processor not in {None, QemuProcessor.KVM}
    detail = "QEMU emulated it (TCG)" if emulated else "KVM let them use it"
    return [Check(name=OWN_PROCESSOR, verdict="no" if emulated else "yes", detail=detail)]


def _quiet(window: dict[str, Any]) -> str:
    used = sum(window["others"].values())
    return (
        f"other processes used {used:.2f} of {window['cpus']} CPUs, and a hypervisor withheld "
        f"{percent(window['steal_share'])} of the processor time"
    )


def _trace(attempt: Attempt, trial: FinishedTrial, problems: list[str]) -> TraceSummary | None:
    """The sealed trace, if one was kept; an error in it is added to the problems."""
    # DuckDB takes half a second to load, which no other command should pay.
    from strata.results.trace import seal_trace  # noqa: PLC0415

    try:
        disks = [device.name for device in trial.plan.devices]
        return seal_trace(attempt, disks, measured_window_ns(trial.plan, trial.events))
    except ResultError as error:
        problems.append(_in_one(error, attempt))
    return None


def _volumes(
    attempt: Attempt,
    trial: FinishedTrial,
    volumes: Mapping[str, Volume],
    summary: TraceSummary | None,
    problems: list[str],
) -> dict[str, VolumeUse]:
    """The disks' accounts by filesystem and partition, of a stack that has several of them."""
    has_partitions = any(name != each.part.disk for name, each in volumes.items())
    if not has_partitions and len({each.filesystem for each in volumes.values()}) < 2:
        return {}
    from strata.results.trace import read_trace  # noqa: PLC0415  NumPy and DuckDB, as above
    from strata.results.volumes import volume_uses  # noqa: PLC0415

    try:
        trace = read_trace(attempt, summary) if summary is not None else None
    except ResultError as error:
        problems.append(_in_one(error, attempt))
        return {}
    plan, events = trial.plan, trial.events
    return volume_uses(volumes, disk_accounts(plan, events), trace, measured_window_ns(plan, events))


def _in_one(error: StrataError, attempt: Attempt) -> str:
    """An error as one reason: place, cause and remedy.

    Paths are relative to the attempt's folder: a record must not depend on where it is made.
    """
    reason = "; ".join(part for part in (str(error).partition("\n")[0], error.remedy) if part)
    for folder in {str(attempt.path), str(attempt.path.absolute())}:
        reason = reason.replace(f"{folder}/", "")
    return reason


@cache
def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown processor"
