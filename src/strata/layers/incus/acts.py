# SPDX-License-Identifier: Apache-2.0
"""What Incus does to a container as a whole: copies, snapshots, the way back, limits of space."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from strata.layers.container import Container, container_of, folder_of
from strata.layers.incus.client import IMAGE, POOL, environment_of, incus
from strata.model.abilities import Outcome
from strata.model.layer import LayerContext
from strata.model.step import Command, Step
from strata.units import NS_PER_S

_LAUNCHED: Final = "launched"
_COPY: Final = "copy"
_MOVED: Final = "moved"
_ACT_LIMIT_NS: Final = 3600 * NS_PER_S


class ContainerActs(Container):
    """The abilities of the layers that put a container on a pool of Incus."""

    @abstractmethod
    def settings(self, context: LayerContext) -> list[str]:
        """The options of a new container."""

    @abstractmethod
    def served(self, context: LayerContext) -> list[Step]:
        """The steps that bring up the daemon and its pool, as they were."""

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
        made = ("--storage", POOL, *self.settings(context))
        argv = ("incus", "delete", "--force", _LAUNCHED)
        launched = Command(argv=argv, environment=environment_of(context), cwd="${scratch}")
        words = {
            "launch": ("Launch a container", "launch", IMAGE, _LAUNCHED, *made),
            "copy": ("Copy the stack's container", "copy", own, _COPY, "--stateless"),
            "resize": ("Resize the copy", "config", "device", "set", _COPY, "root", size),
            "move": ("Move the copy to another name", "move", _COPY, _MOVED),
            "delete": ("Delete it, with its snapshot", "delete", _MOVED),
        }
        acts = {name: [_act(context, name, *each)] for name, each in words.items()}
        acts["launch"] = [step.model_copy(update={"undo": launched}) for step in acts["launch"]]
        acts["snapshot"] = [_snapshot(context, _COPY, "before")]
        acts["restore"] = [_restore(context, _COPY, "before")]
        return acts

    def snapshot(self, context: LayerContext, name: str) -> list[Step] | None:
        return [_snapshot(context, container_of(context), name), _written(context)]

    def drop_snapshot(self, context: LayerContext, name: str) -> list[Step]:
        argv = ("snapshot", "delete", container_of(context), name)
        return [_act(context, "drop", f"Delete the snapshot {name}", *argv)]

    def restore(self, context: LayerContext, name: str) -> list[Step] | None:
        back = [_restore(context, container_of(context), name), _written(context)]
        steps = [*self.served(context), *back, *self.started(context)]
        return [step.model_copy(update={"cwd": "${scratch}"}) for step in steps]

    def clone(self, context: LayerContext, name: str) -> Outcome | None:
        clone = f"{name}-clone"
        snapshot = f"{container_of(context)}/{name}"
        made = _act(context, "clone", f"Copy the snapshot {name}", "copy", snapshot, clone)
        stop = Command(
            argv=("incus", "stop", "--force", clone), environment=environment_of(context), cwd="${scratch}"
        )
        # Only the root of a container that runs is mounted.
        started = _act(context, "clone-start", "Start the copy", "start", clone, undo=stop)
        return Outcome([made, _written(context), started], _root_of(context, clone) + self.path(context))

    def quota(self, context: LayerContext, limit_bytes: int) -> Outcome | None:
        argv = ("config", "device", "set", container_of(context), "root", f"size={limit_bytes}B")
        limited = _act(context, "quota", "Limit the size of the container's root", *argv)
        return Outcome([limited], self.path(context))


def _act(context: LayerContext, name: str, title: str, *argv: str, **fields: Any) -> Step:
    return incus(context, name, title, *argv, outside=True, **{"time_limit_ns": _ACT_LIMIT_NS, **fields})


def _snapshot(context: LayerContext, container: str, name: str) -> Step:
    return _act(context, "snapshot", f"Take a snapshot of {container}", "snapshot", "create", container, name)


def _restore(context: LayerContext, container: str, name: str) -> Step:
    argv = ("snapshot", "restore", container, name)
    return _act(context, "restore", f"Bring {container} back to a snapshot", *argv)


def _written(context: LayerContext) -> Step:
    """The data of an act of the daemon, which may be in the page cache."""
    return context.of_tenant.act("written", "Write back what is left of it", "sync", outside=True)


def _root_of(context: LayerContext, container: str) -> str:
    """The root of a container that runs, as the daemon sees it."""
    daemon = f"/proc/${{{_daemon_variable(context)}}}/root"
    return f"{daemon}{folder_of(context)}/storage-pools/{POOL}/containers/{container}/rootfs"


def _daemon_variable(context: LayerContext) -> str:
    return f"{context.name}-daemon"
