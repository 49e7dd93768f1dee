# SPDX-License-Identifier: Apache-2.0
"""Snapshots and copies: taking, cloning, restoring and sending a snapshot, copying a file."""

from __future__ import annotations

from typing import ClassVar

from strata.capabilities.probe import Finding, Probe, ProbeOutput
from strata.capabilities.probe_plan import CONTENT_BYTES, ProbePlan
from strata.units import format_size

_NONE = "no layer of the stack takes snapshots"


class Snapshot(Probe):
    name = "snapshot"
    title = "Snapshot creation"
    question = "Can what the stack holds be kept as a snapshot while it is in use?"

    def prepare(self, plan: ProbePlan) -> str | None:
        if (index := self.acting(plan, "snapshot", "one")) is None:
            return _NONE
        plan.begin("a", "b")
        plan.snapshot(index, "one", operation=True)
        plan.write("b")
        self._compared = plan.compare("b")
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        good = output.code(self._compared) == 0
        return "yes" if good else "no", f"by {self.by}" if good else "the stack lost what it holds"


class Clone(Probe):
    name = "clone"
    title = "Instant clone"
    question = "Is there a writable copy at once, without copying the content?"

    def prepare(self, plan: ProbePlan) -> str | None:
        if (index := self.acting(plan, "snapshot", "one")) is None:
            return _NONE
        layer, context = plan.placed[index]
        if layer.clone(context, "one") is None:
            return f"{self.by} takes snapshots, but makes no writable copies of them"
        plan.begin("a", "b")
        plan.snapshot(index, "one")
        plan.write("b")
        made = layer.clone(plan.context(index, "clone"), "one")
        assert made is not None
        self._operation = plan.act(index, made.steps, operation=True)
        path = plan.use(index, made.path)
        self._clone = plan.compare("a", path)
        plan.write("b", path)
        self._written = plan.compare("b", path)
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        if output.code(self._clone) != 0 or output.code(self._written) != 0:
            return "no", f"the clone by {self.by} does not hold what the snapshot held"
        copied = output.moved_bytes(self._operation, "write_bytes")
        if copied >= CONTENT_BYTES // 2:
            return "partial", f"by {self.by}, which copies the content"
        return "yes", f"by {self.by}"


class _Restore(Probe):
    """Going back to the first of one or two snapshots."""

    older: ClassVar[bool]

    def prepare(self, plan: ProbePlan) -> str | None:
        if (index := self.acting(plan, "snapshot", "one")) is None:
            return _NONE
        layer, context = plan.placed[index]
        if layer.restore(context, "one") is None:
            return f"{self.by} takes snapshots, but cannot go back to one"
        plan.begin("a", "b", "c")
        plan.snapshot(index, "one")
        plan.write("b")
        if self.older:
            plan.snapshot(index, "two")
            plan.write("c")
        plan.restore(index, "one")
        plan.up(index + 1)
        self._compared = plan.compare("a")
        plan.write("c")
        self._usable = plan.compare("c")
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        if output.code(self._compared) != 0:
            return "no", f"{self.by} did not bring back what the snapshot held"
        good = output.code(self._usable) == 0
        return "yes" if good else "partial", f"by {self.by}" + ("" if good else ", read only")


class RestoreLatest(_Restore):
    name = "restore-latest"
    title = "Restore of the latest snapshot"
    question = "Does the stack go back to its only snapshot?"
    older = False


class RestoreOlder(_Restore):
    name = "restore-older"
    title = "Restore of an older snapshot"
    question = "Does the stack go back to a snapshot after which another was taken?"
    older = True

    def prepare(self, plan: ProbePlan) -> str | None:
        """Then go to the newer one again: some layers destroy it on the way."""
        refused = super().prepare(plan)
        index = self.acting(plan, "snapshot", "one")
        if refused is None and index is not None:
            # It fails where the newer snapshot is gone; what is above comes up in any case.
            plan.restore(index, "two", may_fail=True)
            plan.up(index + 1)
            self._newer = plan.compare("b")
        return refused

    def judge(self, output: ProbeOutput) -> Finding:
        found = super().judge(output)
        if found[0] == "yes" and output.code(self._newer) != 0:
            return "partial", f"by {self.by}, and then not to the newer one"
        return found


class Send(Probe):
    name = "send"
    title = "Incremental transfer of a snapshot"
    question = "Can what changed between two snapshots be sent and received?"

    def prepare(self, plan: ProbePlan) -> str | None:
        increment = "${scratch}/increment"
        if (index := self.acting(plan, "send", "one", "two", increment)) is None:
            return "no layer of the stack sends snapshots"
        layer = plan.placed[index][0]
        plan.begin("a", "b")
        plan.run("more", "dd", "if=${scratch}/a", *_elsewhere(plan), "bs=1M", "status=none")
        plan.snapshot(index, "one")
        plan.write("b")
        plan.snapshot(index, "two")
        sent = layer.send(plan.context(index, "send"), "one", "two", increment)
        plan.act(index, sent or (), operation=True)
        self._size = plan.run("size", "stat", "--format=%s", increment)
        received = layer.receive(plan.context(index, "receive"), "one", increment)
        self._compared = None
        if received is not None:
            plan.act(index, received.steps)
            self._compared = plan.compare("b", plan.use(index, received.path))
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        size = int(output.stdout(self._size).strip() or 0)
        if size > CONTENT_BYTES * 3 // 2:
            return "partial", f"by {self.by}, {format_size(size)} for {format_size(CONTENT_BYTES)} changed"
        if self._compared is not None and output.code(self._compared) != 0:
            return "no", f"what {self.by} received is not what was sent"
        return "yes", f"by {self.by}, {format_size(size)}"


def _elsewhere(plan: ProbePlan) -> tuple[str, ...]:
    """The place of further content, which does not change between the snapshots."""
    if plan.kind == "filesystem":
        return (f"of={plan.path}/more", "conv=fsync")
    return (f"of={plan.path}", f"seek={CONTENT_BYTES >> 20}", "oflag=direct", "conv=notrunc")


class CopyOnWrite(Probe):
    name = "copy-on-write"
    title = "Copy on write of files"
    question = "Does a copy of a file share its blocks until one of the two is written?"

    def prepare(self, plan: ProbePlan) -> str | None:
        if plan.kind != "filesystem":
            return "the stack ends in a block device"
        plan.begin("a", "b")
        copy = f"{plan.path}/copy"
        self._copy = plan.run("copy", "cp", "--reflink=always", plan.file(), copy, operation=True)
        plan.run("over", "dd", "if=${scratch}/b", f"of={copy}", "bs=1M", "conv=notrunc,fsync")
        self._compared = plan.compare("a")
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        if output.code(self._compared) != 0:
            return "no", "writing the copy changed the original"
        written = output.moved_bytes([self._copy], "write_bytes")
        return "yes" if written < CONTENT_BYTES // 2 else "partial", ""
