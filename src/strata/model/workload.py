# SPDX-License-Identifier: Apache-2.0
"""Workloads: phases of steps on a stack, and the metrics they yield: a file each in `strata.workloads`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool

from strata.diagnostics.names import Diagnostic, KebabName, checked
from strata.errors import RunError
from strata.model.allowed import Allowing
from strata.model.io_limit import IoLimits
from strata.model.layer import Interface, Placed
from strata.model.metric import Metric, MetricSpec
from strata.model.step import LOAD_USER, MEMORY_BYTES, Phase, Step, Window
from strata.model.warning import Check
from strata.seeds import derive_seed
from strata.units import NS_PER_MS, NS_PER_S, SECTOR_BYTES, Duration
from strata.words import beginning_and_end

T = TypeVar("T")

InputKind = Literal["archive", "trace", "file", "calls", "image"]
"""The forms in which a workload reads a file."""
Intervention = Literal["snapshot", "lose-disk", "rebuild"]
"""Interventions between preparing and measuring."""


def _check_interventions(interventions: list[Intervention]) -> list[Intervention]:
    twice = next((each for each in interventions if interventions.count(each) > 1), None)
    if twice is not None:
        raise Diagnostic(f'"{twice}" stands here twice', remedy="a stack can undergo it only once")
    if "rebuild" in interventions and "lose-disk" not in interventions[: interventions.index("rebuild")]:
        remedy = 'write before_measure = ["lose-disk", "rebuild"]'
        raise Diagnostic("there is nothing to rebuild before a disk is lost", remedy=remedy)
    return interventions


Interventions = Annotated[list[Intervention], AfterValidator(_check_interventions)]
Interval = Annotated[
    Duration,
    checked(lambda ns: ns >= NS_PER_MS, "the interval must be 1ms at least", 'write for example "10s"'),
]


@dataclass(frozen=True)
class WorkloadContext:
    """The context in which a workload becomes steps; paths have ``${variable}``s.

    Attributes:
        window: A name for the files (logs) of one of several measured windows: a tenant runs ``alone`` before
            all run together.
    """

    name: str  # the kind's, and the tenant's: everything random derives from it
    seed: int  # the trial's, from which everything random is derived by name
    target: str = "${mount}"  # a folder of a mounted filesystem, or a block device
    target_kind: Interface = "filesystem"
    scratch_path: str = "${scratch}"  # a private folder that is not on the measured stack
    window: Window = ""
    places: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The mount points of the stack's further filesystems, by name."""
    memory_bytes: int = MEMORY_BYTES  # a lab's, or a tenant's
    restarts: bool = False  # before the load the machine starts anew, with an empty scratch folder
    is_read_alike: bool = False  # a disk, of which a read costs the same whether or not something was written
    is_cut: bool = False  # the power will be cut: the load keeps count of what is acknowledged to it
    layers: tuple[Placed, ...] = ()  # below it, from the lowest on, for a workload that acts on layers itself

    @property
    def kept_path(self) -> str:
        """The folder for the files of preparing that the measured window needs."""
        return self.mount_path if self.restarts else self.scratch_path

    @property
    def mount_path(self) -> str:
        assert self.target_kind == "filesystem"
        return self.target

    def step(self, step_id: str, phase: Phase, title: str, argv: Iterable[str], **fields: Any) -> Step:
        """A step that the loads' user runs in the private folder; ``fields`` are further ones of `Step`."""
        chosen = {"cwd": self.scratch_path, "user": LOAD_USER, **fields}
        return Step(id=step_id, phase=phase, title=title, argv=tuple(argv), **chosen)

    def derived_seed(self, purpose: str) -> int:
        """A number of 31 bits, the same on every stack, so that like is compared with like."""
        # A tenant's second window takes other blocks than the first, so it does not meet its own caches.
        window = [self.window] if self.window else []
        return derive_seed(self.seed, self.name, *window, purpose) >> (64 - 31)


@dataclass(frozen=True)
class StepOutput:
    """The output of a step in the events; its times are in the runner's time domain."""

    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, str] = field(default_factory=dict)  # the collected texts, by their names in the plan
    started_ns: int = 0
    duration_ns: int = 0
    undo_ns: int = 0  # of its undo, within the plan or at teardown
    exit_code: int | None = 0
    left_running: tuple[str, ...] = ()  # the processes that its program left, which the agent has killed

    def took(self, name: str, phase: Phase) -> Metric:
        return Metric(name=name, value=float(self.duration_ns), unit="ns", better="lower", phase=phase)


@dataclass(frozen=True)
class Outputs:
    """The outputs of a trial's steps, by id; and those of each tenant's windows, by the ids in its load."""

    steps: Mapping[str, StepOutput]
    tenants: Mapping[tuple[str, Window], Mapping[str, StepOutput]] = field(default_factory=dict)
    _known: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, key: object, read: Callable[[], T]) -> T:
        """The result of ``read``, which is called once for each key."""
        if key not in self._known:
            self._known[key] = read()
        found: T = self._known[key]
        return found

    def within(self, tenant: str, window: Window = "") -> Outputs:
        """The outputs of a tenant's window."""
        place = (tenant, window)
        return self.once(place, lambda: Outputs(self.tenants.get(place, {})))

    def step(self, step_id: str) -> StepOutput:
        """The output of one step; a `RunError` if it did not run."""
        try:
            return self.steps[step_id]
        except KeyError:
            cause, remedy = (
                f'the events hold no step "{step_id}"',
                "the trial ended before it; rerun the trial",
            )
            raise RunError(cause, place=f"step {step_id}", remedy=remedy) from None

    def file(self, step_id: str, name: str) -> str:
        files = self.step(step_id).files
        if name not in files:
            remedy = "its collected path matched nothing; see the step's output with `strata show`"
            raise RunError(f'the step left no file "{name}"', place=f"step {step_id}", remedy=remedy)
        return files[name]


def unreadable(step_id: str, cause: str, text: str) -> RunError:
    """The error for output that does not have the expected form, with the beginning and end of ``text``."""
    shown = beginning_and_end(text, 1000, "\n    ") or "(it is empty)"
    return RunError(cause, place=f"step {step_id}", remedy=f"its output:\n    {shown}")


@dataclass(frozen=True)
class Tenant:
    """One of several workloads that run at the same time, each on its own part of the stack."""

    load: Workload
    memory_bytes: int | None = None  # the limit of its programs and its page cache, if it has one of its own
    before: Workload | None = None  # beside those of the others: an installation
    alone: Workload | None = None  # a run by itself, to see the cost of the others
    io: IoLimits | None = None  # the limits of its requests to the disks, if it has some of its own
    cpus: int | None = None  # the processors that its programs may use, if it has a limit of its own


class Workload(BaseModel, Allowing, ABC):
    """One workload of a study, as it is declared in a study file.

    A subclass declares its keys as fields, its name as ``workload: Literal["fio"] = "fio"``, and:

    Attributes:
        rationale: A paragraph: the use it stands for, its stress, its omissions.
        tools: The programs that its steps run, by name; the host runner looks for them.
        runs_on: The kinds of target.
        needs_layers: It takes down and brings up layers, and so cannot be a tenant.
        is_compound: It consists of others, as `nested` and `tenants` say.
        input_kind: What its `inputs` are.
        spans_window: Its warm-up and its measured window are one process, whose sessions are warm when the
            window begins. All its steps of phases warmup, measure and inspect then make a window.
        metrics_version: Raised whenever `metrics` yields something else from the same outputs. It is part of
            a trial's specification, so that results of an earlier version are measured anew.
        check_questions: The question of each of its own `checks`, by name; tests compare both.
        metric_specs: The declaration of `metrics`, for `strata list workloads`; tests compare both.
        amounts: The fields, beside its windows, that say how much it does, each with the unit to which it is
            rounded when a study is scaled.
        amounts_kept: Likewise, but `--scale` leaves them as they are; at full size they are not.
        example: The optional keys that its example shows beside the required ones, by their names in a file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

    rationale: ClassVar[str]
    tools: ClassVar[tuple[str, ...]] = ()
    runs_on: ClassVar[tuple[Interface, ...]] = ("filesystem",)
    needs_layers: ClassVar[bool] = False
    is_compound: ClassVar[bool] = False
    input_kind: ClassVar[InputKind] = "archive"
    spans_window: ClassVar[bool] = False
    metrics_version: ClassVar[int] = 1
    check_questions: ClassVar[Mapping[str, str]] = {}
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = ()
    amounts: ClassVar[Mapping[str, int]] = {}
    amounts_kept: ClassVar[Mapping[str, int]] = {}
    example: ClassVar[tuple[str, ...]] = ()
    hints: ClassVar[dict[str, str]] = {
        "until": "leave it out: its window cannot end early; those of `fio`, `load`, `pgbench` and "
        "`sysbench-oltp` can"
    }

    workload: str
    place: KebabName | None = Field(None, examples=["files"])
    """The filesystem of the stack that it runs on, by its name in `filesystems`; default, and on a stack
    without one of that name: the one that `layers` end in"""
    before_measure: Interventions = Field([], examples=[["snapshot"]])
    """What happens to the stack between preparing and measuring, in this order: `snapshot` takes one of the
    uppermost layer that can, and drops it after the measured window; `lose-disk` lets the last disk fail (in
    the lab); `rebuild` begins to restore the redundancy onto a spare"""

    scrub: StrictBool = Field(False, examples=[True])
    """At the end let every layer that can scrub itself do so, from the top down (MD and dm-raid compare
    copies, btrfs and ZFS checksums); errors make the result invalid. btrfs also counts those of a lost disk:
    after `lose-disk` its results are always invalid"""

    snapshot_every_ns: Interval | None = Field(None, alias="snapshot_every", examples=["10s"])
    """During the measured window take a snapshot of the uppermost layer that can at this interval, none at
    its ends: 10s takes five in a window of 60 s. The window must have a given length. Default: none"""
    fragmentation: StrictBool = Field(False, examples=[True])
    """Before and after the measured window count the extents of the files of every filesystem of the stack
    (an image lies in one, too), and the pieces of free space"""
    linear_read: StrictBool = Field(False, examples=[True])
    """Before and after the measured window read all files of the workload from beginning to end, with cold
    caches, to see what fragmentation costs; the window then begins with cold caches, too"""

    @abstractmethod
    def steps(self, context: WorkloadContext) -> list[Step]:
        """The steps, in the order of their phases: prepare, warmup, measure, inspect."""

    @abstractmethod
    def metrics(self, outputs: Outputs) -> list[Metric]:
        """The metrics of the steps' outputs; a `RunError` if one is missing or of another form."""

    @property
    def duration_ns_min(self) -> int:
        """The time that the warm-up and the measured window take at least; 0: they end when work is done."""
        # Warm-up and duration are keys of the workloads that have them, with these names in all of them.
        return sum(getattr(self, key, None) or 0 for key in ("warmup_ns", "duration_ns"))

    @property
    def window_ns(self) -> int:
        """The time that its measured window takes at least; 0: it ends when its work is done."""
        return self.duration_ns_min - (getattr(self, "warmup_ns", None) or 0)

    @property
    def data_bytes(self) -> int | None:
        return None

    @property
    def streamed_bytes(self) -> int:
        """What is written and read from beginning to end outside a window: usually its data, once."""
        return self.data_bytes or 0

    @property
    def places_beside(self) -> Collection[str]:
        """Where else it runs at once: other filesystems of the stack, or devices of one without layers."""
        return ()

    @property
    def loses_disk(self) -> bool:
        return "lose-disk" in self.before_measure

    @property
    def bypasses_page_cache(self) -> bool:
        return False

    @property
    def write_bytes_min(self) -> int | None:
        """The size of its smallest write, as far as it is known; None: it writes nothing."""
        return SECTOR_BYTES

    def remarks(self, on: Interface) -> Iterable[str]:
        """What `strata check` says of it on such a target, as clauses: how it reads unclear keys."""
        return ()

    @property
    def is_paced(self) -> bool:
        """Whether a rate or think time, which the study chose, limits it."""
        return False

    @property
    def is_open_loop(self) -> bool:
        """Whether the study chose its rate, so that its latency is its answer."""
        return getattr(self, "rate_per_s", None) is not None

    def with_settings(self, settings: Mapping[str, Mapping[str, Any]]) -> Workload:
        """The workload on a stack that has these settings, by kind of database server."""
        return self

    @property
    def needs_permission(self) -> bool:
        """Whether it can run programs that the study brings, which a host has to allow."""
        return False

    def inputs(self) -> Mapping[str, str]:
        """The files of ``${input-NAME}`` by name: relative to the study, or ``strata:`` and a name."""
        return {}

    @classmethod
    def nested(cls, table: Mapping[str, Any]) -> Iterable[tuple[str | int, ...]]:
        """The keys that lead to the tables of other workloads in the table of this one, sound or not."""
        return ()

    @classmethod
    def with_texts(cls, table: dict[str, Any], read: Callable[..., str]) -> None:
        """Put the texts of files that a table names into it; ``read`` takes the key and the file's name.

        With ``whole=False`` it reads the beginning of a file of any size and content.
        """

    @property
    def features(self) -> tuple[str, ...]:
        """What its steps need of a machine beside programs, as `Prerequisites.features`."""
        return ()

    def tenants(self) -> Mapping[str, Tenant]:
        """The workloads that it consists of, by the tenants' names; none when it is alone."""
        return {}

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        """Checks of its numbers, in addition to the checks of every workload."""
        return ()

    def scaled(self, share: float) -> Self:
        """The load with a share of its time and data, in whole units and one of each at least."""
        units = {**dict.fromkeys(("warmup_ns", "duration_ns", "alone_ns"), NS_PER_S), **self.amounts}
        given = {name: (getattr(self, name, None) or 0, unit) for name, unit in units.items()}
        update = {
            name: min(value, max(unit, round(value * share / unit) * unit))
            for name, (value, unit) in given.items()
            if value  # no window of a given length; a part that is left out
        }
        return self.model_copy(update=update)

    def enlarged(self, times: float) -> Self:
        """The load with this many times its data, in the same time."""
        units = {**self.amounts, **self.amounts_kept}
        given = {name: getattr(self, name, None) or 0 for name in units}
        update = {name: round(value * times / units[name]) * units[name] for name, value in given.items()}
        return self.model_copy(update={name: value for name, value in update.items() if value})

    def left(self, share: float) -> float:
        """What `scaled` leaves of the amount that shrinks least: few intervals are rounded to whole ones."""
        scaled = self.scaled(share)
        pairs = ((getattr(self, name), getattr(scaled, name)) for name in self.amounts)
        shares = [less / whole for whole, less in pairs if whole and less < whole]
        return float(f"{max(shares, default=share):.3g}")

    def unprepared(self) -> str | None:
        """Why the machine cannot start anew between preparing and measuring, as a sentence.

        Services are started again, and steps with ``again`` repeated; all else must be on the stack.
        """
        return "it takes down layers itself" if self.needs_layers else None

    def unsuited(self, layers: Sequence[Placed]) -> str | None:
        """Why it cannot run on these layers, as a sentence; its trials on them are then skipped."""
        return None

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        """Diagnostics of the workload on a stack of at most ``capacity_bytes``."""
        return ()

    def input_diagnostics(
        self, sizes_bytes: Mapping[str, Mapping[str, int]], capacity_bytes: int
    ) -> Iterable[Diagnostic]:
        """Diagnostics by the content of each user's file in `inputs`: `InputFile.sizes_bytes`, by name."""
        return ()


def loads_of(load: Workload) -> list[Workload]:
    """The workloads that one consists of, itself first."""
    parts = [part for tenant in load.tenants().values() for part in (tenant.load, tenant.before) if part]
    return [load, *parts]
