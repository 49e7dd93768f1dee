# SPDX-License-Identifier: Apache-2.0
"""Several workloads at once, each on its own part of the stack, measured over one common window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, StrictInt

from strata.errors import RunError
from strata.spec.describe import title
from strata.spec.layer import Interface
from strata.spec.memory_limit import MemoryLimit
from strata.spec.metric import Metric, tenant_prefix
from strata.spec.names import Diagnostic, KebabName
from strata.spec.stack import space_diagnostics
from strata.spec.step import Step
from strata.spec.warning import Check, Verdict
from strata.spec.workload import Outputs, Tenant, Workload, WorkloadContext
from strata.units import NS_PER_S, describe_duration, describe_size, format_duration
from strata.workloads.keys import WholeSeconds
from strata.workloads.tenants.aggregate import Found, addable, main_metric, ratio, tails_of, together

_TENANTS_MAX: Final = 64
# Windows begin together; a load whose own clock starts later, or that ends with a sync, ends a little later.
_COMMON_SHARE_MIN: Final = 0.9
# A step's time holds its program's start, which on a host may take longer than a tenth of a short window.
_APART_NS_MAX: Final = NS_PER_S
_BESIDE: Final = "write it beside `tenants`: it happens to the stack that all share"


class TenantTable(BaseModel):
    """One of several workloads that run at the same time."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: KebabName = Field(
        description="Its name, in kebab case, with which its metrics, steps and layers begin: not that of a "
        "layer or device, and not the beginning of another one's (`db` and `db-2`)",
        examples=["db"],
    )
    count: Annotated[StrictInt, Field(ge=1, le=_TENANTS_MAX)] = Field(
        default=1, description="How many such tenants there are, called NAME-1 and so on", examples=[4]
    )
    memory_bytes: MemoryLimit | None = Field(
        default=None,
        alias="memory",
        description="What its programs and their page cache may take, 64MiB at least: the memory of the guest"
        " in the stack's `each`, or of a control group of its own; default: the guest's own, or "
        "no limit",
        examples=["256MiB"],
    )
    load: SerializeAsAny[Workload] = Field(
        description="What it runs in the common window: any workload whose keys say how long its window is"
    )
    before: SerializeAsAny[Workload] | None = Field(
        default=None,
        description="What it runs before that, at the same time as the others, such as an installation, in "
        "folders of its own; its servers end with it",
    )

    @property
    def names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{each + 1}" for each in range(self.count)]

    def __str__(self) -> str:
        count = f" × {self.count}" if self.count > 1 else ""
        memory = f" ({describe_size(self.memory_bytes)})" if self.memory_bytes else ""
        before = f" after {title(self.before.workload, self.before)}" if self.before else ""
        return f"{self.name}{count}{memory}: {title(self.load.workload, self.load)}{before}"


class Tenants(Workload):
    """Several workloads at once, each on its own part of the stack, measured over one common window.

    The order is: all ``before`` at the same time; all loads prepare and warm up at the same time; with
    ``alone`` each runs for that time by itself, one after the other; then all run together. A tenant with
    ``memory`` runs in a control group of its own.
    """

    rationale: ClassVar[str] = (
        "A machine that several parties share: the guests of a hypervisor, or the containers of a server, "
        "each with its own disk, volume, dataset or folder and its own memory. It stresses what the stack "
        "does with requests that do not know of one another, and shows who pays for whom. Processors are not "
        "shared in it, and there is no second kernel."
    )
    tools: ClassVar[tuple[str, ...]] = ("install", "sync")
    runs_on: ClassVar[tuple[Interface, ...]] = ("filesystem", "block", "pool")
    is_compound: ClassVar[bool] = True
    check_questions: ClassVar[Mapping[str, str]] = {
        "common-window": "did all measured windows end at about the same time?",
        "aggregate": "can what the tenants did be added or compared?",
    }
    workload: Literal["tenants"] = "tenants"
    members: list[TenantTable] = Field(
        alias="tenants",
        description="The tenants, each with a name and a load",
        examples=[
            '[{ name = "db", load = { workload = "pgbench", scale = 2, clients = 4, duration = "60s" } }]'
        ],
    )
    alone_ns: WholeSeconds | None = Field(
        default=None,
        alias="alone",
        description="How long each load runs by itself before the common window, one after the other, to "
        "measure what the others cost it, in whole seconds; default: not at all",
        examples=["30s"],
    )

    @classmethod
    def nested(cls, table: Mapping[str, Any]) -> Iterable[tuple[str | int, ...]]:
        members = table.get("tenants")
        for index, member in enumerate(members if isinstance(members, list) else ()):
            for key in ("load", "before"):
                if isinstance(member, dict) and key in member:
                    yield "tenants", index, key

    def tenants(self) -> dict[str, Tenant]:
        update = {"duration_ns": self.alone_ns}
        return {
            name: Tenant(
                load=(load := member.load),
                memory_bytes=member.memory_bytes,
                before=member.before,
                alone=None if self.alone_ns is None else load.model_copy(update=update),
            )
            for member in self.members
            for name in member.names
        }

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
                near = next((each for each in names if begin.startswith(f"{each}-")), None) or next(
                    longer, None
                )
                if near is not None:
                    yield Diagnostic(
                        f'the tenant "{name}" has the name of "{near}", or begins with it: their '
                        "metrics would have the same names",
                        remedy="call it otherwise",
                        key="name",
                        within=("tenants", index),
                    )
            names += member.names

    def _window_diagnostics(self, index: int, load: Workload) -> Iterator[Diagnostic]:
        where = ("tenants", index, "load")
        can = "duration_ns" in type(load).model_fields
        if getattr(load, "duration_ns", None) is None and (can or not load.window_ns):
            yield Diagnostic(
                f"the load {load.workload} has no window of a given length, but tenants have a common one",
                remedy='write duration = "60s"' if can else "take it as `before`, or another load",
                key="duration" if can else None,
                within=where,
            )
        elif load.window_ns != self.members[0].load.window_ns and self.members[0].load.window_ns:
            first, own = self.members[0], describe_duration(load.window_ns)
            common = describe_duration(first.load.window_ns)
            yield Diagnostic(
                f"the windows differ: {first.name} is measured for {common}, this one for {own}",
                remedy=f'write duration = "{common}"' if can else f"let its window be of {common}, too",
                key="duration" if can else None,
                within=where,
            )
        elif self.alone_ns is not None and not can:
            yield Diagnostic(
                f"{load.workload} cannot run alone for {describe_duration(self.alone_ns)}: the length of its "
                "window is no key of its own",
                remedy="leave `alone` out, or take another load",
                within=where,
            )

    def metrics(self, outputs: Outputs) -> list[Metric]:
        """How fast all were together, and how fair that was; then each one's own, prefixed by its name.

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
            ratio(f"{tenant_prefix(name)}relative_speed", speed, headline=True, tenant=name)
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
        for each in _metrics_of(tenant.before, outputs.within(f"{name}-before"), name):
            marks = {"tenant": name, "phase": "prepare", "headline": False}
            named = each.prefixed(prefix, **marks)
            metrics.append(each.prefixed(f"{prefix}before_", **marks) if named.name in taken else named)
    alone = None
    if tenant.alone is not None:
        # Only the window was run again, on the load's own preparation.
        steps = {**own.steps, **outputs.within(f"{name}-alone").steps}
        alone = main_metric(_metrics_of(tenant.alone, Outputs(steps), name))
        metrics.append(alone.prefixed(f"{prefix}alone_", tenant=name, phase="warmup", headline=False))
    return Found(tenant.load, metrics, main, alone)


def _metrics_of(load: Workload, outputs: Outputs, name: str) -> list[Metric]:
    try:
        return load.metrics(outputs)
    except RunError as error:
        raise RunError(error.cause, place=f"tenant {name}, {error.place}", remedy=error.remedy) from None


def _common_window(tenants: Mapping[str, Tenant], outputs: Outputs) -> Check:
    """The windows begin together; how far apart they end shows how long a tenant had less company."""
    took = {
        name: sum(
            outputs.step(f"{name}-{step.id}").duration_ns
            for step in tenant.load.steps(WorkloadContext(name, seed=0))  # for their ids
            if step.phase == "measure" and not step.background
        )
        for name, tenant in tenants.items()
    }
    first, last = min(took, key=lambda name: took[name]), max(took, key=lambda name: took[name])
    ends = [f"{name} after {format_duration(took[name])}" for name in (first, last)]
    apart_ns_max = max(_APART_NS_MAX, (1 - _COMMON_SHARE_MIN) * took[last])
    return Check(
        name="common-window",
        verdict="yes" if took[last] - took[first] <= apart_ns_max else "no",
        detail=f"the first window ended with {ends[0]}, the last with {ends[1]}, programs' start included; "
        f"{format_duration(apart_ns_max)} apart at most they are one",
    )


def _sum_diagnostics(
    member: TenantTable, before: Workload, index: int, capacity_bytes: int
) -> Iterator[Diagnostic]:
    """Data that fit, but not beside the data of ``before``, if both sizes are known."""
    sizes = [size for size in (before.data_bytes, member.load.data_bytes) if size is not None]
    if len(sizes) < 2 or any([*space_diagnostics("data", size, capacity_bytes, key="")] for size in sizes):
        return
    for diagnostic in space_diagnostics(
        "data of `before` and `load`", sum(sizes), capacity_bytes, key="load"
    ):
        yield Diagnostic(diagnostic.cause, remedy=diagnostic.remedy, key="load", within=("tenants", index))


def _load_diagnostics(
    load: Workload, capacity_bytes: int, path: tuple[str | int, ...]
) -> Iterator[Diagnostic]:
    """A load's diagnostics on a tenant's part, and keys that one tenant cannot have."""
    for name, field in Workload.model_fields.items():
        if name != "workload" and name in load.model_fields_set:
            key = field.alias or name
            yield Diagnostic(f"{key} is not a tenant's", remedy=_BESIDE, key=key, within=path)
    for diagnostic in load.diagnostics(capacity_bytes):
        yield Diagnostic(
            diagnostic.cause, remedy=diagnostic.remedy, key=diagnostic.key, within=(*path, *diagnostic.within)
        )
