# SPDX-License-Identifier: Apache-2.0
"""From a trial's events to its result record, and whether its numbers may be used."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from strata.plan.interventions import loses_disk
from strata.plan.model import Plan, sha256_hex
from strata.plan.prepared import parts_of
from strata.results.events import AccountReading, Events, StepRun
from strata.results.machines import machine_accounts
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
from strata.spec.layer import KernelLog
from strata.spec.metric import Metric
from strata.spec.processor import Processor
from strata.spec.step import Phase, Step
from strata.spec.warning import FINISHED, Check
from strata.units import format_duration

_TAIL_CHARACTERS: Final = 400
_LOG_CHARACTERS: Final = 1200
"""Of a server's log: its cause of failure stands before its hints."""
_NO_SPACE: Final = "No space left on device"
_TRUNCATED: Final = "wrote more output than is kept"
# The kernel's messages that make every trial invalid; `Layer.kernel_log` has those of the layers.
_ANY_STACK: Final = KernelLog(
    trouble=(
        r"strata: disk \S+ host (?:read|write) failed.*",
        # Faults of the kernel itself, and memory that it needs and cannot get: kernel/{fork,panic}.c,
        # mm/{filemap,memory,page_alloc,slub,vmalloc}.c, lib/{list_debug,refcount}.c and
        # arch/um/kernel/{tlb,skas/mmu}.c of Linux 7.2
        r"Kernel panic.*",
        r".*\bBUG(?::| at | \S+ \().*",
        r".*\b(?:Oops|KASAN|KFENCE|refcount_t|use[- ]after[- ]free)\b.*",
        r".*\b(?:Bad (?:page|rss)|list_(?:add|del) corruption|Wrong slab cache|nonexistent vm area)\b.*",
        r".*: (?:page allocation failure|vmalloc error): .*",
        r"UML ran out of memory on the host side!.*",
        r"Unexpectedly lost MM child!.*",
        r".*\bI/O error, dev .*",
        r"(?:Memory cgroup out|Out) of memory: Killed process .*",
    ),
    disk_lost=(r".*\bI/O error, dev .*",),
)
_UNPRICED: Final = "unpriced_"  # of /proc/strata_cpu (kernel/cpu/strata_cpu.c)
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
    said = trouble_in_console(console_log, kernel_logs, disk_lost=loses_disk(plan.steps))
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
        validity=_validity([*problems, *trouble_in_events(plan, events), *said], metrics, checks),
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


def _validity(troubles: Sequence[str], metrics: Sequence[Metric], checks: Sequence[Check]) -> Validity:
    reasons = list(troubles)
    # The troubles explain better why a step did not come to its end.
    failed = [each for each in checks if each.required and each.verdict == "no"]
    reasons += [f"{each.denial}: {each.detail}" for each in failed if each.name != FINISHED or not troubles]
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


def trouble_in_events(plan: Plan, events: Events) -> list[str]:
    """Every reason that the agent's account gives against using the numbers."""
    if events.start is None:
        return ["the agent never spoke: the lab did not boot, or the agent could not be started"]
    reasons: list[str] = []
    if events.start.trial not in {None, *(each.trial.id for each in _carried_out(plan))}:
        reasons.append(f"the events are those of another trial, {events.start.trial}")
    elif events.start.plan_sha256 not in {"", *_plan_hashes(plan)}:  # empty: it could not be read
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


def _carried_out(plan: Plan) -> tuple[Plan, ...]:
    """The plans that an agent may have: a plan with a restart comes to it in two parts."""
    return (plan, *(parts_of(plan) or ()))


def _plan_hashes(plan: Plan) -> set[str]:
    return {sha256_hex(each.to_json()) for each in _carried_out(plan)}


def _teardown_trouble(events: Events) -> list[str]:
    """Steps that were not undone; a step that failed half-way may have had nothing to undo."""
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
    """Whether a step was ended because another had failed: only the other one's failure counts."""
    if run.ending is None or run.ending.outcome != "interrupted" or events.end is None:
        return False
    return events.end.outcome == "failed" and events.end.failed_step not in {None, run.step}


def _step_trouble(run: StepRun, events: Events, step: Step | None) -> str | None:
    if step is not None and step.background:
        how, kept = _service_trouble(run, step, events), _LOG_CHARACTERS
    else:
        how, kept = _program_trouble(run, step), _TAIL_CHARACTERS
    if how is None or how == _TRUNCATED:
        return how
    tail = events.last_words(run.step).strip()
    return f"{how}; it said last: {_end_of(tail, kept)}" if tail else how


def _end_of(text: str, characters_max: int) -> str:
    if len(text) <= characters_max:
        return text
    cut, newline, lines = text[-characters_max:].partition("\n")
    return f"…{lines if newline else cut}"


def _service_trouble(run: StepRun, step: Step, events: Events) -> str | None:
    """Trouble with a service, in the agent's words: an exit code does not tell who ended it."""
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
    limit = f" of {format_duration(step.time_limit_ns)}" if step else ""
    words = {
        "timeout": f"took longer than its time limit{limit}",
        "signalled": f"was ended by signal {ending.signal}",
        "spawn_error": f"could not be started: {ending.error or 'unknown cause'}",
        "failed": f"failed with exit code {ending.exit_code}",
    }
    return words.get(ending.outcome, f"ended as {ending.outcome}")


def trouble_in_console(
    console_log: Path | None, kernel_logs: Iterable[KernelLog] = (), *, disk_lost: bool = False
) -> list[str]:
    """The kernel's messages against using the numbers, without their time stamps.

    ``kernel_logs`` has the layers' patterns of trouble. With ``disk_lost`` the plan lets a disk fail, and
    failing requests are no trouble.
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
