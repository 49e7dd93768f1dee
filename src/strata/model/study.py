# SPDX-License-Identifier: Apache-2.0
"""A study: stacks x workloads x seeds, on devices. `strata.reading.load.load_study` reads one from a file.

The ``*Table`` models are the tables of the TOML file; the other classes are the result of all checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.devices.device import Device
from strata.devices.kind import ASKED
from strata.devices.plausible import plausible_drive, plausible_processor
from strata.devices.price import Price, PriceText
from strata.devices.processor import DEFAULT_PROCESSOR, Processor, find_processor
from strata.diagnostics.names import KebabName, checked, disk_of
from strata.errors import StudyError
from strata.model.asked import Requirements, UseName
from strata.model.describe import title
from strata.model.design import (
    SEED_MAX,
    SEEDS_DECLARED_MAX,
    SEEDS_MAX,
    Age,
    Drives,
    Order,
    Phases,
    Precision,
    Prepare,
    Seeds,
)
from strata.model.duties import HasServer
from strata.model.find import OpenLoop, find_of
from strata.model.inputs import InputFile
from strata.model.kernel import DEFAULT_KERNEL, DEFAULT_VERSION, Kernel
from strata.model.knobs import DEFAULT_QUEUE, QueueKnobs, Sysctl, shown
from strata.model.matrix import Matrix
from strata.model.packages import PackageLock
from strata.model.stack import Stack
from strata.model.step import BROUGHT, MEMORY_BYTES
from strata.model.study_record import DeviceRecord, ProcessorRecord, StudyRecord, WorkloadRecord
from strata.model.survival import Survival, Variant, lost_disk_variants
from strata.model.trial import CellKey, TrialKey
from strata.model.workload import Workload, loads_of
from strata.units import (
    MIB,
    NS_PER_MS,
    NS_PER_S,
    SECTOR_BYTES,
    Duration,
    MemorySize,
    Rate,
    Share,
    Size,
    describe_size,
    format_share,
    whole_mib,
)

MEMORY_BYTES_MIN: Final = 128 << 20
"""Linux and the agent take half of it; in 64 MiB most programs cannot start."""
IOPS_MAX: Final = 10**7  # as the parameter operation_rate of a network volume

RESERVED_NAMES: Final = frozenset({"mount", "mounts", "scratch", "stack", *BROUGHT})
"""The plan's other variables, whose names a device cannot have."""

_ASKED: Final = ("precondition",)
"""Parameters of a device that a study can set, and which then hold for a real disk too."""


Question = Annotated[
    StrictStr, checked(str.strip, "this text is empty", "state the study's question in one sentence")
]
LabMemory = Annotated[
    MemorySize,
    checked(
        lambda size: size >= MEMORY_BYTES_MIN and size % (1 << 20) == 0,
        lambda size: f"a lab cannot have {describe_size(size)} of memory",
        f"give it {describe_size(MEMORY_BYTES_MIN)} at least, in whole MiB",
    ),
]
_DataShare = Annotated[
    Share,
    checked(lambda share: 0 < share <= 1, "it is above 0 and at most 100 %", 'write for example "6.25%"'),
]
MachineRate = Annotated[
    Rate, checked(lambda rate: rate >= 1 << 20, "this is below 1MiB/s", "no machine has less: leave it out")
]
Period = Annotated[
    Duration, checked(lambda ns: ns >= NS_PER_MS, "this time is shorter than 1ms", "write a longer one")
]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class HeadTable(_Table):
    """``[study]``: the question, and the seeds."""

    name: KebabName = Field(examples=["quickstart"])
    """The study's name, in kebab case"""
    question: Question = Field(examples=["Which filesystem should hold a small PostgreSQL?"])
    """The question that the study answers; the report opens with it"""
    use: UseName | None = Field(None, examples=["home-server"])
    """The use that the disks are for (`strata list uses`): every view of the results begins with the
    stack to choose for it; default: each workload is answered by itself"""
    must: Requirements = Field((), examples=[["disk-loss"]])
    """What a stack must have to be chosen: durable, or probes of `strata capabilities`; a stack without it is
    ruled out, however fast"""
    seeds: Seeds = Field(examples=[[1, 2, 3]])
    """One trial of each stack and workload per seed; everything random derives from it. A number N stands for
    the seeds from 1 to N"""
    order: Order = Field("blocks", examples=["abba"])
    """The order of the stacks in each block (a workload with a seed). blocks: random; abba: random, and
    mirrored for every other seed; file: as declared"""
    reference: StrictStr | None = Field(None, examples=["ext4"])
    """The stack that reports compare with, unless they are asked otherwise; unless the order is that of the
    file, it comes first in the first block, so that ratios exist early; default: the first"""
    order_seed: Annotated[StrictInt, Field(ge=0, le=SEED_MAX)] = Field(1, examples=[2])
    """The seed of the random order, together with the study's name"""
    precision: Precision | None = Field(None, examples=["1.5%"])
    """Add seeds until the 95 % interval of every ratio reaches no further than this to either side, with six
    seeds at least, or until seeds_max is reached; default: only the declared seeds"""
    seeds_max: Annotated[StrictInt, Field(ge=1, le=SEEDS_DECLARED_MAX)] | None = Field(
        None, examples=[SEEDS_MAX]
    )
    """With a precision: how many seeds each workload may come to; default: 20"""
    drives: Drives = Field("plausible", examples=["exact"])
    """plausible: each seed draws its drives from the ranges of their estimates, and the prices of its
    processor, the same for all stacks, so that an interval is of the mean over plausible ones; exact: every
    seed has the values of the device's and the processor's file"""
    phases: Phases = Field("drawn", examples=["fixed"])
    """drawn: the load begins after a pause of up to 30 s, drawn from the seed, so that it meets the
    kernel's periodic work at any phase; fixed: at once"""
    prepare: Prepare = Field("each", examples=["once"])
    """each: every trial builds its stack and prepares its data itself; once: the lab does it once for all
    trials that begin alike, shuts the machine down, and each of them starts it again on a copy of the disks;
    aged: it builds and ages each stack once, and a trial prepares its data on a copy of the disks. Results do
    not depend on who made the disks; with once caches are cold"""
    age: Age | None = Field(None, examples=['{ fill = "50%", overwrites = 2 }'])
    """Age every filesystem before its workload's own preparation; default: they are new"""
    time_limit_ns: Period = Field(30 * 60 * NS_PER_S, alias="time_limit", examples=["30m"])
    """The time that one trial may take: virtual time in the lab, wall time on a host"""
    sample_interval_ns: Period = Field(NS_PER_S, alias="sample_interval", examples=["1s"])
    """How often disks, memory and CPU are sampled"""
    memory_bytes: LabMemory = Field(MEMORY_BYTES, alias="memory", examples=["2GiB"])
    """Memory of the lab's machine; a host has its own"""
    machine_memory_bytes: LabMemory | None = Field(None, alias="machine_memory", examples=["16GiB"])
    """Memory of the machine that the study is for: the commands that build a stack give its caches and guests
    the share of it that they have of the lab's; default: as in the lab"""
    data_share: _DataShare | None = Field(None, examples=["6.25%"])
    """The lab's data as a share of that machine's (`machine_memory`); default: `memory` as a share of its"""
    kernel: StrictStr = Field(DEFAULT_VERSION, examples=["7.2"])
    """The lab's kernel: a version of Linux, without its last number; or the path, relative to the study, of a
    git tree of Linux (with its uncommitted changes, or `PATH@REVISION`) or a tarball. A host has its own"""
    cpu: StrictStr = Field(DEFAULT_PROCESSOR, examples=["generic-desktop"])
    """The lab's processor: a bundled one (`strata list processors`), or the path of a file ending in .toml,
    relative to the study. `free` takes no time: results are of the disks alone. A host has its own"""
    cpus: Annotated[StrictInt, Field(ge=1, le=64)] | None = Field(None, examples=[4])
    """The number of the lab's processors; default: what the processor's file says, usually 1"""
    machine_iops: Annotated[StrictInt, Field(ge=1, le=IOPS_MAX)] | None = Field(None, examples=[20000])
    """The machine's own limit of operations per second on all its cloud volumes together; default: none"""
    machine_throughput_bytes_per_s: MachineRate | None = Field(
        None, alias="machine_throughput", examples=["500MB/s"]
    )
    """The machine's own limit of the data rate, likewise; default: none"""
    sysctl: Sysctl = Field(default_factory=Sysctl, examples=["{ vm = { dirty_ratio = 5 } }"])
    """Settings of the machine's kernel, restored afterwards on a host; default: the kernel's"""
    trace: StrictBool = Field(True, examples=[True])
    """Keep a trace of the modelled disks' requests, for `strata explain` and `strata trace`"""


class DeviceTable(_Table):
    """``[devices.NAME]``: one disk of the study."""

    model: StrictStr = Field(examples=["wd-re4-500gb"])
    """A bundled device (`strata list devices`), or the path of a device file ending in .toml, relative to the
    study"""
    capacity_bytes: Size | None = Field(None, alias="capacity", examples=["100GiB"])
    """Use only this much of the disk, from its first sector on, in whole physical sectors; of a provisioned
    cloud volume, its size; default: all of it, or the provider's size"""
    iops: Annotated[StrictInt, Field(ge=1, le=IOPS_MAX)] | None = Field(None, examples=[6000])
    """Of a provisioned cloud volume: its operations per second; default: the provider's"""
    throughput_bytes_per_s: Rate | None = Field(None, alias="throughput", examples=["250MB/s"])
    """Of a provisioned cloud volume: its data rate; default: the provider's"""
    precondition: Literal["fresh", "filled", "used", "steady"] | None = Field(None, examples=["steady"])
    """Of a flash drive at the start: nothing written, filled once in order, used for months and then idle, or
    overwritten at random until its speed no longer changes; default: what the device says, usually used"""
    write_cache: StrictBool = Field(True, examples=[False])
    """Whether its volatile write cache is on; without it every write is on the medium before it is
    acknowledged"""
    price: PriceText | None = Field(None, examples=["45 EUR"])
    """What the disk costs, in one currency for all disks of a study; for the cost of a usable terabyte"""
    queue: QueueKnobs = Field(default_factory=QueueKnobs, examples=['{ scheduler = "none" }'])
    """Settings of its queue in the kernel, restored afterwards on a host; default: the kernel's"""
    faults: list[Any] = Field([], examples=['[{ fault = "gone", at = "30s" }]'])
    """Its faults, and when they occur"""


MountPoint = Annotated[
    StrictStr,
    checked(
        lambda path: re.fullmatch(r"(/[a-z0-9][a-z0-9_-]*)+", path) is not None,
        lambda path: f'"{path[:60]}" is no mount point of a stack',
        'write for example "/srv", of lower-case letters, digits, - and _',
    ),
]


class FilesystemTable(_Table):
    """``[stacks.NAME.filesystems.NAME]``: a filesystem that is mounted beside the stack's own."""

    devices: list[StrictStr] | None = Field(None, examples=[["ssd.database"]])
    """The disks or partitions it stands on, by name; default: it is another dataset of the stack's pool"""
    layers: list[Any] = Field(examples=['[{ layer = "ext4" }]'])
    """The layers from these upwards; the last is a filesystem"""
    mount: MountPoint = Field(examples=["/srv"])
    """Its mount point, of its own in the stack; the trial mounts it in a folder of its own"""


class StackTable(_Table):
    """``[stacks.NAME]``: the layers between the disks and the workload."""

    devices: list[StrictStr] | None = Field(None, examples=[["disk0"]])
    """The disks or partitions it stands on, by name; default: all disks that no layer names by a key of its
    own, in the order of the file"""
    layers: list[Any] = Field(examples=['[{ layer = "ext4" }]'])
    """The layers from the disks upwards; none: the bare disk"""
    settings: dict[StrictStr, dict[StrictStr, StrictStr | StrictBool | StrictInt | StrictFloat]] = Field(
        {}, examples=["{ postgresql = { full_page_writes = false } }"]
    )
    """Settings of the workloads' database servers on this stack, by kind of server (`postgresql`, `mariadb`);
    they precede the workload's own"""
    filesystems: dict[KebabName, FilesystemTable] = Field(
        {},
        examples=[
            '{ database = { devices = ["ssd.database"], layers = [{ layer = "ext4" }], mount = "/srv" } }'
        ],
    )
    """Further filesystems, on which workloads are placed by name"""
    kernel: StrictStr | None = Field(None, examples=["7.2"])
    """The lab's kernel under this stack; default: the study's"""
    sysctl: Sysctl = Field(default_factory=Sysctl, examples=["{ vm = { dirty_ratio = 5 } }"])
    """Settings of the machine's kernel under this stack, which precede the study's; default: the study's"""
    each: list[Any] = Field([], examples=['[{ layer = "guest", memory = "256MiB" }, { layer = "xfs" }]'])
    """Further layers, which each tenant has of its own on its share of the others"""


@dataclass(frozen=True)
class StudyDevice:
    """One disk of a study: its name there, its model, and the capacity that is used."""

    name: str
    device: Device
    capacity_bytes: int
    sector_bytes: int = SECTOR_BYTES
    price: Price | None = None
    queue: QueueKnobs = DEFAULT_QUEUE

    def replaced_by(self, real: StudyDevice | None) -> StudyDevice:
        """A real disk in its place, with the study's settings of this one; itself for None."""
        if real is None:
            return self
        mine = self.device
        asked = {key: each for key, each in mine.parameters.items() if key in _ASKED and each.source == ASKED}
        parameters = {**real.device.parameters, **asked}
        device = replace(real.device, parameters=parameters, write_cache=mine.write_cache, faults=mine.faults)
        return replace(real, name=self.name, device=device, price=self.price, queue=self.queue)


def sectors_of(names: Iterable[str], devices: Mapping[str, StudyDevice]) -> int:
    """The largest sectors, in bytes, of the known disks and partitions of these names."""
    disks = map(disk_of, names)
    return max((devices[name].sector_bytes for name in disks if name in devices), default=SECTOR_BYTES)


@dataclass(frozen=True)
class Study:
    """A study that has been read and checked; `HeadTable` describes the keys of ``[study]``.

    Attributes:
        devices: By name, in the order of the file; so are stacks and workloads.
        time_limit_ns: The limit of one trial, in the runner's time domain.
        inputs: The users' archives that its workloads read, by their names in the study.
        packages: The locked versions of the packages that it adds to the lab's image.
        reference: The stack that opens the first block, and that reports compare with.
        precision: The half-width of a ratio's interval at which no more seeds are added, as a fraction of 1.
        added_seeds: The seeds that a run has added for precision, by workload.
        probes: The rates that a run has tried, of each search in their order.
        matrix: The factors of which its stacks and workloads are combinations.
        survival: The failures that it tries beside its trials.
        own: The fields that differ for a stack, by its name, as `of` has them.
        scale: The share of the declared time and data that its workloads have; above 1: at full size.
        text: The text of its file, from which it can be read again; empty of a study that a program made.
    """

    name: str
    question: str
    seeds: tuple[int, ...]
    time_limit_ns: int
    sample_interval_ns: int
    devices: Mapping[str, StudyDevice]
    stacks: Mapping[str, Stack]
    workloads: Mapping[str, Workload]
    file: Path
    use: UseName | None = None
    must: Requirements = ()
    trace: bool = True
    memory_bytes: int = MEMORY_BYTES
    machine_memory_bytes: int | None = None
    data_share: float | None = None
    kernel: Kernel = DEFAULT_KERNEL
    processor: Processor = field(default_factory=lambda: find_processor(DEFAULT_PROCESSOR))
    inputs: Mapping[str, InputFile] = field(default_factory=dict)
    packages: PackageLock = field(default_factory=PackageLock)
    order: Order = "blocks"
    order_seed: int = 1
    reference: str | None = None
    precision: float | None = None
    seeds_max: int = SEEDS_MAX
    drives: Drives = "plausible"
    phases: Phases = "drawn"
    prepare: Prepare = "each"
    age: Age | None = None
    added_seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    probes: Mapping[TrialKey, tuple[int, ...]] = field(default_factory=dict)
    matrix: Matrix = field(default_factory=Matrix)
    survival: Survival | None = None
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scale: float = 1.0
    text: str = field(default="", repr=False, compare=False)
    is_on_host: bool = False
    _of: dict[str, Study] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What `strata.plan.compile.skipped` found, once it did; a changed copy of the study begins anew.
    left_out: list[dict[CellKey, str]] = field(default_factory=list, init=False, repr=False, compare=False)
    # Drawn once for each seed; likewise.
    _processors: dict[int, Processor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, stack: str) -> Study:
        """The study as it is for the trials of one stack, to which factors can give a machine of its own."""
        if stack not in self.own:
            return self
        if stack not in self._of:
            self._of[stack] = replace(self, **self.own[stack], own={})
        return self._of[stack]

    @property
    def machine_ratio(self) -> float:
        """The memory of the machine that it is for over the lab's."""
        return (self.machine_memory_bytes or self.memory_bytes) / self.memory_bytes

    @property
    def data_ratio(self) -> float:
        """The data of that machine over those of the workloads."""
        return self.machine_ratio if self.data_share is None else 1 / self.data_share

    def on_host(self) -> Study:
        """The study as its stacks are built on a host."""
        stacks = {name: stack.on_host() for name, stack in self.stacks.items()}
        return replace(self, stacks=stacks, is_on_host=True)

    @property
    def memory_bytes_max(self) -> int:
        """The memory of its largest lab."""
        return max([self.memory_bytes, *(self.of(stack).memory_bytes for stack in self.own)])

    @property
    def trial_count(self) -> int:
        return len(self.stacks) * sum(len(self.seeds_of(workload)) for workload in self.workloads)

    def load(self, stack: str, workload: str, rate: int | None = None) -> Workload:
        """A workload with the stack's settings, and with a ``rate`` as a probe of its search."""
        load = self.workloads[workload].with_settings(self.stacks[stack].settings)
        return load if rate is None else load.model_copy(update={"rate_per_s": rate, "find": None})

    def trial_keys(self, stack: str, workload: str, seed: int) -> list[TrialKey]:
        """The trials of a cell with a seed: one, or the probes of its search so far."""
        key, load = TrialKey(stack, workload, seed), self.workloads[workload]
        if find_of(load) is None:
            return [key]
        return [key._replace(rate=rate) for rate in self.probe_rates(key)]

    def probe_rates(self, search: TrialKey) -> tuple[int, ...]:
        """The rates of a search so far. The other seeds begin near what the first one finds."""
        load = self.workloads[search.workload]
        begun = load.rate_per_s if isinstance(load, OpenLoop) and search.seed == self.seeds[0] else None
        return self.probes.get(search, () if begun is None else (int(begun),))

    def power_risks(self, stack: str, workload: str) -> list[str]:
        """The settings by which a power failure takes what was acknowledged as durable, by their places."""
        found = self.stacks[stack]
        disks = (
            (used.name, fault.power_risk())
            for used in self.stack_devices(stack)
            for fault in used.device.faults
        )
        queues = ((used.name, used.queue.power_risk()) for used in self.stack_devices(stack))
        servers = (
            each.power_risks(whole_blocks=found.at(each.place).writes_whole_blocks)
            for each in loads_of(self.load(stack, workload))
            if isinstance(each, HasServer)
        )
        return list(
            dict.fromkeys(
                [
                    *(f"{name}: {risk}" for name, risk in (*disks, *queues) if risk is not None),
                    *(f"{each.layer}: {risk}" for each in found.every_layer for risk in each.power_risks()),
                    *(risk for of_one in servers for risk in of_one),
                ]
            )
        )

    def seeds_of(self, workload: str) -> tuple[int, ...]:
        return (*self.seeds, *self.added_seeds.get(workload, ()))

    def stack_devices(self, stack: str) -> Iterator[StudyDevice]:
        """The devices of a stack in its order, then the devices that its layers name."""
        return (self.devices[name] for name in self.stacks[stack].all_devices)

    def knobs(self, stack: str) -> tuple[Sysctl, Mapping[str, QueueKnobs]]:
        """The settings of a stack's kernel, and of its disks' queues by name."""
        return self.stacks[stack].sysctl, {used.name: used.queue for used in self.stack_devices(stack)}

    def drawn_devices(self, stack: str, seed: int) -> dict[str, Device]:
        """The devices of a stack by name, as the trials of this seed have them."""
        found = {used.name: used.device for used in self.stack_devices(stack)}
        if self.drives == "exact":
            return found
        return {name: plausible_drive(device, seed) for name, device in found.items()}

    def drawn_processor(self, seed: int) -> Processor:
        """The processor as the trials of this seed have it."""
        if self.drives == "exact":
            return self.processor
        if seed not in self._processors:
            self._processors[seed] = plausible_processor(self.processor, seed)
        return self._processors[seed]

    @property
    def capacities_bytes(self) -> Mapping[str, int]:
        return {name: used.capacity_bytes for name, used in self.devices.items()}

    def _own_kernels(self) -> dict[str, str]:
        return {name: self.of(name).kernel.name for name in self.own if self.of(name).kernel != self.kernel}

    def describe(self) -> StudyRecord:
        """The study without the place it was read from: for ``study.json`` and the report."""
        return StudyRecord(
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            seeds_max=None if self.precision is None else self.seeds_max,
            kernel=self.kernel.name,
            kernels=self._own_kernels(),
            processor=ProcessorRecord(
                model=self.processor.name, parameters=self.processor.identity()["parameters"]
            ),
            devices={
                name: DeviceRecord(
                    model=used.device.name,
                    title=used.device.title,
                    capacity_bytes=used.capacity_bytes,
                    queue=used.queue.stated(),
                    **used.device.identity(),
                )
                for name, used in self.devices.items()
            },
            stacks={
                name: stack.describe().model_copy(update={"title": self.stack_title(stack)})
                for name, stack in self.stacks.items()
            },
            workloads={
                name: _described(load, lost_disk_variants(load, self.workloads))
                for name, load in self.workloads.items()
            },
        )

    def _settings(self, stack: Stack) -> list[str]:
        """The settings of a stack's servers, kernel and queues, each once."""
        queues = [used.queue.stated() for used in self.stack_devices(stack.name)]
        tables = (*stack.settings.values(), stack.sysctl.vm.stated(), *queues)
        given = (f"{name} = {shown(value, name)}" for each in tables for name, value in each.items())
        return [*dict.fromkeys(given)]

    def stack_title(self, stack: Stack) -> str:
        """A stack in one line: its layers with their declared keys, and its devices' models."""
        layers = " / ".join(title(layer.layer, layer) for layer in stack.common) or "bare"
        if stack.each:
            own = " / ".join(title(layer.layer, layer) for layer in stack.each)
            layers += f" / for each tenant ({own})"
        for name, part in stack.filesystems.items():
            own = " / ".join(title(layer.layer, layer) for layer in part.layers if not layer.beside)
            layers += f" / beside it {name} on {', '.join(part.devices)} ({own})"
        if not (kernel := self.of(stack.name).kernel).is_default:
            layers += f" under {kernel}"
        given = self._settings(stack)
        layers += f" ({', '.join(given)})" if given else ""
        models = dict.fromkeys(self.devices[disk_of(name)].device.name for name in stack.devices)
        count = f"{len(stack.devices)} x " if len(stack.devices) > 1 else ""
        return f"{layers} on {count}{', '.join(models)}"


_AS_THEY_ARE: Final = (
    *("name", "question", "use", "must", "seeds", "order", "order_seed", "reference", "precision", "drives"),
    *("phases", "prepare", "age", "time_limit_ns", "sample_interval_ns", "memory_bytes", "scale", "matrix"),
    "survival",
)
"""The fields of a study that its record has with the same name and value."""


def _described(load: Workload, variants: dict[Variant, str]) -> WorkloadRecord:
    return WorkloadRecord(
        workload=load.workload,
        title=title(load.workload, load),
        rationale=load.rationale,
        find=find_of(load),
        loses_disk=load.loses_disk,
        variants=variants,
        window_ns=load.window_ns,
        keys=load.model_dump(mode="json"),
    )


FULL: Final = 2.0
"""The scale of a study at full size: anything above 1."""
_SCALED_MEMORY_BYTES_MIN: Final = 512 << 20
"""The least memory of a scaled study, for servers and their caches, which are not scaled."""


def scaled(study: Study, share: float, *, with_memory: bool = True) -> Study:
    """The study with another name, as its results are others.

    Where data that did not fit into memory would fit, memory is scaled, too, with the layers' parts of it.
    """
    if share >= 1:
        return study if share == 1 else _at_full_size(study)
    number = f"{share * 100:g}".replace(".", "-")
    workloads = {name: load.scaled(share) for name, load in study.workloads.items()}
    part = replace(study, name=f"{study.name}-scale-{number}", workloads=workloads, scale=share)
    has_own = any("memory_bytes" in own for own in study.own.values())
    least_bytes = min(study.memory_bytes, _SCALED_MEMORY_BYTES_MIN)
    memory_bytes = max(whole_mib(study.memory_bytes * share + MIB - 1), least_bytes)
    if not with_memory or has_own or not unlike(study, share, study.memory_bytes):
        return part
    ratio = memory_bytes / study.memory_bytes
    stacks = {name: stack.with_memory(ratio) for name, stack in study.stacks.items()}
    return replace(part, memory_bytes=memory_bytes, stacks=stacks)


def _at_full_size(study: Study) -> Study:
    """The study with the sizes of the machine that it is for. Raises StudyError if that is not stated."""
    if study.machine_memory_bytes is None:
        remedy = "write your machine's memory as machine_memory under [study]"
        raise StudyError("nothing is scaled down in this study", place="--full", remedy=remedy)
    ratio, times = study.machine_ratio, study.data_ratio
    devices = {
        name: replace(
            used, capacity_bytes=min(used.device.capacity_bytes, whole_mib(used.capacity_bytes * times))
        )
        for name, used in study.devices.items()
    }
    return replace(
        study,
        name=f"{study.name}-full",
        memory_bytes=study.machine_memory_bytes,
        devices=devices,
        stacks={name: stack.with_memory(ratio) for name, stack in study.stacks.items()},
        workloads={name: load.enlarged(times) for name, load in study.workloads.items()},
        scale=FULL,
    )


def unlike(full: Study, share: float, memory_bytes: int) -> dict[str, str]:
    """The workloads of a full study that say something else in this share of its data, with the reason.

    ``memory_bytes``: the memory of the study in that share.
    """
    found = {}
    for name, load in full.workloads.items():
        if memory_bytes < full.memory_bytes and load.scaled(share) == load:
            found[name] = f"at a scale of {format_share(share)} it has less memory, and as much to do"
        whole, part = load.data_bytes, load.scaled(share).data_bytes
        if whole is None or part is None:
            continue
        if (fits := part <= memory_bytes) != (whole <= full.memory_bytes):
            change = "its data fit into memory" if fits else "its data no longer fit into memory"
            found[name] = f"at a scale of {format_share(share)} {change}"
    return found


def reduced(full: Study, share: float) -> dict[str, float]:
    """The workloads of a full study that have less to do in this share of it, with the share that they do."""
    if share == 1:
        return {}
    return {name: load.left(share) for name, load in full.workloads.items() if load.scaled(share) != load}
