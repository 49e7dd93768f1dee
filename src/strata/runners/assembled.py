# SPDX-License-Identifier: Apache-2.0
"""The parts that a trial assembled on a host, and their removal if the trial could not do it.

Only the trial's own is touched: what carries its unique name, what stands on its loop devices or real disks,
what is mounted in its folder, and network block devices still connected by its process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal

from strata.disks.machine import OWN_MOUNTS, mounts_under
from strata.errors import RunError
from strata.runners.block_devices import Attached, connections_left, mark_of, take
from strata.runners.disks import disks_left
from strata.runners.kernel import POOLS, HostKernel, made_in_this_boot, stack_name

_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.05
CGROUPS: Final = ("sys/fs/cgroup", "sys/fs/cgroup/unified")  # beside version 1, where both are mounted

Kind = Literal["mount", "pool", "dm", "md", "bcache", "nbd", "loop"]


@dataclass(frozen=True, order=True)
class AssembledPart:
    kind: Kind
    name: str  # for a block device that in /sys/block
    label: str = ""  # the name that people know: a file, a name of the device mapper

    def __str__(self) -> str:
        kind = {"mount": "", "pool": "the pool ", "bcache": "bcache on "}.get(self.kind, "/dev/")
        return f"{kind}{self.name}" + (f" ({self.label})" if self.label else "")

    @property
    def stands_on_devices(self) -> bool:
        """Whether the kernel names the devices below it."""
        return self.kind in ("dm", "md", "nbd", "loop")

    @property
    def taken_down(self) -> str:
        done = {"mount": "unmounted", "loop": "detached", "pool": "exported", "bcache": "stopped"}
        return f"{done.get(self.kind, 'removed')} {self}"


@dataclass
class Assembled:
    """The mounts, pools and devices that one trial has assembled."""

    path: Path
    kernel: HostKernel = field(default_factory=HostKernel)
    patience_s: float = _PATIENCE_S
    _loops: dict[str, Attached] = field(default_factory=dict)
    _backing: dict[str, str] = field(default_factory=dict)

    def parts(self) -> list[AssembledPart]:
        """All parts that exist now, in a fixed order."""
        self._loops = {}
        for name in self.kernel.names("sys/block"):
            if self._has(name, "loop/backing_file") and (found := self.kernel.attached(self._node(name))):
                self._loops[name] = found
        self._backing = self._backing_devices()
        own = self._own_blocks()
        # A real disk stays, also a loop device: it is the user's. Only the stack on it is taken down.
        made = sorted(own - self._real_disks())
        parts = [part for part in map(self._part, made) if part is not None]
        parts += [AssembledPart("bcache", name) for name in sorted(own) if self._has(name, "bcache")]
        mounts = mounts_under(self.path, self.kernel.root / OWN_MOUNTS.relative_to("/"))
        return [
            *(AssembledPart("mount", str(point)) for point in mounts),
            *(AssembledPart("pool", name) for name in self._named(POOLS)),
            *parts,
        ]

    def take_down(self) -> list[str]:
        """Take everything down from the top; returns a line for each part.

        Raises RunError if something stays.
        """
        removed: list[str] = []
        deadline_s = time.monotonic() + self.patience_s
        parts = self.parts()
        while parts:
            refusals = [f"{part}: {why}" for part in self._uppermost(parts) if (why := self._take_down(part))]
            left = self.parts()
            if left == parts:
                if time.monotonic() > deadline_s:
                    raise self._still_in_use(left, refusals)
                time.sleep(_POLL_S)  # devices are released in the background
                left = self.parts()
            if left != parts:
                removed += [part.taken_down for part in parts if part not in left]
                deadline_s = time.monotonic() + self.patience_s
                parts = left
        for name in self._real_disks():
            self._forget(name)
        return removed + self._remove_groups() + self._remove_nodes()

    def _still_in_use(self, parts: list[AssembledPart], refusals: list[str]) -> RunError:
        why = f" ({'; '.join(refusals)})" if refusals else ""
        return RunError(
            f"still in use: {', '.join(map(str, parts))}{why}",
            place=str(self.path),
            remedy="see what uses it (`lsof`, `fuser -vm`), end that, then run `strata lab clean` as root",
        )

    def _uppermost(self, parts: list[AssembledPart]) -> list[AssembledPart]:
        """The parts that carry no other part."""
        carrying = {lower for part in parts if part.stands_on_devices for lower in self._lower(part.name)}

        def is_covered(part: AssembledPart) -> bool:
            if part.kind == "bcache":
                return not carrying.isdisjoint(self.kernel.names(f"sys/block/{part.name}/holders"))
            return part.stands_on_devices and (part.name in carrying or self._has(part.name, "bcache"))

        return [part for part in parts if not is_covered(part)]

    def _take_down(self, part: AssembledPart) -> str | None:
        """Take one part down; returns the reason if that fails at once."""
        lines: dict[Kind, tuple[str, ...]] = {
            "mount": ("umount", part.name),
            "pool": ("zpool", "export", "-f", part.name),
            "dm": ("dmsetup", "remove", "--retry", part.label),
            "md": ("mdadm", "--stop", f"/dev/{part.name}"),
        }
        if part.kind == "loop":
            return self._detach(part.name)
        if part.kind == "bcache":
            return self._stop_bcache(part.name)
        if part.kind == "nbd":
            return self._disconnect(part.name)
        return _why_failed(self.kernel.call(*lines[part.kind]))

    def _forget(self, name: str) -> None:
        """Make the kernel's btrfs forget a device.

        Otherwise it takes the device for part of the next filesystem with that UUID, and mounts that on no
        other device.
        """
        if self.kernel.has("dev/btrfs-control"):
            self.kernel.call("btrfs", "device", "scan", "--forget", f"/dev/{name}")

    def _detach(self, name: str) -> str | None:
        found = self._loops.get(name)
        if found is None:
            return "the kernel does not tell what it is attached to"
        self._forget(name)
        return self.kernel.detach(self._node(name), found)

    def _disconnect(self, name: str) -> str | None:
        """Disconnect a device while it is reserved, so that no other trial gets it after the last check."""
        lock = take(name)
        if lock is None:
            return "another trial has taken it"
        with lock:
            if name not in self._network_devices():
                return None
            done = self.kernel.call("nbd-client", "-d", f"/dev/{name}")
            if done.returncode == 127:
                done = self.kernel.call("qemu-nbd", "--disconnect", f"/dev/{name}")
            return _why_failed(done)

    def _stop_bcache(self, name: str) -> str | None:
        """A cache stops with its set and the set's disks; a disk without a cache stops by itself."""
        folder = self.kernel.root / "sys/block" / name / "bcache"
        own_set = folder / "set" / "stop"
        try:
            (own_set if own_set.exists() else folder / "stop").write_text("1")
        except OSError as error:
            return error.strerror
        return None

    def _own_blocks(self) -> set[str]:
        known: dict[str, bool] = {}
        blocks = self.kernel.names("sys/block")
        network = self._network_devices()
        disks = self._real_disks()

        def is_own(name: str) -> bool:
            if name not in known:
                known[name] = False  # a device that stands on itself ends here
                known[name] = (
                    name in network
                    or name in disks
                    or self._is_own_loop(name)
                    or self._is_own_name(self._block(name, "dm/name"))
                    or any(is_own(lower) for lower in self._lower(name))
                )
            return known[name]

        return {name for name in blocks if is_own(name)}

    def _part(self, name: str) -> AssembledPart | None:
        kind = name.rstrip("0123456789")
        if kind == "dm-":
            return AssembledPart("dm", name, self._block(name, "dm/name"))
        if kind == "loop":
            file = self._block(name, "loop/backing_file")
            return AssembledPart("loop", name, file) if file else None
        if kind == "md" and self._block(name, "md/array_state") not in ("", "clear"):
            return AssembledPart("md", name)
        if kind == "nbd" and self._has(name, "pid"):
            return AssembledPart("nbd", name)
        return None

    def _is_own_loop(self, name: str) -> bool:
        """Whether it is a loop device with the trial's mark, or with a file in the trial's folder.

        Only its name identifies a file on a filesystem that is no longer mounted. Elsewhere names prove
        nothing.
        """
        backing = self._block(name, "loop/backing_file").removesuffix(" (deleted)")
        if not backing:
            return False
        file, found = Path(backing), self._loops.get(name)
        if found is not None and found.mark.startswith(mark_of(self.path)):
            return True
        if file.is_relative_to(self.path):
            return True
        return self._is_own_name(file.name) and not self._is_visible(file, found)

    def _is_visible(self, file: Path, found: Attached | None) -> bool:
        """Whether a loop device's file is at the path that the kernel reports."""
        try:
            state = (self.kernel.root / str(file).lstrip("/")).stat()
        except OSError:
            return False
        return found is None or (state.st_dev, state.st_ino) == (found.device, found.inode)

    def _is_own_name(self, name: str) -> bool:
        stack = stack_name(self.path)
        return name == stack or name.startswith((f"{stack}_", f"{stack}-"))

    def _lower(self, name: str) -> list[str]:
        """The devices below one."""
        lower = self.kernel.names(f"sys/block/{name}/slaves")
        return [*lower, self._backing[name]] if name in self._backing else lower

    def _backing_devices(self) -> dict[str, str]:
        """The block device under each loop device's file, also when its filesystem is no longer mounted."""
        found = {}
        for name, loop in self._loops.items():
            number = f"{os.major(loop.device)}:{os.minor(loop.device)}"
            with suppress(OSError):  # of a filesystem on no device
                found[name] = (self.kernel.root / "sys/dev/block" / number).readlink().name
        return found

    def _network_devices(self) -> set[str]:
        """The devices connected for the trial, and not reconnected since."""
        if not made_in_this_boot(self.path, self.kernel):
            return set()
        return connections_left(self.path, self.kernel.root)

    def _real_disks(self) -> set[str]:
        """The trial's real disks; after a restart, what stands on them may be anybody's."""
        if not made_in_this_boot(self.path, self.kernel):
            return set()
        return disks_left(self.path, self.kernel)

    def _remove_groups(self) -> list[str]:
        removed = []
        groups = [(place, name) for place in CGROUPS for name in self._named(place)]
        for place, name in groups:
            folder = self.kernel.root / place / name
            with suppress(OSError):
                (folder / "cgroup.kill").write_text("1")
            inner = sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True)
            if not within(self.patience_s, partial(_all_removed, (*inner, folder))):
                raise RunError(
                    "the control group cannot be removed",
                    place=str(folder),
                    remedy="end the processes in its cgroup.procs, then run `strata lab clean` as root",
                )
            removed.append(f"removed the control group {name}")
        return removed

    def _remove_nodes(self) -> list[str]:
        """Remove the folders in /dev that a layer made for its own nodes and links."""
        removed = []
        for name in self._named("dev"):
            shutil.rmtree(self.kernel.root / "dev" / name, ignore_errors=True)
            removed.append(f"deleted /dev/{name}")
        return removed

    def _named(self, folder: str) -> list[str]:
        """The folders there that carry the trial's name."""
        names = (name for name in self.kernel.names(folder) if self._is_own_name(name))
        return [name for name in names if (self.kernel.root / folder / name).is_dir()]

    def _node(self, name: str) -> Path:
        return self.kernel.root / "dev" / name

    def _block(self, name: str, file: str) -> str:
        return self.kernel.content(f"sys/block/{name}/{file}").decode(errors="replace").rstrip("\n")

    def _has(self, name: str, file: str) -> bool:
        return self.kernel.has(f"sys/block/{name}/{file}")


def _why_failed(done: subprocess.CompletedProcess[str]) -> str | None:
    return None if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"


def _all_removed(groups: tuple[Path, ...]) -> bool:
    for group in groups:
        with suppress(OSError):
            group.rmdir()
    return not any(group.exists() for group in groups)


def within(patience_s: float, condition: Callable[[], bool]) -> bool:
    """Wait until a condition holds; False when it does not in time."""
    deadline_s = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True
