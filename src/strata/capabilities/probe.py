# SPDX-License-Identifier: Apache-2.0
"""Probes: each tries something on a stack and judges the outcome."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from strata.capabilities.probe_plan import ProbePlan
from strata.model.stack import Stack
from strata.results.capabilities import Capability, Verdict
from strata.results.events import Events
from strata.traces.table import Trace
from strata.words import beginning_and_end, listed

_NOTE_CHARACTERS: Final = 200
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("no", "failed", "partial", "yes")
Finding = tuple[Verdict, str]
"""A verdict, and a note or an empty text."""


class ProbeOutput:
    """The output of a probe's steps in one boot."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.failed_step = events.end.failed_step if events.end is not None else None
        self.complaint = events.end.reason if events.end is not None else "the lab died"

    def code(self, step: str) -> int | None:
        """The exit code of a step; None if it did not end."""
        run = self._events.steps.get(step)
        return run.ending.exit_code if run is not None and run.ending is not None else None

    def stdout(self, step: str) -> str:
        return self._events.output(step)

    def said(self, step: str) -> str:
        """The beginning and the end of a step's messages, or of its output, for a note."""
        return beginning_and_end(self._events.words(step), _NOTE_CHARACTERS, " / ")

    def duration_ns(self, steps: Sequence[str]) -> int:
        runs = [self._events.steps[step] for step in steps if step in self._events.steps]
        return sum(run.ending.duration_ns for run in runs if run.ending is not None)

    def moved_bytes(self, steps: Sequence[str], key: str) -> int:
        """By how much the disks' counters ``key`` grew during the steps."""
        ends: dict[tuple[str, str], dict[str, int]] = {}
        for reading in self._events.accounts:
            if reading.step in steps:
                ends.setdefault((reading.step, reading.name), {})[reading.at] = reading.account.get(key, 0)
        return sum(at.get("step_end", 0) - at.get("step_start", 0) for at in ends.values() if len(at) > 1)


class Probe(ABC):
    name: ClassVar[str]
    title: ClassVar[str]  # the row's heading in the matrix
    question: ClassVar[str]
    looks_first: ClassVar[bool] = False
    """Whether it boots twice; `learn` uses the first boot's trace to prepare the second."""
    unusable: ClassVar[Verdict] = "failed"  # the verdict if the stack does not come up again
    by: str = ""  # the name of the layer that acts
    disk: str = ""  # of a probe that is tried on each disk in turn
    every: ClassVar[str] = "any disk"  # all that it is tried on in turn, in a note

    @abstractmethod
    def prepare(self, plan: ProbePlan) -> str | None:
        """Add the steps to the plan, or return why the stack cannot try it, as a sentence."""

    @abstractmethod
    def judge(self, output: ProbeOutput) -> Finding:
        """The verdict when every step went as expected."""

    def returned_as_data(self, output: ProbeOutput) -> bool | None:
        """Whether damaged content was read without an error; None: the probe damages nothing."""
        return None

    def learn(self, trace: Trace, events: Events) -> str | None:
        """Use the trace of the first boot, or return why that is impossible, as a sentence."""
        raise NotImplementedError

    def resized(self, plan: ProbePlan) -> ProbePlan:
        """The plan to use: another one for a probe that needs other sizes or layers."""
        return plan

    @classmethod
    def tries(cls, stack: Stack) -> Sequence[Probe]:
        """The probe, or one for each disk to try it on; the worst verdict counts."""
        return [cls()]

    def acting(self, plan: ProbePlan, ability: str, *arguments: object) -> int | None:
        """The index of the uppermost layer that has an ability, if any, which then is the one that acts."""
        for index in range(plan.height - 1, -1, -1):
            layer, context = plan.placed[index]
            if getattr(layer, ability)(context, *arguments) is not None:
                self.by = context.name
                return index
        return None


def _judged(probe: Probe, output: ProbeOutput, events: Events) -> Finding:
    """The finding of a probe of which no step failed."""
    if output.complaint and events.end is not None and events.end.outcome != "ok":
        return "failed", output.complaint
    try:
        return probe.judge(output)
    except (ValueError, IndexError) as error:
        return "failed", f"what the steps printed could not be read: {error}"


def _of_failure(plan: ProbePlan, probe: Probe, output: ProbeOutput, failed: str) -> Finding:
    said = output.said(failed)
    if failed in (*plan.operations, *plan.decisive):
        # After the first reason the agent's complaint lists what the failure left behind.
        return "no", said or (output.complaint or "").partition(";")[0]
    if failed in plan.coming_up and probe.unusable != "failed":
        return probe.unusable, f"the stack does not come up again: {said}"
    return "failed", f"step {failed}: {said or output.complaint}"


def cell_of(plan: ProbePlan, probe: Probe, events: Events) -> Capability:
    output = ProbeOutput(events)
    failed = output.failed_step
    finding = _judged(probe, output, events) if failed is None else _of_failure(plan, probe, output, failed)
    steps = {step.id: step for step in plan.steps}
    has_verdict = failed is None and finding[0] != "failed"
    return Capability(
        stack=plan.stack.name,
        probe=probe.name,
        verdict=finding[0],
        note=finding[1],
        duration_ns=output.duration_ns(plan.operations),
        read_bytes=output.moved_bytes(plan.operations, "read_bytes"),
        write_bytes=output.moved_bytes(plan.operations, "write_bytes"),
        commands=tuple(_line(steps[each].argv, steps[each].stdin) for each in plan.operations),
        returned_as_data=probe.returned_as_data(output) if has_verdict else None,
    )


def worst_of(cells: Sequence[Capability], probes: Sequence[Probe]) -> Capability:
    """The worst of a probe's cells on several disks, whose note names the disks with that verdict."""
    if len(cells) == 1:
        return cells[0]
    verdict = min((each.verdict for each in cells), key=_WORST_FIRST.index)
    worst = {probe.disk: each for probe, each in zip(probes, cells, strict=True) if each.verdict == verdict}
    first = next(iter(worst.values()))
    disks = probes[0].every if len(worst) == len(cells) else listed(list(worst), "or")
    return first.model_copy(update={"note": f"{disks}: {first.note}"})


def _line(argv: Sequence[str], stdin: str | None) -> str:
    line = " ".join(word if word.startswith("${") else shlex.quote(word) for word in argv)
    line = " ".join(line.split())
    return f"{line} <<< {shlex.quote(stdin.rstrip())}" if stdin else line
