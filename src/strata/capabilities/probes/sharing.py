# SPDX-License-Identifier: Apache-2.0
"""Copies that share their blocks, and pools within the stack."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from strata.capabilities.probe import Finding, Probe, ProbeOutput
from strata.capabilities.probe_plan import CONTENT_BYTES, ProbePlan
from strata.plan.catalogue import catalogue

_POOL_BYTES: Final = 1 << 30


class CopyOnWrite(Probe):
    """A file's copy takes no space until it is written."""

    name: ClassVar[str] = "copy-on-write"
    title: ClassVar[str] = "Copy on write of files"
    question: ClassVar[str] = "Does a copy of a file share its blocks until one of the two is written?"

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Copy with --reflink=always; write the copy; the original stays."""
        if probe_plan.kind != "filesystem":
            return "the stack ends in a block device"
        probe_plan.begin("a", "b")
        copy = f"{probe_plan.path}/copy"
        self._copy = probe_plan.run("copy", "cp", "--reflink=always", probe_plan.file(), copy, operation=True)
        probe_plan.run("over", "dd", "if=${scratch}/b", f"of={copy}", "bs=1M", "conv=notrunc,fsync")
        self._compared = probe_plan.compare("a")
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        """The copy wrote next to nothing, and is apart from the original."""
        if output.code(self._compared) != 0:
            return Finding("no", "writing the copy changed the original")
        written = output.moved_bytes([self._copy], "write_bytes")
        return Finding("yes" if written < CONTENT_BYTES // 2 else "partial")


class Nesting(Probe):
    """Another volume group, with a filesystem, in the stack."""

    name: ClassVar[str] = "nesting"
    title: ClassVar[str] = "Nesting"
    question: ClassVar[str] = "Can this stack hold another pool, with volumes and filesystems of its own?"

    def probe_plan(self, probe_plan: ProbePlan) -> ProbePlan:
        """The stack with an image, LVM and ext4 on top of it."""
        known = catalogue().layers
        self._above = above = [known["lvm"].model_validate({}), known["ext4"].model_validate({})]
        if probe_plan.kind == "filesystem":
            above.insert(0, known["raw"].model_validate({"server": "loop", "size": "1GiB"}))
        stack = replace(probe_plan.stack, layers=(*probe_plan.stack.layers, *above))
        return ProbePlan(probe_plan.study, stack, probe_plan.probe, probe_plan.seed)

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Build it, write, take it apart, put it together, compare."""
        probe_plan.build()
        probe_plan.operations += probe_plan.steps_of(len(probe_plan.stack.layers) - len(self._above))
        probe_plan.content("a")
        probe_plan.write("a")
        probe_plan.down(probe_plan.above_all - 2)
        probe_plan.up(probe_plan.above_all - 2)
        self._compared = probe_plan.compare("a")
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        """The inner filesystem holds its content."""
        return Finding("yes" if output.code(self._compared) == 0 else "no", "a volume group with ext4 in it")
