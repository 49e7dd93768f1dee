# SPDX-License-Identifier: Apache-2.0
"""The life of a filesystem: it is made, mounted, filled, unmounted, mounted again and checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, Literal

from strata.model import page_cache
from strata.model.layer import Placed
from strata.model.metric import Metric, MetricSpec
from strata.model.page_cache import dropped, synced
from strata.model.step import Step
from strata.model.workload import Outputs, WorkloadContext, unreadable
from strata.units import NS_PER_S
from strata.workloads.tree import TOOLS, ArchiveWorkload

_DOWN: Final = "life-unmounted"
_CHECK_LIMIT_NS: Final = 7200 * NS_PER_S
_PARTS: Final = ("make", "mount", "unmount", "check", "remount")
_TOOK: Final = {"unmount": "undo_ns"}


class FilesystemLife(ArchiveWorkload):
    """The life of a filesystem: made, mounted, filled with a tree, unmounted, checked, mounted again.

    The subject is the uppermost layer, with the layers below it down to the one that stands on block
    devices: ext4; a folder of ext4 with it; a ZFS filesystem with its pool. Build: it is made and mounted.
    Prepare: an archive is unpacked, and written back. Measure: it is unmounted, mounted again, unmounted once
    more and checked, with cold caches. A filesystem without a checker, such as ZFS, is scrubbed instead while
    it is mounted.
    """

    rationale: ClassVar[str] = (
        "What the administrator waits for: making a filesystem on a new disk, mounting it when the machine "
        "comes up, unmounting it when it goes down, and checking it after a crash, once it holds a source "
        "tree of tens of thousands of files. It stresses reading and writing metadata in bulk: group "
        "descriptors, bitmaps, inode tables, trees. Nothing is damaged, so a checker repairs "
        "nothing; filesystems with checksums compare them all (a scrub) where they have no checker. It "
        "leaves out the work in between."
    )
    tools: ClassVar[tuple[str, ...]] = (*TOOLS, *page_cache.TOOLS, "printf")
    needs_layers: ClassVar[bool] = True
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("{make,mount}_ns", "ns", "lower", "making it, and mounting it empty"),
        MetricSpec("{unmount,remount}_ns", "ns", "lower", "unmounting it filled, mounting it again"),
        MetricSpec("check_ns", "ns", "lower", "its checker on the filled filesystem, or its scrub"),
        MetricSpec("files", "1", "higher", "regular files that it holds then"),
    )
    example: ClassVar[tuple[str, ...]] = ("members",)

    workload: Literal["filesystem-life"] = "filesystem-life"

    def unsuited(self, layers: Sequence[Placed]) -> str | None:
        own = _own_layers(layers)
        if not own or not own[0][1].lower:
            return "data that are only in memory are lost when it is unmounted"
        if not _brought_up(_built(own)):
            return f"{own[-1][0].layer} cannot be taken down"
        return None

    def steps(self, context: WorkloadContext) -> list[Step]:
        own = _own_layers(context.layers)
        mounted = _mounted(context, own, "life")
        check = _check_steps(context, own)
        again = synced(context, "life-unmounted-again", "measure", "Unmount it again, to be checked")
        looked = check or _scrub_steps(context, own)
        return [
            *self.counting(context, "life"),
            *self.unpacking(context, "life", "prepare", f"{context.mount_path}/tree"),
            synced(context, "life-filled", "prepare", "Write the tree back"),
            synced(context, "life-settle", "measure", "Write back what little is left"),
            self._down(context, own, mounted, looked),
            dropped(context, "life-drop-before-mount", "measure"),
            *mounted,
            # A checker reads what a mount reads, and leaves it in the drive's own cache: so it comes later.
            *([again.model_copy(update={"takes_down": _brought_up(mounted)})] if check else []),
            dropped(context, "life-drop-before-check", "measure"),
            *looked,
            *(_mounted(context, own, "life-again") if check else []),
        ]

    def _down(
        self, context: WorkloadContext, own: Sequence[Placed], mounted: Sequence[Step], check: Sequence[Step]
    ) -> Step:
        """Take the filesystem down, and print which steps each figure comes from: `metrics` reads it."""
        again = {step.id for layer, where in own for step in layer.assemble(where)}
        built = [step.id for step in _built(own)]
        down = _brought_up(_built(own))
        figures = {
            "make": [step_id for step_id in built if step_id not in again],
            "mount": [step_id for step_id in built if step_id in again],
            "unmount": list(down),
            "check": [step.id for step in check],
            "remount": [step.id for step in mounted],
        }
        argv = ("printf", "%s\\n", *(" ".join([name, *ids]) for name, ids in figures.items()))
        title = "Unmount the filesystem that holds the tree"
        return context.step(_DOWN, "measure", title, argv, takes_down=down, user="root")

    def metrics(self, outputs: Outputs) -> list[Metric]:
        text = outputs.step(_DOWN).stdout
        steps = {name: ids for name, *ids in (line.split() for line in text.splitlines() if line)}
        if set(steps) != set(_PARTS):
            raise unreadable(_DOWN, "the step does not list the steps it took down", text)
        metrics = []
        for name, ids in steps.items():
            took_ns = sum(getattr(outputs.step(step_id), _TOOK.get(name, "duration_ns")) for step_id in ids)
            phase = "build" if name in ("make", "mount") else "measure"
            marks = {"phase": phase, "headline": name in ("make", "check", "remount"), "steps": tuple(ids)}
            metrics += [Metric.of(f"{name}_ns", float(took_ns), "ns", **marks)] if ids else []
        files = self.counted(outputs, "life").files
        return [*metrics, Metric.of("files", float(files), "1", phase="prepare")]


def _mounted(context: WorkloadContext, own: Iterable[Placed], prefix: str) -> list[Step]:
    return [
        _at_home(context, step)
        for layer, where in own
        for step in layer.assemble(where.during("measure", f"{prefix}-{where.name}"))
    ]


def _own_layers(layers: Sequence[Placed]) -> list[Placed]:
    """The uppermost layer, with those below it down to the one that stands on block devices."""
    own: list[Placed] = []
    for layer, context in reversed(layers):
        own.insert(0, (layer, context))
        if layer.requires.kind == "block":
            break
    return own


def _built(own: Iterable[Placed]) -> list[Step]:
    return [step for layer, where in own for step in layer.build(where) if step.phase == "build"]


def _brought_up(steps: Iterable[Step]) -> tuple[str, ...]:
    return tuple(step.id for step in steps if step.undo is not None or step.background)


def _check_steps(context: WorkloadContext, own: Iterable[Placed]) -> list[Step]:
    limits = {"time_limit_ns": _CHECK_LIMIT_NS, "user": "root"}
    checks = ((where.name, layer.check_argv(where)) for layer, where in own)
    return [
        context.step(f"life-check-{name}", "measure", f"Check {name}, which changes nothing", argv, **limits)
        for name, argv in checks
        if argv is not None
    ]


def _scrub_steps(context: WorkloadContext, own: Iterable[Placed]) -> list[Step]:
    return [
        _at_home(context, step)
        for layer, where in own
        for step in layer.scrub(where.during("measure", f"life-scrub-{where.name}")) or ()
    ]


def _at_home(context: WorkloadContext, step: Step) -> Step:
    """A layer's step in the trial's own folder, where programs may leave files."""
    home = {"cwd": context.scratch_path}
    programs = {"ready": step.ready, "undo": step.undo}
    moved = {name: program and program.model_copy(update=home) for name, program in programs.items()}
    return step.model_copy(update={**home, **moved})
