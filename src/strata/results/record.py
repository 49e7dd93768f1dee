# SPDX-License-Identifier: Apache-2.0
"""The result record: what one trial measured, immutable and hashed.

docs/reference/result-format.md describes it for readers of the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

from strata.diagnostics.names import KebabName
from strata.errors import ResultError
from strata.model.metric import Metric
from strata.model.step import Phase
from strata.model.study_record import StudyRecord
from strata.model.trial import ANY_NAME, CellName, TrialKey
from strata.model.warning import Check
from strata.plan.model import Unnamed, canonical_json, sha256_hex
from strata.rules.untouched import Untouched

RESULT_VERSION: Final = 3

TimeDomain = Literal["virtual", "wall"]
"""Virtual: the lab's modelled time, a function of the specification. Wall: a real machine's clock."""

# The metrics that count a load's work in the measured window, with the noun for one unit of it.
COUNTS: Final = {"transactions": "transaction", "operations": "operation"}

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


def _finite(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    for metric in metrics:
        if not math.isfinite(metric.value):
            raise ValueError(f"{metric.name} is {metric.value}; a metric must be a finite number")
    return metrics


class Fingerprint(Frozen):
    """What carried the trial out. On a host the kernel and the image are the machine's own: null.

    Attributes:
        setting_sha256: Of other things that results depend on: the lab's command line; a host's name,
            kernel and disk.
    """

    kernel_sha256: Sha256 | None
    image_sha256: Sha256 | None
    agent_sha256: Sha256 | None
    setting_sha256: Sha256 | None = None


class Validity(Frozen):
    """Whether the numbers may be used, and every reason against it."""

    valid: bool
    reasons: tuple[str, ...] = ()


class SamplesSummary(Frozen):
    """The monitors' samples within the measured window.

    Attributes:
        count: Samples taken at the interval, without the samples at the ends of steps.
        available_bytes_min: Least memory available to programs; null without samples.
        cpu_ns: Processor time over the window by kind: ``user``, ``system``, ``idle``, ``iowait``.
    """

    count: int = 0
    dirty_bytes_max: int = 0
    writeback_bytes_max: int = 0
    cached_bytes_max: int = 0
    available_bytes_min: int | None = None
    cpu_ns: dict[str, int] = {}


class Versions(Frozen):
    strata: str
    kernel: str
    agent: str
    packages: dict[str, str] = {}


class Charges(Frozen):
    """Virtual time that the lab charges where the study's processor is free.

    All zero on a host, where time is not charged but passes.
    """

    syscall_ns: int = 0
    yield_ns: int = 0
    clock_read_ns: int = 0
    reclaim_ns: int = 0


class ProgramUse(Frozen):
    """The work of all tasks of a program; ``time_ns`` is its user time at the program's price."""

    system_calls: int
    page_faults: int
    time_ns: int


class ProcessorUse(Frozen):
    """The work of the lab's processors over the measured window.

    Attributes:
        name: The processor's file.
        processors: Their number.
        window_ns: The window's length.
        counts: What the kernel counted, by counter (``kernel/cpu/strata_cpu_counters.h``).
        time_ns: The time of each part, by the processor's prices; the parts add up.
        busy_ns: The time that the processors spent on work, all together.
        queued_ns: The time that work waited for a processor.
        drawn: The drawn prices of a plausible processor: of parameters, and a factor for ``programs.NAME``.
        unpriced: The programs without a price of their own, by name, with what they did at the default one.
    """

    name: str
    processors: int
    window_ns: int
    counts: dict[str, int]
    time_ns: dict[str, int]
    busy_ns: int
    queued_ns: int
    drawn: dict[str, float] = {}
    unpriced: dict[str, ProgramUse] = {}

    @property
    def unpriced_share(self) -> float:
        """The share of the processors' time that rests on the default price of programs."""
        return sum(each.time_ns for each in self.unpriced.values()) / (sum(self.time_ns.values()) or 1)

    @property
    def utilisation(self) -> float:
        """The busy share of the processors' time, from 0 to 1."""
        return self.busy_ns / (self.window_ns * self.processors) if self.window_ns else 0.0


class RealTime(Frozen):
    """The part of a record that differs between two runs of one lab trial; the hash leaves it out.

    Attributes:
        started_at: UTC, ISO 8601.
        duration_s: From the start of the runner to its end.
        virtual_per_real: Virtual seconds per real second; null in the wall domain.
        host: The machine's name for a reader, such as its processor.
    """

    started_at: str
    duration_s: float
    virtual_per_real: float | None = None
    host: str = ""


class TraceSummary(Frozen):
    """The trace of the disks' requests, ``trace.parquet``.

    Attributes:
        kept: The number of requests in it.
        left_out: The number that came when it was full.
        trace_sha256: Hash of the records as the driver wrote them.
        window: Of the study's disks in the measured window: requests by kind, and ``seeks``, requests that
            moved the head. Empty in a result that an older Strata wrote.
    """

    kept: int
    left_out: int
    trace_sha256: Sha256
    window: dict[str, int] = {}

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """An older record keeps its bytes, and so its hash."""
        plain: dict[str, Any] = handler(self)
        return plain if self.window else {name: each for name, each in plain.items() if name != "window"}


class Throughput(Frozen):
    """How much was done over the measured window.

    Attributes:
        source: The ``load``, by its own account, or all ``disks`` together, by the monitors' samples.
        unit: ``1/s`` (operations, transactions, requests of the disks) or ``B/s``.
        rates: One per whole interval, in order.
        tenant: Whose load; None: the trial's.
    """

    source: Literal["load", "disks"]
    unit: Literal["1/s", "B/s"]
    interval_ns: int
    rates: tuple[float, ...]
    tenant: str | None = None


class VolumeUse(Frozen):
    """The requests of one filesystem to one disk or partition over the measured window.

    Attributes:
        filesystem: The name of a further filesystem, or ``*``, the stack's; empty for requests to a disk that
            are of no partition.
        account: As of a disk; ``busy_ns`` is its share of the time in which the disk had requests.
    """

    filesystem: str
    disk: str
    account: dict[str, int]

    def named(self, stack: str) -> str:
        return {ANY_NAME: stack, "": "(none)"}.get(self.filesystem, self.filesystem)


class ResultRecord(Frozen):
    """One attempt's result.

    Attributes:
        trial: Unnamed in the file; `ResultsFolder` gives it the names of its study.
        spec_sha256: Hash of the plan with the devices' parameters.
        drives: The drawn parameters of the trial's plausible drives, by the model's name; empty for exact
            drives and on a host.
        histograms: The distributions behind the metrics, by the metrics' family: encoded HdrHistograms.
        phases_ns: The duration of each phase, without services in the background.
        disks: Per disk the change of its account over the measured window. Modelled disks give the
            ``TIME_PARTS``; real ones the block layer's statistics.
        volumes: The disks' accounts divided by filesystem and partition, of a stack that has several.
        filesystems: The requests of applications in that time, by filesystem, where the kernel counts them.
        machines: The same by the kernel of each virtual machine: its ``disk``, and by type its filesystems.
        processor: The lab's processors in that time; null on a host.
        events_sha256: Hash of events.jsonl in the lab; null on a host, where events hold wall time.
        prepared_sha256: Hash of prepared.jsonl, the events of the boot that prepared the disks; not there if
            it was the same boot.
    """

    result_version: Literal[3] = RESULT_VERSION
    trial: Unnamed
    spec_sha256: Sha256
    fingerprint: Fingerprint
    time_domain: TimeDomain
    runner: str
    validity: Validity
    metrics: Annotated[tuple[Metric, ...], AfterValidator(_finite)]
    drives: dict[str, dict[str, int | float]] = {}
    histograms: dict[str, str] = {}
    phases_ns: dict[Phase, int] = {}
    disks: dict[str, dict[str, int]] = {}
    volumes: dict[str, VolumeUse] = {}
    filesystems: dict[str, dict[str, int]] = {}
    machines: dict[str, dict[str, dict[str, int]]] = {}
    processor: ProcessorUse | None = None
    trace: TraceSummary | None = None
    checks: tuple[Check, ...] = ()
    throughput: tuple[Throughput, ...] = ()
    samples: SamplesSummary = SamplesSummary()
    versions: Versions
    charges: Charges
    events_sha256: Sha256 | None = None
    prepared_sha256: Sha256 | None = None
    real_time: RealTime

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A record without these fields has the bytes, and the hash, that it always had."""
        plain: dict[str, Any] = handler(self)
        absent = {name for name in ("volumes", "machines", "prepared_sha256") if not getattr(self, name)}
        return {name: each for name, each in plain.items() if name not in absent}

    def metric(self, name: str) -> Metric | None:
        return next((metric for metric in self.metrics if metric.name == name), None)

    def histogram(self, metric: Metric) -> str | None:
        """The distribution behind a quantile, if it was kept."""
        return None if metric.quantile is None else self.histograms.get(metric.family or "")

    def operations(self) -> Metric | None:
        """The metric that counts the load's work, one of ``COUNTS``."""
        found = (self.metric(name) for name in COUNTS)
        return next((metric for metric in found if metric is not None), None)

    def to_plain(self) -> dict[str, Any]:
        """The record as JSON types, its hash included: the content of result.json."""
        return {**self.model_dump(mode="json"), "record_sha256": record_sha256(self)}


def measured(metrics: Iterable[Metric]) -> dict[str, Any]:
    """The record's fields ``metrics`` and ``histograms``: a family's distribution is kept once."""
    each = tuple(metrics)
    return {
        "metrics": tuple(metric.model_copy(update={"histogram": None}) for metric in each),
        "histograms": {
            metric.family: metric.histogram
            for metric in each
            if metric.family is not None and metric.histogram is not None
        },
    }


def record_sha256(record: ResultRecord) -> str:
    """The hash that two runs of one lab trial share: all of the record but ``real_time``."""
    return sha256_hex(canonical_json(record.model_dump(mode="json", exclude={"real_time"})))


class _Named(Frozen):
    stack: KebabName
    workload: KebabName
    seed: Annotated[int, Field(ge=0)]
    rate: Annotated[int, Field(ge=1)] | None = None
    sha256: Sha256


def _by_key(value: object) -> object:
    """The trials of a file as a table by their keys."""
    if not isinstance(value, list):
        return value
    named = TypeAdapter(list[_Named]).validate_python(value)
    return {TrialKey(**each.model_dump(exclude={"sha256"})): each.sha256 for each in named}


def _as_list(found: dict[TrialKey, str]) -> list[dict[str, Any]]:
    stated = ((key._asdict().items(), sha256) for key, sha256 in found.items())
    return [
        {**{name: each for name, each in fields if each is not None}, "sha256": sha256}
        for fields, sha256 in stated
    ]


Trials = Annotated[
    dict[TrialKey, Sha256],
    BeforeValidator(_by_key),
    PlainSerializer(_as_list),
]
"""The identity of each trial: in a file a list of ``{stack, workload, seed, rate, sha256}``."""

STUDY_VERSION: Final = 3


class StudySnapshot(StudyRecord):
    """A study with the state of its results: the content of study.json.

    Attributes:
        trials: Every trial with its identity, by which the store has its record.
        skipped: The cells that cannot be run, with the reason.
        time_domain: A folder holds results of one domain; virtual and wall time are never pooled.
        seeds: The declared ones, and then all that were added.
        added_seeds: By workload, the seeds added for the precision that the study asks for.
        not_converged: The cells still less precise at the end of the run: the half-width of the 95 % interval
            of the log-ratio to the best stack; None without an interval.
        given_up: The cells whose further seeds are not run, with the failure that two trials had.
        text: The study file, from which the study can be read again.
        file: The study file's name, without its folder.
        command: The command of that run, without the machine's own settings.
        untouched: The structures in which the stacks differ and that the data touch too little, by cell.
    """

    study_version: Literal[3] = STUDY_VERSION
    added_seeds: dict[str, tuple[int, ...]] = Field(default={})
    not_converged: dict[CellName, float | None] = Field(default={})
    given_up: dict[CellName, str] = Field(default={})
    trials: Trials
    skipped: dict[CellName, str] = Field(default={})
    time_domain: TimeDomain
    runner: str
    text: str = Field(default="", repr=False)
    file: str = ""
    command: str = ""
    untouched: dict[CellName, tuple[Untouched, ...]] = Field(default={})

    def seeds_of(self, workload: str) -> tuple[int, ...]:
        """A workload's seeds, without seeds added for other workloads alone."""
        added = {seed for seeds in self.added_seeds.values() for seed in seeds}
        own = self.added_seeds.get(workload, ())
        return tuple(seed for seed in self.seeds if seed not in added or seed in own)

    @model_validator(mode="after")
    def _trials_are_of_the_study(self) -> Self:
        for named in (*(trial.cell for trial in self.trials), *self.skipped):
            if named.stack not in self.stacks or named.workload not in self.workloads:
                raise ValueError(f"{named} is of no stack and workload of the study")
        return self


def joined(one: StudySnapshot, two: StudySnapshot, places: tuple[object, object]) -> StudySnapshot:
    """The study with the trials and seeds of both. Raises ResultError if they are not of one study."""
    if (cause := _another(one, two, places[0])) is not None:
        remedy = "only results of one study are merged; give one of the two another name"
        raise ResultError(cause, place=str(places[1]), remedy=remedy)
    both, trials = (one, two), {**one.trials, **two.trials}
    run = {key.cell for key in trials}
    workloads = dict.fromkeys([*one.added_seeds, *two.added_seeds])
    return one.model_copy(
        update={
            "trials": trials,
            "seeds": _union(each.seeds for each in both),
            "added_seeds": {
                name: _union(each.added_seeds.get(name, ()) for each in both) for name in workloads
            },
            "skipped": {cell: why for each in both for cell, why in each.skipped.items() if cell not in run},
            "given_up": {**one.given_up, **two.given_up},
            "not_converged": {},  # it was judged by a part of the results
        }
    )


def _another(one: StudySnapshot, two: StudySnapshot, place: object) -> str | None:
    """Why the second is another study than the first, which is at the place."""
    if one.name != two.name:
        return f'it has the study "{two.name}", not "{one.name}" as {place}'
    if one.time_domain != two.time_domain:
        return f"it has results in {two.time_domain} time, {place} in {one.time_domain} time"
    if not (common := one.trials.keys() & two.trials.keys()):
        return f'it has another study called "{two.name}" than {place}: no trial in common'
    differing = sorted(str(key) for key in common if one.trials[key] != two.trials[key])
    if differing:
        return f'it has another study called "{two.name}" than {place}: {differing[0]} is another trial there'
    return None


def _union(several: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(seed for each in several for seed in each))
