# SPDX-License-Identifier: Apache-2.0
"""From a trial's events to its result record, and the judgement whether its numbers may be used."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from strata.plan.interventions import loses_disk
from strata.plan.model import Plan, sha256_hex
from strata.results.events import Events, StepRun
from strata.results.record import (
    Charges,
    Fingerprint,
    RealTime,
    ResultRecord,
    SamplesSummary,
    Throughput,
    TimeDomain,
    TraceSummary,
    Validity,
    Versions,
    measured,
)
from strata.spec.layer import KernelLog
from strata.spec.metric import Metric
from strata.spec.step import Phase, Step
from strata.spec.warning import FINISHED, Check
from strata.units import format_duration

_TAIL_CHARACTERS: Final = 400
_LOG_CHARACTERS: Final = 1200
"""A server's cause of failure stands before its hints."""
_NO_SPACE: Final = "No space left on device"
_TRUNCATED: Final = "wrote more output than is kept"
# The kernel's messages that make every trial invalid; `Layer.kernel_log` has those of the layers.
_ANY_STACK: Final = KernelLog(
    trouble=(
        r"strata: disk \S+ host (?:read|write) failed.*",
        r"Kernel panic.*",
        r".*\bI/O error, dev .*",
        r"(?:Memory cgroup out|Out) of memory: Killed process .*",
    ),
    disk_lost=(r".*\bI/O error, dev .*",),
)
_STAMP: Final = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\]\s*")
_TROUBLE_LINES_MAX: Final = 5


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
    console_log: Path | None = None,
    kernel_logs: Iterable[KernelLog] = (),
    trace: TraceSummary | None = None,
    problems: Iterable[str] = (),
    checks: Sequence[Check] = (),
    throughput: Sequence[Throughput] = (),
) -> ResultRecord:
    """The record of one attempt.

    Args:
        plan: The trial's plan.
        events: From ``read_events``.
        metrics: The workload's metrics; one that is not finite makes the result invalid.
        spec_sha256: Hash of the plan with the devices' parameters.
        fingerprint: Of the lab or the host.
        runner: Its name.
        time_domain: Virtual or wall.
        versions: As known before the trial; the agent replaces its own and the kernel's.
        charges: The lab's charges of virtual time.
        real_time: When, how long and where.
        console_log: The kernel's messages, searched for trouble when there are any.
        kernel_logs: What counts as trouble, of each layer of the stack.
        trace: From ``seal_trace``, if a trace was kept.
        problems: Reasons for invalidity that the caller found, such as a watchdog's or a workload's.
        checks: The checks of the numbers.
        throughput: Over the measured window.
    """
    said = trouble_in_console(console_log, kernel_logs, disk_lost=loses_disk(plan.steps))
    return ResultRecord(
        trial=plan.trial,
        spec_sha256=spec_sha256,
        fingerprint=fingerprint,
        time_domain=time_domain,
        runner=runner,
        validity=_validity([*problems, *trouble_in_events(plan, events), *said], metrics, checks),
        **measured(metric for metric in metrics if math.isfinite(metric.value)),
        phases_ns=_phases_ns(plan, events),
        disks=disk_accounts(plan, events),
        filesystems=filesystem_accounts(plan, events),
        trace=trace,
        checks=tuple(checks),
        throughput=tuple(throughput),
        samples=_summarize(plan, events),
        versions=_versions(versions, events),
        charges=charges,
        events_sha256=events.sha256 if time_domain == "virtual" else None,
        real_time=_real_time(real_time, events) if time_domain == "virtual" else real_time,
    )


def _versions(known: Versions, events: Events) -> Versions:
    """With what the agent said of itself and its kernel."""
    if events.start is None:
        return known
    said = {"agent": events.start.agent_version, "kernel": events.start.kernel.get("release", "")}
    return known.model_copy(update=said)


def _real_time(known: RealTime, events: Events) -> RealTime:
    """With how much virtual time passed in a real second."""
    if known.duration_s <= 0:
        return known
    ratio = (events.last_ns - events.first_ns) / 1e9 / known.duration_s
    return known.model_copy(update={"virtual_per_real": ratio})


def _validity(troubles: Sequence[str], metrics: Sequence[Metric], checks: Sequence[Check]) -> Validity:
    reasons = list(troubles)
    # That a step did not come to its end has a reason, which the troubles tell better.
    failed = [each for each in checks if each.required and each.verdict == "no"]
    reasons += [f"{each.denial}: {each.detail}" for each in failed if each.name != FINISHED or not troubles]
    reasons += [
        f"{each.name} is not a number: {each.value}" for each in metrics if not math.isfinite(each.value)
    ]
    if not reasons and not metrics:
        reasons.append("the workload yielded no metrics")
    return Validity(valid=not reasons, reasons=tuple(dict.fromkeys(reasons)))


def foreground(plan: Plan, phase: Phase) -> list[str]:
    """The ids of a phase's steps, services in the background left out."""
    return [step.id for step in plan.steps if step.phase == phase and not step.background]


def _phases_ns(plan: Plan, events: Events) -> dict[Phase, int]:
    phases: dict[Phase, int] = {}
    for step in plan.steps:
        if step.phase not in phases and (window := events.window_ns(foreground(plan, step.phase))):
            phases[step.phase] = window[1] - window[0]
    return phases


def disk_accounts(plan: Plan, events: Events) -> dict[str, dict[str, int]]:
    """Per disk what changed between the start of the first and the end of the last measuring step.

    A modelled disk keeps an account of its own; for a real one the block layer's statistics are used.
    Readings are chosen by the step at whose ends they were taken, never by their time: on a loaded
    machine they may lie well outside the step's own events.
    """
    return disk_changes(events, foreground(plan, "measure"))


def disk_changes(events: Events, of_steps: Iterable[str]) -> dict[str, dict[str, int]]:
    """The same for any steps: per disk what changed from the start of the first to the end of the last."""
    steps = set(of_steps)
    readings: dict[str, list[tuple[str, Mapping[str, int]]]] = {}
    for reading in events.accounts:
        if reading.step in steps:
            readings.setdefault(reading.disk, []).append((reading.at, reading.account))
    if not readings:
        for sample in events.samples:
            if sample.step in steps:
                for disk, counters in sample.disks.items():
                    readings.setdefault(disk, []).append((sample.at, counters))
    return {disk: change for disk, values in sorted(readings.items()) if (change := _change(values))}


def filesystem_accounts(plan: Plan, events: Events) -> dict[str, dict[str, int]]:
    """Per filesystem the requests of applications over the time of `disk_accounts`."""
    steps = set(foreground(plan, "measure"))
    readings: dict[str, list[tuple[str, Mapping[str, int]]]] = {}
    for reading in events.filesystems:
        if reading.step in steps:
            readings.setdefault(reading.filesystem, []).append((reading.at, reading.account))
    return {name: change for name, values in sorted(readings.items()) if (change := _change(values))}


def measured_window_ns(plan: Plan, events: Events) -> tuple[int, int] | None:
    """From when to when the disks' accounts of the measured window are: the instants of their readings."""
    steps = set(foreground(plan, "measure"))
    found = [each for each in events.accounts if each.step in steps]
    first = next((each.monotonic_ns for each in found if each.at == "step_start"), None)
    last = next((each.monotonic_ns for each in reversed(found) if each.at == "step_end"), None)
    return None if first is None or last is None else (first, last)


def _change(readings: Sequence[tuple[str, Mapping[str, int]]]) -> dict[str, int]:
    """From the first reading at a step's start to the last at a step's end; empty without both."""
    first = next((counters for at, counters in readings if at == "step_start"), None)
    last = next((counters for at, counters in reversed(readings) if at == "step_end"), None)
    if first is None or last is None:
        return {}
    return {key: last[key] - first.get(key, 0) for key in sorted(last) if key != "in_flight"}


def _summarize(plan: Plan, events: Events) -> SamplesSummary:
    steps = foreground(plan, "measure")
    window = events.window_ns(steps)
    if window is None:
        return SamplesSummary()
    # Those at the ends of a step say whose they are; only those at the interval go by their time.
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


def trouble_in_events(plan: Plan, events: Events) -> list[str]:
    """Every reason that the agent's account gives against using the numbers."""
    if events.start is None:
        return ["the agent never spoke: the lab did not boot, or the agent could not be started"]
    reasons: list[str] = []
    if events.start.trial not in {None, plan.trial.id}:
        reasons.append(f"the events are those of another trial, {events.start.trial}")
    elif events.start.plan_sha256 not in {"", sha256_hex(plan.to_json())}:  # empty: it could not be read
        reasons.append("the agent carried out another plan than this trial's")
    steps = {step.id: step for step in plan.steps}
    for run in events.steps.values():
        step = steps.get(run.step)
        reason = _step_trouble(run, events, step)
        if reason and not _ended_for_another(run, events):
            reasons.append(f'step {run.step} ("{step.title if step else run.step}") {reason}')
    for speaker, stream, text in events.streams():
        if _NO_SPACE in text:
            reasons.append(f'step {speaker} said "{_NO_SPACE}" on {stream}: the stack is full')
    reasons += _teardown_trouble(events)
    reasons += _end_trouble(events, explained=bool(reasons))
    reasons += [f"step {each.id} was not run" for each in plan.steps if each.id not in events.steps][:1]
    return reasons


def _teardown_trouble(events: Events) -> list[str]:
    """Steps that were not undone. A step that failed half-way may have had nothing to undo."""
    steps = [events.steps.get(each) for each in events.undo_failures]
    done = [run.step for run in steps if run and run.ending and run.ending.outcome == "ok"]
    left = events.end.left_behind if events.end else ()
    return [
        *(f"step {each} could not be undone at teardown" for each in done),
        *(f"left behind by the teardown: {each}" for each in left),
    ]


def _end_trouble(events: Events, *, explained: bool) -> list[str]:
    """Trouble at the agent's end; ``explained`` if a step's failure accounts for it already."""
    end = events.end
    if end is None:
        running = [run.step for run in events.steps.values() if run.ending is None]
        during = f" during step {running[-1]}" if running else ""
        return [f"the agent was killed{during} before the plan's end"]
    if end.outcome == "ok" or (end.outcome == "failed" and explained and end.failed_step is not None):
        return []
    if end.outcome == "failed" and explained:
        return [end.reason] if end.reason else []
    return [f"the agent ended with {end.outcome}" + (f": {end.reason}" if end.reason else "")]


def _ended_for_another(run: StepRun, events: Events) -> bool:
    """Whether a step was ended because another had failed: then there is only that one's failure to tell."""
    interrupted = run.ending is not None and run.ending.outcome == "interrupted"
    end = events.end
    return (
        interrupted
        and end is not None
        and end.outcome == "failed"
        and end.failed_step not in {None, run.step}
    )


def _step_trouble(run: StepRun, events: Events, step: Step | None) -> str | None:
    if step is not None and step.background:
        how = _service_trouble(run, step, events)
    else:
        how = _program_trouble(run, step)
    if how is None or how == _TRUNCATED:
        return how
    tail = events.last_words(run.step).strip()
    if not tail:
        return how
    is_service = step is not None and step.background
    return f"{how}; it said last: {_end_of(tail, _LOG_CHARACTERS if is_service else _TAIL_CHARACTERS)}"


def _end_of(text: str, characters_max: int) -> str:
    """The end of what a program said: whole lines, unless the last is too long for that."""
    if len(text) <= characters_max:
        return text
    cut, newline, lines = text[-characters_max:].partition("\n")
    return f"…{lines if newline else cut}"


def _service_trouble(run: StepRun, step: Step, events: Events) -> str | None:
    """Trouble with a service, in the agent's words: an exit code does not say who ended it."""
    end, ending = events.end, run.ending
    if ending is not None and ending.outcome == "signalled":
        asked = step.stop_signal.removeprefix("SIG") == (ending.signal or "").removeprefix("SIG")
        return None if asked else f"was ended by signal {ending.signal}"
    if ending is not None and ending.outcome not in {"ok", "interrupted"}:
        return ending.error or f"ended as {ending.outcome}"
    if end is not None and end.outcome == "failed" and end.failed_step == run.step:
        return end.reason  # it ran until it was stopped, but was not ready in time
    return None


def _program_trouble(run: StepRun, step: Step | None) -> str | None:
    ending = run.ending
    if ending is None or ending.outcome == "ok":
        truncated = ending is not None and ending.output_truncated and run.phase == "measure"
        return _TRUNCATED if truncated else None
    match ending.outcome:
        case "timeout":
            limit = f" of {format_duration(step.time_limit_ns)}" if step else ""
            how = f"took longer than its time limit{limit}"
        case "signalled":
            how = f"was ended by signal {ending.signal}"
        case "spawn_error":
            how = f"could not be started: {ending.error or 'unknown cause'}"
        case "failed":
            how = f"failed with exit code {ending.exit_code}"
        case other:
            how = f"ended as {other}"
    return how


def trouble_in_console(
    console_log: Path | None, kernel_logs: Iterable[KernelLog] = (), *, disk_lost: bool = False
) -> list[str]:
    """The kernel's messages that speak against using the numbers, without their time stamps.

    Args:
        console_log: The kernel's messages, if there are any.
        kernel_logs: What counts as trouble, of each layer of the stack, beside what does in any stack.
        disk_lost: Whether the plan lets a disk fail: then it is no trouble that requests to a disk fail.
    """
    if console_log is None or not console_log.is_file():
        return []
    logs = [_ANY_STACK, *kernel_logs]
    trouble = re.compile("|".join(dict.fromkeys(each for log in logs for each in log.trouble)))
    expected = re.compile("|".join(dict.fromkeys(each for log in logs for each in log.disk_lost)))
    found: dict[str, None] = {}
    for line in console_log.read_text(errors="replace").splitlines():
        message = _STAMP.sub("", line.strip())
        if trouble.match(message) and not (disk_lost and expected.match(message)):
            found.setdefault(f"the kernel said: {message}")
    return list(found)[:_TROUBLE_LINES_MAX]
