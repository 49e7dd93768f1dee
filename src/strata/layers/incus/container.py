# SPDX-License-Identifier: Apache-2.0
"""A container of Incus, in which the steps above run, and the daemon that keeps it.

The daemon's own state lies in the trial's folder, not on the disks under study. The agent runs in the
container by ``incus exec``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from strata.layers.container import (
    AGENT_IN_IT,
    SERVE,
    START_LIMIT_NS,
    agent_step,
    container_of,
    enter_step,
    folder_of,
    root_steps,
)
from strata.layers.incus.acts import ContainerActs
from strata.layers.incus.client import IMAGE, POOL, environment_of, incus
from strata.model.layer import LayerContext
from strata.model.memory_limit import memory_bytes_max
from strata.model.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, Rate

TOOLS: Final = ("cp", "find", "incus", "install", "rm", "sync", "tar", "tee", "test", "unshare")
PREREQUISITES: Final = Prerequisites(
    tools=TOOLS, features=("cgroup:memory", "container:incus"), packages=("incus",)
)

_DAEMON: Final = "/usr/libexec/incus/incusd"
_GROUPS: Final = "/sys/fs/cgroup"
_CONTROLLERS: Final = f"{_GROUPS}/cgroup.subtree_control"
_SUBORDINATE_IDS: Final = ("/etc/subuid", "/etc/subgid")
_EPOCH: Final = 1767225600  # of all files in the image: 2026-01-01, as in the lab's root image
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S  # it writes dirty data back
_NO_LVM: Final = "activation { udev_sync = 0\nudev_rules = 0\nverify_udev_operations = 1\nmonitoring = 0 }\n"


class IncusContainer(ContainerActs):
    """The base of the layers that put a container on a pool of Incus."""

    packages = ("incus-base", "incus-client")
    no_free_space = "The container manager's pool divides it."
    no_periods = "They are of the pool's filesystem."

    read_bytes_per_s_max: Rate | None = Field(None, alias="read_max", examples=["50MB/s"])
    """The most that its programs read from the pool's devices; default: no limit"""
    write_bytes_per_s_max: Rate | None = Field(None, alias="write_max", examples=["20MB/s"])
    """The most that they write there; default: no limit"""

    def below(self, context: LayerContext) -> list[Step]:
        """The steps that make what the pool lies on."""
        return []

    def below_again(self, context: LayerContext) -> list[Step]:
        """The steps that bring it up again, with the same undos."""
        return []

    def activated(self, context: LayerContext) -> list[Step]:
        """The steps that bring up volumes of the pool; making the pool has the same undo."""
        return []

    def pool_argv(self, context: LayerContext) -> tuple[str, ...]:
        """The driver of the pool, and its settings."""
        raise NotImplementedError

    def known_settings(self, context: LayerContext) -> list[str]:
        """Settings that the daemon finds out when it makes a pool, and needs to find it again."""
        return []

    def build(self, context: LayerContext) -> list[Step]:
        return [
            *self.below(context),
            *_daemon(context),
            incus(
                context,
                "pool",
                "Make the pool",
                *("storage", "create", POOL, *self.pool_argv(context)),
                undo=next((step.undo for step in self.activated(context)), None),
                time_limit_ns=START_LIMIT_NS,
            ),
            *_image(context),
            *([] if context.tenants else self.made(context)),
        ]

    def assemble(self, context: LayerContext) -> list[Step]:
        return [*self.served(context), *self.started(context)]

    def served(self, context: LayerContext) -> list[Step]:
        found = [*self.below_again(context), *_daemon(context), *self.activated(context)]
        return [*found, self._recovered(context)]

    def _recovered(self, context: LayerContext) -> Step:
        """The daemon's own way to find its containers on a pool, as after the loss of its database."""
        driver, source, *settings = self.pool_argv(context)
        answers = ["yes", POOL, driver, source.partition("=")[2]]  # another pool, its name, driver, source
        answers += [*settings, *self.known_settings(context), ""]
        answers += ["no", "yes", "yes"]  # no further pool; scan; recover
        return incus(
            context,
            "recover",
            "Let the daemon find the containers on the pool",
            *("admin", "recover"),
            stdin="".join(f"{answer}\n" for answer in answers),
            time_limit_ns=START_LIMIT_NS,
        )

    def made(self, context: LayerContext) -> list[Step]:
        made = incus(
            context,
            "container",
            "Make the container",
            *("init", IMAGE, container_of(context), "--storage", POOL, *self.settings(context)),
            time_limit_ns=START_LIMIT_NS,
        )
        return [made, *self.started(context)]

    def settings(self, context: LayerContext) -> list[str]:
        memory = (f"limits.memory={memory_bytes_max(self.memory_bytes)}B", "limits.memory.swap=false")
        settings = (*memory, f"raw.lxc={self._inside(context)}")
        rates = {"read": self.read_bytes_per_s_max, "write": self.write_bytes_per_s_max}
        limits = [f"root,limits.{kind}={rate}B" for kind, rate in rates.items() if rate is not None]
        configured = [word for setting in settings for word in ("--config", setting)]
        return [*configured, *(word for limit in limits for word in ("--device", limit))]

    def _inside(self, context: LayerContext) -> str:
        """What the container has beside its root: programs from the lab, and folders in memory.

        Writers are slowed down above its memory, as in every group of `limit_memory`.
        """
        mounts = (
            "/usr usr none bind,ro",
            "/run/strata run/strata none bind,ro,optional,create=dir",
            f"{folder_of(context)}/agent {AGENT_IN_IT} none bind,ro,create=file",
        )
        in_memory = ("run tmpfs rw,nosuid,nodev,mode=755", "tmp tmpfs rw,nosuid,nodev,mode=1777")
        entries = [*(f"tmpfs {each}" for each in in_memory), *mounts]
        lines = [f"lxc.mount.entry = {entry} 0 0" for entry in entries]
        high = f"lxc.cgroup2.memory.high = {self.memory_bytes}"
        return "\n".join([*lines, high, "lxc.init.cmd = /usr/bin/sleep infinity"])

    def started(self, context: LayerContext) -> list[Step]:
        container = container_of(context)
        inside = ("incus", "exec", "--mode", "non-interactive", container, "--")
        stop = ("incus", "stop", "--force", container)
        return [
            incus(
                context,
                "start",
                "Start the container",
                *("start", container),
                undo=Command(argv=stop, environment=environment_of(context), time_limit_ns=_STOP_LIMIT_NS),
                time_limit_ns=START_LIMIT_NS,
            ),
            # Incus does not fsync a container's description: a power cut soon after leaves an empty file.
            context.of_tenant.step("settle", "Write the container to the disks", "sync"),
            enter_step(context, *inside, *SERVE, environment=environment_of(context)),
        ]


def _daemon(context: LayerContext) -> list[Step]:
    folder = folder_of(context)
    enabled, ids = "+cpu +io +memory +pids\n", "root:1000000:1000000000\n"
    program = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc", _DAEMON)
    return [
        context.step(
            "controllers",
            "Let control groups limit containers",
            *("tee", _CONTROLLERS),
            stdin=enabled,
            # liblxc leaves the group in which it has started containers.
            undo=Command(argv=("find", _GROUPS, "-maxdepth", "1", "-name", "lxc.*", "-delete")),
        ),
        context.step("ids", "Give the containers ranges of user ids", "tee", *_SUBORDINATE_IDS, stdin=ids),
        context.step(
            "folders",
            "Make the folders of the daemon",
            *("install", "-d", folder, f"{folder}/client", f"{folder}/lvm"),
            # The next daemon finds the containers on the pool, as it would in another boot.
            undo=Command(argv=("rm", "--recursive", folder)),
        ),
        context.step(
            "lvm-settings",
            "Let the daemon's LVM do without udev",
            *("tee", f"{folder}/lvm/lvm.conf"),
            stdin=_NO_LVM,
        ),
        context.step(
            "serve",
            "Start the daemon, whose mounts and processes end with it",
            *("unshare", *program, "--group", "root"),
            environment=environment_of(context),
            background=True,
            ready=Command(
                argv=("incus", "admin", "waitready", "--timeout", "60"), environment=environment_of(context)
            ),
            time_limit_ns=START_LIMIT_NS,
            # unshare passes no signal on; when it ends, so does everything in its namespaces.
            stop_signal="HUP",
        ),
        agent_step(context),
    ]


def _image(context: LayerContext) -> Iterable[Step]:
    folder = f"{folder_of(context)}/image"
    root, archive = f"{folder}/rootfs", f"{folder}.tar"
    yield from root_steps(context, root)
    yield context.step(
        "root-metadata",
        "Describe the image",
        *("tee", f"{folder}/metadata.yaml"),
        stdin=f"architecture: x86_64\ncreation_date: {_EPOCH}\n",
    )
    yield context.step(
        "root-pack",
        "Pack the image",
        *("tar", "--create", "--sort=name", f"--mtime=@{_EPOCH}", "--file", archive),
        *("--directory", folder, "metadata.yaml", "rootfs"),
    )
    yield incus(
        context,
        "import",
        "Import the image",
        *("image", "import", archive, "--alias", IMAGE),
        time_limit_ns=START_LIMIT_NS,
    )
