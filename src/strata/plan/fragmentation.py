# SPDX-License-Identifier: Apache-2.0
"""Fragmentation before and after the measured window: extents, free space, and what reading costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from strata.plan.placement import Placement
from strata.spec.layer import Layer, LayerContext
from strata.spec.load_output import extents_result
from strata.spec.metric import Metric
from strata.spec.page_cache import dropped, synced
from strata.spec.step import LOAD, Phase, Step
from strata.spec.workload import Outputs, Workload, unreadable
from strata.units import NS_PER_S

_LIMIT_NS: Final = 7200 * NS_PER_S
_TOTAL: Final = re.compile(r"Total bytes written: (\d+)")
_WHEN: Final[tuple[tuple[Phase, str], ...]] = (("alter", "before"), ("inspect", "after"))


@dataclass(frozen=True)
class Look:
    """A step that looks at fragmentation.

    Attributes:
        kind: What it looks at.
        phase: Before the measured window, or after it.
        subject: Whose files or free space, as it stands in the metrics' names.
        layer: The layer; None: the files of a workload, wherever they are.
        step: The step.
    """

    kind: Literal["extents", "free-space", "read", "other"]
    phase: Phase
    subject: str
    layer: Layer | None
    step: Step


def unmet_fragmentation(provides: str, load: Workload) -> str | None:
    """Why a stack does not allow what a workload asks for, as a sentence, or None."""
    if load.linear_read and provides != "filesystem":
        return "linear_read reads files, and the stack ends in a block device"
    return None


def looks(placement: Placement, load: Workload) -> Iterator[Look]:
    """The steps of phases ``alter`` and ``inspect`` that look at what a workload stands on.

    Of several tenants, those at what they share have the same ids.
    """
    for phase, when in _WHEN:
        if load.fragmentation:
            yield from _divisions(placement, phase, when)
        if load.linear_read:
            yield from _reading(placement, phase, when)


def _divisions(placement: Placement, phase: Phase, when: str) -> Iterator[Look]:
    """How each filesystem's files are divided, and each layer's free space."""
    # What waits in memory has no place yet.
    settled = synced(None, f"fragmentation-sync-{when}", phase, "Write back what is dirty")
    yield Look("other", phase, "", None, settled)
    for layer, context in placement.placed:
        subject = _subject(context, placement.tenant)
        if layer.provides == "filesystem":
            path, of = layer.path(context), None
            if (layer, context) == placement.placed[-1]:
                path, of = placement.target, placement.tenant
            name = _named(context.name, of, "extents", when)
            step = _step(
                name, phase, f"Count the extents of the files, {when}", f"${{{LOAD}}}", "extents", path
            )
            yield Look("extents", phase, _prefixed(of, subject), layer, step)
        *first, last = layer.free_space(context.during(phase, f"{context.name}-free-{when}")) or (None,)
        yield from (Look("other", phase, subject, layer, step) for step in first if step)
        if last is not None:
            yield Look("free-space", phase, subject, layer, last)


def _reading(placement: Placement, phase: Phase, when: str) -> Iterator[Look]:
    """Read the workload's files with cold caches. What comes next begins with cold caches, too."""
    name = _named("linear-read", placement.tenant, "", when)
    # tar reads nothing when it writes to /dev/null; of /dev/zero it thinks nothing.
    read = ("tar", "--create", "--totals", "--file=/dev/zero", f"--directory={placement.target}", ".")
    steps = [
        synced(None, f"{name}-sync", phase, "Write back what is dirty"),
        dropped(None, f"{name}-cold", phase),
        # 1: a file changed meanwhile, as a server's may.
        _step(f"{name}-tar", phase, f"Read all files linearly, {when}", *read, expect_exit=(0, 1)),
        dropped(None, f"{name}-cold-again", phase),
    ]
    for step in steps:
        kind: Literal["read", "other"] = "read" if step.id.endswith("-tar") else "other"
        yield Look(kind, phase, placement.tenant or "", None, step)


def _step(step_id: str, phase: Phase, title: str, *argv: str, **fields: object) -> Step:
    return Step.model_validate(
        {
            "id": step_id,
            "phase": phase,
            "title": title,
            "argv": argv,
            "cwd": "${scratch}",
            "time_limit_ns": _LIMIT_NS,
            **fields,
        }
    )


def _named(name: str, tenant: str | None, what: str, when: str) -> str:
    return "-".join(filter(None, (name, tenant, what, when)))


def _subject(context: LayerContext, tenant: str | None) -> str:
    """A layer in the name of a metric: a tenant's own begins with the tenant."""
    name = context.name.replace("-", "_")
    own = f"{tenant}-".replace("-", "_")
    return f"{own}fragmentation_{name.removeprefix(own)}" if name.startswith(own) else f"fragmentation_{name}"


def _prefixed(tenant: str | None, subject: str) -> str:
    own = f"{tenant}_".replace("-", "_")
    return subject if tenant is None or subject.startswith(own) else own + subject


def fragmentation_metrics(placements: Sequence[Placement], load: Workload, outputs: Outputs) -> list[Metric]:
    """What the steps saw; nothing of a filesystem that does not tell where its files lie.

    Raises:
        RunError: If the output of a step does not have the expected form.
    """
    found: list[Metric] = []
    by_step = {look.step.id: look for placement in placements for look in looks(placement, load)}
    for look in by_step.values():
        when = "before" if look.phase == "alter" else ""
        match look.kind:
            case "extents":
                found += _extents(look, outputs, "_".join(filter(None, (look.subject, when))))
            case "free-space":
                assert look.layer is not None
                name = "_".join(filter(None, (look.subject, when)))
                for each in look.layer.free_space_metrics(outputs.step(look.step.id).stdout):
                    found.append(
                        _metric(f"{name}_{each.name}", each.value, each.unit, each.better, look.phase)
                    )
            case "read":
                found.append(_read(look, outputs))
    return found


def _metric(name: str, value: float, unit: str, better: Literal["higher", "lower"], phase: Phase) -> Metric:
    return Metric(name=name, value=value, unit=unit, better=better, phase=phase)


def _extents(look: Look, outputs: Outputs, name: str) -> Iterator[Metric]:
    told = extents_result(outputs, look.step.id)
    if told is None:
        return
    for key, value in told.per_file.items():
        yield _metric(f"{name}_extents_per_file_{key}", value, "1", "lower", look.phase)
    share = told.in_one_piece / told.files
    yield _metric(f"{name}_files_in_one_piece", share, "1", "higher", look.phase)
    if told.bytes_mean is not None:
        yield _metric(f"{name}_extent_bytes_mean", told.bytes_mean, "B", "higher", look.phase)


def _read(look: Look, outputs: Outputs) -> Metric:
    output = outputs.step(look.step.id)
    match = _TOTAL.search(output.stderr)
    if match is None or not output.duration_ns:
        raise unreadable(look.step.id, "tar did not say how much it read", output.stderr)
    name = f"linear_read_{'before' if look.phase == 'alter' else 'after'}_bytes_per_s"
    rate = int(match[1]) * NS_PER_S / output.duration_ns
    return _metric(_prefixed(look.subject or None, name), rate, "B/s", "higher", look.phase)
