# SPDX-License-Identifier: Apache-2.0
"""A container of systemd-nspawn, whose root is a plain folder of the filesystem below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Final, Literal, Self

from pydantic import PrivateAttr

from strata.layers.container import (
    AGENT_IN_IT,
    SERVE,
    Container,
    agent_step,
    container_of,
    enter_step,
    folder_of,
    root_steps,
)
from strata.layers.directory import CopiedFolder
from strata.model.abilities import Outcome
from strata.model.layer import LayerContext
from strata.model.memory_limit import NO_LIMITS, GroupLimits, RequestLimits, control_group, limit_memory
from strata.model.step import AGENT, Command, Prerequisites, Step

_FIRST_ID: Final = 1000000  # of the container's users; Incus's are the same
_LOADS: Final = "/run/strata"  # the folder of the lab's own programs


class Nspawn(Container, CopiedFolder):
    """A container of systemd-nspawn on a folder: no daemon, no pool.

    All steps above run in the container, which shares the kernel and has a memory limit. A snapshot copies
    the folder, as that of `directory` does.
    """

    prerequisites = Prerequisites(
        tools=("cp", "find", "install", "mkdir", "rm", "sync", "systemd-nspawn", "tee", "test"),
        features=("cgroup:memory", "container:nspawn"),
        packages=("nspawn",),
    )
    packages = ("systemd-container",)
    also_called = ("systemd-nspawn", "container", "docker", "podman")

    layer: Literal["nspawn"] = "nspawn"
    io: RequestLimits = None
    _on_host: bool = PrivateAttr(default=False)

    def on_host(self) -> Self:
        made = self.model_copy()
        made._on_host = True
        return made

    def needs(self) -> Prerequisites:
        limits = self._limits.needs()
        if not self._on_host:
            return self.prerequisites | limits
        features = () if self.memory_limit_bytes() is None else ("cgroup:memory",)
        own = {"features": (*features, "container:nspawn"), "packages": ()}
        return self.prerequisites.model_copy(update=own) | limits

    @property
    def _limits(self) -> GroupLimits:
        return GroupLimits(self.memory_limit_bytes(), self.io, self.cpus)

    def memory_limit_bytes(self) -> int | None:
        # Not every host can limit memory: there only a limit counts that the study states.
        return None if self._on_host and "memory_bytes" not in self.model_fields_set else self.memory_bytes

    def stated(self) -> Mapping[str, str]:
        return {} if self.memory_limit_bytes() is None else super().stated()

    def path_outside(self, context: LayerContext) -> str:
        return self.folder(context) + self.path(context)

    def build(self, context: LayerContext) -> list[Step]:
        return [*self._agent(context), *([] if context.tenants else self.made(context))]

    def assemble(self, context: LayerContext) -> list[Step]:
        return [*self._agent(context), *self.started(context)]

    def made(self, context: LayerContext) -> list[Step]:
        own = context.of_tenant
        # A power cut soon after leaves no folder that nobody has synced.
        settled = own.step("settle", "Write the container's root to the disks", "sync")
        root = root_steps(own, self.folder(context))
        if self._on_host:  # the sandbox's warden makes the rest of the root, in memory
            title = "Make the container's mount point"
            root = [own.step("root-folders", title, "install", "-d", self.path_outside(own))]
        return [*root, settled, *self.started(context)]

    def started(self, context: LayerContext) -> list[Step]:
        own = replace(context.of_tenant, name="-".join(filter(None, (context.name, context.tenant))))
        group = control_group(own)
        # It moves itself and the container into groups below.
        emptied = Command(argv=("find", group, "-depth", "-type", "d", "-delete"))
        limits = [
            step if step.undo is None else step.model_copy(update={"undo": emptied})
            for step in limit_memory(own, self._limits, "the container")
            if self._limits != NO_LIMITS or step.undo is not None
        ]
        inside = self._inside(context, group)
        return [*limits, enter_step(context, *inside, cgroup=group, container=self._on_host)]

    def _inside(self, context: LayerContext, group: str) -> tuple[str, ...]:
        """The command line that starts the container; on a host the sandbox's warden makes it."""
        name, root = container_of(context), self.folder(context)
        if self._on_host:
            return (f"${{{AGENT}}}", "machine", "contain", root, PurePath(group).name)
        return (
            *("systemd-nspawn", "--quiet", "--settings=no", "--register=no", "--keep-unit"),
            *("--link-journal=no", "--resolv-conf=off", "--timezone=off", "--console=pipe"),
            *(f"--directory={root}", f"--machine={name}"),
            f"--uuid={context.derived_uuid(name).hex}",
            *(f"--private-users={_FIRST_ID}:65536", "--private-users-ownership=map"),
            *("--bind-ro=/usr", f"--bind-ro={_LOADS}"),
            *(f"--bind-ro={folder_of(context)}/agent:/{AGENT_IN_IT}", *SERVE),
        )

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        steps = [*self._agent(context), *(super().restore(context, name) or []), *self.started(context)]
        return [step.model_copy(update={"cwd": "${scratch}"}) for step in steps]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        made = super().clone(context, name)
        return made and Outcome(made.steps, made.path + self.path(context))

    def _agent(self, context: LayerContext) -> list[Step]:
        """The folder of the sockets and, except on a host, whose warden has its own, the agent's file."""
        argv = ("install", "-d", folder_of(context), *([] if self._on_host else [_LOADS]))
        undo = Command(argv=("rm", "--recursive", folder_of(context)))
        folder = context.step("folder", "Make the folder of the sockets", *argv, undo=undo)
        return [folder] if self._on_host else [folder, agent_step(context)]
