# SPDX-License-Identifier: Apache-2.0
"""A container of Incus, in which the steps above run, and the daemon that keeps it.

The daemon's own state lies in the trial's folder, not on the disks under study. The container's root is made
of the lab's: folders and /etc on the pool, and the lab's /usr, read-only. The agent runs in the container by
``incus exec``, and runs the steps there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self

from pydantic import Field

from strata.spec.layer import KernelLog, Layer, LayerContext
from strata.spec.memory_limit import MemoryLimit, memory_bytes_max
from strata.spec.step import AGENT, Command, Prerequisites, Step
from strata.units import NS_PER_S, describe_size

CONTAINER: Final = "main"
POOL: Final = "pool"
TOOLS: Final = ("cp", "find", "incus", "install", "tar", "tee", "test", "unshare")
PREREQUISITES: Final = Prerequisites(
    tools=TOOLS, features=("cgroup:memory", "container:incus"), packages=("incus",)
)

_DAEMON: Final = "/usr/libexec/incus/incusd"
_GROUPS: Final = "/sys/fs/cgroup"
_CONTROLLERS: Final = f"{_GROUPS}/cgroup.subtree_control"
_SUBORDINATE_IDS: Final = ("/etc/subuid", "/etc/subgid")
_IMAGE: Final = "root"  # its alias
_FOLDERS: Final = "dev etc opt proc root run srv sys tmp usr var/lib var/log var/tmp"
_COPIED: Final = ("/bin", "/sbin", "/lib", "/lib64", "/etc")  # links into /usr, and a folder of small files
_EPOCH: Final = 1767225600  # of all files in the image: 2026-01-01, as in the lab's root image
_AGENT_IN_IT: Final = "opt/strata-agent"
_LAUNCHED: Final = "launched"
_COPY: Final = "copy"
_MOVED: Final = "moved"
_ACT_LIMIT_NS: Final = 3600 * NS_PER_S
_START_LIMIT_NS: Final = 300 * NS_PER_S
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S  # it writes dirty data back
_NO_LVM: Final = "activation { udev_sync = 0\nudev_rules = 0\nverify_udev_operations = 1\nmonitoring = 0 }\n"


class IncusContainer(Layer):
    """The base of the layers that put a container on a pool of Incus."""

    provides = "filesystem"
    is_container: ClassVar[bool] = True
    packages = ("incus-base", "incus-client")
    kernel_log = KernelLog(silent="It is a set of namespaces; the filesystem below has messages.")
    no_free_space = "The pool divides it, which is of the container manager."
    no_periods = "They are of the pool's filesystem."

    memory_bytes: MemoryLimit = Field(512 << 20, alias="memory", examples=["256MiB"])
    """Memory of the container's programs and of the page cache of its files; it has no swap"""

    def stated(self) -> Mapping[str, str]:
        return {"memory": describe_size(self.memory_bytes)}

    def memory_limit_bytes(self) -> int | None:
        return self.memory_bytes

    def limited(self, memory_bytes: int) -> Self:
        return self.model_copy(update={"memory_bytes": memory_bytes})

    def path(self, context: LayerContext) -> str:
        """A folder of the container."""
        return context.mount

    def machine(self, context: LayerContext) -> str:
        return f"{_folder(context)}/container.sock"

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

    def build(self, context: LayerContext) -> list[Step]:
        return [
            *self.below(context),
            *self._served(context),
            incus(
                context,
                "pool",
                "Make the pool",
                *("storage", "create", POOL, *self.pool_argv(context)),
                undo=next((step.undo for step in self.activated(context)), None),
                time_limit_ns=_START_LIMIT_NS,
            ),
            *_image(context),
            incus(
                context,
                "container",
                "Make the container",
                *("init", _IMAGE, CONTAINER, "--storage", POOL, *self._settings(context)),
                time_limit_ns=_START_LIMIT_NS,
            ),
            *self._started(context),
        ]

    def assemble(self, context: LayerContext) -> list[Step]:
        again = [*self.below_again(context), *self._served(context)]
        return [*again, *self.activated(context), *self._started(context)]

    def resized_bytes(self, context: LayerContext) -> int:
        """Another size of a root than it has."""
        return context.provided.smallest_bytes // 2

    def _settings(self, context: LayerContext) -> list[str]:
        memory = (f"limits.memory={memory_bytes_max(self.memory_bytes)}B", "limits.memory.swap=false")
        settings = (*memory, f"raw.lxc={self._inside(context)}")
        return [word for setting in settings for word in ("--config", setting)]

    def _inside(self, context: LayerContext) -> str:
        """What the container has beside its root: programs from the lab, and folders in memory.

        Writers are slowed down above its memory, as in every group of `limit_memory`.
        """
        mounts = (
            "/usr usr none bind,ro",
            "/run/strata run/strata none bind,ro,optional,create=dir",
            f"{_folder(context)}/agent {_AGENT_IN_IT} none bind,ro,create=file",
        )
        in_memory = ("run tmpfs rw,nosuid,nodev,mode=755", "tmp tmpfs rw,nosuid,nodev,mode=1777")
        entries = [*(f"tmpfs {each}" for each in in_memory), *mounts]
        lines = [f"lxc.mount.entry = {entry} 0 0" for entry in entries]
        high = f"lxc.cgroup2.memory.high = {self.memory_bytes}"
        return "\n".join([*lines, high, "lxc.init.cmd = /usr/bin/sleep infinity"])

    def container_acts(self, context: LayerContext) -> Mapping[str, list[Step]]:
        def act(name: str, title: str, *argv: str, **fields: Any) -> list[Step]:
            limited = {"time_limit_ns": _ACT_LIMIT_NS, **fields}
            return [incus(context, name, title, *argv, outside=True, **limited)]

        size = f"size={self.resized_bytes(context)}B"
        made = ("--storage", POOL, *self._settings(context))
        argv = ("incus", "delete", "--force", _LAUNCHED)
        launched = Command(argv=argv, environment=_environment(context), cwd="${scratch}")
        return {
            "launch": act(
                "launch",
                "Launch a container",
                *("launch", _IMAGE, _LAUNCHED, *made),
                undo=launched,
            ),
            "copy": act("copy", "Copy the stack's container", "copy", CONTAINER, _COPY, "--stateless"),
            "snapshot": act("snapshot", "Take a snapshot of the copy", "snapshot", "create", _COPY, "before"),
            "restore": act("restore", "Bring the copy back to it", "snapshot", "restore", _COPY, "before"),
            "resize": act("resize", "Resize the copy", "config", "device", "set", _COPY, "root", size),
            "move": act("move", "Move the copy to another name", "move", _COPY, _MOVED),
            "delete": act("delete", "Delete it, with its snapshot", "delete", _MOVED),
        }

    def _served(self, context: LayerContext) -> list[Step]:
        folder = _folder(context)
        enabled, ids = "+cpu +io +memory +pids\n", "root:1000000:1000000000\n"
        daemon = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc", _DAEMON)
        return [
            context.step(
                "controllers",
                "Let control groups limit containers",
                *("tee", _CONTROLLERS),
                stdin=enabled,
                # liblxc leaves the group in which it has started containers.
                undo=Command(argv=("find", _GROUPS, "-maxdepth", "1", "-name", "lxc.*", "-delete")),
            ),
            context.step(
                "ids", "Give the containers ranges of user ids", "tee", *_SUBORDINATE_IDS, stdin=ids
            ),
            context.step(
                "folders",
                "Make the folders of the daemon",
                *("install", "-d", folder, f"{folder}/client", f"{folder}/lvm"),
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
                *("unshare", *daemon, "--group", "root"),
                environment=_environment(context),
                background=True,
                ready=Command(
                    argv=("incus", "admin", "waitready", "--timeout", "60"), environment=_environment(context)
                ),
                time_limit_ns=_START_LIMIT_NS,
                # unshare passes no signal on; when it ends, so does everything in its namespaces.
                stop_signal="HUP",
            ),
        ]

    def _started(self, context: LayerContext) -> list[Step]:
        agent, inside = f"{_folder(context)}/agent", f"/{_AGENT_IN_IT}"
        stop = ("incus", "stop", "--force", CONTAINER)
        return [
            context.step(
                "agent",
                "Give the container the agent",
                *("cp", "--dereference", "--remove-destination", f"${{{AGENT}}}", agent),
            ),
            incus(
                context,
                "start",
                "Start the container",
                *("start", CONTAINER),
                undo=Command(argv=stop, environment=_environment(context), time_limit_ns=_STOP_LIMIT_NS),
                time_limit_ns=_START_LIMIT_NS,
            ),
            context.step(
                "enter",
                "Run the agent in the container",
                *(f"${{{AGENT}}}", "machine", "start", "--container", self.machine(context), "--"),
                *("incus", "exec", "--mode", "non-interactive", CONTAINER, "--", inside, "machine", "serve"),
                environment=_environment(context),
                background=True,
                ready=Command(argv=("test", "-S", self.machine(context))),
                time_limit_ns=_START_LIMIT_NS,
            ),
        ]


def incus(context: LayerContext, name: str, title: str, *argv: str, **fields: Any) -> Step:
    """A step of the client of Incus."""
    own = context.of_tenant
    return own.step(
        name, title, "incus", "--quiet", *argv, environment=_environment(context), cwd=own.cwd, **fields
    )


def _folder(context: LayerContext) -> str:
    return f"${{scratch}}/{context.name}"


def _environment(context: LayerContext) -> dict[str, str]:
    folder = _folder(context)
    return {
        "DM_DISABLE_UDEV": "1",
        "HOME": folder,
        "INCUS_CONF": f"{folder}/client",
        "INCUS_DIR": folder,
        "INCUS_SECURITY_APPARMOR": "false",
        "LVM_SUPPRESS_FD_WARNINGS": "1",
        "LVM_SYSTEM_DIR": f"{folder}/lvm",
    }


def _image(context: LayerContext) -> Iterable[Step]:
    """The image that the container is made of."""
    folder = f"{_folder(context)}/image"
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
        *("image", "import", archive, "--alias", _IMAGE),
        time_limit_ns=_START_LIMIT_NS,
    )
