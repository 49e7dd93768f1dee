# SPDX-License-Identifier: Apache-2.0
"""A container of Incus, in which the steps above run, and the daemon that keeps it.

The daemon's own state lies in the trial's folder, not on the disks under study. The container's root is made
of the lab's: folders and /etc on the pool, and the lab's /usr, read-only. The agent runs in the container by
``incus exec``, and runs the steps there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Self

from pydantic import Field

from strata.layers.incus.acts import ContainerActs
from strata.layers.incus.client import (
    IMAGE,
    POOL,
    container_of,
    environment_of,
    folder_of,
    incus,
    socket_of,
)
from strata.spec.layer import KernelLog, LayerContext, Share
from strata.spec.memory_limit import MemoryLimit, memory_bytes_max
from strata.spec.step import AGENT, Command, Prerequisites, Step
from strata.units import NS_PER_S, Rate, describe_size

TOOLS: Final = ("cp", "find", "incus", "install", "rm", "sync", "tar", "tee", "test", "unshare")
PREREQUISITES: Final = Prerequisites(
    tools=TOOLS, features=("cgroup:memory", "container:incus"), packages=("incus",)
)

_DAEMON: Final = "/usr/libexec/incus/incusd"
_GROUPS: Final = "/sys/fs/cgroup"
_CONTROLLERS: Final = f"{_GROUPS}/cgroup.subtree_control"
_SUBORDINATE_IDS: Final = ("/etc/subuid", "/etc/subgid")
_FOLDERS: Final = "dev etc opt proc root run srv sys tmp usr var/lib var/log var/tmp"
_COPIED: Final = ("/bin", "/sbin", "/lib", "/lib64", "/etc")  # links into /usr, and a folder of small files
_EPOCH: Final = 1767225600  # of all files in the image: 2026-01-01, as in the lab's root image
_AGENT_IN_IT: Final = "opt/strata-agent"
_START_LIMIT_NS: Final = 300 * NS_PER_S
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S  # it writes dirty data back
_NO_LVM: Final = "activation { udev_sync = 0\nudev_rules = 0\nverify_udev_operations = 1\nmonitoring = 0 }\n"


class IncusContainer(ContainerActs):
    """The base of the layers that put a container on a pool of Incus."""

    provides = "filesystem"
    is_container: ClassVar[bool] = True
    packages = ("incus-base", "incus-client")
    kernel_log = KernelLog(silent="It is a set of namespaces; the filesystem below has messages.")
    no_free_space = "The container manager's pool divides it."
    no_periods = "They are of the pool's filesystem."

    memory_bytes: MemoryLimit = Field(512 << 20, alias="memory", examples=["256MiB"])
    """Memory of the container's programs and of the page cache of its files; it has no swap"""
    read_bytes_per_s_max: Rate | None = Field(None, alias="read_max", examples=["50MB/s"])
    """The most that its programs read from the pool's devices; default: no limit"""
    write_bytes_per_s_max: Rate | None = Field(None, alias="write_max", examples=["20MB/s"])
    """The most that they write there; default: no limit"""

    def stated(self) -> Mapping[str, str]:
        return {"memory": describe_size(self.memory_bytes)}

    def memory_limit_bytes(self) -> int | None:
        return self.memory_bytes

    def limited(self, memory_bytes: int) -> Self:
        return self.model_copy(update={"memory_bytes": memory_bytes})

    def path(self, context: LayerContext) -> str:
        """A folder of the container."""
        return context.mount

    def machine(self, context: LayerContext) -> str | None:
        # Each tenant has a container, so that what they share has none.
        return None if context.tenants and context.tenant is None else socket_of(context)

    def share(self, context: LayerContext) -> Share | None:
        provided = context.fair(self.provided(context.provided))
        return Share(self._made(context), self.path(context), provided)

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
                time_limit_ns=_START_LIMIT_NS,
            ),
            *_image(context),
            *([] if context.tenants else self._made(context)),
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
            time_limit_ns=_START_LIMIT_NS,
        )

    def _made(self, context: LayerContext) -> list[Step]:
        made = incus(
            context,
            "container",
            "Make the container",
            *("init", IMAGE, container_of(context), "--storage", POOL, *self.settings(context)),
            time_limit_ns=_START_LIMIT_NS,
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
            f"{folder_of(context)}/agent {_AGENT_IN_IT} none bind,ro,create=file",
        )
        in_memory = ("run tmpfs rw,nosuid,nodev,mode=755", "tmp tmpfs rw,nosuid,nodev,mode=1777")
        entries = [*(f"tmpfs {each}" for each in in_memory), *mounts]
        lines = [f"lxc.mount.entry = {entry} 0 0" for entry in entries]
        high = f"lxc.cgroup2.memory.high = {self.memory_bytes}"
        return "\n".join([*lines, high, "lxc.init.cmd = /usr/bin/sleep infinity"])

    def started(self, context: LayerContext) -> list[Step]:
        container, socket = container_of(context), socket_of(context)
        inside = ("incus", "exec", "--mode", "non-interactive", container, "--", f"/{_AGENT_IN_IT}")
        stop = ("incus", "stop", "--force", container)
        return [
            incus(
                context,
                "start",
                "Start the container",
                *("start", container),
                undo=Command(argv=stop, environment=environment_of(context), time_limit_ns=_STOP_LIMIT_NS),
                time_limit_ns=_START_LIMIT_NS,
            ),
            # Incus does not fsync a container's description: a power cut soon after leaves an empty file.
            context.of_tenant.step("settle", "Write the container to the disks", "sync"),
            context.of_tenant.step(
                "enter",
                "Run the agent in the container",
                *(f"${{{AGENT}}}", "machine", "start", "--container", socket, "--"),
                *(*inside, "machine", "serve"),
                environment=environment_of(context),
                background=True,
                ready=Command(argv=("test", "-S", socket)),
                time_limit_ns=_START_LIMIT_NS,
            ),
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
            time_limit_ns=_START_LIMIT_NS,
            # unshare passes no signal on; when it ends, so does everything in its namespaces.
            stop_signal="HUP",
        ),
        context.step(
            "agent",
            "Keep the agent for the containers",
            *("cp", "--dereference", "--remove-destination", f"${{{AGENT}}}", f"{folder}/agent"),
        ),
    ]


def _image(context: LayerContext) -> Iterable[Step]:
    """The image that the container is made of."""
    folder = f"{folder_of(context)}/image"
    root, archive = f"{folder}/rootfs", f"{folder}.tar"
    folders = (f"{root}/{name}" for name in _FOLDERS.split())
    yield context.step(
        "root-folders",
        "Make the folders of the container's root",
        *("install", "-d", *folders, f"{root}{context.mount}"),
    )
    yield context.step("root-files", "Copy the lab's links and settings", "cp", "--archive", *_COPIED, root)
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
        time_limit_ns=_START_LIMIT_NS,
    )
