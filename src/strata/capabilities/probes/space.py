# SPDX-License-Identifier: Apache-2.0
"""Space: limited, enlarged, reduced, given back, and used for a stack within the stack."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar, Final

from strata.capabilities.probe import Finding, Probe, ProbeOutput
from strata.capabilities.probe_plan import ANY_EXIT, CONTENT_BYTES, ProbePlan
from strata.model.step import LOAD_USER, Step
from strata.plan.catalogue import catalogue
from strata.units import format_size

_LIMIT_BYTES: Final = CONTENT_BYTES // 2
# Volumes and images count in extents, clusters and groups; all of them divide this.
_ROUND_BYTES: Final = 64 << 20


def _rounded(size_bytes: int, eighths: int) -> int:
    return size_bytes * eighths // 8 // _ROUND_BYTES * _ROUND_BYTES


class Quota(Probe):
    name = "quota"
    title = "Quota enforced"
    question = "Can one tenant be kept from filling the stack?"

    def prepare(self, plan: ProbePlan) -> str | None:
        index = self.acting(plan, "quota", _LIMIT_BYTES)
        if index is None or index != plan.height - 1:
            return "the uppermost layer has no quotas"
        plan.build()
        limited = plan.placed[index][0].quota(plan.context(index, "quota"), _LIMIT_BYTES)
        assert limited is not None
        plan.act(index, limited.steps, operation=True)
        # Not as root, whom ext4's quotas do not bind.
        plan.run("open", "chmod", "1777", limited.path, inside=True)
        fill = ("dd", "if=/dev/urandom", "bs=1M", "conv=fsync", "status=none")
        parts = {"within": _LIMIT_BYTES // 2, "beyond": CONTENT_BYTES}
        argvs = {
            name: (*fill, f"of={limited.path}/{name}", f"count={part_bytes >> 20}")
            for name, part_bytes in parts.items()
        }
        plan.run("within", *argvs["within"], user=LOAD_USER, inside=True)
        self._beyond = plan.run("beyond", *argvs["beyond"], user=LOAD_USER, inside=True, expect=ANY_EXIT)
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        if output.code(self._beyond) == 0:
            return "no", f"{self.by} let twice the quota be written"
        return "yes", f"by {self.by}: {output.said(self._beyond).rpartition(': ')[2]}"


class _Resize(Probe):
    """Growing or shrinking the uppermost layer with a size, and all above it."""

    grows: ClassVar[bool]
    unusable = "no"

    def resized(self, plan: ProbePlan) -> ProbePlan:
        """The same stack with three or five eighths of the size that the layer could have."""
        index = _sized(plan)
        if index is None:
            return plan
        offered = plan.offers[index].smallest_bytes
        self._small, self._large = _rounded(offered, 3), _rounded(offered, 5)
        layers = list(plan.stack.layers)
        start = self._small if self.grows else self._large
        layers[index] = layers[index].model_copy(update={"size_bytes": start})
        return plan.with_layers(layers)

    def prepare(self, plan: ProbePlan) -> str | None:
        index = _sized(plan)
        if index is None:
            return self._prepare_alone(plan)
        wanted = self._large if self.grows else self._small
        changes: list[tuple[int, list[Step]]] = []
        for at in range(index, plan.height):
            layer, context = plan.placed[at]
            during = context.during("measure", f"{context.name}-resize")
            steps = layer.resize(during, wanted, grow=self.grows)
            if steps is None:
                return f"{context.name} cannot {self.name} while it is in use"
            changes.append((at, steps))
            if at > index:  # what it gives is less than what is below, by its own metadata
                wanted = layer.usable_bytes((wanted,))
        self.by = plan.placed[index][1].name
        plan.begin("a")
        self._resize(plan, changes if self.grows else changes[::-1])
        # Put together anew: a layer that lost its end to a smaller device fails now.
        plan.down(index + 1)
        plan.up(index + 1)
        self._compared = plan.compare("a")
        return None

    def _prepare_alone(self, plan: ProbePlan) -> str | None:
        """Without such a layer: resize the uppermost one, on unchanged devices."""
        top = plan.height - 1
        if top < 0:
            return "there is no layer"
        layer, context = plan.placed[top]
        offered = sum(plan.offers[-1].capacities_bytes)
        during = (context.during("measure", f"{context.name}-{verb}") for verb in ("shrink", "grow"))
        shrunk = layer.resize(next(during), _rounded(offered, 5), grow=False)
        grown = layer.resize(next(during), offered, grow=True)
        if not shrunk or not grown:
            return "not tried: no layer of the stack has a size of its own that could be changed"
        self.by = context.name
        plan.begin("a")
        if self.grows:
            plan.act(top, shrunk)
        self._resize(plan, [(top, grown if self.grows else shrunk)])
        self._compared = plan.compare("a")
        return None

    def _resize(self, plan: ProbePlan, changes: Iterable[tuple[int, Iterable[Step]]]) -> None:
        """Carry out the steps of the layers at these indices."""
        of_files = ("stat", "--file-system", "--format=%b %S")
        ask = ("blockdev", "--getsize64") if plan.kind == "block" else of_files
        before = plan.run("size", *ask, plan.path)
        for index, steps in changes:
            plan.act(index, steps, operation=True)
        self._sizes = (before, plan.run("size", *ask, plan.path))

    def judge(self, output: ProbeOutput) -> Finding:
        before, after = (math.prod(map(int, output.stdout(step).split())) for step in self._sizes)
        if before == after or (after > before) != self.grows:
            return "no", f"{format_size(before)} before and {format_size(after)} after"
        if output.code(self._compared) != 0:
            return "no", "the content was lost"
        return "yes", f"by {self.by}: {format_size(before)}, then {format_size(after)}"


class Grow(_Resize):
    name = "grow"
    title = "Online grow"
    question = "Can the stack be enlarged while it is in use?"
    grows = True


class Shrink(_Resize):
    name = "shrink"
    title = "Online shrink"
    question = "Can the stack be reduced while it is in use?"
    grows = False


def _sized(plan: ProbePlan) -> int | None:
    """The uppermost layer that has a size of its own and can change it."""
    for index in range(plan.height - 1, -1, -1):
        layer, context = plan.placed[index]
        if hasattr(layer, "size_bytes") and layer.resize(context, _ROUND_BYTES, grow=True) is not None:
            return index
    return None


class Discard(Probe):
    name = "discard"
    title = "Space given back by discard"
    question = "When files are deleted and the space is discarded, is it free below again?"

    def prepare(self, plan: ProbePlan) -> str | None:
        if not plan.placed:
            return "there is no layer"
        tells = [
            index
            for index in range(plan.height - 1)  # the uppermost frees it
            if plan.placed[index][0].allocated(plan.placed[index][1]) is not None
        ]
        self._layer = plan.placed[tells[0]][0] if tells else None
        self.by = plan.placed[tells[0]][1].name if tells else "the disks"
        plan.begin("a")
        # Pools count space only after they have written their changes.
        plan.run("wait", "sleep", "15")
        self._before = _allocated(plan, tells[0]) if tells else ""
        if plan.kind == "filesystem":
            plan.run("delete", "rm", plan.file())
            plan.run("settle", "sync")
            # XFS frees a deleted file's blocks a moment later, in the background.
            plan.run("wait", "sleep", "5")
            plan.run("settle", "sync")
            trim = ("fstrim", "--verbose", plan.path)
        else:
            trim = ("blkdiscard", f"--length={CONTENT_BYTES}", plan.path)
        self._trim = plan.run("discard", *trim, operation=True)
        plan.run("settle", "sync")
        plan.run("wait", "sleep", "15")
        self._after = _allocated(plan, tells[0]) if tells else ""
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        if self._layer is None:
            count = output.moved_bytes([self._trim], "discards")
            if not count:
                return "no", "no discard reached the disks"
            return "yes", f"{count} discards reached the disks"
        before, after = (
            self._layer.allocated_bytes(output.stdout(step)) for step in (self._before, self._after)
        )
        freed_bytes = max(0, before - after)
        note = f"{self.by} gave back {format_size(freed_bytes)} of {format_size(CONTENT_BYTES)}"
        return "yes" if freed_bytes >= CONTENT_BYTES // 2 else "no", note


def _allocated(plan: ProbePlan, index: int) -> str:
    layer = plan.placed[index][0]
    step = layer.allocated(plan.context(index, "allocated"))
    assert step is not None
    return plan.act(index, [step])[0]


class Nesting(Probe):
    name = "nesting"
    title = "Nesting"
    question = "Can this stack hold another pool, with volumes and filesystems of its own?"

    def resized(self, plan: ProbePlan) -> ProbePlan:
        if plan.stack.layers and plan.stack.layers[-1].is_container:
            return plan
        known = catalogue().layers
        self._above = above = [known["lvm"].model_validate({}), known["ext4"].model_validate({})]
        if plan.kind == "filesystem":
            above.insert(0, known["raw"].model_validate({"server": "loop", "size": "1GiB"}))
        return plan.with_layers((*plan.stack.layers, *above))

    def prepare(self, plan: ProbePlan) -> str | None:
        if plan.stack.layers and plan.stack.layers[-1].is_container:
            return "a container has no right to make volumes or to mount anything"
        plan.build()
        plan.operations += plan.steps_of(len(plan.stack.layers) - len(self._above))
        plan.content("a")
        plan.write("a")
        plan.down(plan.height - 2)
        plan.up(plan.height - 2)
        self._compared = plan.compare("a")
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        return "yes" if output.code(self._compared) == 0 else "no", "a volume group with ext4 in it"
