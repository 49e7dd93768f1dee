# SPDX-License-Identifier: Apache-2.0
"""Several workloads at once, each on its own part of the stack, measured over one common window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, SerializeAsAny, StrictInt

from strata.diagnostics.names import Diagnostic, KebabName
from strata.errors import RunError
from strata.model.describe import title
from strata.model.duties import EndsWhenKnown
from strata.model.io_limit import IoLimits
from strata.model.layer import Interface
from strata.model.memory_limit import MemoryLimit
from strata.model.metric import Metric, of_open_loop, tenant_prefix
from strata.model.stack import space_diagnostics
from strata.model.step import Step
from strata.model.warning import Check, Verdict
from strata.model.workload import Outputs, Tenant, Workload, WorkloadContext
from strata.units import NS_PER_S, describe_duration, describe_size, format_duration
from strata.workloads.keys import WholeSeconds, key, yes_or_no

# The latencies to show beside a tenant's main rate: the first of these that it has.
_TAILS: Final = (
    *(("sync_latency_ns",), ("latency_ns",), ("pass_latency_ns",)),
    ("read_latency_ns", "write_latency_ns"),
)


@dataclass(frozen=True)
class Found:
    """One tenant's measurements.

    Attributes:
        metrics: All its metrics, prefixed.
        together: Its headline in the common window, under its own name.
        alone: The same by itself, if it ran so.
    """

    load: Workload
    metrics: list[Metric]
    together: Metric
    alone: Metric | None

    def __str__(self) -> str:
        return f"{self.together.name} of {' '.join(kind_of(self.load))}"

    @property
    def relative_speed(self) -> float | None:
        """Its speed beside the others, relative to its speed alone."""
        if self.alone is None or self.alone.value <= 0 or self.together.value <= 0:
            return None
        faster = self.together.value / self.alone.value
        return faster if self.together.better == "higher" else 1 / faster


def main_metric(metrics: Sequence[Metric]) -> Metric:
    return next((each for each in metrics if each.headline), metrics[0])


def tails_of(metrics: Sequence[Metric]) -> list[str]:
    """The names of the 99th percentiles to show of a load."""
    names = {each.family: each.name for each in metrics if each.quantile == 0.99}
    return next(
        (found for tails in _TAILS if (found := [names[each] for each in tails if each in names])), []
    )


def kind_of(load: Workload) -> tuple[str, ...]:
    """The kind of a load's operations: its name, and its personality or script."""
    kinds = (getattr(load, key, None) for key in ("personality", "script"))
    return (load.workload, *(each for each in kinds if isinstance(each, str)))


def addable(found: Sequence[Found]) -> bool:
    """Whether they are rates of one kind: of the same operations, and so of the same kind of load."""
    heads = [each.together for each in found]
    kinds = {(kind_of(each.load), each.together.name, each.together.unit) for each in found}
    return len(kinds) == 1 and all(each.unit.endswith("/s") and each.better == "higher" for each in heads)


def together(found: Mapping[str, Found], speeds: Mapping[str, float], *, alone: bool) -> list[Metric]:
    """The aggregate, which is the first headline, and the fairness; nothing where there is no aggregate."""
    if alone:
        if len(speeds) < len(found):
            return []
        mean = sum(speeds.values()) / len(speeds)
        aggregate = Metric.of("aggregate_relative_speed", mean, "1", headline=True)
        return [aggregate, Metric.of("fairness", fairness([*speeds.values()]), "1")]
    if not addable([*found.values()]):
        return []
    rates = [each.together for each in found.values()]
    values = [each.value for each in rates]
    added = rates[0].prefixed("aggregate_", value=sum(values), headline=True, tenant=None)
    return [added, Metric.of("fairness", fairness(values), "1")]


def fairness(shares: Sequence[float]) -> float:
    """Jain's index of n shares, from 1/n (one has all) to 1 (all have as much).

    Jain, Chiu, Hawe: "A quantitative measure of fairness and discrimination for resource allocation in shared
    computer systems", DEC TR-301, 1984.
    """
    squares = sum(each * each for each in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


_TENANTS_MAX: Final = 64
# Windows begin together; a load whose own clock starts later, or that ends with a sync, ends a little later.
_COMMON_SHARE_MIN: Final = 0.9
# A step's time holds its program's start, which on a host may take longer than a tenth of a short window.
_APART_NS_MAX: Final = NS_PER_S
_BESIDE: Final = "write it beside `tenants`: it happens to the stack that all share"


class TenantTable(BaseModel):
    """One of several workloads that run at the same time."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: KebabName = key(
        ...,
        "Its name, in kebab case, with which its metrics, steps and layers begin: not that of a "
        "layer or device, and not the beginning of another one's (`db` and `db-2`)",
        "db",
    )
    count: StrictInt = key(
        1, "How many such tenants there are, called NAME-1 and so on", 4, ge=1, le=_TENANTS_MAX
    )
    memory_bytes: MemoryLimit | None = key(
        None,
        "What its programs and their page cache may take, 64MiB at least: the memory of the guest, machine "
        "or container that the stack gives it, or of a control group of its own; default: as the layer says, "
        "or no limit",
        "256MiB",
        alias="memory",
    )
    io: IoLimits | None = key(
        None,
        "Limits of its requests to the stack's disks; in a guest or container write them there",
        "{ read_iops = 500 }",
        exclude_if=lambda io: io is None,
    )
    cpus: StrictInt | None = key(
        None,
        "The processors that its programs may use together; in a guest or container write them there; "
        "default: all",
        1,
        ge=1,
        le=64,
        exclude_if=lambda cpus: cpus is None,
    )
    load: SerializeAsAny[Workload] = key(
        ..., "What it runs in the common window: any workload whose keys say how long its window is"
    )
    before: SerializeAsAny[Workload] | None = key(
        None,
        "What it runs before that, at the same time as the others, such as an installation, in "
        "folders of its own; its servers end with it",
    )

    @property
    def names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{each + 1}" for each in range(self.count)]

    def __str__(self) -> str:
        count = f" × {self.count}" if self.count > 1 else ""
        limits = [describe_size(self.memory_bytes)] if self.memory_bytes else []
        limits += [str(self.io)] if self.io else []
        limits += [f"cpus {self.cpus}"] if self.cpus else []
        limited = f" ({', '.join(limits)})" if limits else ""
        before = f" after {title(self.before.workload, self.before)}" if self.before else ""
        return f"{self.name}{count}{limited}: {title(self.load.workload, self.load)}{before}"


class Tenants(Workload):
    """Several workloads at once, each on its own part of the stack, measured over one common window.

    The order is: all ``before`` at the same time; all loads prepare and warm up at the same time; with
    ``alone`` each runs for that time by itself, one after the other; then all run together. A tenant with
    ``memory`` runs in a control group of its own.
    """

    rationale: ClassVar[str] = (
        "A machine that several parties share: the guests of a hypervisor, or the containers of a server, "
        "each with its own disk, volume, dataset or folder and its own memory. It stresses what the stack "
        "does with requests that do not know of one another, and shows who pays for whom."
    )
    tools: ClassVar[tuple[str, ...]] = ("install", "sync")
    runs_on: ClassVar[tuple[Interface, ...]] = ("filesystem", "block", "pool")
    is_compound: ClassVar[bool] = True
    check_questions: ClassVar[Mapping[str, str]] = {
        "common-window": "did all measured windows end at about the same time?",
        "aggregate": "can what the tenants did be added or compared?",
    }
    workload: Literal["tenants"] = "tenants"
    members: list[TenantTable] = key(
        ...,
        "The tenants, each with a name and a load",
        '[{ name = "db", load = { workload = "pgbench", scale = 2, clients = 4, duration = "60s" } }]',
        alias="tenants",
    )
    alone_ns: WholeSeconds | None = key(
        None,
        "How long each load runs by itself before the common window, one after the other, to "
        "measure what the others cost it, in whole seconds; default: not at all",
        "30s",
        alias="alone",
    )

    @classmethod
    def nested(cls, table: Mapping[str, Any]) -> Iterable[tuple[str | int, ...]]:
        members = table.get("tenants")
        for index, member in enumerate(members if isinstance(members, list) else ()):
            for name in ("load", "before"):
                if isinstance(member, dict) and name in member:
                    yield "tenants", index, name

    def tenants(self) -> dict[str, Tenant]:
        def alone(load: Workload) -> Workload | None:
            update: dict[str, object] = {"duration_ns": self.alone_ns}
            if isinstance(load, EndsWhenKnown):
                update["until"] = None
            return None if self.alone_ns is None else load.model_copy(update=update)

        return {
            name: Tenant(load, each.memory_bytes, each.before, alone(load), each.io, each.cpus)
            for each in self.members
            for load in (self._warmed_up(each.load),)
            for name in each.names
        }

    def _warmed_up(self, load: Workload) -> Workload:
        """A load that spans warm-up and window runs until all others beside it are warm, too."""
        beside = [each.load for each in self.members if each.load.spans_window or self.alone_ns is None]
        longest_ns = max((getattr(each, "warmup_ns", None) or 0 for each in beside), default=0)
        return load.model_copy(update={"warmup_ns": longest_ns}) if load.spans_window else load

    def with_settings(self, settings: Mapping[str, Mapping[str, Any]]) -> Workload:
        return self._changed(lambda load: load.with_settings(settings))

    def scaled(self, share: float) -> Self:
        return super().scaled(share)._changed(lambda load: load.scaled(share))

    def enlarged(self, times: float) -> Self:
        return self._changed(lambda load: load.enlarged(times))

    def _changed(self, change: Callable[[Workload], Workload]) -> Self:
        """The same tenants with other loads."""
        members = [
            member.model_copy(
                update={"load": change(member.load), "before": member.before and change(member.before)}
            )
            for member in self.members
        ]
        return self.model_copy(update={"members": members})

    @property
    def window_ns(self) -> int:
        return max((member.load.window_ns for member in self.members), default=0)

    @property
    def duration_ns_min(self) -> int:
        alone_ns = (self.alone_ns or 0) * len(self.tenants())
        return alone_ns + max((member.load.duration_ns_min for member in self.members), default=0)

    def steps(self, context: WorkloadContext) -> list[Step]:
        """None of its own: a plan runs those of the tenants, each where it is."""
        return []

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if not self.members:
            yield Diagnostic("there are no tenants", remedy="write one at least", key="tenants")
        yield from self._name_diagnostics()
        yield from self._input_diagnostics()
        for index, member in enumerate(self.members):
            yield from _load_diagnostics(member.load, capacity_bytes, ("tenants", index, "load"))
            yield from self._window_diagnostics(index, member.load)
            if member.before is not None:
                yield from _load_diagnostics(member.before, capacity_bytes, ("tenants", index, "before"))
                yield from _sum_diagnostics(member, member.before, index, capacity_bytes)

    def _name_diagnostics(self) -> Iterator[Diagnostic]:
        names: list[str] = []
        for index, member in enumerate(self.members):
            for name in member.names:
                begin = f"{name}-"
                longer = (each for each in names if f"{each}-".startswith(begin))
                near = next((each for each in names if begin.startswith(f"{each}-")), next(longer, None))
                if near is not None:
                    cause = (
                        f'the tenant "{name}" has the name of "{near}", or begins with it: their '
                        "metrics would have the same names"
                    )
                    yield Diagnostic(cause, remedy="rename it", key="name", within=("tenants", index))
            names += member.names

    def _input_diagnostics(self) -> Iterator[Diagnostic]:
        """A plan has one file of each name, for all tenants."""
        known: dict[str, str] = {}
        for index, member in enumerate(self.members):
            for key_name, load in (("load", member.load), ("before", member.before)):
                for name, source in load.inputs().items() if load else ():
                    if known.setdefault(name, source) != source:
                        cause = f'two tenants\' {name} are different files, "{known[name]}" and "{source}"'
                        remedy = "give all tenants the same file"
                        yield Diagnostic(cause, remedy=remedy, within=("tenants", index, key_name))

    def _window_diagnostics(self, index: int, load: Workload) -> Iterator[Diagnostic]:
        can, common = "duration_ns" in type(load).model_fields, self.members[0].load.window_ns
        if getattr(load, "duration_ns", None) is None and (can or not load.window_ns):
            cause = f"the load {load.workload} has no window of a given length, but tenants have a common one"
            remedy = 'write duration = "60s"' if can else "take it as `before`, or another load"
        elif load.window_ns != common and common:
            first, length, own = self.members[0].name, *map(describe_duration, (common, load.window_ns))
            cause = f"the windows differ: {first} is measured for {length}, this one for {own}"
            remedy = f'write duration = "{length}"' if can else f"let its window be of {length}, too"
        elif self.alone_ns is not None and not can:
            alone = f"{load.workload} cannot run alone for {describe_duration(self.alone_ns)}"
            cause = f"{alone}: the length of its window is no key of its own"
            remedy = "leave `alone` out, or take another load"
        else:
            return
        where = ("tenants", index, "load")
        yield Diagnostic(cause, remedy=remedy, key="duration" if can else None, within=where)

    def metrics(self, outputs: Outputs) -> list[Metric]:
        """The speed of all together, and its fairness; then each one's own metrics, prefixed by its name.

        Headlines are the aggregate, each tenant's own rate and the 99th percentile of its latency, and its
        relative speed.

        With ``alone`` each has the speed relative to that (``db_relative_speed``: 1 if the others cost it
        nothing), and the aggregate is their mean, the weighted speedup (Snavely and Tullsen, "Symbiotic
        Jobscheduling for a Simultaneous Multithreading Processor", ASPLOS 2000) divided by their number.
        Without, the rates are added if all are of one kind. ``fairness`` is Jain's index of these
        figures: 1 if all are alike, 1/n if one has all.
        """
        found = self._measured(outputs)
        speeds = {name: speed for name, each in found.items() if (speed := each.relative_speed) is not None}
        relative = [
            Metric.of(f"{tenant_prefix(name)}relative_speed", speed, "1", headline=True, tenant=name)
            for name, speed in speeds.items()
        ]
        metrics = [each for one in found.values() for each in one.metrics]
        return [
            *together(found, speeds, alone=self.alone_ns is not None),
            *(each for each in metrics if each.headline),
            *relative,
            *(each for each in metrics if not each.headline),
        ]

    def _measured(self, outputs: Outputs) -> dict[str, Found]:
        return {name: _measured(each, name, outputs) for name, each in self.tenants().items()}

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        yield _common_window(self.tenants(), outputs)
        found = self._measured(outputs)
        verdict: Verdict = "yes"
        if self.alone_ns is not None:
            detail = "each tenant's figure is relative to its figure alone"
            idle = [name for name, each in found.items() if each.relative_speed is None]
            if idle:
                verdict, detail = "no", f"{', '.join(idle)} did nothing in a window"
        elif addable([*found.values()]):
            detail = f"the tenants' figures are of one kind, {next(iter(found.values()))}, and added"
        else:
            named = ", ".join(f"{name}: {each}" for name, each in found.items())
            verdict, detail = "no", f"without `alone` unlike figures cannot be added ({named})"
        yield Check(name="aggregate", verdict=verdict, detail=detail)


def _measured(tenant: Tenant, name: str, outputs: Outputs) -> Found:
    prefix = tenant_prefix(name)
    own = outputs.within(name)
    found = _metrics_of(tenant.load, own, name)
    main = main_metric(found)
    shown = {main.name, *tails_of(found)}
    metrics = [each.prefixed(prefix, tenant=name, headline=each.name in shown) for each in found]
    if tenant.before is not None:
        taken = {each.name for each in metrics}
        for each in _metrics_of(tenant.before, outputs.within(name, "before"), name):
            marks = {"tenant": name, "phase": "prepare", "headline": False}
            named = each.prefixed(prefix, **marks)
            metrics.append(each.prefixed(f"{prefix}before_", **marks) if named.name in taken else named)
    alone = None
    if tenant.alone is not None:
        # Only the window was run again, on the load's own preparation.
        steps = {**own.steps, **outputs.within(name, "alone").steps}
        alone = main_metric(_metrics_of(tenant.alone, Outputs(steps), name))
        metrics.append(alone.prefixed(f"{prefix}alone_", tenant=name, phase="warmup", headline=False))
    return Found(tenant.load, metrics, main, alone)


def _metrics_of(load: Workload, outputs: Outputs, name: str) -> list[Metric]:
    try:
        metrics = load.metrics(outputs)
        return of_open_loop(metrics) if load.is_open_loop else metrics
    except RunError as error:
        raise RunError(error.cause, place=f"tenant {name}, {error.place}", remedy=error.remedy) from None


def _common_window(tenants: Mapping[str, Tenant], outputs: Outputs) -> Check:
    """The windows begin together; how far apart they end shows how long a tenant had less company."""
    took = {
        name: sum(
            outputs.within(name).step(step.id).duration_ns
            for step in tenant.load.steps(WorkloadContext(name, seed=0))  # for their ids
            if step.phase == "measure" and not step.background
        )
        for name, tenant in tenants.items()
    }
    first, last = min(took, key=lambda name: took[name]), max(took, key=lambda name: took[name])
    ends = [f"{name} after {format_duration(took[name])}" for name in (first, last)]
    apart_ns_max = max(_APART_NS_MAX, (1 - _COMMON_SHARE_MIN) * took[last])
    detail = (
        f"the first window ended with {ends[0]}, the last with {ends[1]}, programs' start included; "
        f"{format_duration(apart_ns_max)} apart at most they are one"
    )
    return yes_or_no("common-window", took[last] - took[first] <= apart_ns_max, detail)


def _sum_diagnostics(
    member: TenantTable, before: Workload, index: int, capacity_bytes: int
) -> Iterator[Diagnostic]:
    """Data that fit, but not beside the data of ``before``, if both sizes are known."""
    sizes = [size for size in (before.data_bytes, member.load.data_bytes) if size is not None]
    if len(sizes) < 2 or any([*space_diagnostics("data", size, capacity_bytes, key="")] for size in sizes):
        return
    for each in space_diagnostics("data of `before` and `load`", sum(sizes), capacity_bytes, key="load"):
        yield Diagnostic(each.cause, remedy=each.remedy, key="load", within=("tenants", index))


def _load_diagnostics(
    load: Workload, capacity_bytes: int, path: tuple[str | int, ...]
) -> Iterator[Diagnostic]:
    """A load's diagnostics on a tenant's part, and keys that one tenant cannot have."""
    for name, field in Workload.model_fields.items():
        if name != "workload" and name in load.model_fields_set:
            key = field.alias or name
            yield Diagnostic(f"{key} is not a tenant's", remedy=_BESIDE, key=key, within=path)
    for each in load.diagnostics(capacity_bytes):
        yield Diagnostic(each.cause, remedy=each.remedy, key=each.key, within=(*path, *each.within))
