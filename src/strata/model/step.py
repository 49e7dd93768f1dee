# SPDX-License-Identifier: Apache-2.0
"""The steps that layers and workloads are compiled to, and that the agent executes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from strata.units import NS_PER_MS, NS_PER_S

Phase = Literal["build", "prepare", "alter", "warmup", "measure", "inspect"]
"""Build the stack; prepare the workload; change the stack under it (a snapshot, a lost disk); warm up; the
measured window; inspect the result."""

BEFORE_LOAD: Final[tuple[Phase, ...]] = ("build", "prepare", "alter")

NETWORK_DEVICE_PREFIX: Final = "nbd-"
"""A variable whose name begins so stands for a network block device that is free; the runner binds it."""

INPUT_PREFIX: Final = "input-"
"""A variable whose name begins so stands for a file that the runner provides, as a plain tar."""

MEMORY_BYTES: Final = 1 << 30
"""The memory of the lab's machine when a study does not say."""

AGENT: Final = "agent"
"""The variable that stands for the path of the agent: it runs virtual machines, too."""

MACHINE_KERNEL: Final = "machine-kernel"
MACHINE_INITRD: Final = "machine-initrd"
MACHINE_ROOT: Final = "machine-root"
"""The variables that stand for the kernel of virtual machines, their initial root, and the device or file of
their root image."""
SEVERAL_CPUS: Final = "guest:several-cpus"
"""The feature that a virtual machine of User-Mode Linux with more than one processor needs."""

QEMU_KERNEL: Final = "qemu-kernel"
QEMU_INITRD: Final = "qemu-initrd"
QEMU_OPTIONS: Final = "qemu-options"
"""The variables that stand for the kernel and the initial root of virtual machines under QEMU, and for QEMU's
options about the processor: it is emulated, in the lab by its virtual clock, or the machine's own (KVM)."""

MACHINE_IMAGE: Final = "machine-image"
"""The name of the input that a machine starts from, where that is a user's disk image."""
IMAGE_MACHINE: Final = "guest:image"
"""The feature that such a machine needs."""
QEMU_ACCELERATOR: Final = "qemu-accelerator"
"""The variable that stands for how QEMU computes for a machine from a user's image: ``kvm`` or ``tcg``."""

LOAD: Final = "load"
"""The variable that stands for the path of the load generator."""

MACHINE_PARTS: Final = (MACHINE_KERNEL, MACHINE_INITRD, MACHINE_ROOT, QEMU_KERNEL, QEMU_INITRD, QEMU_OPTIONS)
BROUGHT: Final = (LOAD, AGENT, *MACHINE_PARTS, QEMU_ACCELERATOR)
"""The variables of what the runner brings, where a plan uses it."""

RESTART: Final = "restart"
"""The id of the step at which the machine starts anew, in a plan of a study that prepares once."""

LOAD_USER: Final = "nobody"
"""The user that runs what needs no root. Every machine has it, and it owns no files there."""

OUTPUT_LIMIT_BYTES: Final = 16 << 20

_VARIABLE: Final = re.compile(r"\$(?:\$|\{([^}]*)\})")


def literal(text: str) -> str:
    """``text`` for a step's argv, environment or stdin, where a dollar sign would begin a variable."""
    return text.replace("$", "$$")


class Prerequisites(BaseModel):
    """The needs of steps on the machine that runs them.

    Attributes:
        features: Required of the kernel: ``filesystem:xfs``, ``md:raid10``, ``dm:thin-pool``,
            ``driver:nbd``, ``bcache``, ``cgroup:memory``, ``quota:v2``, ``xfs-scrub``; ``modelled-disks``
            only the lab has.
        packages: Packages of Debian that the lab adds to its root image, ``name=version``, or the name of an
            addition of ``image/packages.toml``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: tuple[str, ...] = ()  # programs, by name
    modules: tuple[str, ...] = ()  # of the kernel, loaded before the first step: ``zfs``
    features: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @model_serializer(mode="wrap")
    def _without_no_packages(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Nearly no plan has packages, and then says nothing of them."""
        found: dict[str, Any] = plain(self)
        return {key: value for key, value in found.items() if key != "packages" or value}

    def __or__(self, other: Prerequisites) -> Prerequisites:
        both = {name: tuple(sorted({*mine, *getattr(other, name)})) for name, mine in self}
        return Prerequisites(**both)


class Command(BaseModel):
    """One program to run.

    ``argv``, ``environment``, ``cwd`` and ``stdin`` may hold ``${variable}``s, which the agent
    replaces by what the runner bound them to; ``$$`` is a literal dollar sign.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    argv: tuple[str, ...] = Field(min_length=1)
    environment: dict[str, str] = {}
    user: str = "root"
    cwd: str = "/"
    stdin: str | None = None
    time_limit_ns: Annotated[int, Field(gt=0)] = 120 * NS_PER_S
    expect_exit: tuple[int, ...] = (0,)

    def texts(self) -> Iterator[str]:
        yield from (*self.argv, *self.environment.values(), self.cwd, self.stdin or "")

    def mapped(self, change: Callable[[str], str]) -> Self:
        """The command with a function applied to every text that may hold variables."""
        changed = {
            "argv": tuple(map(change, self.argv)),
            "environment": {name: change(value) for name, value in self.environment.items()},
            "cwd": change(self.cwd),
            "stdin": None if self.stdin is None else change(self.stdin),
        }
        return self.model_copy(update=changed)


class Collect(BaseModel):
    """Files to ship with the events once a step has ended: a path or a glob, sorted and concatenated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    path: str


class Purpose(BaseModel):
    """The purpose of a step that Strata adds to those of the workload and the layers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: Literal["age-fill", "age-churn", "age-sync", "extents", "free-space", "linear-read", "scrub",
                  "snapshot", "recover", "check", "verify", "restart", "machine-accounts",
                  "rebuild", "rebuilt", "lose-disk", "aged-held", "aged-send", "aged-drop",
                  "machine-system"]  # fmt: skip
    layer: str | None = None  # that acts or is examined
    tenant: str | None = None  # None: everyone's
    when: Literal["before", "after"] | None = None  # the measured window
    number: int | None = None  # of a snapshot in the window


Window = Literal["", "before", "alone"]
"""When a tenant's load runs: beside the loads of the others, before them, or by itself."""


class Owner(BaseModel):
    """The tenant whose load a step belongs to, and the step's id in that load."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str
    window: Window
    id: str


class Until(BaseModel):
    """When a window has nothing more to tell: the agent asks it to end, with all such windows of its group.

    Attributes:
        of: The step whose error output has its intervals.
        share: The half of the 95 % intervals of its rate and its 99th percentile, as a share of them.
        after_ns: Not earlier after its start.
        window_ns: What the window lasts at most.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: str
    share: float
    after_ns: int = 0
    window_ns: int = Field(default=0, exclude_if=lambda window_ns: not window_ns)


class StartedMachine(BaseModel):
    """The virtual machine that a step starts; ``disk`` is the name of its disk in its /sys/block."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layer: str
    socket: str
    disk: str
    has_lab_kernel: bool


class Step(Command):
    """One explicit step of a plan. ``id`` is unique in its plan, in kebab case.

    A background step is a service: it is started, ``ready`` is polled until it exits 0, and it is
    stopped at teardown. Its ``time_limit_ns`` is the time until it is ready; it then runs as long as the
    plan. Without a ``stop_signal`` it ends by itself, and a step that takes it down waits for that. ``undo``
    runs at teardown, in reverse order, for every step that was started.

    ``binds`` names a variable that later steps, and this step's undo, may use: the step's standard output
    without the line break at its end, such as the path that ``losetup --find --show`` prints. ``cgroup`` is
    the folder of a control group that the step's program, and whatever it starts, runs in. ``machine`` is the
    socket of the virtual machine or container in which the step's programs run; the files that it collects
    are that machine's, and so is its control group. ``takes_down`` names earlier steps that are taken down
    before this one's program is run, the last first, as at teardown.

    Consecutive steps of a phase that have a ``lane`` are a group: its lanes run at the same time, the steps
    of each in their order, and the steps after the group wait for all of them. In it a step does not start
    earlier than ``not_before_ns`` after the group did.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    phase: Phase
    title: str
    destroys: tuple[str, ...] = ()
    background: bool = False
    ready: Command | None = None
    ready_interval_ns: int = 100 * NS_PER_MS
    stop_signal: str | None = "TERM"
    stop_limit_ns: int = 60 * NS_PER_S
    collect: tuple[Collect, ...] = ()
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    undo: Command | None = None
    binds: str | None = None
    cgroup: str | None = None
    # Left out of the file where it is None, as in nearly every plan.
    machine: str | None = Field(default=None, exclude_if=lambda machine: machine is None)
    # Whether it may ask the warden of a host's sandbox for a container; left out where it is false.
    container: bool = Field(default=False, exclude_if=lambda container: not container)
    takes_down: tuple[str, ...] = ()
    lane: str | None = Field(default=None, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    not_before_ns: int = Field(default=0, ge=0)
    until: Until | None = Field(default=None, exclude_if=lambda until: until is None)
    # Whether it is repeated after a restart between preparing and measuring: it makes a folder, a script or a
    # limit that is not on the stack. Services are repeated anyway. A plan's file has the repeated step.
    again: bool = Field(default=False, exclude=True)
    # Whether it acts on the kernel, or on a container, so that it does not run in the container.
    outside: bool = Field(default=False, exclude=True)
    # For whoever reads the step's output. The agent need not know, so a plan's file does not say it.
    purpose: Purpose | None = Field(default=None, exclude=True)
    owner: Owner | None = Field(default=None, exclude=True)
    limit_bytes: int = Field(default=0, exclude=True)  # the limit of memory that the step sets
    starts: StartedMachine | None = Field(default=None, exclude=True)

    @property
    def commands(self) -> list[Command]:
        return [command for command in (self, self.ready, self.undo) if command is not None]

    @property
    def variables(self) -> set[str]:
        texts = [text for command in self.commands for text in Command.texts(command)]
        texts += [self.cgroup or "", self.machine or "", *(each.path for each in self.collect)]
        # Studies have thousands of plans: one search of all texts takes a fifth of one of each.
        return {name for name in _VARIABLE.findall("\0".join(texts)) if name}

    def of_tenant(self, tenant: str, window: Window, bound: Collection[str]) -> Self:
        """The step of a tenant's window, in its lane; its id and the variables that it binds are its own."""
        prefix, lane = "-".join(filter(None, (tenant, window))), None if window == "alone" else tenant

        def own(text: str) -> str:
            for name in bound:
                text = text.replace(f"${{{name}}}", f"${{{prefix}-{name}}}")
            return text

        changed = {
            "id": f"{prefix}-{self.id}",
            "title": f"{lane or prefix}: {self.title}",
            "lane": lane,
            "binds": self.binds and f"{prefix}-{self.binds}",
            "takes_down": tuple(f"{prefix}-{each}" for each in self.takes_down),
            "ready": self.ready and self.ready.mapped(own),
            "undo": self.undo and self.undo.mapped(own),
            "collect": tuple(each.model_copy(update={"path": own(each.path)}) for each in self.collect),
            "cgroup": self.cgroup and own(self.cgroup),
            "machine": self.machine and own(self.machine),
            "until": self.until and self.until.model_copy(update={"of": f"{prefix}-{self.until.of}"}),
            "owner": Owner(tenant=tenant, window=window, id=self.id),
        }
        return self.mapped(own).model_copy(update=changed)
