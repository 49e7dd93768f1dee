# SPDX-License-Identifier: Apache-2.0
"""The base of the container layers: all steps above run in a container, by an agent in it.

The container's root is made of the machine's: folders and /etc on the filesystem under study, and the
machine's /usr, read-only. The agent in the container runs the steps there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from pydantic import Field

from strata.model.layer import KernelLog, LayerContext, Share
from strata.model.memory_limit import MemoryLimit, MemoryLimited, ProcessorLimit
from strata.model.step import AGENT, Command, Step
from strata.units import NS_PER_S

START_LIMIT_NS: Final = 300 * NS_PER_S
AGENT_IN_IT: Final = "opt/strata-agent"
"""The agent's place in a container's root."""
SERVE: Final = (f"/{AGENT_IN_IT}", "machine", "serve")
"""The agent's command line there."""

_CONTAINER: Final = "main"
_FOLDERS: Final = "dev etc opt proc root run srv sys tmp usr var/lib var/log var/tmp"
_COPIED: Final = ("/bin", "/sbin", "/lib", "/lib64", "/etc")  # links into /usr, and a folder of small files


class Container(MemoryLimited):
    """The base of the layers that run everything above them in a container."""

    family = "containers"
    provides = "filesystem"
    is_container: ClassVar[bool] = True
    kernel_log = KernelLog(silent="It is a set of namespaces; the filesystem below has messages.")

    memory_bytes: MemoryLimit = Field(512 << 20, alias="memory", examples=["256MiB"])
    """Memory of the container's programs and of the page cache of its files; it has no swap"""
    cpus: ProcessorLimit = None

    def path(self, context: LayerContext) -> str:
        """A folder of the container."""
        return context.mount

    def machine(self, context: LayerContext) -> str | None:
        # Each tenant has a container of its own, so the shared layers have none.
        return None if context.tenants and context.tenant is None else socket_of(context)

    @abstractmethod
    def made(self, context: LayerContext) -> list[Step]:
        """The steps that make the container, or the tenant's, and start it."""

    @abstractmethod
    def started(self, context: LayerContext) -> list[Step]:
        """The steps that start the container."""

    def share(self, context: LayerContext) -> Share | None:
        provided = context.fair(self.provided(context.provided))
        return Share(self.made(context), self.path(context), provided)


def container_of(context: LayerContext) -> str:
    """The name of the container; each tenant has one."""
    return "-".join(filter(None, (_CONTAINER, context.tenant)))


def folder_of(context: LayerContext) -> str:
    """The folder of the layer's sockets and settings, which is not on the disks under study."""
    return f"${{scratch}}/{context.name}"


def socket_of(context: LayerContext) -> str:
    return f"{folder_of(context)}/{container_of(context)}.sock"


def root_steps(context: LayerContext, root: str) -> Iterable[Step]:
    """The steps that fill the root of a container from the lab's."""
    folders = (f"{root}/{name}" for name in _FOLDERS.split())
    yield context.step(
        "root-folders",
        "Make the folders of the container's root",
        *("install", "-d", *folders, f"{root}{context.mount}"),
    )
    yield context.step("root-files", "Copy the lab's links and settings", "cp", "--archive", *_COPIED, root)


def agent_step(context: LayerContext) -> Step:
    """The step that copies the agent, which is no file in the lab, for containers."""
    return context.step(
        "agent",
        "Keep the agent for the containers",
        *("cp", "--dereference", "--remove-destination", f"${{{AGENT}}}", f"{folder_of(context)}/agent"),
    )


def enter_step(context: LayerContext, *argv: str, **fields: Any) -> Step:
    """The step that runs the agent in a container, by ``argv``."""
    socket = socket_of(context)
    return context.of_tenant.step(
        "enter",
        "Run the agent in the container",
        *(f"${{{AGENT}}}", "machine", "start", "--container", socket, "--"),
        *argv,
        background=True,
        ready=Command(argv=("test", "-S", socket)),
        time_limit_ns=START_LIMIT_NS,
        **fields,
    )
