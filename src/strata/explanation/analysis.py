# SPDX-License-Identifier: Apache-2.0
"""The account of a trial's measured window: per disk, kind of request, and operation of the workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strata.errors import ResultError
from strata.explanation.source import Source
from strata.model.metric import tenant_prefix
from strata.printable import in_json
from strata.results.record import COUNTS, ProcessorUse, ResultRecord, VolumeUse
from strata.traces.attribution import Attribution, attribute, completed
from strata.traces.kinds import KINDS, TIME_PARTS
from strata.traces.table import Records, Trace, flag, latency_ns, parts_ns
from strata.units import SECTOR_BYTES
from strata.workloads.command.measured import LOAD_TIME

PARTS: Final = tuple(name.removesuffix("_ns") for name in TIME_PARTS)
WORK: Final = ("command", "destage", "prefetch", "cleaning")
"""The work of a disk's mechanism: serving requests, emptying the write cache, reading ahead, cleaning."""
DESTAGE_PARTS: Final = ("seek", "rotation", "transfer")
"""The parts of the time that a head spends emptying the write cache."""
_LOAD: Final = "load"
"""A study's own programs do a given work as a whole, where no metric counts its parts."""


@dataclass(frozen=True)
class RequestKind:
    """The requests of one kind that completed in the window.

    Attributes:
        seeks: Requests that moved the head themselves.
        fua: Requests that had to be on the medium before they were complete.
        overdue: Requests that a rotating disk served because of their age, not of their place.
        latency_ns: Sum of the latencies; ``parts_ns`` divides it.
        shares_ns: The disk's time that they took, by part: see `strata.traces.attribution`.
    """

    name: str
    requests: int
    bytes: int
    seeks: int
    fua: int
    overdue: int
    latency_ns: int
    latency_ns_p50: int
    latency_ns_p99: int
    latency_ns_max: int
    parts_ns: Mapping[str, int]
    shares_ns: Mapping[str, float]

    @property
    def share_ns(self) -> float:
        return sum(self.shares_ns.values())


@dataclass(frozen=True)
class DiskTime:
    """One disk over the window.

    Attributes:
        account: What its driver counted over the window.
        busy_ns: The time in which it had a request; ``idle_ns`` the rest of the window.
        work_ns: The time of its mechanism, by ``WORK``; the sum over the units of a drive.
        kinds: In the order of the trace's kinds; empty without a trace.
        traced: The requests of the window in the trace; None without a trace.
    """

    name: str
    account: Mapping[str, int]
    busy_ns: float
    idle_ns: float
    work_ns: Mapping[str, int]
    kinds: tuple[RequestKind, ...]
    traced: int | None

    @property
    @in_json
    def requests(self) -> int:
        return sum(self.account.get(name, 0) for name in ("reads", "writes", "flushes", "discards"))

    @property
    @in_json
    def destage_parts_ns(self) -> dict[str, int]:
        """The time spent emptying the write cache, by part; empty for a disk without a head."""
        parts = {part: self.account.get(f"destage_{part}_ns", 0) for part in DESTAGE_PARTS}
        return parts if any(parts.values()) else {}

    def kind(self, name: str) -> RequestKind | None:
        return next((kind for kind in self.kinds if kind.name == name), None)


@dataclass(frozen=True)
class WriteLevel:
    """The bytes that one layer wrote to the one below it.

    Attributes:
        name: The lower one: ``filesystem``, ``disk`` or ``medium``.
        on: Which of them.
        writes: The number of writes; None where they are not counted.
        of_application: Bytes per byte that applications wrote; None if unknown; ``of_above`` per byte of the
            layer above.
    """

    name: str
    on: str
    writes: int | None
    write_bytes: int
    of_application: float | None
    of_above: float | None


@dataclass(frozen=True)
class Explanation:
    """One trial explained.

    Attributes:
        window_ns: Length of the measured window.
        operation: The unit that the workload counts, such as a transaction, if any.
        whose: Of tenants, whose operations are counted: ``of web`` or ``of all tenants``.
        volumes: The disks' accounts by filesystem and partition, of a stack that has several.
        left_out: Requests of the whole trial that came when the trace was full; None without a trace.
        applications: What applications asked of each filesystem, where the kernel counts it.
        machines: What the kernel of each virtual machine counted.
        drives: The drawn parameters of its plausible drives, by the model's name.
        folder: The results folder, if two trials have the same id.
    """

    trial_id: str
    stack: str
    workload: str
    workload_title: str
    time_domain: str
    window_ns: int
    operation: str | None
    operations: float
    disks: tuple[DiskTime, ...]
    layers: tuple[WriteLevel, ...]
    syncs: int | None
    left_out: int | None
    volumes: Mapping[str, VolumeUse] = field(default_factory=dict)
    applications: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    machines: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    processor: ProcessorUse | None = None
    drives: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    folder: str = ""
    whose: str = ""

    @property
    def unit(self) -> str:
        """The unit of work in words: ``transaction of web``."""
        return f"{self.operation or 'operation'} {self.whose}".rstrip()

    @property
    @in_json
    def name(self) -> str:
        return f"{self.folder}/{self.trial_id}" if self.folder else self.trial_id

    def sum(self, key: str) -> int:
        """A counter of the accounts, over all disks."""
        return sum(disk.account.get(key, 0) for disk in self.disks)

    def count(self, name: str, kind: str | None = None) -> int:
        """A count of `RequestKind`, such as ``requests``, over all disks."""
        kinds = (each for disk in self.disks for each in disk.kinds if kind in {None, each.name})
        return sum(int(getattr(each, name)) for each in kinds)

    @property
    @in_json
    def seeks(self) -> int:
        return self.count("seeks") + self.sum("destage_seeks")

    def per_operation(self, amount: float) -> float | None:
        return amount / self.operations if self.operations else None

    @property
    @in_json
    def missing(self) -> int:
        """Requests of the window that came when the trace was full."""
        traced = (disk for disk in self.disks if self.left_out and disk.traced is not None)
        return sum(max(0, disk.requests - (disk.traced or 0)) for disk in traced)

    @property
    def application_bytes(self) -> int | None:
        """The bytes that applications wrote; None where they are not counted."""
        return _application_bytes(self.applications, self.volumes) if self.applications else None


def explain(source: Source, trace: Trace | None, tenant: str | None = None) -> Explanation:
    """Explain a trial by its record, and by its trace if there is one.

    The unit of work is a tenant's if one is named. Raises ResultError if there is no such tenant.
    """
    record = source.record
    window = source.window_ns or (0, record.phases_ns.get("measure", 0))
    work = _work(source, tenant)
    syncs = [each.get("syncs", 0) for each in record.filesystems.values()]
    return Explanation(
        trial_id=source.trial_id,
        stack=record.trial.stack,
        workload=record.trial.key.named_workload,
        workload_title=source.workload_title,
        time_domain=record.time_domain,
        window_ns=window[1] - window[0],
        operation=work.noun,
        operations=work.number,
        whose=work.whose,
        disks=tuple(_disk(name, account, trace, window) for name, account in record.disks.items()),
        layers=_levels(record),
        volumes=record.volumes,
        applications=record.filesystems,
        machines=record.machines,
        syncs=sum(syncs) if syncs else None,
        left_out=record.trace.left_out if trace is not None and record.trace is not None else None,
        processor=record.processor,
        drives=record.drives,
    )


class _Work(NamedTuple):
    noun: str | None
    number: float
    whose: str = ""


def _chosen_tenants(source: Source, tenant: str | None) -> list[str]:
    """The tenant that was asked for, which must be one of the trial's, or all."""
    tenants = {each.tenant for each in source.record.metrics if each.tenant is not None}
    if tenant is None:
        return sorted(tenants)
    if tenant not in tenants:
        known = ", ".join(sorted(tenants))
        remedy = f"there are: {known}" if known else "leave --tenant out: the load is alone"
        raise ResultError(f'the trial has no tenant "{tenant}"', place=source.trial_id, remedy=remedy)
    return [tenant]


def _work(source: Source, tenant: str | None) -> _Work:
    """The unit of work and its number: the load's, one tenant's, or those of all tenants together."""
    record = source.record
    if tenant is None and (counted := record.operations()) is not None:
        return _Work(COUNTS[counted.name], counted.value)
    counts = []
    for each in _chosen_tenants(source, tenant):
        named = ((noun, record.metric(f"{tenant_prefix(each)}{name}")) for name, noun in COUNTS.items())
        counts += [(noun, found.value) for noun, found in named if found is not None][:1]
    if counts:
        nouns = {noun for noun, _ in counts}
        whose = "of all tenants" if tenant is None else f"of {tenant}"
        noun = nouns.pop() if len(nouns) == 1 else "operation"
        return _Work(noun, sum(value for _, value in counts), whose)
    is_one = tenant is None and record.metric(LOAD_TIME) is not None
    return _Work(_LOAD if is_one else None, float(is_one))


def _disk(name: str, account: Mapping[str, int], trace: Trace | None, window: tuple[int, int]) -> DiskTime:
    work_ns = {each: account[f"{each}_work_ns"] for each in WORK if f"{each}_work_ns" in account}
    if trace is None or name not in trace.disks:
        length_ns = window[1] - window[0]
        busy_ns = float(min(account.get("busy_ns", 0), length_ns))
        return DiskTime(name, account, busy_ns, length_ns - busy_ns, work_ns, (), None)
    records = trace.of_disk(name)
    attribution = attribute(records, window)
    done = completed(records, window)
    kinds = (
        _kind(number, done[done["kind"] == number], attribution)
        for number in range(len(KINDS))
        if (done["kind"] == number).any() or attribution.shares_ns[number].any()
    )
    return DiskTime(
        name, account, attribution.busy_ns, attribution.idle_ns, work_ns, tuple(kinds), traced=len(done)
    )


def nearest_rank(ordered: npt.NDArray[np.int64], share: float) -> int:
    """A percentile of ascending values; 0 without values."""
    return int(ordered[max(0, int(np.ceil(share * len(ordered))) - 1)]) if len(ordered) else 0


def _kind(number: int, records: Records, attribution: Attribution) -> RequestKind:
    latencies = np.sort(latency_ns(records))
    moves_data = KINDS[number] not in {"flush", "discard"}
    sums, shares = parts_ns(records).sum(axis=0), attribution.shares_ns[number]
    return RequestKind(
        name=KINDS[number],
        requests=len(records),
        bytes=int(records["sectors"].astype(np.int64).sum()) * SECTOR_BYTES if moves_data else 0,
        seeks=int((records["seek_ns"] > 0).sum()),
        fua=int(flag(records, "fua").sum()),
        overdue=int(flag(records, "overdue").sum()),
        latency_ns=int(latencies.sum()),
        latency_ns_p50=nearest_rank(latencies, 0.5),
        latency_ns_p99=nearest_rank(latencies, 0.99),
        latency_ns_max=nearest_rank(latencies, 1.0),
        parts_ns={part: int(each) for part, each in zip(PARTS, sums, strict=True) if each},
        shares_ns={part: float(each) for part, each in zip(PARTS, shares, strict=True) if each},
    )


def _application_bytes(filesystems: Mapping[str, Mapping[str, int]], volumes: Mapping[str, VolumeUse]) -> int:
    """The bytes that applications wrote: of filesystems above one another to the last, else to all."""
    written = [
        each.get("write_bytes", 0) for name, each in filesystems.items() if not volumes or name in volumes
    ]
    return sum(written) if volumes else sum(written[-1:])


def _levels(record: ResultRecord) -> tuple[WriteLevel, ...]:
    filesystems, disks = record.filesystems, record.disks
    levels = [
        WriteLevel("filesystem", name, each.get("writes"), each.get("write_bytes", 0), None, None)
        for name, each in filesystems.items()
    ]
    application = _application_bytes(filesystems, record.volumes)
    writes, sent, media = (
        sum(account.get(name, 0) for account in disks.values())
        for name in ("writes", "write_bytes", "media_write_bytes")
    )
    on = ", ".join(disks)
    if disks:
        ratio = _ratio(sent, application)
        levels.append(WriteLevel("disk", on, writes, sent, ratio, ratio))
    if media:
        levels.append(WriteLevel("medium", on, None, media, _ratio(media, application), _ratio(media, sent)))
    return tuple(levels)


def _ratio(amount: int, whole: int) -> float | None:
    return amount / whole if whole else None
