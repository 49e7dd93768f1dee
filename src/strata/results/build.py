# SPDX-License-Identifier: Apache-2.0
"""From a trial's events to its result record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from strata.devices.processor import Processor
from strata.model.layer import KernelLog
from strata.model.metric import Metric
from strata.model.step import Phase
from strata.model.warning import FINISHED, Check
from strata.plan.aspects.interventions import loses_disk
from strata.plan.model import Plan
from strata.results.events import AccountReading, Events
from strata.results.failure_reasons import failure_reasons
from strata.results.machines import machine_accounts, machine_counts
from strata.results.record import (
    Charges,
    Fingerprint,
    ProcessorUse,
    ProgramUse,
    RealTime,
    ResultRecord,
    SamplesSummary,
    Throughput,
    TimeDomain,
    TraceSummary,
    Validity,
    Versions,
    VolumeUse,
    measured,
)

_UNPRICED: Final = "unpriced_"  # of /proc/strata_cpu (kernel/cpu/strata_cpu.c)


def build_record(
    plan: Plan,
    events: Events,
    *,
    metrics: Sequence[Metric],
    spec_sha256: str,
    fingerprint: Fingerprint,
    runner: str,
    time_domain: TimeDomain,
    versions: Versions,
    charges: Charges,
    real_time: RealTime,
    drives: Mapping[str, Mapping[str, float]] = {},
    console_log: Path | None = None,
    kernel_logs: Iterable[KernelLog] = (),
    trace: TraceSummary | None = None,
    problems: Iterable[str] = (),
    checks: Sequence[Check] = (),
    throughput: Sequence[Throughput] = (),
    volumes: Mapping[str, VolumeUse] = {},
    processor: Processor | None = None,
) -> ResultRecord:
    """The record of one attempt.

    A metric that is not finite makes the result invalid, as does each of ``problems`` and each message of
    ``kernel_logs`` in ``console_log``. The agent's events replace two of the ``versions``.
    """
    said = failure_reasons(plan, events, console_log, kernel_logs, disk_lost=loses_disk(plan.steps))
    is_virtual = time_domain == "virtual"
    if is_virtual and real_time.duration_s > 0:
        ratio = (events.last_ns - events.first_ns) / 1e9 / real_time.duration_s
        real_time = real_time.model_copy(update={"virtual_per_real": ratio})
    if events.start is not None:
        own = {"agent": events.start.agent_version, "kernel": events.start.kernel.get("release", "")}
        versions = versions.model_copy(update=own)
    return ResultRecord(
        trial=plan.trial,
        spec_sha256=spec_sha256,
        fingerprint=fingerprint,
        time_domain=time_domain,
        runner=runner,
        validity=_validity([*problems, *said], metrics, checks),
        drives={model: dict(drawn) for model, drawn in drives.items()},
        **measured(metric for metric in metrics if math.isfinite(metric.value)),
        phases_ns=_phases_ns(plan, events),
        disks=disk_accounts(plan, events),
        volumes=dict(volumes),
        filesystems=filesystem_accounts(plan, events),
        machines=machine_accounts(plan, events),
        processor=None if processor is None else processor_use(plan, events, processor),
        trace=trace,
        checks=tuple(checks),
        throughput=tuple(throughput),
        samples=_summarize(plan, events),
        versions=versions,
        charges=charges,
        events_sha256=events.sha256 if is_virtual else None,
        prepared_sha256=events.prepared_sha256,
        real_time=real_time,
    )


def _validity(failures: Sequence[str], metrics: Sequence[Metric], checks: Sequence[Check]) -> Validity:
    reasons = list(failures)
    # The failures explain better why a step did not come to its end.
    failed = [each for each in checks if each.required and each.verdict == "no"]
    reasons += [f"{each.denial}: {each.detail}" for each in failed if each.name != FINISHED or not failures]
    reasons += [
        f"{each.name} is not a number: {each.value}" for each in metrics if not math.isfinite(each.value)
    ]
    if not reasons and not metrics:
        reasons.append("the workload yielded no metrics")
    return Validity(valid=not reasons, reasons=tuple(dict.fromkeys(reasons)))


def foreground(plan: Plan, phase: Phase) -> list[str]:
    """The ids of a phase's steps, without services in the background."""
    return [step.id for step in plan.steps if step.phase == phase and not step.background]


def _phases_ns(plan: Plan, events: Events) -> dict[Phase, int]:
    phases: dict[Phase, int] = {}
    for step in plan.steps:
        if step.phase not in phases and (window := events.window_ns(foreground(plan, step.phase))):
            phases[step.phase] = window[1] - window[0]
    return phases


def disk_accounts(plan: Plan, events: Events) -> dict[str, dict[str, int]]:
    """The change of each disk's account from the start of the first to the end of the last measuring step."""
    return disk_changes(events, foreground(plan, "measure"))


def disk_changes(events: Events, of_steps: Iterable[str]) -> dict[str, dict[str, int]]:
    """The same for any steps.

    A modelled disk keeps an account of its own; for a real one the block layer's statistics are used.
    Readings are chosen by the step at whose ends they were taken, never by their time: on a loaded
    machine they may lie well outside the step's own events.
    """
    steps = set(of_steps)
    accounts = [(each.name, each.at, each.account) for each in events.accounts if each.step in steps]
    sampled = (each for each in events.samples if each.step in steps)
    counted = ((disk, each.at, counters) for each in sampled for disk, counters in each.disks.items())
    return _changes(accounts or counted)


def filesystem_accounts(plan: Plan, events: Events) -> dict[str, dict[str, int]]:
    """The requests of applications by filesystem, over the time of `disk_accounts`."""
    steps = foreground(plan, "measure")
    return _changes((each.name, each.at, each.account) for each in events.filesystems if each.step in steps)


def processor_use(plan: Plan, events: Events, processor: Processor) -> ProcessorUse | None:
    """The work of the lab's processors over the time of `disk_accounts`, also for a stack without disks."""
    found = _measuring(plan, events.processor)
    window, changes = _ends_ns(found), _changes((each.name, each.at, each.account) for each in found)
    if window is None or not changes:
        return None
    (counts,) = changes.values()
    kept = {key: counts.pop(key) for key in ("busy_ns", "queued_ns")}
    counts.pop("processors")
    for inside in machine_counts(plan, events):
        for key in (key for key in inside if key.startswith(_UNPRICED)):
            counts[key] = counts.get(key, 0) + inside[key]
    unpriced = _unpriced(counts)
    return ProcessorUse(
        name=processor.name,
        processors=round(processor.number("processors")),
        window_ns=window[1] - window[0],
        counts=counts,
        time_ns=processor.time_ns(counts),
        drawn=dict(processor.drawn),
        unpriced=unpriced,
        **kept,
    )


def _unpriced(counts: dict[str, int]) -> dict[str, ProgramUse]:
    """Take the work of the programs without a price, such as ``unpriced_calls:sync``, out of the counts."""
    found: dict[str, dict[str, int]] = {}
    for key in [key for key in counts if key.startswith(_UNPRICED)]:
        what, _, name = key.removeprefix(_UNPRICED).partition(":")
        found.setdefault(name, {})[what] = counts.pop(key)
    return {
        name: ProgramUse(
            system_calls=each["calls"], page_faults=each["faults"], time_ns=round(each["ps"] / 1000)
        )
        for name, each in found.items()
        if any(each.values())
    }


def measured_window_ns(plan: Plan, events: Events) -> tuple[int, int] | None:
    """The instants of the first and the last reading of the disks' accounts in the measured window."""
    return _ends_ns(_measuring(plan, events.accounts))


def _measuring(plan: Plan, readings: Iterable[AccountReading]) -> list[AccountReading]:
    steps = set(foreground(plan, "measure"))
    return [each for each in readings if each.step in steps]


def _ends_ns(found: Sequence[AccountReading]) -> tuple[int, int] | None:
    first = next((each.monotonic_ns for each in found if each.at == "step_start"), None)
    last = next((each.monotonic_ns for each in reversed(found) if each.at == "step_end"), None)
    return None if first is None or last is None else (first, last)


def _changes(readings: Iterable[tuple[str, str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """By name, from the first reading at a step's start to the last at a step's end, where both are there."""
    first: dict[str, Mapping[str, int]] = {}
    last: dict[str, Mapping[str, int]] = {}
    for name, at, counters in readings:
        if at == "step_start":
            first.setdefault(name, counters)
        elif at == "step_end":
            last[name] = counters
    return {
        name: {key: end[key] - first[name].get(key, 0) for key in sorted(end) if key != "in_flight"}
        for name, end in sorted(last.items())
        if name in first and end.keys() - {"in_flight"}
    }


def _summarize(plan: Plan, events: Events) -> SamplesSummary:
    steps = foreground(plan, "measure")
    window = events.window_ns(steps)
    if window is None:
        return SamplesSummary()
    # Samples at the ends of a step name it; only samples at the interval are chosen by their time.
    samples = [
        each
        for each in events.samples
        if (
            window[0] <= each.monotonic_ns <= window[1]
            if each.at == "interval"
            else each.step in steps and each.at in {"step_start", "step_end"}
        )
    ]
    if not samples:
        return SamplesSummary()

    def memory(key: str) -> list[int]:
        return [int(sample.memory[key]) for sample in samples if key in sample.memory] or [0]

    first, last = samples[0].cpu, samples[-1].cpu
    kinds = ("user_ns", "system_ns", "idle_ns", "iowait_ns")
    return SamplesSummary(
        count=sum(sample.at == "interval" for sample in samples),
        dirty_bytes_max=max(memory("dirty_bytes")),
        writeback_bytes_max=max(memory("writeback_bytes")),
        cached_bytes_max=max(memory("cached_bytes")),
        available_bytes_min=min(memory("available_bytes")),
        cpu_ns={kind.removesuffix("_ns"): int(last.get(kind, 0)) - int(first.get(kind, 0)) for kind in kinds},
    )
