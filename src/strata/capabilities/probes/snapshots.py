# SPDX-License-Identifier: Apache-2.0
"""Snapshots: taking one, cloning it, going back to it, sending what changed."""

from __future__ import annotations

from typing import ClassVar

from strata.capabilities.probe import Finding, Probe, ProbeOutput, uppermost
from strata.capabilities.probe_plan import CONTENT_BYTES, ProbePlan

_NONE = "no layer of the stack takes snapshots"


class Snapshot(Probe):
    """A snapshot of the running stack, and the stack is written on afterwards."""

    name: ClassVar[str] = "snapshot"
    title: ClassVar[str] = "Snapshot creation"
    question: ClassVar[str] = "Can what the stack holds be kept as a snapshot while it is in use?"

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Write, take a snapshot, write something else over it."""
        index = uppermost(probe_plan, "snapshot", "one")
        if index is None:
            return _NONE
        self._by = probe_plan.placed[index][1].name
        probe_plan.begin("a", "b")
        take_snapshot(probe_plan, index, "one", operation=True)
        probe_plan.write("b")
        self._compared = probe_plan.compare("b")
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        """The stack goes on with the new content."""
        good = output.code(self._compared) == 0
        return Finding("yes" if good else "no", f"by {self._by}" if good else "the stack lost what it holds")


def take_snapshot(probe_plan: ProbePlan, index: int, name: str, *, operation: bool = False) -> None:
    """Add the steps of a snapshot that the layer at ``index`` takes."""
    layer = probe_plan.placed[index][0]
    probe_plan.add(
        layer.snapshot(probe_plan.context(index, f"snapshot-{name}"), name) or (), operation=operation
    )


class Clone(Probe):
    """A writable copy of a snapshot that shares its blocks."""

    name: ClassVar[str] = "clone"
    title: ClassVar[str] = "Instant clone"
    question: ClassVar[str] = "Is there a writable copy at once, without copying the content?"

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Write, take a snapshot, write something else, clone the snapshot; use the clone."""
        index = uppermost(probe_plan, "snapshot", "one")
        if index is None:
            return _NONE
        layer, context = probe_plan.placed[index]
        if layer.clone(context, "one") is None:
            return f"{context.name} takes snapshots, but makes no writable copies of them"
        self._by = context.name
        probe_plan.begin("a", "b")
        take_snapshot(probe_plan, index, "one")
        probe_plan.write("b")
        made = layer.clone(probe_plan.context(index, "clone"), "one")
        assert made is not None
        self._operation = probe_plan.add(made.steps, operation=True)
        path = probe_plan.use(index, made.path)
        self._clone = probe_plan.compare("a", path)
        probe_plan.write("b", path)
        self._written = probe_plan.compare("b", path)
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        """The clone holds the snapshot's content and can be written; it cost less than copying."""
        if output.code(self._clone) != 0 or output.code(self._written) != 0:
            return Finding("no", f"the clone by {self._by} does not hold what the snapshot held")
        copied = output.moved_bytes(self._operation, "write_bytes")
        if copied >= CONTENT_BYTES // 2:
            return Finding("partial", f"by {self._by}, which copies the content")
        return Finding("yes", f"by {self._by}")


class _Restore(Probe):
    """What restoring the latest and an older snapshot have in common."""

    older: ClassVar[bool]

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Write and take snapshots, write something else, go back."""
        index = uppermost(probe_plan, "snapshot", "one")
        if index is None:
            return _NONE
        layer, context = probe_plan.placed[index]
        if layer.restore(context, "one") is None:
            return f"{context.name} takes snapshots, but cannot go back to one"
        self._by = context.name
        probe_plan.begin("a", "b", "c")
        take_snapshot(probe_plan, index, "one")
        probe_plan.write("b")
        if self.older:
            take_snapshot(probe_plan, index, "two")
            probe_plan.write("c")
        self._restore(probe_plan, index, "one", operation=True)
        self._compared = probe_plan.compare("a")
        probe_plan.write("c")
        self._usable = probe_plan.compare("c")
        return None

    def _restore(
        self,
        probe_plan: ProbePlan,
        index: int,
        name: str,
        *,
        operation: bool,
        expect: tuple[int, ...] | None = None,
    ) -> None:
        layer = probe_plan.placed[index][0]
        if index + 1 < probe_plan.above_all:
            probe_plan.down(index + 1)
        steps = layer.restore(probe_plan.context(index, f"restore-{name}"), name) or []
        if expect is not None:
            steps = [step.model_copy(update={"expect_exit": expect}) for step in steps]
        probe_plan.add(steps, operation=operation)
        probe_plan.up(index + 1)

    def judge(self, output: ProbeOutput) -> Finding:
        """The old content is there, and can be written over."""
        if output.code(self._compared) != 0:
            return Finding("no", f"{self._by} did not bring back what the snapshot held")
        good = output.code(self._usable) == 0
        return Finding("yes" if good else "partial", f"by {self._by}" + ("" if good else ", read only"))


class RestoreLatest(_Restore):
    """Back to the latest snapshot."""

    name: ClassVar[str] = "restore-latest"
    title: ClassVar[str] = "Restore of the latest snapshot"
    question: ClassVar[str] = "Does the stack go back to its only snapshot?"
    older: ClassVar[bool] = False


class RestoreOlder(_Restore):
    """Back to a snapshot that is not the latest."""

    name: ClassVar[str] = "restore-older"
    title: ClassVar[str] = "Restore of an older snapshot"
    question: ClassVar[str] = "Does the stack go back to a snapshot after which another was taken?"
    older: ClassVar[bool] = True

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Then also go to the newer one again: some destroy it on the way."""
        refused = super().prepare(probe_plan)
        if refused is None:
            index = uppermost(probe_plan, "snapshot", "one")
            assert index is not None
            # It fails where the newer snapshot is gone; what is above comes up in any case.
            self._restore(probe_plan, index, "two", operation=False, expect=tuple(range(256)))
            self._newer = probe_plan.compare("b")
        return refused

    def judge(self, output: ProbeOutput) -> Finding:
        """Partial if the newer snapshot is lost on the way."""
        found = super().judge(output)
        if found.verdict == "yes" and output.code(self._newer) != 0:
            return Finding("partial", f"by {self._by}, and then not to the newer one")
        return found


class Send(Probe):
    """What changed between two snapshots, as a file, applied elsewhere."""

    name: ClassVar[str] = "send"
    title: ClassVar[str] = "Incremental transfer of a snapshot"
    question: ClassVar[str] = "Can what changed between two snapshots be sent and received?"

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Two snapshots, the difference into a file, the file applied to a copy of the first."""
        increment = "${scratch}/increment"
        index = uppermost(probe_plan, "send", "one", "two", increment)
        if index is None:
            return "no layer of the stack sends snapshots"
        layer, context = probe_plan.placed[index]
        self._by = context.name
        probe_plan.begin("a", "b")
        probe_plan.run("more", "dd", "if=${scratch}/a", *_elsewhere(probe_plan), "bs=1M", "status=none")
        take_snapshot(probe_plan, index, "one")
        probe_plan.write("b")
        take_snapshot(probe_plan, index, "two")
        sent = layer.send(probe_plan.context(index, "send"), "one", "two", increment)
        probe_plan.add(sent or (), operation=True)
        self._size = probe_plan.run("size", "stat", "--format=%s", increment)
        received = layer.receive(probe_plan.context(index, "receive"), "one", increment)
        self._compared = None
        if received is not None:
            probe_plan.add(received.steps)
            self._compared = probe_plan.compare("b", probe_plan.use(index, received.path))
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        """The increment is no larger than what changed, and yields it."""
        size = int(output.stdout(self._size).strip() or 0)
        if size > CONTENT_BYTES * 3 // 2:
            return Finding(
                "partial", f"by {self._by}, {size >> 20} MiB for {CONTENT_BYTES >> 20} MiB changed"
            )
        if self._compared is not None and output.code(self._compared) != 0:
            return Finding("no", f"what {self._by} received is not what was sent")
        return Finding("yes", f"by {self._by}, {size >> 20} MiB")


def _elsewhere(probe_plan: ProbePlan) -> tuple[str, ...]:
    """Where further content goes that does not change between the snapshots."""
    if probe_plan.kind == "filesystem":
        return (f"of={probe_plan.path}/more", "conv=fsync")
    return (f"of={probe_plan.path}", f"seek={CONTENT_BYTES >> 20}", "oflag=direct", "conv=notrunc")
