# SPDX-License-Identifier: Apache-2.0
"""The reasons in a trial's events and in its kernel's messages against using its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from strata.model.layer import KernelLog
from strata.model.step import Step
from strata.plan.aspects.restart import parts_of
from strata.plan.model import Plan, sha256_hex
from strata.results.events import Events, StepRun
from strata.units import format_duration
from strata.words import beginning_and_end

_SAID_CHARACTERS: Final = 400
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
_STAMP: Final = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\]\s*")
_TROUBLE_LINES_MAX: Final = 5
# The lab's kernel stamps no times. These messages say when its programs begin, and what it says in any trial.
_PROGRAMS_BEGIN: Final = "Run /init as init process"
_IDLE_TALK: Final = re.compile(
    r"epollctl add err .*|reboot: .*|BTRFS info .*|"
    r".*: (?:[Uu]nmounting [Ff]ilesystem|mounted filesystem|Mount(?:ing|ed) |Ending clean mount).*|"
)
_REFUSAL_LINES_MAX: Final = 2


def failure_reasons(
    plan: Plan,
    events: Events,
    console_log: Path | None,
    kernel_logs: Iterable[KernelLog],
    *,
    disk_lost: bool = False,
) -> list[str]:
    """Every reason against using the numbers: see `event_failures` and `console_failures`."""
    said = console_failures(console_log, kernel_logs, disk_lost=disk_lost)
    return event_failures(plan, events, console_log) + said


def event_failures(plan: Plan, events: Events, console_log: Path | None = None) -> list[str]:
    """Every reason that the agent's account gives against using the numbers.

    With the kernel's ``console_log``, a failed step of root has the kernel's last messages: mount(8) says
    no more of an option than that something is wrong with it.
    """
    if events.start is None:
        return ["no events from the agent: the lab did not boot, or the agent could not be started"]
    reasons: list[str] = []
    # A plan with a restart comes to the agent in two parts.
    carried_out = (plan, *(parts_of(plan) or ()))
    hashes = (sha256_hex(each.to_json()) for each in carried_out)
    if events.start.plan_sha256 not in {"", *hashes}:  # empty: it could not be read
        reasons.append("the agent carried out another plan than this trial's")
    steps = {step.id: step for step in plan.steps}
    for run in events.steps.values():
        step = steps.get(run.step)
        reason = _step_trouble(run, events, step)
        if reason and not _ended_for_another(run, events):
            reason += _refusal(console_log) if step is not None and step.user == "root" else ""
            reasons.append(f'step {run.step} ("{step.title if step else run.step}") {reason}')
    for speaker, stream, text in events.streams():
        if _NO_SPACE in text:
            full = "the stack is full"
            if speaker in steps and steps[speaker].phase == "alter":
                full = "a layer finds no room for it, though files may still find some"
            reasons.append(f'step {speaker} said "{_NO_SPACE}" on {stream}: {full}')
    reasons += _teardown_trouble(events)
    reasons += _end_trouble(events, explained=bool(reasons))
    reasons += [f"step {each.id} was not run" for each in plan.steps if each.id not in events.steps][:1]
    return reasons


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
        how, kept = _program_trouble(run, step), _SAID_CHARACTERS
    if how is None or how == _TRUNCATED:
        return how
    said = beginning_and_end(events.words(run.step), kept)
    return f"{how}; it said: {said}" if said else how


def _refusal(console_log: Path | None) -> str:
    """The kernel's last messages, as a clause: of a step that failed they are about it."""
    text = _console_text(console_log).partition(_PROGRAMS_BEGIN)[2]
    messages = (_STAMP.sub("", line.strip()) for line in text.splitlines())
    last = [each for each in messages if not _IDLE_TALK.fullmatch(each)][-_REFUSAL_LINES_MAX:]
    return f"; the kernel said last: {' / '.join(last)}" if last else ""


def _console_text(console_log: Path | None) -> str:
    if console_log is None or not console_log.is_file():
        return ""
    return console_log.read_text(errors="replace")


def _service_trouble(run: StepRun, step: Step, events: Events) -> str | None:
    """Trouble with a service, in the agent's words: an exit code does not tell who ended it."""
    end, ending = events.end, run.ending
    if ending is not None and ending.outcome == "signalled":
        asked = (step.stop_signal or "TERM").removeprefix("SIG") == (ending.signal or "").removeprefix("SIG")
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


def console_failures(
    console_log: Path | None, kernel_logs: Iterable[KernelLog] = (), *, disk_lost: bool = False
) -> list[str]:
    """The kernel's messages against using the numbers, without their time stamps.

    ``kernel_logs`` has the layers' patterns of trouble. With ``disk_lost`` the plan lets a disk fail, and
    failing requests are no trouble.
    """
    logs = [_ANY_STACK, *kernel_logs]
    trouble = re.compile("|".join(dict.fromkeys(each for log in logs for each in log.trouble)))
    expected = re.compile("|".join(dict.fromkeys(each for log in logs for each in log.disk_lost)))
    found: dict[str, None] = {}
    for line in _console_text(console_log).splitlines():
        message = _STAMP.sub("", line.strip())
        if trouble.match(message) and not (disk_lost and expected.match(message)):
            found.setdefault(f"the kernel said: {message}")
    return list(found)[:_TROUBLE_LINES_MAX]
