# SPDX-License-Identifier: Apache-2.0
"""The checks of a trial's computing: what its load waited for, and what its programs' price rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from strata.devices.processor import DEFAULT_PROGRAM, Processor
from strata.model.metric import Metric
from strata.model.warning import LIMITED, PRICED, Check, Verdict
from strata.model.workload import Workload, loads_of
from strata.plan.model import Plan
from strata.results.build import disk_changes, foreground, processor_use
from strata.results.events import Events
from strata.results.record import ProgramUse
from strata.units import NS_PER_S, percent

# A disk that is busy for half the time, or disks and one processor that take turns, limit a load. Estimates.
_BUSY_MIN: Final = 0.5
_TURNS_MIN: Final = 0.8
# The default price may be off by a factor of ten: for this share of the time it moves results by at most a
# tenth. An estimate.
_UNPRICED_MIN: Final = 0.01
_NAMED_MAX: Final = 4
# With disks that are idle for the rest of the time and a free processor, what remains are charges.
_WAITING_MIN: Final = 0.01


def computing_checks(plan: Plan, events: Events, processor: Processor, load: Workload) -> Iterator[Check]:
    yield from _limited(plan, events, processor, load)
    yield from _priced(plan, events, processor)


def without_charges(
    metrics: Iterable[Metric], plan: Plan, events: Events, processor: Processor
) -> list[Metric]:
    """The metrics; no headline is one whose time is nothing but the charges of a free processor."""
    found = list(metrics)
    if not processor.is_free or not events.processor:
        return found
    return [
        each.model_copy(update={"headline": False})
        if each.headline and _is_charge(each, plan, events)
        else each
        for each in found
    ]


def _is_charge(metric: Metric, plan: Plan, events: Events) -> bool:
    # A tenant's steps have other names in the plan.
    steps = metric.steps if metric.steps and metric.tenant is None else foreground(plan, "measure")
    span, disks = events.window_ns(steps), disk_changes(events, steps)
    if span is None or not disks:
        return False
    return sum(each.get("busy_ns", 0) for each in disks.values()) < _WAITING_MIN * (span[1] - span[0])


def _limited(plan: Plan, events: Events, processor: Processor, load: Workload) -> Iterator[Check]:
    """Whether a disk or a processor limited the load: it was busy most of the window."""
    used = processor_use(plan, events, processor)
    if used is None or not used.window_ns:
        return
    disks_ns = {
        name: account.get("busy_ns", 0)
        for name, account in disk_changes(events, foreground(plan, "measure")).items()
    }
    loads = loads_of(load)
    window_ns = max(each.window_ns for each in loads)
    known_ns = min(window_ns, used.window_ns) if window_ns else used.window_ns
    detail = _disks_busy(disks_ns, known_ns)
    if not processor.is_free:
        detail += f", and {used.busy_ns / used.window_ns:.2f} of {used.processors} processors computed"
    if any(each.is_paced for each in loads):
        yield Check(name=LIMITED, verdict="yes", detail=f"it waited for the study's own pace: {detail}")
        return
    # One at a time, requests go to one disk of several, and disks and processor take turns: of all disks
    # together the sum counts. A load's disks are idle while it starts, and that its processors are not
    # belongs at most to the window.
    busy = sum(disks_ns.values()) / known_ns
    least, most = busy + used.busy_ns / used.window_ns, busy + used.busy_ns / known_ns
    verdict: Verdict = "unknown"
    if busy >= _BUSY_MIN or least >= _TURNS_MIN:
        verdict = "yes"
    elif most < _TURNS_MIN and (window_ns or used.window_ns >= NS_PER_S):
        verdict = "no"
    else:
        detail += "; in so short a window the load's start counts"
    waited = {"yes": _limit(busy, used.busy_ns / used.window_ns), "no": "neither disks nor processors"}
    detail = f"it waited for {waited[verdict]}: {detail}" if verdict in waited else detail
    yield Check(name=LIMITED, verdict=verdict, detail=detail)


def _limit(disks: float, processors: float) -> str:
    """The limit of a load, by the busy shares of disks and processors."""
    if max(disks, processors) < _BUSY_MIN:
        return "disks and processors in turn"
    return "the disks" if disks >= processors else "the processors"


def _disks_busy(disks_ns: Mapping[str, int], window_ns: int) -> str:
    if not disks_ns:
        return "there are no disks"
    disk = max(disks_ns, key=disks_ns.__getitem__)
    said = f"{disk} had requests for {percent(min(1.0, disks_ns[disk] / window_ns))} of the window"
    together = percent(min(1.0, sum(disks_ns.values()) / window_ns))
    return said if len(disks_ns) == 1 else f"{said}, all {len(disks_ns)} disks for at most {together}"


def _priced(plan: Plan, events: Events, processor: Processor) -> Iterator[Check]:
    """Whether programs without a price of their own took a share of the time that matters."""
    used = processor_use(plan, events, processor)
    if processor.is_free or used is None or not used.busy_ns:
        return
    share = used.unpriced_share
    if not used.unpriced:
        yield Check(name=PRICED, verdict="yes", detail="each program that ran has a price of its own")
        return
    default = processor.programs[DEFAULT_PROGRAM]
    by_time = sorted(used.unpriced.items(), key=lambda each: -each[1].time_ns)
    named = ", ".join(_named(*each) for each in by_time[:_NAMED_MAX])
    more = len(by_time) - _NAMED_MAX
    detail = (
        f"{percent(share)} of the processors' time rests on the default price, of which a program may take "
        f"{default.low:g} to {default.high:g} times: {named}{f', and {more} more' if more > 0 else ''}"
    )
    yield Check(name=PRICED, verdict="no" if share >= _UNPRICED_MIN else "yes", detail=detail)


def _named(name: str, use: ProgramUse) -> str:
    return f"{name} ({use.system_calls:,} system calls, {use.page_faults:,} page faults)"
