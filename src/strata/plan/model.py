# SPDX-License-Identifier: Apache-2.0
"""The plan format. docs/reference/plan-format.md describes it for readers of the JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from strata.model.inputs import InputFile
from strata.model.kernel import DEFAULT_KERNEL, Kernel
from strata.model.step import MEMORY_BYTES, NETWORK_DEVICE_PREFIX, Prerequisites, Step
from strata.model.trial import ANY_NAME, TrialKey
from strata.model.workload import InputKind

PLAN_VERSION: Final = 1  # crates/agent refuses a version that it does not know


class FrozenPart(BaseModel):
    """The base of the plan's records: immutable, and strict about keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Trial(FrozenPart):
    """Which trial of a study a plan is for. ``id`` is the name of its `TrialKey`.

    Files have its seed alone (`Unnamed`): a name is no part of what is measured.
    """

    study: str
    stack: str
    workload: str
    seed: int
    rate: int | None = Field(default=None, exclude_if=lambda rate: rate is None)  # of a probe
    id: str

    def unnamed(self) -> dict[str, object]:
        return {**dict.fromkeys(("study", "stack", "workload", "id"), ANY_NAME), "seed": self.seed}

    @classmethod
    def of(cls, study: str, key: TrialKey) -> Self:
        return cls(study=study, **key._asdict(), id=str(key))

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.stack, self.workload, self.seed, self.rate)


Unnamed = Annotated[Trial, PlainSerializer(Trial.unnamed)]
"""A trial that is written without names: equal trials of two studies have equal bytes in the lab."""


class PlanDevice(FrozenPart):
    name: str
    capacity_bytes: int


class PlanInput(FrozenPart):
    """A file that the runner provides as a plain tar, bound to the variable ``input-<name>``."""

    name: str
    source: str  # ``strata:`` and the name of what Strata has itself, or the file's name for people
    sha256: str | None = None
    """Of a user's file as it is; None for what Strata has, whose hash the runner knows."""
    kind: InputKind = "archive"

    @classmethod
    def of(cls, name: str, source: str, file: InputFile | None) -> PlanInput:
        """The input that a study calls ``source``: a user's archive, or what Strata has."""
        if file is None:
            return cls(name=name, source=source)
        return cls(name=name, source=file.path.name, sha256=file.sha256, kind=file.kind)


class Monitors(FrozenPart):
    """The samples taken beside the steps, and their interval."""

    interval_ns: int
    disks: tuple[str, ...]


class Plan(FrozenPart):
    """A trial as explicit steps. The same plan runs in the lab and on a host."""

    plan_version: int = PLAN_VERSION
    trial: Unnamed
    prerequisites: Prerequisites = Prerequisites()  # what the steps need of the machine
    # The part of the steps in its virtual machines, and that of all other steps (None: all), which a plan's
    # file does not tell apart.
    inside: Prerequisites = Field(default=Prerequisites(), exclude=True)
    outside: Prerequisites | None = Field(default=None, exclude=True)
    devices: tuple[PlanDevice, ...]
    variables: tuple[str, ...]  # every ``${name}`` that the runner binds, so none that a step binds
    environment: dict[str, str]  # the complete environment of every step; nothing is inherited
    inputs: tuple[PlanInput, ...] = ()  # the files that steps read from the machine
    memory_bytes: int = Field(default=MEMORY_BYTES, gt=0)  # memory of the lab's machine; a host has its own
    processor: tuple[str, ...] = ()  # the prices that the lab's kernel reads; a host's processor has its own
    # The lab's kernel. It is no part of the plan's file: a result's fingerprint has its hash.
    kernel: Kernel = Field(default=DEFAULT_KERNEL, exclude=True)
    monitors: Monitors
    time_limit_ns: int = Field(gt=0)  # the time the whole plan may take, in the runner's time domain
    steps: tuple[Step, ...]

    @property
    def network_devices(self) -> list[str]:
        return [name for name in self.variables if name.startswith(NETWORK_DEVICE_PREFIX)]

    @property
    def needs_outside(self) -> Prerequisites:
        """The prerequisites that not only its virtual machines have to meet."""
        return self.prerequisites if self.outside is None else self.outside

    def steps_for(self, *what: str) -> list[Step]:
        return [step for step in self.steps if step.purpose is not None and step.purpose.what in what]

    def to_json(self) -> bytes:
        """The plan file's bytes: canonical JSON, so that equal plans have equal hashes."""
        return canonical_json(self.model_dump(mode="json"))


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys and no spaces: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256_hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
