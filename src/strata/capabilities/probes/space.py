# SPDX-License-Identifier: Apache-2.0
"""Space: limited, enlarged, reduced, given back."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from strata.capabilities.probe import Finding, Probe, ProbeOutput, uppermost
from strata.capabilities.probe_plan import CONTENT_BYTES, ProbePlan
from strata.results.capabilities import Verdict
from strata.spec.step import LOAD_USER

_LIMIT_BYTES: Final = CONTENT_BYTES // 2
# Volumes and images count in extents, clusters and groups; all of them divide this.
_ROUND_BYTES: Final = 64 << 20


class Quota(Probe):
    """A folder that cannot hold more than was granted."""

    name: ClassVar[str] = "quota"
    title: ClassVar[str] = "Quota enforced"
    question: ClassVar[str] = "Can one tenant be kept from filling the stack?"

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Limit a folder, and write twice as much into it."""
        index = uppermost(probe_plan, "quota", _LIMIT_BYTES)
        if index is None or index != probe_plan.above_all - 1:
            return "the uppermost layer has no quotas"
        layer, context = probe_plan.placed[index]
        self._by = context.name
        probe_plan.build()
        probe_plan.content("a")
        limited = layer.quota(probe_plan.context(index, "quota"), _LIMIT_BYTES)
        assert limited is not None
        probe_plan.add(limited.steps, operation=True)
        # Not as root, whom ext4's quotas do not bind.
        probe_plan.run("open", "chmod", "1777", limited.path)
        half = ("bs=1M", f"count={_LIMIT_BYTES >> 21}", "conv=fsync", "status=none")
        target = f"of={limited.path}/within"
        probe_plan.run("within", "dd", "if=${scratch}/a", target, *half, user=LOAD_USER)
        self._beyond = probe_plan.write("a", limited.path, expect=tuple(range(256)), user=LOAD_USER)
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        """What is within the limit is written, what is beyond it is refused."""
        if output.code(self._beyond) == 0:
            return Finding("no", f"{self._by} let twice the quota be written")
        return Finding("yes", f"by {self._by}: {output.said(self._beyond).rpartition(': ')[2]}")


class _Resize(Probe):
    """What growing and shrinking have in common: the uppermost layer with a size, and all above it."""

    grows: ClassVar[bool]

    def probe_plan(self, probe_plan: ProbePlan) -> ProbePlan:
        """The same stack with half or three quarters of the size that the layer could have."""
        index = _sized(probe_plan)
        if index is None:
            return probe_plan
        offered = probe_plan.offers[index].smallest_bytes
        self._small = offered * 3 // 8 // _ROUND_BYTES * _ROUND_BYTES
        self._large = offered * 5 // 8 // _ROUND_BYTES * _ROUND_BYTES
        layers = list(probe_plan.stack.layers)
        start = self._small if self.grows else self._large
        layers[index] = layers[index].model_copy(update={"size_bytes": start})
        stack = replace(probe_plan.stack, layers=tuple(layers))
        return ProbePlan(probe_plan.study, stack, probe_plan.probe, probe_plan.seed)

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Change the size of that layer, and of each above it; the content stays."""
        index = _sized(probe_plan)
        if index is None:
            return self._prepare_alone(probe_plan)
        changes = []
        wanted = self._large if self.grows else self._small
        for at in range(index, probe_plan.above_all):
            layer, context = probe_plan.placed[at]
            during = context.during("measure", f"{context.name}-resize")
            steps = layer.resize(during, wanted, grow=self.grows)
            if steps is None:
                verb = "grow" if self.grows else "shrink"
                return f"{context.name} cannot {verb} while it is in use"
            changes.append(steps)
            if at > index:  # what it gives is less than what is below, by its own metadata
                wanted = layer.usable_bytes((wanted,))
        self._by = probe_plan.placed[index][1].name
        probe_plan.begin("a")
        before = _size_step(probe_plan)
        for steps in changes if self.grows else reversed(changes):
            probe_plan.add(steps, operation=True)
        self._sizes = (before, _size_step(probe_plan))
        # Put together anew: whoever lost its end to a smaller device says so now.
        probe_plan.down(index + 1)
        probe_plan.up(index + 1)
        self._compared = probe_plan.compare("a")
        return None

    def _prepare_alone(self, probe_plan: ProbePlan) -> str | None:
        """Without such a layer: the uppermost one, on devices that stay as they are."""
        top = probe_plan.above_all - 1
        offered = sum(probe_plan.offers[-1].capacities_bytes)
        sizes = {False: offered * 5 // 8 // _ROUND_BYTES * _ROUND_BYTES, True: offered}
        changes = {}
        for grow, wanted in sizes.items():
            if top < 0:
                return "there is no layer"
            layer, context = probe_plan.placed[top]
            during = context.during("measure", f"{context.name}-{'grow' if grow else 'shrink'}")
            changes[grow] = layer.resize(during, wanted, grow=grow)
        if not changes[False] or not changes[True]:
            return "not tried: no layer of the stack has a size of its own that could be changed"
        self._by = probe_plan.placed[top][1].name
        probe_plan.begin("a")
        if self.grows:
            probe_plan.add(changes[False] or ())
        before = _size_step(probe_plan)
        probe_plan.add(changes[self.grows] or (), operation=True)
        self._sizes = (before, _size_step(probe_plan))
        self._compared = probe_plan.compare("a")
        return None

    def broken(self, output: ProbeOutput, step: str) -> Finding | None:
        """A stack that does not come up again was not resized well."""
        if "-up-" not in step:
            return None
        return Finding("no", f"the stack does not come up again: {output.said(step)}")

    def judge(self, output: ProbeOutput) -> Finding:
        """Its size changed as it should, and the content is there."""
        before, after = (_size_of(output.stdout(step)) for step in self._sizes)
        changed = after > before if self.grows else after < before
        if not changed:
            return Finding("no", f"{before >> 20} MiB before and {after >> 20} MiB after")
        if output.code(self._compared) != 0:
            return Finding("no", "the content was lost")
        return Finding("yes", f"by {self._by}: {before >> 20} MiB, then {after >> 20} MiB")


class Grow(_Resize):
    """More space while the stack is in use."""

    name: ClassVar[str] = "grow"
    title: ClassVar[str] = "Online grow"
    question: ClassVar[str] = "Can the stack be enlarged while it is in use?"
    grows: ClassVar[bool] = True


class Shrink(_Resize):
    """Less space while the stack is in use."""

    name: ClassVar[str] = "shrink"
    title: ClassVar[str] = "Online shrink"
    question: ClassVar[str] = "Can the stack be reduced while it is in use?"
    grows: ClassVar[bool] = False


def _sized(probe_plan: ProbePlan) -> int | None:
    """The uppermost layer that has a size of its own and can change it."""
    for index in range(probe_plan.above_all - 1, -1, -1):
        layer, context = probe_plan.placed[index]
        if hasattr(layer, "size_bytes") and layer.resize(context, _ROUND_BYTES, grow=True) is not None:
            return index
    return None


def _size_step(probe_plan: ProbePlan) -> str:
    if probe_plan.kind == "block":
        return probe_plan.run("size", "blockdev", "--getsize64", probe_plan.path)
    return probe_plan.run("size", "stat", "--file-system", "--format=%b %S", probe_plan.path)


def _size_of(stdout: str) -> int:
    size = 1
    for number in stdout.split():
        size *= int(number)
    return size


class Discard(Probe):
    """Space that is freed above is free below again."""

    name: ClassVar[str] = "discard"
    title: ClassVar[str] = "Space given back by discard"
    question: ClassVar[str] = "When files are deleted and the space is discarded, is it free below again?"

    def prepare(self, probe_plan: ProbePlan) -> str | None:
        """Write, delete, discard; look at what the lowest layer that can tell has taken."""
        if not probe_plan.placed:
            return "there is no layer"
        tells = [
            index
            for index in range(probe_plan.above_all - 1)  # below the uppermost: what frees is no judge of it
            if probe_plan.placed[index][0].allocated(probe_plan.placed[index][1]) is not None
        ]
        self._layer = probe_plan.placed[tells[0]][0] if tells else None
        self._by = probe_plan.placed[tells[0]][1].name if tells else "the disks"
        probe_plan.begin("a")
        # Pools count what is taken, and what is free, only when they have written it down.
        probe_plan.run("wait", "sleep", "15")
        self._before = _allocated(probe_plan, tells[0]) if tells else ""
        if probe_plan.kind == "filesystem":
            probe_plan.run("delete", "rm", probe_plan.file())
            probe_plan.run("settle", "sync")
            # XFS frees a deleted file's blocks a moment later, in the background.
            probe_plan.run("wait", "sleep", "5")
            probe_plan.run("settle", "sync")
            trim = ("fstrim", "--verbose", probe_plan.path)
        else:
            trim = ("blkdiscard", f"--length={CONTENT_BYTES}", probe_plan.path)
        self._trim = probe_plan.run("discard", *trim, operation=True)
        probe_plan.run("settle", "sync")
        probe_plan.run("wait", "sleep", "15")
        self._after = _allocated(probe_plan, tells[0]) if tells else ""
        return None

    def judge(self, output: ProbeOutput) -> Finding:
        """At least half of what was freed is free below."""
        if self._layer is None:
            count = output.moved_bytes([self._trim], "discards")
            if not count:
                return Finding("no", "no discard reached the disks")
            return Finding("yes", f"{count} discards reached the disks")
        before, after = (
            self._layer.allocated_bytes(output.stdout(step)) for step in (self._before, self._after)
        )
        verdict: Verdict = "yes" if before - after >= CONTENT_BYTES // 2 else "no"
        return Finding(
            verdict, f"{self._by} gave back {max(0, before - after) >> 20} MiB of {CONTENT_BYTES >> 20}"
        )


def _allocated(probe_plan: ProbePlan, index: int) -> str:
    layer = probe_plan.placed[index][0]
    step = layer.allocated(probe_plan.context(index, "allocated"))
    assert step is not None
    return probe_plan.add([step])[0]
