# SPDX-License-Identifier: Apache-2.0
"""A machine's kernel: what plans need of it, modules that are loaded for them, and parameters of modules.

A parameter affects every user of the module, and a killed trial cannot restore it. So the previous values are
noted in the private folder before the first step.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.disks.machine import Machine
from strata.errors import LabError, RunError
from strata.files import explained
from strata.lab.folder import PREFIX
from strata.model.knobs import EITHER, queue_number
from strata.model.step import Prerequisites
from strata.plan.model import Plan
from strata.runners.block_devices import Attached, attached, detach

BOOT_NAME: Final = "boot"
"""The file of a private folder that names the start of the machine that it was made in."""
_BOOT_ID: Final = "proc/sys/kernel/random/boot_id"

_LAB_ONLY: Final = {
    "guest:uml": 'only the lab has User-Mode Linux: write emulator = "qemu"',
    "container:incus": "running Incus on a host, beside a daemon of the machine's own, is not built; "
    'there { layer = "nspawn" } on a filesystem is a container without a daemon',
    "filesystem:overlay": "mounting overlayfs within a host's sandbox is not built; the lab has it",
    "nfs": "serving NFS within a host's sandbox is not built; the lab has it",
    "modelled-disks": "only the lab has modelled disks, which obey a study",
}
"""The features, and kinds of features, that no host has, each with the reason as half a sentence."""

_EXTENSIONS: Final = (
    *("usr/share/postgresql/*/extension", "usr/share/postgresql/extension"),  # Debian; Arch and Alpine
    *("usr/share/pgsql/extension", "usr/pgsql-*/share/extension"),  # Fedora; PostgreSQL's own packages
)
"""The folders of PostgreSQL's extensions, by distribution."""


def lab_only(prerequisites: Prerequisites) -> list[str]:
    """Why no host meets the needs of a plan, each as half a sentence."""
    return list(dict.fromkeys(filter(None, map(_only_the_lab, prerequisites.features))))


def _only_the_lab(feature: str) -> str | None:
    return _LAB_ONLY.get(feature, _LAB_ONLY.get(feature.partition(":")[0]))


@dataclass(frozen=True)
class HostKernel(Machine):
    attached: Callable[[Path], Attached | None] = attached  # the file of a loop device
    detach: Callable[[Path, Attached], str | None] = detach  # only from this file; returns why not

    def unmet(self, prerequisites: Prerequisites) -> Iterator[str]:
        """The plan's needs that the kernel does not meet, each as half a sentence."""
        for module in prerequisites.modules:
            if not self._is_loaded(module) and not self._can_load(module):
                yield f"the kernel has no module {module}"
        yield from filter(None, map(self._lacking, prerequisites.features))

    def load(self, prerequisites: Prerequisites) -> None:
        """Load the modules that a plan needs and that do not load on first use.

        Raises LabError if one cannot load.
        """
        needed = filter(None, map(self._module_to_load, prerequisites.features))
        for module in dict.fromkeys((*prerequisites.modules, *needed)):
            if self._is_loaded(module):
                continue
            done = self.call("modprobe", module)
            if done.returncode != 0:
                raise LabError(
                    f"the kernel's module {module} cannot be loaded: {done.stderr.strip()}",
                    place="modprobe",
                    remedy="see `dmesg`; or run the study in the lab, which has it",
                )

    def _lacking(self, feature: str) -> str | None:
        kind, _, name = feature.partition(":")
        checks: dict[str, Callable[[str], str | None]] = {
            "filesystem": self._lacking_filesystem,
            "md": self._lacking_md,
            "dm": self._lacking_dm,
            "driver": self._lacking_driver,
            "bcache": self._lacking_bcache,
            "cgroup": self._lacking_controller,
            "quota": self._lacking_quota,
            "xfs-scrub": self._lacking_xfs_scrub,
            "guest": lambda _: None,  # QEMU, which is a tool of the plan
            "container": lambda _: self._lacking_filesystem("squashfs"),  # of its image
            "sysctl": self._lacking_sysctl,
            "queue": self._lacking_queue,
            "scheduler": self._lacking_scheduler,
            "io": self._lacking_io,
            "postgresql": self._lacking_extension,
        }
        if (reason := _only_the_lab(feature)) is not None:
            return reason
        check = checks.get(kind)
        return check(name) if check else f"this Strata cannot see whether the machine has {feature}"

    def _lacking_extension(self, name: str) -> str | None:
        if any(any(self.root.glob(f"{folder}/{name}.control")) for folder in _EXTENSIONS):
            return None
        return f"its PostgreSQL has no extension {name}"

    def _lacking_filesystem(self, name: str) -> str | None:
        known = {words[-1] for words in self.lines("proc/filesystems") if words}
        if name in known or self._can_load(f"fs-{name}"):
            return None
        return f"the kernel has no filesystem {name}"

    def _lacking_md(self, level: str) -> str | None:
        if f"[{level}]" in self.text("proc/mdstat") or self._can_load(f"md-{level}"):
            return None
        return f"the kernel has no arrays of level {level} (MD)"

    def _lacking_dm(self, target: str) -> str | None:
        listed = self.call("dmsetup", "targets")
        known = [line.partition(" ")[0] for line in listed.stdout.splitlines()]
        if listed.returncode == 0 and target in known:
            return None
        # The module of the target itself; a target that is none of a module's own is the device mapper's.
        if self._can_load(f"dm-{target}") or (target in {"linear", "striped"} and self._can_load("dm-mod")):
            return None
        return f"the kernel's device mapper has no target {target}"

    def _lacking_driver(self, name: str) -> str | None:
        built_in = {"loop": "dev/loop-control", "nbd": "sys/block/nbd0"}.get(name)
        if (built_in and self.has(built_in)) or self._is_loaded(name) or self._can_load(name):
            return None
        return f"the kernel has no driver {name}"

    def _lacking_bcache(self, _: str) -> str | None:
        if self.has("sys/fs/bcache") or self._can_load("bcache"):
            return None
        return "the kernel has no bcache"

    def _lacking_controller(self, name: str) -> str | None:
        if name in self.text("sys/fs/cgroup/cgroup.controllers").split():
            return None
        return f"/sys/fs/cgroup has no control groups of version 2 with the controller {name}"

    def _lacking_quota(self, name: str) -> str | None:
        if name == "v2":
            has = self._option("QFMT_V2") == "y" or self._is_loaded("quota_v2") or self._can_load("quota_v2")
            return None if has else "the kernel has no quotas of format 2 (CONFIG_QFMT_V2)"
        option = f"{name.upper()}_QUOTA"
        return f"the kernel's {name} has no quotas (CONFIG_{option})" if self._option(option) == "n" else None

    def _lacking_sysctl(self, name: str) -> str | None:
        has = self.has(f"proc/sys/{name.replace('.', '/')}")
        return None if has else f"the kernel has no setting {name}"

    def _lacking_queue(self, name: str) -> str | None:
        has = any(self.root.glob(f"sys/block/*/queue/{name}"))
        return None if has else f"no disk's queue has a setting {name}"

    def _lacking_scheduler(self, name: str) -> str | None:
        known = (path.read_text() for path in self.root.glob("sys/block/*/queue/scheduler"))
        if any(re.search(rf"(?<![\w-]){name}(?![\w-])", text) for text in known):
            return None
        return None if self._can_load(f"{name}-iosched") else f"the kernel has no I/O scheduler {name}"

    def _lacking_io(self, name: str) -> str | None:
        option = {"latency": "BLK_CGROUP_IOLATENCY", "weight": "BLK_CGROUP_IOCOST"}[name]
        lacks = self._option(option) == "n"
        return f"the kernel's control groups have no io.{name} (CONFIG_{option})" if lacks else None

    def _lacking_xfs_scrub(self, _: str) -> str | None:
        if self._option("XFS_ONLINE_SCRUB") != "n":
            return None
        return "the kernel cannot scrub a mounted XFS (CONFIG_XFS_ONLINE_SCRUB)"

    def _option(self, name: str) -> str | None:
        """``y``, ``m`` or ``n`` of the kernel's configuration; None if it is not available."""
        if packed := self.content("proc/config.gz"):
            stated = gzip.decompress(packed).decode()
        else:
            release = self.text("proc/sys/kernel/osrelease")
            stated = self.text(f"boot/config-{release}") or self.text(f"lib/modules/{release}/config")
        found = re.search(rf"^CONFIG_{name}=(.*)$", stated, re.MULTILINE)
        return found[1] if found else "n" if stated else None

    def _module_to_load(self, feature: str) -> str | None:
        """The module of a feature that does not load on first use."""
        kind, _, name = feature.partition(":")
        if kind == "driver" and not self.has(f"sys/block/{name}0"):
            return name
        if kind == "bcache" and not self.has("sys/fs/bcache"):
            return "bcache"
        if kind == "dm" and ["device-mapper"] not in [words[1:] for words in self.lines("proc/devices")]:
            return "dm-mod"
        if kind == "md" and f"[{name}]" not in self.text("proc/mdstat"):
            return f"md-{name}"
        return None

    def _is_loaded(self, module: str) -> bool:
        return self.has(f"sys/module/{module.replace('-', '_')}")

    def _can_load(self, module: str) -> bool:
        return self.call("modprobe", "--dry-run", "--quiet", module).returncode == 0


def stack_name(path: Path) -> str:
    """The unique prefix of the names of all that a trial assembles, allowed in any name."""
    return path.name.replace("-", "_")


def boot_id(kernel: HostKernel) -> str:
    """The identity of this start of the machine."""
    return kernel.text(_BOOT_ID)


def made_in_this_boot(path: Path, kernel: HostKernel) -> bool:
    """Whether the machine has not restarted since a private folder was made."""
    try:
        return (path / BOOT_NAME).read_text().strip() == boot_id(kernel)
    except OSError:
        return False


PARAMETERS_NAME: Final = "parameters.json"
"""The file of a private folder that holds each parameter's previous value and the value to restore."""

_PARAMETER: Final = re.compile(
    r"/(sys/module/[a-z0-9_]+/parameters/[a-z0-9_]+|proc/sys/vm/[a-z_]+"
    r"|sys/devices/[\w.:/!-]+/queue/[a-z_]+)",
    re.ASCII,
)
_QUEUE: Final = "/sys/dev/block/${{{}}}/"
_VM: Final = "proc/sys/vm"
_ZFS: Final = "sys/module/zfs/parameters"
_ARC_MAX: Final = f"{_ZFS}/zfs_arc_max"
_ARC_STATISTICS: Final = "proc/spl/kstat/zfs/arcstats"
POOLS: Final = "proc/spl/kstat/zfs"


def parameters_set(plan: Plan, devices: Mapping[str, str], kernel: HostKernel) -> list[str]:
    """The parameter files that a plan's steps write, without the leading slash.

    ``devices`` are the nodes of the plan's disks, by name.
    """
    words = {word for step in plan.steps if step.argv[0] == "tee" for word in step.argv[1:]}
    for disk, node in devices.items():
        queue = _QUEUE.format(queue_number(disk))
        place = (kernel.root / "sys/class/block" / Path(node).resolve().name).resolve()
        real = f"/{place.relative_to(kernel.root.resolve())}/"
        words = {word.replace(queue, real) for word in words}
    for pair in EITHER.items():  # setting one clears the other
        both = {f"/{_VM}/{name}" for name in pair}
        words |= both if words & both else set()
    return sorted(match[1] for word in words if (match := _PARAMETER.fullmatch(word)))


def endangered_pools(plan: Plan, kernel: HostKernel) -> str | None:
    """Why a plan must not run on a machine with other ZFS pools, as half a sentence.

    A limit of the cache, which every pool's plan sets, costs other pools speed at worst; any other parameter
    may cost them data.
    """
    names = [
        Path(file).name
        for file in parameters_set(plan, {}, kernel)
        if file.startswith(_ZFS) and file != _ARC_MAX
    ]
    folder = kernel.root / POOLS
    pools = sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
    others = [pool for pool in pools if not pool.startswith(stack_name(Path(PREFIX)))]
    if not names or not others:
        return None
    return f"{', '.join(names)} would hold for other ZFS pools, too: {', '.join(others)}"


def note_parameters(plan: Plan, devices: Mapping[str, str], path: Path, kernel: HostKernel) -> None:
    """Note the current values of the parameters that a plan sets. Raises LabError if that fails."""
    noted = {}
    for file in parameters_set(plan, devices, kernel):
        if was := _value(file, kernel):
            # 0 means that ZFS chooses the limit, when it is loaded: set later it changes nothing.
            limits = [words[-1] for words in kernel.lines(_ARC_STATISTICS) if words[:1] == ["c_max"]]
            noted[file] = {"was": was, "back": limits[0] if limits and file == _ARC_MAX else was}
    if noted:
        with explained(path, "note the modules' parameters", LabError):
            (path / PARAMETERS_NAME).write_text(json.dumps(noted))


def _value(file: str, kernel: HostKernel) -> str:
    """A parameter's value; of a list of possible ones, such as schedulers, the one in brackets."""
    text = kernel.text(file)
    chosen = re.search(r"\[([\w-]+)\]", text)
    return chosen[1] if chosen else text


def set_back(path: Path, kernel: HostKernel) -> list[str]:
    """Restore the parameters of a trial that was killed; returns a line for each.

    Raises RunError if one cannot be written.
    """
    if not made_in_this_boot(path, kernel):
        return []
    noted: dict[str, dict[str, str]] = {}
    with suppress(OSError, ValueError):
        noted = json.loads((path / PARAMETERS_NAME).read_text())
    said = []
    for file, values in noted.items():
        now = _value(file, kernel)
        if values["back"] == "0" and Path(file).name in EITHER.values():
            continue  # the kernel refuses it: setting the ratio back clears it
        if not _PARAMETER.fullmatch(f"/{file}") or not now or now in values.values():
            continue
        try:
            (kernel.root / file).write_text(f"{values['back']}\n")
        except OSError as error:
            raise RunError(
                f"a module's parameter cannot be set back to {values['back']}: {error.strerror}",
                place=f"/{file}",
                remedy="run `strata lab clean` as root",
            ) from error
        said.append(f"set {Path(file).name} back to {values['back']}")
    return said
