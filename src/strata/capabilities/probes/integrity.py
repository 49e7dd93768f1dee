# SPDX-License-Identifier: Apache-2.0
"""What becomes of content when a disk lies or fails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from strata.capabilities.probe import Finding, Probe, ProbeOutput
from strata.capabilities.probe_plan import ProbePlan
from strata.plan.interventions import FAULT_PARAMETER, lose_disk, lost_disk
from strata.results.capabilities import Verdict
from strata.results.events import Events
from strata.results.trace import KINDS, OPS, Records, Trace
from strata.spec.layer import Layer


@dataclass(frozen=True)
class Extent:
    """A run of sectors on one disk."""

    disk: str
    first_sector: int
    sectors: int


def content_extent(trace: Trace, window_ns: tuple[int, int]) -> Extent | None:
    """Where on the disks the content lies that was read in a window: the longest run of data reads.

    Of several disks that hold a part or a copy it is the first.
    """
    found: list[Extent] = []
    for disk in trace.disks[1:]:
        records = trace.of_disk(disk)
        within = (records["arrival_ns"] >= window_ns[0]) & (records["arrival_ns"] <= window_ns[1])
        data = (records["op"] == OPS.index("read")) & (records["kind"] == KINDS.index("read"))
        found += [Extent(disk, first, count) for first, count in _runs(records[within & data])]
    longest = max((extent.sectors for extent in found), default=0)
    long_enough = [extent for extent in found if extent.sectors * 2 >= longest]
    return long_enough[0] if long_enough else None


def _runs(records: Records) -> Iterable[tuple[int, int]]:
    """The runs of adjoining sectors, each with its length, by place."""
    runs: list[tuple[int, int]] = []
    for record in np.sort(records, order="sector"):
        first, count = int(record["sector"]), int(record["sectors"])
        if runs and runs[-1][0] + runs[-1][1] >= first:
            begin, length = runs[-1]
            runs[-1] = (begin, max(length, first + count - begin))
        else:
            runs.append((first, count))
    # Of each disk the longest is enough.
    return sorted(runs, key=lambda run: run[1])[-1:]


@dataclass(frozen=True)
class Scrub:
    """A layer's scrub: the step whose output says what it found."""

    layer: Layer
    step: str

    def errors(self, output: ProbeOutput) -> int:
        """How many errors it found.

        Raises:
            ValueError: If it ended without saying so; so may IndexError.
        """
        return self.layer.scrub_errors(output.stdout(self.step))


class _Corruption(Probe):
    """What both probes of corruption have in common.

    They boot twice: the first boot, with a trace, shows from which sectors the content is read; the lab being
    deterministic, it lies there in the second one too, in which they are damaged. So of two copies it is the
    one that is read that is damaged.
    """

    looks_first: ClassVar[bool] = True
    unusable: ClassVar[Verdict]
    extent: Extent | None = None
    read_step: str = ""

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Write; damage the sectors; read everything anew from the disks."""
        if not probe_plan.placed or probe_plan.placed[0][0].requires.maximum == 0:
            return "there is no disk below, or no layer on it"
        probe_plan.begin("a")
        # Taken down, so that nothing that any cache holds hides the damage.
        probe_plan.down(0)
        if self.extent is None:
            # The same number of processes as in the second boot: btrfs chooses the copy by the reader's.
            probe_plan.run("damage", "tee", "/dev/null", stdin="nothing\n")
        else:
            first_sector, sectors = self.extent.first_sector, self.extent.sectors
            fault = f"${{{self.extent.disk}}} corrupt,{first_sector},{sectors},0\n"
            probe_plan.run("damage", "tee", FAULT_PARAMETER, stdin=fault)
        probe_plan.up(0)
        self.read_step = probe_plan.compare("a")
        if self.extent is not None:
            self.go_on(probe_plan)
        return None

    def learn(self, trace: Trace, events: Events) -> str | None:
        """From which sectors the content was read."""
        read = events.steps[self.read_step]
        self.extent = content_extent(trace, (read.started_ns, read.ended_ns or events.last_ns))
        return None if self.extent is not None else "the content was read from no disk"

    def go_on(self, probe_plan: ProbePlan) -> None:
        """What follows the first reading."""

    def broken(self, output: ProbeOutput, step: str) -> Finding | None:
        """A stack that does not come up again has noticed the damage, and not mended it."""
        if "-up-" not in step:
            return None
        return Finding(self.unusable, f"the stack does not come up again: {output.said(step)}")

    def scrub(self, probe_plan: ProbePlan) -> list[Scrub]:
        """Let every layer that can scrub itself do so, from the top down."""
        scrubs = []
        for index in range(probe_plan.above_all - 1, -1, -1):
            layer = probe_plan.placed[index][0]
            steps = layer.scrub(probe_plan.context(index, "scrub"))
            if steps:
                accepting = [step.model_copy(update={"expect_exit": tuple(range(256))}) for step in steps]
                scrubs.append(Scrub(layer, probe_plan.add(accepting, operation=True)[-1]))
        return scrubs


class CorruptionDetected(_Corruption):
    """Damaged sectors are not read as if they were good."""

    name: ClassVar[str] = "corruption-detected"
    title: ClassVar[str] = "Corruption detected"
    question: ClassVar[str] = (
        "When a disk silently returns other content than was written, does anyone notice?"
    )
    unusable: ClassVar[Verdict] = "yes"

    def go_on(self, probe_plan: ProbePlan) -> None:
        """A scrub may notice what reading did not."""
        probe_plan.operations.append(self.read_step)
        self._scrubs = self.scrub(probe_plan)

    def judge(self, output: ProbeOutput) -> Finding:
        """An error, or good content from elsewhere, and not the damaged content."""
        code = output.code(self.read_step)
        found = sum(scrub.errors(output) for scrub in self._scrubs)
        if code == 1 and found:
            return Finding(
                "partial", f"damaged content was read without any error; a scrub found {found} errors"
            )
        if code == 1:
            return Finding("no", "damaged content was read without any error")
        if code == 2:
            return Finding("yes", output.said(self.read_step).rpartition(": ")[2])
        if found:
            return Finding("yes", f"what was read was good, and the scrub found {found} errors")
        if self._scrubs:
            return Finding(
                "yes", "what was read was good, and then the scrub found nothing: mended while reading"
            )
        return Finding("partial", "what was read was good, and nothing was said")


class CorruptionHealed(_Corruption):
    """Damaged sectors are mended from a copy."""

    name: ClassVar[str] = "corruption-healed"
    title: ClassVar[str] = "Corruption healed"
    question: ClassVar[str] = "Is damaged content mended from a good copy?"
    unusable: ClassVar[Verdict] = "no"

    def go_on(self, probe_plan: ProbePlan) -> None:
        """Scrub, then scrub again: the second finds nothing when the first has mended it."""
        self._first = self.scrub(probe_plan)
        self._second = self.scrub(probe_plan)
        probe_plan.down(0)
        probe_plan.up(0)
        self._again = probe_plan.compare("a")

    def judge(self, output: ProbeOutput) -> Finding:
        """Good content at once, and no error left."""
        first, again = output.code(self.read_step), output.code(self._again)
        if again != 0:
            return Finding(
                "no", "the content is lost" if again == 2 else "damaged content is read as if it were good"
            )
        left = sum(scrub.errors(output) for scrub in self._second)
        if left:
            return Finding("partial", f"good content is read, but {left} errors are left")
        if not self._second:
            return Finding("partial", "good content was read; nothing looks for the damage")
        return Finding("yes", "at once" if first == 0 else "by the scrub")


class DiskLoss(Probe):
    """The last disk fails."""

    name: ClassVar[str] = "disk-loss"
    title: ClassVar[str] = "Survives the loss of one disk"
    question: ClassVar[str] = "When one disk fails, is the content there, and can it be written?"

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Write, lose a disk, read and write."""
        if not probe_plan.stack.devices:
            return "there is no disk"
        if len(probe_plan.stack.devices) == 1:
            return "it stands on a single disk"
        probe_plan.begin("a", "b")
        lost = lose_disk(lost_disk(probe_plan.stack))
        probe_plan.add([lost.model_copy(update={"phase": "measure"})])
        self._read = probe_plan.compare("a")
        self._write = probe_plan.write("b", expect=tuple(range(256)))
        self._again = probe_plan.compare("b")
        probe_plan.operations += [self._read, self._write]
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        """All of it goes on."""
        if output.code(self._read) != 0:
            return Finding("no", f"the content cannot be read: {output.said(self._read).rpartition(': ')[2]}")
        if output.code(self._write) != 0 or output.code(self._again) != 0:
            return Finding("partial", "the content can be read, but not written any more")
        return Finding("yes", "read and written without it")
