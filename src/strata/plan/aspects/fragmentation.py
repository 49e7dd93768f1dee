# SPDX-License-Identifier: Apache-2.0
"""Fragmentation before and after the measured window: extents, free space, and what reading costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final, Literal

from strata.model.metric import Metric
from strata.model.page_cache import dropped, synced
from strata.model.step import LOAD, Phase, Purpose, Step
from strata.model.workload import Outputs, unreadable
from strata.plan.aspects.aspect import Aspect, CarriedOut, Combination
from strata.plan.placement import Placement, places_by_name
from strata.units import NS_PER_S
from strata.workloads.generator.output import extents_result

_LIMIT_NS: Final = 7200 * NS_PER_S
_TOTAL: Final = re.compile(r"Total bytes written: (\d+)")
_When = Literal["before", "after"]
_WHEN: Final[tuple[tuple[Phase, _When], ...]] = (("alter", "before"), ("inspect", "after"))


class Fragmentation(Aspect):
    """``fragmentation`` and ``linear_read``, before and after the measured window."""

    observes = True

    def unmet(self, combination: Combination) -> str | None:
        if combination.load.linear_read and combination.here.provides != "filesystem":
            return "linear_read reads files, and the stack ends in a block device"
        return None

    def steps(self, combination: Combination, placements: Sequence[Placement]) -> Iterator[Step]:
        """Steps on layers that tenants share have the same ids for each of them."""
        for placement in placements:
            for phase, when in _WHEN:
                if combination.load.fragmentation:
                    yield from _divisions(placement, phase, when)
                if combination.load.linear_read:
                    yield from placement.of_load(_reading(placement, phase, when))

    def metrics(self, trial: CarriedOut) -> Iterator[Metric]:
        """None for a filesystem that does not report where its files lie."""
        places = places_by_name(trial.placements)
        for step in trial.plan.steps_for("extents", "free-space", "linear-read"):
            purpose = step.purpose
            assert purpose is not None
            if purpose.what == "linear-read":
                metrics: Iterable[Metric] = [_read(step, purpose, trial.outputs)]
            else:
                place = places[purpose.layer or ""]
                if purpose.what == "extents":
                    metrics = _extents(step, trial.outputs)
                else:
                    figures = place.layer.free_space_metrics(trial.outputs.step(step.id).stdout)
                    metrics = [Metric(**asdict(figure)) for figure in figures]
                before = "before_" if purpose.when == "before" else ""
                stem = f"fragmentation_{place.name.replace('-', '_')}_{before}"
                metrics = [metric.prefixed(stem) for metric in metrics]
            yield from (metric.of_tenant(purpose.tenant, phase=step.phase) for metric in metrics)


def _divisions(placement: Placement, phase: Phase, when: _When) -> Iterator[Step]:
    # Data still in memory have no place yet.
    settled = synced(None, f"fragmentation-sync-{when}", phase, "Write back dirty data")
    yield from placement.of_load([settled])
    for place in placement.layers:
        layer, context = place.layer, place.context
        if layer.provides == "filesystem":
            path, tenant = layer.path(context), place.tenant
            name: tuple[str | None, ...] = (context.name, "extents", when)
            if place is placement.layers[-1]:
                path, tenant = placement.target, placement.tenant
                name = (context.name, tenant, "extents", when)
            counted = _step(
                "-".join(filter(None, name)),
                phase,
                f"Count the extents of the files, {when}",
                (f"${{{LOAD}}}", "extents", path),
                purpose=Purpose(what="extents", layer=context.name, tenant=tenant, when=when),
            )
            yield from place.site.hold([counted])
        *first, last = layer.free_space(context.during(phase, f"{context.name}-free-{when}")) or (None,)
        if last is not None:
            purpose = Purpose(what="free-space", layer=context.name, tenant=place.tenant, when=when)
            counting = [step for step in first if step] + [last.model_copy(update={"purpose": purpose})]
            yield from place.site.hold(counting)


def _reading(placement: Placement, phase: Phase, when: _When) -> list[Step]:
    """Read the workload's files with cold caches. What comes next begins with cold caches, too."""
    name = "-".join(filter(None, ("linear-read", placement.tenant, when)))
    # tar skips reading when it writes to /dev/null, but not when it writes to /dev/zero.
    argv = ("tar", "--create", "--totals", "--file=/dev/zero", f"--directory={placement.target}", ".")
    purpose = Purpose(what="linear-read", tenant=placement.tenant, when=when)
    # 1: a file changed meanwhile, as a server's may.
    title = f"Read all files linearly, {when}"
    return [
        synced(None, f"{name}-sync", phase, "Write back dirty data"),
        dropped(None, f"{name}-cold", phase),
        _step(f"{name}-tar", phase, title, argv, expect_exit=(0, 1), purpose=purpose),
        dropped(None, f"{name}-cold-again", phase),
    ]


def _step(step_id: str, phase: Phase, title: str, argv: tuple[str, ...], **fields: Any) -> Step:
    where = {"cwd": "${scratch}", "time_limit_ns": _LIMIT_NS}
    return Step(id=step_id, phase=phase, title=title, argv=argv, **where, **fields)


def _extents(step: Step, outputs: Outputs) -> Iterator[Metric]:
    counted = extents_result(outputs, step.id)
    if counted is None:
        return
    family = "extents_per_file"
    for key, value in counted.per_file.items():
        quantile = {"p50": 0.5, "p99": 0.99}.get(key)
        yield Metric.of(f"{family}_{key}", value, "1", better="lower", family=family, quantile=quantile)
    share = counted.in_one_piece / counted.files
    yield Metric.of("files_in_one_piece", share, "1")
    if counted.bytes_mean is not None:
        yield Metric.of("extent_bytes_mean", counted.bytes_mean, "B")


def _read(step: Step, purpose: Purpose, outputs: Outputs) -> Metric:
    output = outputs.step(step.id)
    match = _TOTAL.search(output.stderr)
    if match is None or not output.duration_ns:
        raise unreadable(step.id, "tar did not say how much it read", output.stderr)
    rate = int(match[1]) * NS_PER_S / output.duration_ns
    return Metric.of(f"linear_read_{purpose.when}_bytes_per_s", rate, "B/s")
