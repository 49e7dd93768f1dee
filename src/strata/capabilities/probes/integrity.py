# SPDX-License-Identifier: Apache-2.0
"""The fate of content when a disk returns wrong data or fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from strata.capabilities.probe import Finding, Probe, ProbeOutput
from strata.capabilities.probe_plan import ANY_EXIT, ProbePlan
from strata.model.layer import Layer
from strata.model.stack import Stack
from strata.plan.aspects.interventions import FAULT_PARAMETER, lose_disk
from strata.results.events import Events
from strata.traces.kinds import KINDS, OPS
from strata.traces.table import Records, Trace
from strata.units import NS_PER_S


@dataclass(frozen=True)
class Extent:
    disk: str
    first_sector: int
    sectors: int


def content_extent(trace: Trace, window_ns: tuple[int, int]) -> Extent | None:
    """The longest run of data reads in a window: where on the disks the content lies.

    Of several disks that hold a part or a copy, the first counts.
    """
    found: list[Extent] = []
    for disk in trace.disks[1:]:
        records = trace.of_disk(disk)
        within = (records["arrival_ns"] >= window_ns[0]) & (records["arrival_ns"] <= window_ns[1])
        data = (records["op"] == OPS.index("read")) & (records["kind"] == KINDS.index("read"))
        if runs := _runs(records[within & data]):
            found.append(Extent(disk, *sorted(runs, key=lambda run: run[1])[-1]))
    longest = max((extent.sectors for extent in found), default=0)
    return next((extent for extent in found if extent.sectors * 2 >= longest), None)


def _runs(records: Records) -> list[tuple[int, int]]:
    """The runs of adjoining sectors, each with its length, by place."""
    runs: list[tuple[int, int]] = []
    for record in np.sort(records, order="sector"):
        first, count = int(record["sector"]), int(record["sectors"])
        if runs and runs[-1][0] + runs[-1][1] >= first:
            begin, length = runs[-1]
            runs[-1] = (begin, max(length, first + count - begin))
        else:
            runs.append((first, count))
    return runs


_LOSS_LIMIT_NS: Final = 300 * NS_PER_S
Scrubs = list[tuple[Layer, str]]
"""Layers that were scrubbed, each with the step whose output states the errors."""


def _errors(scrubs: Scrubs, output: ProbeOutput) -> int:
    """The errors that scrubs found; raises ValueError or IndexError if one did not state them."""
    return sum(layer.scrub_errors(output.stdout(step)) for layer, step in scrubs)


class _Corruption(Probe):
    """Damages the sectors from which the content is read.

    The trace of a first boot shows which these are. The lab is deterministic, so the content lies there in
    the second boot too, and of two copies the one that is read is damaged.
    """

    looks_first = True
    extent: Extent | None = None
    read_step: str = ""

    def prepare(self, plan: ProbePlan) -> str | None:
        if not plan.placed or plan.placed[0][0].requires.maximum == 0:
            return "there is no disk below, or no layer on it"
        plan.begin("a")
        # Taken down, so that no cache hides the damage.
        plan.down(0)
        if self.extent is None:
            # As many processes as in the second boot: btrfs chooses the copy by the reader's number.
            plan.run("damage", "tee", "/dev/null", stdin="nothing\n")
        else:
            first_sector, sectors = self.extent.first_sector, self.extent.sectors
            fault = f"${{{self.extent.disk}}} corrupt,{first_sector},{sectors},0\n"
            plan.run("damage", "tee", FAULT_PARAMETER, stdin=fault)
        plan.up(0)
        self.read_step = plan.compare("a")
        if self.extent is not None:
            self.go_on(plan)
        return None

    def learn(self, trace: Trace, events: Events) -> str | None:
        read = events.steps[self.read_step]
        self.extent = content_extent(trace, (read.started_ns, read.ended_ns or events.last_ns))
        return None if self.extent is not None else "the content was read from no disk"

    def go_on(self, plan: ProbePlan) -> None:
        """Add the steps that follow the first reading."""

    def returned_as_data(self, output: ProbeOutput) -> bool | None:
        return output.code(self.read_step) == 1

    def scrub(self, plan: ProbePlan) -> Scrubs:
        scrubs = []
        for index in range(plan.height - 1, -1, -1):
            layer = plan.placed[index][0]
            if steps := layer.scrub(plan.context(index, "scrub")):
                accepting = [step.model_copy(update={"expect_exit": ANY_EXIT}) for step in steps]
                scrubs.append((layer, plan.act(index, accepting, operation=True)[-1]))
        return scrubs


class CorruptionDetected(_Corruption):
    name = "corruption-detected"
    title = "Corruption detected"
    question = "When a disk silently returns other content than was written, does anyone notice?"
    unusable = "yes"

    def go_on(self, plan: ProbePlan) -> None:
        plan.operations.append(self.read_step)
        self._scrubs = self.scrub(plan)

    def judge(self, output: ProbeOutput) -> Finding:
        code = output.code(self.read_step)
        found = _errors(self._scrubs, output)
        if code == 1 and found:
            return "partial", f"damaged content was read without any error; a scrub found {found} errors"
        if code == 1:
            return "no", "damaged content was read without any error"
        if code == 2:
            return "yes", output.said(self.read_step).rpartition(": ")[2]
        if found:
            return "yes", f"what was read was good, and the scrub found {found} errors"
        if self._scrubs:
            return "yes", "what was read was good, and then the scrub found nothing: mended while reading"
        return "partial", "what was read was good, and nothing was said"


class CorruptionHealed(_Corruption):
    name = "corruption-healed"
    title = "Corruption healed"
    question = "Is damaged content mended from a good copy?"
    unusable = "no"

    def go_on(self, plan: ProbePlan) -> None:
        """The second scrub finds nothing if the first has mended it."""
        self.scrub(plan)
        self._second = self.scrub(plan)
        plan.down(0)
        plan.up(0)
        self._again = plan.compare("a")

    def judge(self, output: ProbeOutput) -> Finding:
        first, again = output.code(self.read_step), output.code(self._again)
        if again != 0:
            return "no", "the content is lost" if again == 2 else "damaged content is read as if it were good"
        left = _errors(self._second, output)
        if left:
            return "partial", f"good content is read, but {left} errors are left"
        if not self._second:
            return "partial", "good content was read; nothing looks for the damage"
        return "yes", "at once" if first == 0 else "by the scrub"


class DiskLoss(Probe):
    name = "disk-loss"
    title = "Survives the loss of any disk"
    question = "When one disk fails, whichever it is, is the content there, and can it be written?"

    def __init__(self, *lost: str) -> None:
        self.lost = lost
        self.disk = " and ".join(lost)

    @classmethod
    def tries(cls, stack: Stack) -> Sequence[Probe]:
        return [cls(disk) for disk in stack.all_devices] or [cls()]

    def prepare(self, plan: ProbePlan) -> str | None:
        if not plan.stack.devices:
            return "there is no disk"
        if len(plan.stack.all_devices) == 1:
            return "it stands on a single disk"
        plan.begin("a", "b")
        for number, disk in enumerate(self.lost, start=1):
            losing = lose_disk(disk)
            step_id = losing.id if number == 1 else f"{losing.id}-{number}"
            plan.add([losing.model_copy(update={"phase": "measure", "id": step_id})])
        before = len(plan.steps)
        self._read = plan.compare("a")
        self._write = plan.write("b", expect=ANY_EXIT)
        self._again = plan.compare("b")
        # A pool that is suspended lets everything wait for ever.
        limited = [step.model_copy(update={"time_limit_ns": _LOSS_LIMIT_NS}) for step in plan.steps[before:]]
        plan.steps[before:] = limited
        plan.decisive += [step.id for step in limited]
        plan.operations += [self._read, self._write]
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        if output.code(self._read) != 0:
            return "no", f"the content cannot be read: {output.said(self._read).rpartition(': ')[2]}"
        if output.code(self._write) != 0 or output.code(self._again) != 0:
            return "partial", "the content can be read, but not written any more"
        return "yes", f"read and written without {'them' if self.lost[1:] else 'it'}"


class SecondDiskLoss(DiskLoss):
    name = "second-disk-loss"
    title = "Survives the loss of a second disk"
    question = "When a second disk fails before the first is replaced, is the content there?"
    every = "any two disks"

    @classmethod
    def tries(cls, stack: Stack) -> Sequence[Probe]:
        return [cls(*pair) for pair in combinations(stack.all_devices, 2)] or [cls()]
