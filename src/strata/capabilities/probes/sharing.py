# SPDX-License-Identifier: Apache-2.0
"""Copies that share their blocks, and pools within the stack."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from strata.capabilities.probe import Finding, Probe, ProbeOutput
from strata.capabilities.probe_plan import CONTENT_BYTES, ProbePlan
from strata.plan.catalogue import catalogue

_POOL_BYTES: Final = 1 << 30


class CopyOnWrite(Probe):
    """A file's copy takes no space until it is written."""

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
            return Finding("no", "writing the copy changed the original")
        written = output.moved_bytes([self._copy], "write_bytes")
        return Finding("yes" if written < CONTENT_BYTES // 2 else "partial")


class Nesting(Probe):
    """Another volume group, with a filesystem, in the stack."""

    name = "nesting"
    title = "Nesting"
    question = "Can this stack hold another pool, with volumes and filesystems of its own?"

    def resized(self, plan: ProbePlan) -> ProbePlan:
        known = catalogue().layers
        self._above = above = [known["lvm"].model_validate({}), known["ext4"].model_validate({})]
        if plan.kind == "filesystem":
            above.insert(0, known["raw"].model_validate({"server": "loop", "size": "1GiB"}))
        stack = replace(plan.stack, layers=(*plan.stack.layers, *above))
        return ProbePlan(plan.study, stack, plan.probe, plan.seed)

    def prepare(self, plan: ProbePlan) -> str | None:
        plan.build()
        plan.operations += plan.steps_of(len(plan.stack.layers) - len(self._above))
        plan.content("a")
        plan.write("a")
        plan.down(plan.height - 2)
        plan.up(plan.height - 2)
        self._compared = plan.compare("a")
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        return Finding("yes" if output.code(self._compared) == 0 else "no", "a volume group with ext4 in it")
