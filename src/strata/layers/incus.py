# SPDX-License-Identifier: Apache-2.0
"""Containers of Incus: on a pool of their own that takes a whole device, or on a folder of a filesystem.

The daemon's own state lies in the trial's folder, not on the disks under study. The agent runs in the
container by ``incus exec``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self

from pydantic import Field

from strata.diagnostics.names import Diagnostic
from strata.layers.btrfs import Btrfs, buffers_checksums
from strata.layers.container import (
    AGENT_IN_IT,
    SERVE,
    START_LIMIT_NS,
    Container,
    agent_step,
    container_of,
    enter_step,
    folder_of,
    root_steps,
)
from strata.layers.ext import Ext4
from strata.layers.lvm.lvm_thin import LvmThin
from strata.layers.lvm.volume_group import EXTENT_BYTES, VolumeGroup, extents_bytes
from strata.layers.xfs import Xfs
from strata.layers.zfs.datasets import Zfs
from strata.layers.zfs.zpool import Zpool
from strata.model.abilities import Outcome
from strata.model.layer import KernelLog, LayerContext, LowerInterface, Provided
from strata.model.memory_limit import GroupLimits, memory_bytes_max, processor_quota
from strata.model.step import Command, Prerequisites, Step
from strata.units import NS_PER_S, MemorySize, Rate, describe_size, whole_mib

_POOL: Final = "pool"
_IMAGE: Final = "root"
"""The image's alias."""


def _incus(context: LayerContext, name: str, title: str, *argv: str, **fields: Any) -> Step:
    own = context.of_tenant
    environment = _environment(context)
    return own.step(name, title, "incus", "--quiet", *argv, environment=environment, cwd=own.cwd, **fields)


def _environment(context: LayerContext) -> dict[str, str]:
    folder = folder_of(context)
    return {
        "DM_DISABLE_UDEV": "1",
        "HOME": folder,
        "INCUS_CONF": f"{folder}/client",
        "INCUS_DIR": folder,
        "INCUS_SECURITY_APPARMOR": "false",
        "LVM_SUPPRESS_FD_WARNINGS": "1",
        "LVM_SYSTEM_DIR": f"{folder}/lvm",
    }


_LAUNCHED: Final = "launched"
_COPY: Final = "copy"
_MOVED: Final = "moved"
_ACT_LIMIT_NS: Final = 3600 * NS_PER_S


def _managed(context: LayerContext, name: str, title: str, *argv: str, **fields: Any) -> Step:
    return _incus(context, name, title, *argv, outside=True, **{"time_limit_ns": _ACT_LIMIT_NS, **fields})


def _taken(context: LayerContext, container: str, name: str) -> Step:
    return _managed(
        context, "snapshot", f"Take a snapshot of {container}", "snapshot", "create", container, name
    )


def _restored(context: LayerContext, container: str, name: str) -> Step:
    argv = ("snapshot", "restore", container, name)
    return _managed(context, "restore", f"Bring {container} back to a snapshot", *argv)


def _written(context: LayerContext) -> Step:
    """The data of an act of the daemon, which may be in the page cache."""
    return context.of_tenant.act("written", "Write back what is left of it", "sync", outside=True)


def _root_of(context: LayerContext, container: str) -> str:
    """The root of a container that runs, as the daemon sees it."""
    daemon = f"/proc/${{{_daemon_variable(context)}}}/root"
    return f"{daemon}{folder_of(context)}/storage-pools/{_POOL}/containers/{container}/rootfs"


def _daemon_variable(context: LayerContext) -> str:
    return f"{context.name}-daemon"


_PREREQUISITES: Final = Prerequisites(
    tools=("cp", "find", "incus", "install", "rm", "sync", "tar", "tee", "test", "unshare"),
    features=("cgroup:memory", "container:incus"),
    packages=("incus",),
)
_DAEMON: Final = "/usr/libexec/incus/incusd"
_GROUPS: Final = "/sys/fs/cgroup"
_CONTROLLERS: Final = f"{_GROUPS}/cgroup.subtree_control"
_SUBORDINATE_IDS: Final = ("/etc/subuid", "/etc/subgid")
_EPOCH: Final = 1767225600  # of all files in the image: 2026-01-01, as in the lab's root image
_STOP_LIMIT_NS: Final = 1200 * NS_PER_S  # it writes dirty data back
_NO_LVM: Final = "activation { udev_sync = 0\nudev_rules = 0\nverify_udev_operations = 1\nmonitoring = 0 }\n"


class IncusContainer(Container):
    """The base of the layers that put a container on a pool of Incus."""

    prerequisites = _PREREQUISITES
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

    @abstractmethod
    def pool_of(self, context: LayerContext) -> tuple[str, ...]:
        """The driver of the pool, its source, and its settings."""

    def known_settings(self, context: LayerContext) -> list[str]:
        """Settings that the daemon finds out when it makes a pool, and needs to find it again."""
        return []

    def build(self, context: LayerContext) -> list[Step]:
        driver, source, *settings = self.pool_of(context)
        return [
            *self.below(context),
            *_daemon(context),
            _incus(
                context,
                "pool",
                "Make the pool",
                *("storage", "create", _POOL, driver, f"source={source}", *settings),
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
        driver, source, *settings = self.pool_of(context)
        answers = ["yes", _POOL, driver, source]  # another pool, its name, driver, source
        answers += [*settings, *self.known_settings(context), ""]
        answers += ["no", "yes", "yes"]  # no further pool; scan; recover
        return _incus(
            context,
            "recover",
            "Let the daemon find the containers on the pool",
            *("admin", "recover"),
            stdin="".join(f"{answer}\n" for answer in answers),
            time_limit_ns=START_LIMIT_NS,
        )

    def made(self, context: LayerContext) -> list[Step]:
        made = _incus(
            context,
            "container",
            "Make the container",
            *("init", _IMAGE, container_of(context), "--storage", _POOL, *self.settings(context)),
            time_limit_ns=START_LIMIT_NS,
        )
        return [made, *self.started(context)]

    def needs(self) -> Prerequisites:
        return self.prerequisites | GroupLimits(cpus=self.cpus).needs()

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
        groups = [f"lxc.cgroup2.memory.high = {self.memory_bytes}"]
        groups += [f"lxc.cgroup2.cpu.max = {processor_quota(self.cpus)}"] if self.cpus else []
        return "\n".join([*lines, *groups, "lxc.init.cmd = /usr/bin/sleep infinity"])

    def started(self, context: LayerContext) -> list[Step]:
        container = container_of(context)
        inside = ("incus", "exec", "--mode", "non-interactive", container, "--")
        stop = ("incus", "stop", "--force", container)
        return [
            _incus(
                context,
                "start",
                "Start the container",
                *("start", container),
                undo=Command(argv=stop, environment=_environment(context), time_limit_ns=_STOP_LIMIT_NS),
                time_limit_ns=START_LIMIT_NS,
            ),
            # Incus does not fsync a container's description: a power cut soon after leaves an empty file.
            context.of_tenant.step("settle", "Write the container to the disks", "sync"),
            enter_step(context, *inside, *SERVE, environment=_environment(context)),
        ]

    def resized_bytes(self, context: LayerContext) -> int:
        """A size that the root does not have yet."""
        return context.provided.smallest_bytes // 2

    def seen_outside(self, context: LayerContext) -> list[Step]:
        argv = ("pgrep", "--oldest", "--exact", "incusd")
        title = "Find the daemon, whose mounts only its processes see"
        return [context.act("daemon", title, *argv, binds=_daemon_variable(context))]

    def path_outside(self, context: LayerContext) -> str:
        return _root_of(context, container_of(context)) + self.path(context)

    def container_acts(self, context: LayerContext) -> Mapping[str, list[Step]]:
        own, size = container_of(context), f"size={self.resized_bytes(context)}B"
        made = ("--storage", _POOL, *self.settings(context))
        argv = ("incus", "delete", "--force", _LAUNCHED)
        launched = Command(argv=argv, environment=_environment(context), cwd="${scratch}")
        words = {
            "launch": ("Launch a container", "launch", _IMAGE, _LAUNCHED, *made),
            "copy": ("Copy the stack's container", "copy", own, _COPY, "--stateless"),
            "resize": ("Resize the copy", "config", "device", "set", _COPY, "root", size),
            "move": ("Move the copy to another name", "move", _COPY, _MOVED),
            "delete": ("Delete it, with its snapshot", "delete", _MOVED),
        }
        acts = {name: [_managed(context, name, *each)] for name, each in words.items()}
        acts["launch"] = [step.model_copy(update={"undo": launched}) for step in acts["launch"]]
        acts["snapshot"] = [_taken(context, _COPY, "before")]
        acts["restore"] = [_restored(context, _COPY, "before")]
        return acts

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        return [_taken(context, container_of(context), name), _written(context)]

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        argv = ("snapshot", "delete", container_of(context), name)
        return [_managed(context, "drop", f"Delete the snapshot {name}", *argv)]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        back = [_restored(context, container_of(context), name), _written(context)]
        steps = [*self.served(context), *back, *self.started(context)]
        return [step.model_copy(update={"cwd": "${scratch}"}) for step in steps]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        clone = f"{name}-clone"
        snapshot = f"{container_of(context)}/{name}"
        made = _managed(context, "clone", f"Copy the snapshot {name}", "copy", snapshot, clone)
        stop = Command(
            argv=("incus", "stop", "--force", clone), environment=_environment(context), cwd="${scratch}"
        )
        # Only the root of a container that runs is mounted.
        started = _managed(context, "clone-start", "Start the copy", "start", clone, undo=stop)
        return Outcome([made, _written(context), started], _root_of(context, clone) + self.path(context))

    def quota(self, context: LayerContext, limit_bytes: int) -> Outcome | None:
        argv = ("config", "device", "set", container_of(context), "root", f"size={limit_bytes}B")
        limited = _managed(context, "quota", "Limit the size of the container's root", *argv)
        return Outcome([limited], self.path(context))


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
            environment=_environment(context),
            background=True,
            ready=Command(
                argv=("incus", "admin", "waitready", "--timeout", "60"), environment=_environment(context)
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
    yield _incus(
        context,
        "import",
        "Import the image",
        *("image", "import", archive, "--alias", _IMAGE),
        time_limit_ns=START_LIMIT_NS,
    )


class IncusDir(IncusContainer):
    """A container of Incus on a folder of the filesystem below.

    The folder is Incus's pool `dir`. All steps above run in the container, which shares the kernel and has a
    memory limit.
    """

    requires = LowerInterface("filesystem")
    also_called = ("lxc-dir", "lxd-dir")

    layer: Literal["incus-dir"] = "incus-dir"

    def pool_of(self, context: LayerContext) -> tuple[str, ...]:
        return ("dir", _source(context))

    def below(self, context: LayerContext) -> list[Step]:
        return [context.step("source", "Make the pool's folder", "install", "-d", _source(context))]


def _source(context: LayerContext) -> str:
    return f"{context.lower[0]}/{context.name}"


_DEVICE_BYTES_MIN: Final = 512 << 20
# Incus makes a volume with XFS no smaller than 512 MiB, which is to fit into three quarters of the device.
_THIN_BYTES_MIN: Final = 1 << 30
_DEACTIVATE_LIMIT_NS: Final = 600 * NS_PER_S
_LARGER_BYTES: Final = 256 << 20
_THIN_POOL: Final = "thin"


class Incus(IncusContainer):
    """A container of Incus on a pool of its own on a block device.

    All steps above run in the container, which shares the kernel and has a memory limit. On thin LVM its root
    is a filesystem on a volume, else a subvolume or dataset. `incus-dir` puts the root into a folder.
    """

    requires = LowerInterface("block")
    kernel_log = KernelLog(
        trouble=tuple(line for each in (Btrfs, Ext4, LvmThin, Xfs, Zpool) for line in each.kernel_log.trouble)
    )
    periods_ns = {**Btrfs.periods_ns, **Zpool.periods_ns}
    no_periods = ""
    also_called = ("lxc", "lxd", "container", "docker", "podman")

    layer: Literal["incus"] = "incus"
    pool: Literal["btrfs", "lvm-thin", "zfs"] = "btrfs"
    """The storage driver of the pool"""
    filesystem: Literal["ext4", "xfs"] | None = Field(None, examples=["xfs"])
    """The filesystem of the root's volume on `lvm-thin`; default: ext4"""
    arc_max_bytes: MemorySize = Field(256 << 20, alias="arc_max", examples=["128MiB"])
    """On `zfs`, upper limit of the cache in memory (ARC), 64MiB at least"""

    def needs(self) -> Prerequisites:
        return super().needs() | self._needs_pool_context()

    def _needs_pool_context(self) -> Prerequisites:
        if self.pool == "btrfs":
            return Btrfs.prerequisites
        if self.pool == "zfs":
            tools = tuple(each for each in Zpool.prerequisites.tools if each != "cat")
            return Zpool.prerequisites.model_copy(update={"tools": tools})
        return Prerequisites(
            tools=("pvcreate", "vgchange", "vgcreate"),
            features=("dm:thin-pool", f"filesystem:{self.filesystem or 'ext4'}"),
        )

    def stated(self) -> Mapping[str, str]:
        return {**super().stated(), "pool": self.pool}

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        needed_bytes = _THIN_BYTES_MIN if self.pool == "lvm-thin" else _DEVICE_BYTES_MIN
        if lower.smallest_bytes < needed_bytes:
            yield Diagnostic(
                f"a pool of containers needs {describe_size(needed_bytes)}, and the device has "
                f"{describe_size(lower.smallest_bytes)}",
                remedy="raise the `capacity` of the device",
            )
        if self.filesystem is not None and self.pool != "lvm-thin":
            yield Diagnostic(
                f"the pool {self.pool} is a filesystem itself",
                remedy='leave it out, or write pool = "lvm-thin"',
                key="filesystem",
            )
        if self.pool == "zfs":
            yield from self._zpool.diagnostics(lower, named)

    def share_diagnostics(self, lower: Provided, tenants: int) -> Iterable[Diagnostic]:
        if self.pool == "lvm-thin" and lower.smallest_bytes < tenants * _THIN_BYTES_MIN:
            yield Diagnostic(
                f"{tenants} containers on thin LVM need {describe_size(tenants * _THIN_BYTES_MIN)}",
                remedy="raise the `capacity` of the device",
            )

    @property
    def _zpool(self) -> Zpool:
        return Zpool().model_copy(update={"arc_max_bytes": self.arc_max_bytes})

    def with_memory(self, ratio: float) -> Self:
        return self.model_copy(update={"arc_max_bytes": whole_mib(self.arc_max_bytes * ratio)})

    def kernel_memory_bytes(self) -> int:
        return self.arc_max_bytes if self.pool == "zfs" else 0

    def buffers_direct_io(self, kernel: tuple[int, int] | None, write_bytes: int | None) -> str | None:
        match self.pool:
            case "btrfs":
                return buffers_checksums(kernel, write_bytes)
            case "zfs":
                return Zfs().buffers_direct_io(kernel, write_bytes)
        return None

    def caches_direct_io(self) -> bool:
        return self.pool == "zfs"

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        if self.pool == "lvm-thin":
            return self._volume_bytes(Provided("block", tuple(lower_bytes)), 1)
        return sum(lower_bytes)

    def resized_bytes(self, context: LayerContext) -> int:
        if self.pool != "lvm-thin":
            return super().resized_bytes(context)
        return self._volume_bytes(context.provided, len(context.tenants)) + _LARGER_BYTES

    def _volume_bytes(self, lower: Provided, containers: int) -> int:
        """Of a root's volume on thin LVM: the pool keeps room for its image and its metadata."""
        whole_bytes = extents_bytes(lower) * 3 // 4 // max(1, containers)
        return max(EXTENT_BYTES, whole_bytes - whole_bytes % EXTENT_BYTES)

    def below(self, context: LayerContext) -> list[Step]:
        own = _pool_context(context)
        if self.pool == "btrfs":
            return Btrfs().build(own)
        return self._zpool.build(own) if self.pool == "zfs" else _group(context).create()

    def below_again(self, context: LayerContext) -> list[Step]:
        own = _pool_context(context)
        if self.pool == "btrfs":
            return Btrfs().assemble(own)
        return self._zpool.assemble(own) if self.pool == "zfs" else []

    def activated(self, context: LayerContext) -> list[Step]:
        if self.pool != "lvm-thin":
            return []
        activate = ("vgchange", "--activate", "y", context.label)
        return [_group(context).make("activate", "Bring up the volumes", *activate)]

    def known_settings(self, context: LayerContext) -> list[str]:
        names = {"lvm-thin": "lvm.vg_name", "zfs": "zfs.pool_name"}
        _, source, *_ = self.pool_of(context)
        return [f"{names[self.pool]}={source}"] if self.pool in names else []

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        return Btrfs().check_argv(_pool_context(context)) if self.pool == "btrfs" else None

    def pool_of(self, context: LayerContext) -> tuple[str, ...]:
        if self.pool == "btrfs":
            return ("btrfs", f"{context.mount}/{context.name}")
        if self.pool == "zfs":
            return ("zfs", f"{context.label}/{context.name}")
        size_bytes = self._volume_bytes(context.provided, len(context.tenants))
        return (
            *("lvm", context.label, f"lvm.thinpool_name={_THIN_POOL}"),
            *(f"volume.size={size_bytes}B", f"volume.block.filesystem={self.filesystem or 'ext4'}"),
        )


def _pool_context(context: LayerContext) -> LayerContext:
    return replace(context, prefix=f"{context.prefix or context.name}-pool")


def _group(context: LayerContext) -> VolumeGroup:
    return VolumeGroup(_pool_context(context), context.lower)
