# SPDX-License-Identifier: Apache-2.0
"""``find``: the highest rate of an open loop that keeps a target, searched by trials at single rates.

A search is of one stack with one seed. Its trials, the probes, are ordinary ones of the workload at a rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic, checked
from strata.model.metric import PER_OPERATION
from strata.model.workload import Workload
from strata.units import Duration, Share, format_duration, format_share

RATE_MAX: Final = 1_000_000
"""The highest rate that is tried: sysbench and pgbench take no higher one."""
REACHED: Final = ("transactions_per_s", "operations_per_s")
"""The metrics that say which rate a load reached, by its own account."""

_Within = Annotated[
    Share,
    checked(
        lambda share: 0.005 <= share <= 1,
        "a rate is found within 0.5 % to 100 %",
        '"5%" is usual: two probes that keep and miss the target are then no further apart',
    ),
]

_Below = Annotated[Duration, checked(bool, "no time is below 0", 'write for example "5ms"')]


class Find(BaseModel):
    """``find``: search the highest rate at which a metric stays below a limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    metric: StrictStr = Field(examples=["latency_ns_p99"])
    """What must stay below the limit: a metric of the workload in ns (`strata list workloads NAME`), or a
    count per operation, such as `flushes_per_operation`"""
    below_ns: _Below | None = Field(None, alias="below", examples=["5ms"])
    """The limit that a time must not exceed. The load must also reach the rate that is asked for"""
    at_most: Annotated[StrictFloat | StrictInt, Field(gt=0)] | None = Field(None, examples=[0.5])
    """The limit of a count per operation, instead of `below`: requests, or bytes"""
    within: _Within = Field(0.05, examples=["5%"])
    """How near the highest rate that kept the target and the lowest that missed it come to each other, or
    1 a second; default: 5 %"""

    @property
    def limit(self) -> float:
        """In the metric's unit; 0 where the study states none, which is a mistake."""
        return (self.at_most if self.below_ns is None else self.below_ns) or 0

    @property
    def unit(self) -> str:
        """The unit of the limit and of the metric's values; bytes per operation count as numbers."""
        return "1" if self.below_ns is None else "ns"

    @property
    def limit_words(self) -> str:
        return f"{self.limit:g}" if self.below_ns is None else format_duration(self.below_ns)

    @property
    def target(self) -> str:
        return f"{self.metric} {'below' if self.at_most is None else 'at most'} {self.limit_words}"

    def __str__(self) -> str:
        return f"{self.target}, within {format_share(self.within)}"


class OpenLoop(Workload):
    """The base of workloads that can be given a rate, the key ``rate`` of each of them."""

    rate_per_s: StrictInt | StrictFloat | None = None
    find: Find | None = Field(None, examples=['{ metric = "latency_ns_p99", below = "5ms" }'])
    """Search the highest rate that keeps this target, on every stack and with every seed; `rate` is the first
    one tried. Each probe is a trial of the workload `NAME-rate-N`"""


def find_of(load: Workload) -> Find | None:
    return load.find if isinstance(load, OpenLoop) else None


def _limit_diagnostics(find: Find, load: Workload) -> Iterator[Diagnostic]:
    """The mistakes of a search's metric and limit: a time has `below`, a count `at_most`."""
    specs = (*load.metric_specs, *PER_OPERATION)
    searchable = [each for each in specs if each.unit == "ns" and each.better == "lower"]
    searchable += [each for each in PER_OPERATION if each not in searchable]
    unit = next((each.unit for each in searchable if each.is_called(find.metric)), None)
    if unit is None:
        shown = f'"{find.metric[:60]}" is no time that {load.workload} measures, and no count per operation'
        remedy = f"`strata list workloads {load.workload}` lists its metrics"
        yield Diagnostic(shown, remedy=remedy, key="find")
        return
    key, other, example = ("below", "at_most", '"5ms"') if unit == "ns" else ("at_most", "below", "0.5")
    given = {"below": find.below_ns, "at_most": find.at_most}
    if given[key] is None or given[other] is not None:
        cause = f"the limit of {find.metric} is {key}" + ("" if given[other] is None else f", not {other}")
        yield Diagnostic(cause, remedy=f"write for example {key} = {example}", key="find")


def find_diagnostics(name: str, load: Workload, others: Iterable[str]) -> Iterator[Diagnostic]:
    """The mistakes of a search; ``others`` are the names of all workloads.

    A command line names trials by their text, so no workload may be called as a probe is written.
    """
    for tenant, member in load.tenants().items():
        if find_of(member.load) is not None:
            cause = f"the tenant {tenant} cannot search a rate while others run beside it"
            yield Diagnostic(cause, remedy="leave find out, or make a workload of its own of it")
    find = find_of(load)
    if find is None or not isinstance(load, OpenLoop):
        return
    if load.rate_per_s is None:
        cause = "the search has no rate to begin at"
        yield Diagnostic(cause, remedy="write for example rate = 200 beside it", key="find")
    elif not 1 <= load.rate_per_s <= RATE_MAX or load.rate_per_s % 1:
        cause = f"a search begins at a whole rate from 1 to {RATE_MAX:,}"
        yield Diagnostic(cause, remedy="round it", key="rate")
    yield from _limit_diagnostics(find, load)
    for other in others:
        rate = other.removeprefix(f"{name}-rate-")
        if rate != other and rate.isdecimal():
            cause = f'"{other}" has the name of a probe of {name}'
            yield Diagnostic(cause, remedy="rename one of them", key="find")
