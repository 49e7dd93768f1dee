# SPDX-License-Identifier: Apache-2.0
"""What a probe is: something that is tried on a stack, and what is made of what happened."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from strata.capabilities.probe_plan import ProbePlan
from strata.results.capabilities import Capability, Verdict
from strata.results.events import Events
from strata.results.trace import Trace


@dataclass(frozen=True)
class Finding:
    """A verdict with what a reader should know of it."""

    verdict: Verdict
    note: str = ""


class ProbeOutput:
    """The output of a probe's steps in one boot."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.failed_step = events.end.failed_step if events.end is not None else None
        self.complaint = events.end.reason if events.end is not None else "the lab died"

    def code(self, step: str) -> int | None:
        """The exit code of a step; None if it did not come to an end."""
        run = self._events.steps.get(step)
        return run.ending.exit_code if run is not None and run.ending is not None else None

    def stdout(self, step: str) -> str:
        """What a step printed."""
        return self._events.output(step)

    def said(self, step: str) -> str:
        """The last line that a step said, for a note."""
        text = self._events.output(step, "stderr").strip() or self._events.output(step).strip()
        return text.splitlines()[-1].strip()[:200] if text else ""

    def duration_ns(self, steps: Sequence[str]) -> int:
        """The time that steps took."""
        runs = [self._events.steps[step] for step in steps if step in self._events.steps]
        return sum(run.ending.duration_ns for run in runs if run.ending is not None)

    def moved_bytes(self, steps: Sequence[str], key: str) -> int:
        """What the disks did of an account's ``key`` during the steps."""
        ends: dict[tuple[str, str], dict[str, int]] = {}
        for reading in self._events.accounts:
            if reading.step in steps:
                ends.setdefault((reading.step, reading.disk), {})[reading.at] = reading.account.get(key, 0)
        return sum(at.get("step_end", 0) - at.get("step_start", 0) for at in ends.values() if len(at) > 1)


class Probe(ABC):
    """One thing that is tried.

    Attributes:
        name: In kebab case.
        title: The row's heading in the matrix.
        question: What it finds out, in one sentence.
        looks_first: Whether it boots twice, and the first boot's trace tells it what to do in the second.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    looks_first: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Add the steps to the ground; why the stack cannot even try it, as a sentence, or None."""

    @abstractmethod
    def judge(self, output: ProbeOutput) -> Finding:
        """What is made of what happened, when every step went as expected."""

    def broken(self, output: ProbeOutput, step: str) -> Finding | None:
        """Explain a failed step outside the operation, or return None."""
        return None

    def learn(self, trace: Trace, events: Events) -> str | None:
        """Of a probe that looks first: what its first boot's trace shows, before it is prepared again.

        Returns:
            Why nothing can be learnt from it, as a sentence, or None.
        """
        raise NotImplementedError

    def probe_plan(self, probe_plan: ProbePlan) -> ProbePlan:
        """The ground to try it on: another one for a probe that needs other sizes."""
        return probe_plan


def uppermost(probe_plan: ProbePlan, ability: str, *arguments: object, **keywords: object) -> int | None:
    """The index of the uppermost layer that has an ability."""
    for index in range(probe_plan.above_all - 1, -1, -1):
        layer, context = probe_plan.placed[index]
        if getattr(layer, ability)(context, *arguments, **keywords) is not None:
            return index
    return None


def cell_of(probe_plan: ProbePlan, probe: Probe, events: Events) -> Capability:
    """The verdict on one boot."""
    output = ProbeOutput(events)
    failed = output.failed_step
    if failed is None and output.complaint and events.end is not None and events.end.outcome != "ok":
        finding = Finding("failed", output.complaint)
    elif failed is None:
        try:
            finding = probe.judge(output)
        except (ValueError, IndexError) as error:
            finding = Finding("failed", f"what the steps printed could not be read: {error}")
    elif failed in probe_plan.operations:
        finding = Finding("no", output.said(failed) or output.complaint or "")
    else:
        why = output.said(failed) or output.complaint
        finding = probe.broken(output, failed) or Finding("failed", f"step {failed}: {why}")
    steps = {step.id: step for step in probe_plan.steps}
    return Capability(
        stack=probe_plan.stack.name,
        probe=probe.name,
        verdict=finding.verdict,
        note=finding.note,
        duration_ns=output.duration_ns(probe_plan.operations),
        read_bytes=output.moved_bytes(probe_plan.operations, "read_bytes"),
        write_bytes=output.moved_bytes(probe_plan.operations, "write_bytes"),
        commands=tuple(_line(steps[each].argv, steps[each].stdin) for each in probe_plan.operations),
    )


def _line(argv: Sequence[str], stdin: str | None) -> str:
    line = " ".join(word if word.startswith("${") else shlex.quote(word) for word in argv)
    line = " ".join(line.split())
    return f"{line} <<< {shlex.quote(stdin.rstrip())}" if stdin else line
