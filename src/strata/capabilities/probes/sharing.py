# SPDX-License-Identifier: Apache-2.0
"""Copies that share their blocks, and pools within the stack."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from strata.capabilities.ground import CONTENT_BYTES, Ground
from strata.capabilities.probe import Finding, Probe, Told
from strata.plan.catalogue import catalogue

_POOL_BYTES: Final = 1 << 30


class CopyOnWrite(Probe):
    """A file's copy takes no space until it is written."""

    name: ClassVar[str] = "copy-on-write"
    title: ClassVar[str] = "Copy on write of files"
    question: ClassVar[str] = "Does a copy of a file share its blocks until one of the two is written?"

    def prepare(self, ground: Ground) -> str | None:
        """Copy with --reflink=always; write the copy; the original stays."""
        if ground.kind != "filesystem":
            return "the stack ends in a block device"
        ground.begin("a", "b")
        copy = f"{ground.path}/copy"
        self._copy = ground.run("copy", "cp", "--reflink=always", ground.file(), copy, operation=True)
        ground.run("over", "dd", "if=${scratch}/b", f"of={copy}", "bs=1M", "conv=notrunc,fsync")
        self._compared = ground.compare("a")
        return None

    def judge(self, told: Told) -> Finding:
        """The copy wrote next to nothing, and is apart from the original."""
        if told.code(self._compared) != 0:
            return Finding("no", "writing the copy changed the original")
        written = told.moved_bytes([self._copy], "write_bytes")
        return Finding("yes" if written < CONTENT_BYTES // 2 else "partial")


class Nesting(Probe):
    """Another volume group, with a filesystem, in the stack."""

    name: ClassVar[str] = "nesting"
    title: ClassVar[str] = "Nesting"
    question: ClassVar[str] = "Can this stack hold another pool, with volumes and filesystems of its own?"

    def ground(self, ground: Ground) -> Ground:
        """The stack with an image, LVM and ext4 on top of it."""
        known = catalogue().layers
        self._above = above = [known["lvm"].model_validate({}), known["ext4"].model_validate({})]
        if ground.kind == "filesystem":
            above.insert(0, known["raw"].model_validate({"server": "loop", "size": "1GiB"}))
        stack = replace(ground.stack, layers=(*ground.stack.layers, *above))
        return Ground(ground.study, stack, ground.probe, ground.seed)

    def prepare(self, ground: Ground) -> str | None:
        """Build it, write, take it apart, put it together, compare."""
        ground.build()
        ground.operations += ground.steps_of(len(ground.stack.layers) - len(self._above))
        ground.content("a")
        ground.write("a")
        ground.down(ground.above_all - 2)
        ground.up(ground.above_all - 2)
        self._compared = ground.compare("a")
        return None

    def judge(self, told: Told) -> Finding:
        """The inner filesystem holds its content."""
        return Finding("yes" if told.code(self._compared) == 0 else "no", "a volume group with ext4 in it")
