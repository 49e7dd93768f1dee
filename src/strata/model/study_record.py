# SPDX-License-Identifier: Apache-2.0
"""A study as its results keep it: every key with its default, and the parameters of its devices.

`Study.describe` makes it. Tables, reports and advice need no file beside it.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from strata.model.asked import Requirement, UseName
from strata.model.design import Age, Drives, Order, Phases, Prepare
from strata.model.find import Find
from strata.model.kernel import DEFAULT_VERSION
from strata.model.matrix import Matrix
from strata.model.step import MEMORY_BYTES
from strata.model.survival import Survival, Variant


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProcessorRecord(_Kept):
    """The lab's processor, with its prices by the names of a processor's file."""

    model: str = ""
    parameters: dict[str, float] = {}

    @property
    def is_free(self) -> bool:
        return not any(price for name, price in self.parameters.items() if name != "processors")


class DeviceRecord(_Kept):
    """A disk: its model, and every parameter as the study has it; of a controller also those of a member."""

    model: str
    title: str = ""
    capacity_bytes: int
    kind: str = ""
    parameters: dict[str, Any] = {}
    write_cache: bool = True
    machine: dict[str, Any] | None = None
    faults: tuple[dict[str, Any], ...] = ()
    queue: dict[str, Any] = Field({}, exclude_if=lambda stated: not stated)


class LayerRecord(_Kept):
    """A layer with all its keys; ``stated`` has those that differ from their defaults, as text for people."""

    layer: str
    stated: dict[str, str] = {}
    keys: dict[str, Any] = {}


class StackRecord(_Kept):
    """A stack; ``title`` has it in one line. ``shared`` layers, from the lowest on, are all tenants'."""

    title: str = ""
    devices: tuple[str, ...] = ()
    layers: tuple[LayerRecord, ...] = ()
    shared: int | None = None
    settings: dict[str, dict[str, Any]] = {}
    filesystems: dict[str, StackRecord] = {}
    mount: str = ""
    sysctl: dict[str, int] = Field({}, exclude_if=lambda stated: not stated)


class WorkloadRecord(_Kept):
    """A workload of a kind; ``keys`` has all its keys, ``rationale`` a paragraph on the use behind it.

    ``variants`` are the workloads that are this one with a disk lost.
    """

    workload: str = ""
    title: str = ""
    rationale: str = ""
    find: Find | None = None
    loses_disk: bool = False
    variants: dict[Variant, str] = {}
    window_ns: int | None = None
    keys: dict[str, Any] = {}


class StudyRecord(_Kept):
    """A study as it was read.

    Attributes:
        use: The use that the disks are for; None: the study names none.
        must: What a stack must have, as in `strata.model.asked`.
        stacks: In the study's order, as are the workloads.
        kernels: The kernels of the stacks that have one of their own.
        scale: The share of the declared time and data that the workloads have.
    """

    name: str
    question: str
    use: UseName | None = None
    must: tuple[Requirement, ...] = ()
    seeds: tuple[int, ...]
    order: Order = "blocks"
    order_seed: int = 1
    reference: str | None = None
    precision: float | None = None
    seeds_max: int | None = None
    drives: Drives = "plausible"
    phases: Phases = "drawn"
    prepare: Prepare = "each"
    age: Age | None = None
    time_limit_ns: int = 0
    sample_interval_ns: int = 0
    memory_bytes: int = MEMORY_BYTES
    kernel: str = DEFAULT_VERSION
    kernels: dict[str, str] = {}
    scale: float = Field(1.0, gt=0)
    processor: ProcessorRecord = ProcessorRecord()
    devices: dict[str, DeviceRecord] = {}
    stacks: dict[str, StackRecord]
    workloads: dict[str, WorkloadRecord]
    matrix: Matrix = Matrix()
    survival: Survival | None = None

    def options(self) -> dict[str, Any]:
        """Every key as JSON, without titles and keys that the study leaves out: to show and to compare."""
        plain = self.model_dump(mode="json", include={*StudyRecord.model_fields} - {"use", "must"})
        plain["processor"] = {"model": self.processor.model, **self.processor.parameters}
        plain["stacks"] = {name: _stack_options(stack) for name, stack in self.stacks.items()}
        plain["workloads"] = {name: workload.keys for name, workload in self.workloads.items()}
        plain["matrix"] = plain["matrix"] if self.matrix.factors else None
        return {key: value for key, value in plain.items() if value not in (None, {})}


def _stack_options(stack: StackRecord) -> dict[str, Any]:
    plain = stack.model_dump(mode="json", include={"devices", "shared", "settings", "mount", "sysctl"})
    plain["layers"] = [{"layer": layer.layer, **layer.keys} for layer in stack.layers]
    plain["filesystems"] = {name: _stack_options(each) for name, each in stack.filesystems.items()}
    return {key: value for key, value in plain.items() if value not in (None, {}, "")}
