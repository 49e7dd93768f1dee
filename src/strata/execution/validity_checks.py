# SPDX-License-Identifier: Apache-2.0
"""A finished trial: its throughput over time, and the checks of whether its numbers can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

from strata.devices.processor import DEFAULT_PROGRAM, Processor
from strata.model.duties import HasServer, LogsThroughput
from strata.model.metric import Metric, tenant_prefix
from strata.model.steadiness import DRIFT_MAX, ROUNDS, Steadiness, steadiness, transient_intervals
from strata.model.study import Study
from strata.model.warning import (
    COVERS_PERIODS,
    DID_IO,
    DID_IO_IN_WINDOW,
    DIRECT_IO,
    DURABLE,
    FINISHED,
    KNOWN,
    LARGER_THAN_MEMORY,
    LIMITED,
    PRICED,
    STEADY,
    Check,
    Verdict,
)
from strata.model.workload import Outputs, Workload, loads_of
from strata.plan.aspects import ASPECTS
from strata.plan.model import Plan
from strata.plan.placement import Placement, placements_of
from strata.results.build import disk_changes, foreground, processor_use
from strata.results.events import Events
from strata.results.record import COUNTS, Throughput
from strata.rules.direct_io import buffered_by, kernel_version
from strata.rules.fit import SNAPSHOT_LANE
from strata.units import NS_PER_S, SECTOR_BYTES, format_duration, format_share, format_size, percent

# A load may run a little shorter than its key says: programs count their start as part of the runtime.
_WINDOW_SHARE_MIN: Final = 0.8
# With less than a sector for every hundredth operation, the window measures the page cache. An estimate.
_REACHING_SHARE_MIN: Final = 0.01
# A disk that is busy for half the time, or disks and one processor that take turns, limit a load. Estimates.
_BUSY_MIN: Final = 0.5
_TURNS_MIN: Final = 0.8
# The default price may be off by a factor of ten: for this share of the time it moves results by at most a
# tenth. An estimate.
_UNPRICED_MIN: Final = 0.01
_NAMED_MAX: Final = 4
# With disks that are idle for the rest of the time and a free processor, what remains are charges.
_WAITING_MIN: Final = 0.01
_UNKNOWN: Final = "it is not known what the disks moved"


def _of_placement(
    trial: FinishedTrial, placement: Placement, throughput: Sequence[Throughput]
) -> Iterator[Check]:
    """The checks of a load in its place."""
    plan, events, tenant = trial.plan, trial.events, placement.tenant
    for aspect in ASPECTS:
        yield from aspect.checks(trial, placement)
    yield _larger_than_memory(placement, plan, events)
    yield from _direct(placement, events)
    yield from _covers_periods(placement, plan, events)
    yield from _known(placement, plan, events)
    own = next((each for each in throughput if (each.source, each.tenant) == ("load", tenant)), None)
    if own is not None:
        yield _steady(own.rates, own.interval_ns, "its own throughput", "/s")
    yield from placement.load.checks(trial.outputs_of(placement))
    before = trial.load.tenants()[tenant].before if tenant is not None else None
    if before is not None:
        for check in before.checks(trial.outputs.within(tenant or "", "before")):
            yield check.model_copy(update={"name": f"before-{check.name}"})


def checks_of(
    trial: FinishedTrial, throughput: Sequence[Throughput], metrics: Iterable[Metric] = ()
) -> list[Check]:
    """The checks of a trial, then the checks of its tenants.

    Raises RunError if a workload cannot read its outputs.
    """
    plan, events, load, placements = trial.plan, trial.events, trial.load, trial.placements
    finished = _finished(plan, events)
    if finished.verdict == "no":
        return [finished]
    found = [finished, *_did_io(plan, events, _operations(metrics, placements))]
    found += [_durable(trial), *_limited(trial), *_priced(trial)]
    if len(placements) > 1 or placements[0].tenant is not None:
        found += load.checks(trial.outputs)
    for placement in placements:
        found += _named(_of_placement(trial, placement, throughput), placement.tenant)
    judged = {each.tenant for each in found if each.name == STEADY}
    if judged:
        unknown = _unknown("its throughput over time is not known")
        left = [placement.tenant for placement in placements if placement.tenant not in judged]
        found += [each for tenant in left for each in _named([unknown], tenant)]
    else:
        window_ns = load.window_ns or max(placement.load.window_ns for placement in placements)
        cached = any((each.name, each.verdict) == (DID_IO_IN_WINDOW, "no") for each in found)
        missed = _unknown("the window did not reach the disks")
        found.append(missed if cached else _disks_steady(plan, placements, window_ns, throughput, events))
    return list(dict.fromkeys(_with_warmup(each, placements) for each in found))


def _with_warmup(check: Check, placements: Sequence[Placement]) -> Check:
    """The verdict on a window, with the warm-up before it."""
    warmups = [
        getattr(placement.load, "warmup_ns", None) or 0
        for placement in placements
        if check.tenant in (None, placement.tenant) and placement.load.window_ns
    ]
    if check.name != STEADY or not warmups:
        return check
    before = f"after {format_duration(max(warmups))} of warm-up" if any(warmups) else "without a warm-up"
    return check.model_copy(update={"detail": f"{before}: {check.detail}"})


def _named(checks: Iterable[Check], tenant: str | None) -> Iterator[Check]:
    yield from (each if tenant is None else each.model_copy(update={"tenant": tenant}) for each in checks)


def _finished(plan: Plan, events: Events) -> Check:
    ended = {
        step: run.ending is not None and run.ending.outcome == "ok" for step, run in events.steps.items()
    }
    missing = [step.id for step in plan.steps if not step.background and not ended.get(step.id)]
    complete = not missing and events.end is not None and events.end.outcome == "ok"
    count = len(plan.steps)
    verdict: Verdict = "yes" if complete else "no"
    detail = f"all {count} steps did" if complete else "the agent did not come to its end"
    if missing:
        more = f", and {len(missing) - 1} more" if missing[1:] else ""
        detail = f"{missing[0]} did not, or failed{more}"
    return Check(name=FINISHED, verdict=verdict, detail=detail, required=True)


def _durable(trial: FinishedTrial) -> Check:
    risks = trial.study.power_risks(trial.plan.trial.stack, trial.plan.trial.workload)
    detail = "; ".join(risks) or "no setting gives it away"
    return Check(name=DURABLE, verdict="no" if risks else "yes", detail=detail)


def _operations(metrics: Iterable[Metric], placements: Sequence[Placement]) -> float:
    """The operations of the loads in their windows, by their own counts; 0 if none counts."""
    counts = {each.name: each.value for each in metrics}
    done = 0.0
    for placement in placements:
        prefix = tenant_prefix(placement.tenant)
        done += next((counts[prefix + name] for name in COUNTS if prefix + name in counts), 0.0)
    return done


def _did_io(plan: Plan, events: Events, operations: float) -> Iterator[Check]:
    """Whether the disks moved data in the whole trial, which is required, and in the measured window."""
    if not plan.devices:
        return
    whole = _moved_bytes(events, [step.id for step in plan.steps])
    if whole is None:
        yield Check(name=DID_IO, verdict="unknown", detail=_UNKNOWN, required=True)
        return
    detail = f"they moved {format_size(whole)} in the whole trial"
    yield Check(name=DID_IO, verdict="yes" if whole else "no", detail=detail, required=True)
    window = _moved_bytes(events, foreground(plan, "measure"))
    if window is None:
        return
    cached = window <= operations * SECTOR_BYTES * _REACHING_SHARE_MIN
    did = f", and the load counted {operations:,.0f} operations" if operations else ""
    because = ": nearly everything was in the page cache" if cached else ""
    yield Check(
        name=DID_IO_IN_WINDOW,
        verdict="no" if cached else "yes",
        detail=f"the disks moved {format_size(window)} in it{did}{because}",
    )


def _moved_bytes(events: Events, steps: Iterable[str]) -> int | None:
    """The bytes that all disks read and wrote from the start of the first step to the end of the last."""
    changes = disk_changes(events, steps)
    return sum(map(moved_bytes, changes.values())) if changes else None


def _larger_than_memory(placement: Placement, plan: Plan, events: Events) -> Check:
    """Whether the data set was larger than the memory that could cache it."""

    def check(verdict: Verdict, detail: str) -> Check:
        return Check(name=LARGER_THAN_MEMORY, verdict=verdict, detail=detail)

    data_bytes = placement.load.data_bytes
    if data_bytes is None:
        return check("unknown", "its size is not known")
    if past := _past_memory(placement):
        return check("yes", f"{format_size(data_bytes)} of data, {past}")
    memory_bytes, whose = _memory_of(placement, plan, events)
    if memory_bytes is None:
        return check("unknown", "the machine's memory is not known")
    data, memory = format_size(data_bytes), format_size(memory_bytes)
    if data_bytes <= memory_bytes:
        return check("no", f"{data} of data fit into {whose} of {memory}: reads may come from the page cache")
    if data_bytes < 2 * memory_bytes:
        return check("yes", f"{data} of data, {whose} is {memory}; bonnie++ asks for twice the memory")
    enough = "at least twice as much data, as bonnie++ asks for"
    return check("yes", f"{data} of data, {whose} is {memory}: {enough}")


def _past_memory(placement: Placement) -> str:
    """How the data of a load are kept out of memory, as a clause; empty if they are not."""
    layers = [each.layer for each in placement.layers]
    if placement.load.bypasses_page_cache and not any(layer.caches_direct_io() for layer in layers):
        return "read and written past the page cache (direct I/O)"
    own = next((layer for layer in reversed(layers) if layer.requires.kind != "filesystem"), None)
    key = own.uncached() if own is not None else ""
    return f"which {own.layer} does not cache ({key})" if own is not None and key else ""


def _direct(placement: Placement, events: Events) -> Iterator[Check]:
    """Whether the direct I/O of a load that asks for it was direct."""
    if not placement.load.bypasses_page_cache:
        return
    release = events.start.kernel.get("release", "") if events.start is not None else ""
    layers = [each.layer for each in placement.layers]
    why = buffered_by(layers, placement.load, kernel_version(release))
    yield Check(name=DIRECT_IO, verdict="no" if why else "yes", detail=why or "no layer buffers it")


def _covers_periods(placement: Placement, plan: Plan, events: Events) -> Iterator[Check]:
    """Whether the window holds what the layers and the server do by themselves at intervals."""
    layers = (each.layer.periods_ns for each in placement.layers)
    server = placement.load.periods_ns if isinstance(placement.load, HasServer) else {}
    periods = {name: ns for each in (*layers, server) for name, ns in each.items()}
    window = load_window(plan, events)
    if not periods or window is None:
        return
    length_ns = window[1] - window[0]
    longer = {name: ns for name, ns in periods.items() if ns > length_ns}
    named = ", ".join(f"{name} ({format_duration(ns)})" for name, ns in (longer or periods).items())
    relation = "shorter than the interval of" if longer else "at least as long as the interval of"
    # In whole seconds, so that stacks whose windows differ by milliseconds share a warning.
    length = format_duration(round(length_ns, -9) or length_ns)
    yield Check(
        name=COVERS_PERIODS,
        verdict="no" if longer else "yes",
        detail=f"the window of {length} is {relation}: {named}",
    )


def _known(placement: Placement, plan: Plan, events: Events) -> Iterator[Check]:
    """Whether a load with ``until`` is known as precisely as asked, and when its window ended for that."""
    asked = {
        step.id: step.until.share
        for step in plan.steps
        if step.until and (step.owner.tenant if step.owner else None) == placement.tenant
    }
    for found in (each for each in events.precisions if each.step in asked):
        run, look = events.steps[found.step], found.look
        length = format_duration(run.ending.duration_ns if run.ending else 0)
        detail = f"after {length} " + ("all loads were known" if found.known else "the window was over")
        if look is not None:
            rate, tail = (
                max(each.half_width, each.drift) / each.mean
                for each in (look.operations, look.latency_ns_p99)
            )
            detail += (
                f": by its first {look.intervals} intervals the rate to ±{percent(rate)} and the 99th "
                f"percentile to ±{percent(tail)}, of ±{percent(asked[found.step])} asked"
            )
        yield Check(name=KNOWN, verdict="yes" if found.known else "no", detail=detail)


def _memory_of(placement: Placement, plan: Plan, events: Events) -> tuple[int | None, str]:
    """The memory that can cache a workload's data, in bytes if it is known, and whose it is."""
    machine: int | None = plan.memory_bytes
    if events.start is not None and events.start.runner == "host":
        # By the samples: the result may be finalised on another machine.
        totals = (sample.memory.get("total_bytes") for sample in events.samples)
        machine = next((total for total in totals if total), None)
    # A placement's memory is the limit of a tenant or a guest, or else the lab's declared memory.
    if placement.memory_bytes < plan.memory_bytes and (machine is None or placement.memory_bytes < machine):
        return placement.memory_bytes, "its memory"
    return machine, "the machine's memory"


def _steady(rates: Sequence[float], interval_ns: int, what: str, unit: str) -> Check:
    """The verdict on a throughput in equal intervals of the window."""
    judged = steadiness(rates)
    if judged is None:
        why = "nothing was done in the window"
        if len(rates) < ROUNDS:
            why = (
                f"{what} is known of {len(rates)} whole intervals of the window, and the rule needs {ROUNDS}"
            )
        return _unknown(why)
    rounds = ", ".join(f"{each:,.0f}" if each >= 99.95 else f"{each:.3g}" for each in judged.rounds)
    detail = (
        f"{what} in the five fifths of the window: {rounds} {unit}; they drift by "
        f"{percent(judged.drift, signed=True)} ± {percent(judged.error)} (standard error): "
        f"{_meaning(judged, rates, interval_ns)}"
    )
    return Check(name=STEADY, verdict=judged.verdict, detail=detail)


def _unknown(why: str) -> Check:
    return Check(name=STEADY, verdict="unknown", detail=why)


def _meaning(judged: Steadiness, rates: Sequence[float], interval_ns: int) -> str:
    limit = format_share(DRIFT_MAX)
    if judged.verdict == "yes":
        return f"surely less than {limit}"
    if judged.verdict == "unknown":
        return (
            f"the scatter could hide {percent(judged.hidden)}, and {limit} matter; a longer window tells more"
        )
    intervals = transient_intervals(rates)
    if intervals:
        since = f"by MSER-5 it is steady from {format_duration(intervals * interval_ns)} on"
    else:
        since = "MSER-5 finds no steady part that begins in its first half"
    return f"more than the scatter explains; {since}"


def _disks_steady(
    plan: Plan, placements: Sequence[Placement], window_ns: int, known: Sequence[Throughput], events: Events
) -> Check:
    """The verdict on the throughput of all disks together, by the monitors' samples."""
    if not plan.monitors.disks:
        return _unknown("the stack has no disks")
    if not window_ns:
        return _unknown("the window has no given length: it ends when its work is done")
    window = load_window(plan, events)
    if window is None:
        return _unknown("the window was not seen")
    is_known = any(each.known for each in events.precisions)
    if len(placements) == 1 and not is_known and window[1] - window[0] < _WINDOW_SHARE_MIN * window_ns:
        return _unknown(f"the window of {format_duration(window_ns)} consists of several parts")
    disks = next((each for each in known if each.source == "disks"), None)
    interval_ns = plan.monitors.interval_ns
    if disks is not None and disks.unit == "B/s":
        moved = [each / (1 << 20) for each in disks.rates]
        return _steady(moved, interval_ns, "what the disks moved", "MiB/s")
    rates = disks.rates if disks else ()
    return _steady(rates, interval_ns, "the requests that the disks completed", "/s")


# Requests of this size and more are judged by their bytes, smaller ones by their number, as SNIA has a test
# of throughput with large blocks and one of IOPS with small ones.
_LARGE_REQUEST_BYTES: Final = 64 << 10


@dataclass(frozen=True)
class FinishedTrial:
    """A trial that has been carried out, whether it succeeded or not."""

    study: Study
    plan: Plan
    events: Events

    @property
    def is_complete(self) -> bool:
        """Whether the agent came to the plan's end."""
        return self.events.end is not None and self.events.end.outcome == "ok"

    @cached_property
    def processor(self) -> Processor:
        return self.study.drawn_processor(self.plan.trial.seed)

    @cached_property
    def load(self) -> Workload:
        trial = self.plan.trial
        return self.study.load(trial.stack, trial.workload, trial.rate)

    @cached_property
    def placements(self) -> list[Placement]:
        """The placement of its workload, or of each of its tenants."""
        return placements_of(self.study, self.plan.trial.key)[1]

    @cached_property
    def outputs(self) -> Outputs:
        return self.events.outputs(self.plan.steps)

    def outputs_of(self, placement: Placement) -> Outputs:
        return self.outputs if placement.tenant is None else self.outputs.within(placement.tenant)


def throughput_of(trial: FinishedTrial) -> list[Throughput]:
    """The throughput over the measured window: of each load that reports its own, and of all disks together.

    Raises RunError if a workload cannot read its outputs.
    """
    if not trial.is_complete:
        return []
    plan, events = trial.plan, trial.events
    found = []
    for placement in trial.placements:
        load, outputs = placement.load, trial.outputs_of(placement)
        if isinstance(load, LogsThroughput) and (rates := tuple(load.rates_per_s(outputs))):
            ns, tenant = load.rates_interval_ns, placement.tenant
            found.append(Throughput(source="load", unit="1/s", interval_ns=ns, rates=rates, tenant=tenant))
    if window := load_window(plan, events):
        unit, of_disks = _disk_rates(plan, events, window)
        ns = plan.monitors.interval_ns
        if of_disks:
            found.append(Throughput(source="disks", unit=unit, interval_ns=ns, rates=tuple(of_disks)))
    return found


def moved_bytes(counters: Mapping[str, int]) -> int:
    """The bytes that a disk read and wrote, by its counters."""
    return counters.get("read_bytes", 0) + counters.get("write_bytes", 0)


def load_window(plan: Plan, events: Events) -> tuple[int, int] | None:
    """The longest measuring step of one workload; from the first to the last of several tenants'."""
    lanes: dict[str | None, list[tuple[int, int]]] = {}
    for step in plan.steps:
        run = events.steps.get(step.id)
        counts = step.phase == "measure" and not step.background and step.lane != SNAPSHOT_LANE
        if counts and run is not None and run.ended_ns is not None:
            lanes.setdefault(step.lane, []).append((run.started_ns, run.ended_ns))
    if not lanes:
        return None
    longest = [max(spans, key=lambda span: span[1] - span[0]) for spans in lanes.values()]
    return min(start for start, _ in longest), max(end for _, end in longest)


def _disk_rates(
    plan: Plan, events: Events, window: tuple[int, int]
) -> tuple[Literal["B/s", "1/s"], list[float]]:
    """The rate of all disks in each whole interval of the window, in bytes or requests per second."""
    totals = [
        (
            each.monotonic_ns,
            sum(moved_bytes(disk) for disk in each.disks.values()),
            sum(disk.get("reads", 0) + disk.get("writes", 0) for disk in each.disks.values()),
        )
        for each in events.samples
        if each.at == "interval" and window[0] <= each.monotonic_ns <= window[1] and each.disks
    ]
    if len(totals) < 2:
        return "1/s", []
    moved, completed = totals[-1][1] - totals[0][1], totals[-1][2] - totals[0][2]
    large = moved >= _LARGE_REQUEST_BYTES * max(completed, 1)
    column = 1 if large else 2
    rates: list[float] = []
    for before, after in pairwise(totals):
        took_ns = after[0] - before[0]
        # On a loaded host an interval may be missed: its neighbour then counts as two.
        intervals = max(1, round(took_ns / plan.monitors.interval_ns))
        rates += [(after[column] - before[column]) * NS_PER_S / max(took_ns, 1)] * intervals
    return "B/s" if large else "1/s", rates


def without_charges(metrics: Iterable[Metric], trial: FinishedTrial) -> list[Metric]:
    """The metrics; no headline is one whose time is nothing but the charges of a free processor."""
    found = list(metrics)
    if not trial.processor.is_free or not trial.events.processor:
        return found
    return [
        metric.model_copy(update={"headline": False})
        if metric.headline and _is_charge(metric, trial.plan, trial.events)
        else metric
        for metric in found
    ]


def _is_charge(metric: Metric, plan: Plan, events: Events) -> bool:
    # A tenant's steps have other names in the plan.
    steps = metric.steps if metric.steps and metric.tenant is None else foreground(plan, "measure")
    span, disks = events.window_ns(steps), disk_changes(events, steps)
    if span is None or not disks:
        return False
    return sum(each.get("busy_ns", 0) for each in disks.values()) < _WAITING_MIN * (span[1] - span[0])


def _limited(trial: FinishedTrial) -> Iterator[Check]:
    """Whether a disk or a processor limited the load: it was busy most of the window."""
    plan, events, processor = trial.plan, trial.events, trial.processor
    used = processor_use(plan, events, processor)
    if used is None or not used.window_ns:
        return
    disks_ns = {
        name: account.get("busy_ns", 0)
        for name, account in disk_changes(events, foreground(plan, "measure")).items()
    }
    loads = loads_of(trial.load)
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


def _priced(trial: FinishedTrial) -> Iterator[Check]:
    """Whether programs without a price of their own took a share of the time that matters."""
    processor = trial.processor
    used = processor_use(trial.plan, trial.events, processor)
    if processor.is_free or used is None or not used.busy_ns:
        return
    share = used.unpriced_share
    if not used.unpriced:
        yield Check(name=PRICED, verdict="yes", detail="each program that ran has a price of its own")
        return
    default = processor.programs[DEFAULT_PROGRAM]
    by_time = sorted(used.unpriced.items(), key=lambda each: -each[1].time_ns)
    named = ", ".join(
        f"{name} ({use.system_calls:,} system calls, {use.page_faults:,} page faults)"
        for name, use in by_time[:_NAMED_MAX]
    )
    more = len(by_time) - _NAMED_MAX
    detail = (
        f"{percent(share)} of the processors' time rests on the default price, of which a program may take "
        f"{default.low:g} to {default.high:g} times: {named}{f', and {more} more' if more > 0 else ''}"
    )
    yield Check(name=PRICED, verdict="no" if share >= _UNPRICED_MIN else "yes", detail=detail)
