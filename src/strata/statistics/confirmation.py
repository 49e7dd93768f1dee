# SPDX-License-Identifier: Apache-2.0
"""A prediction of the lab against a measurement on real disks: how far off it is, and by which share.

The measured window, divided by the operations, is the time in which the busiest disk had a request, and the
rest, in which programs and the kernel computed or waited. So the difference of the two times has three
shares, which add up: more or fewer requests, at what they cost on the real disk (``counts``: the kernel's
doing); other costs of a request (``disk``); and the rest (``processor``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Final

from strata.model.trial import CellKey
from strata.results.counts import unit_of_work
from strata.results.findings import CONFIRMED_ZONE, Compared, Confirmed
from strata.results.record import ResultRecord
from strata.statistics.comparison import judge
from strata.statistics.pair import shared_levels
from strata.statistics.study import StudyResults

_WAITED: Final = {"reads": "read_ns", "writes": "write_ns", "flushes": "flush_ns"}
"""Kinds of requests, with the sum of their latencies in the block layer's statistics."""
_COUNTS: Final = (*_WAITED, "read_bytes", "write_bytes")


@dataclass(frozen=True)
class _Side:
    """A cell's means over its seeds, per operation; ``waited_ns`` is by kind of request, on a real disk."""

    time_ns: float
    disk_ns: float
    counts: Mapping[str, float]
    waited_ns: Mapping[str, float]

    def cost_ns(self, kind: str) -> float:
        """The disk's time of one request: its time is divided as the requests' latencies are."""
        count, waited_ns = self.counts[kind], sum(self.waited_ns.values())
        if count and waited_ns:
            return self.disk_ns * self.waited_ns[kind] / waited_ns / count
        requests = sum(self.counts[each] for each in _WAITED)
        return self.disk_ns / requests if requests else 0.0


def busy_ns(record: ResultRecord) -> dict[str, int]:
    """The time in which each disk had a request.

    The block layer counts whole ticks in which a request was short; the time is at most the sum of the
    latencies.
    """

    def of(account: Mapping[str, int]) -> int:
        limit_ns = sum(account.get(key, 0) for key in _WAITED.values()) if record.time_domain == "wall" else 0
        return min(account.get("busy_ns", 0), limit_ns or account.get("busy_ns", 0))

    return {disk: of(account) for disk, account in record.disks.items()}


def confirmed(predicted: StudyResults, measured: StudyResults, cell: CellKey) -> Confirmed | None:
    """A cell's prediction beside its measurement; None if one of them has no value."""
    kind = next(iter(predicted.metrics(cell.workload)), None)
    sides = [[*each.cells[cell].records.values()] for each in (predicted, measured)]
    if kind is None or not all(sides):
        return None
    upper, lower = measured.series(cell, kind), predicted.series(cell, kind)
    found = judge(kind, upper, lower, zone=CONFIRMED_ZONE)
    if found is None:
        return None
    interval = found.ratio.interval
    first, second = map(_side, sides)
    disk = _busiest(sides[1])
    levels = [each or 0.0 for each in shared_levels(lower, upper)]
    return Confirmed(
        stack=cell.stack,
        workload=cell.workload,
        metric=kind.name,
        unit=kind.unit,
        predicted=levels[0],
        measured=levels[1],
        ratio=found.ratio.ratio,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        doubt=found.doubt,
        operation=unit_of_work(sides[0][0])[0],
        times_ns=(first.time_ns, second.time_ns),
        shares_ns=_shares(first, second),
        counts={key: (first.counts[key], second.counts[key]) for key in _COUNTS},
        disk=disk,
        load=_load(sides[1], disk),
    )


def compared_pairs(results: StudyResults, workload: str, stacks: Sequence[str]) -> list[Compared]:
    """Each two of these stacks by the workload's first headline; a level above 1: the first is better."""
    found = []
    for kind in results.metrics(workload)[:1]:
        for stack, other in combinations(stacks, 2):
            cells = CellKey(stack, workload), CellKey(other, workload)
            each = results.compared(kind, *cells, among=frozenset(stacks))
            if each is not None:
                ends = each.gain_interval
                low, high = (ends.low, ends.high) if ends else (None, None)
                named = {"workload": workload, "metric": kind.name, "stack": stack, "against": other}
                found.append(Compared(**named, verdict=each.verdict, level=each.gain, low=low, high=high))
    return found


def _side(records: Sequence[ResultRecord]) -> _Side:
    def mean(values: Iterable[float]) -> float:
        return fmean(value / unit_of_work(each)[1] for value, each in zip(values, records, strict=True))

    def total(key: str) -> float:
        return mean(sum(account.get(key, 0) for account in each.disks.values()) for each in records)

    return _Side(
        mean(_window_ns(each) for each in records),
        mean(min(max(busy_ns(each).values(), default=0), _window_ns(each)) for each in records),
        {key: total(key) for key in _COUNTS},
        {kind: total(key) if records[0].time_domain == "wall" else 0.0 for kind, key in _WAITED.items()},
    )


def _window_ns(record: ResultRecord) -> float:
    return record.processor.window_ns if record.processor else record.phases_ns.get("measure", 0)


def _shares(first: _Side, second: _Side) -> dict[str, float]:
    """The second's time minus the first's; a kind of request that it lacks costs as much as in the first."""
    costs_ns = {kind: (second if second.counts[kind] else first).cost_ns(kind) for kind in _WAITED}
    counts_ns = sum((second.counts[kind] - first.counts[kind]) * costs_ns[kind] for kind in _WAITED)
    disk_ns = second.disk_ns - first.disk_ns
    rest_ns = second.time_ns - first.time_ns - disk_ns
    return {"disk": disk_ns - counts_ns, "processor": rest_ns, "counts": counts_ns}


def _busiest(records: Sequence[ResultRecord]) -> str:
    """The disk that had requests for the longest, over all seeds; empty: none had one."""
    total_ns: Counter[str] = Counter()
    for each in records:
        total_ns.update(busy_ns(each))
    return max(+total_ns, key=lambda disk: total_ns[disk], default="")


def _load(records: Sequence[ResultRecord], disk: str) -> dict[str, str | int]:
    """A disk's requests as one job of fio: direction, size, number at a time, flushes."""
    accounts = [each.disks.get(disk, {}) for each in records]
    total = {key: sum(account.get(key, 0) for account in accounts) for key in (*_COUNTS, *_WAITED.values())}
    name = max("read", "write", key=lambda each: (total[f"{each}_ns"], total[f"{each}s"]))
    requests = total[f"{name}s"]
    if not requests:
        return {}
    block = 1 << max(12, round(total[f"{name}_bytes"] / requests).bit_length() - 1)
    depth = round(
        sum(total[key] for key in _WAITED.values())
        / (sum(busy_ns(each).get(disk, 0) for each in records) or 1)
    )
    flushes = {"fsync": max(1, round(requests / total["flushes"]))} if total["flushes"] else {}
    more = flushes if name == "write" else {}
    return {"rw": f"rand{name}", "bs": f"{block >> 10}k", "iodepth": max(1, depth), **more}
