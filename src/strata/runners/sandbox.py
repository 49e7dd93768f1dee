# SPDX-License-Identifier: Apache-2.0
"""The sandbox of the steps of a trial on a host, which the agent builds before the first step.

Lists of allowed options are the first barrier. The sandbox is the second, whatever a step's command line says
(docs/explanation/host-sandbox.md).
"""

from __future__ import annotations

import fcntl
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from strata.disks.machine import CALL_LIMIT_S, call
from strata.errors import LabError, ToolError
from strata.lab.folder import PrivateFolder
from strata.plan.model import Plan
from strata.runners.assembled import CGROUPS
from strata.runners.kernel import HostKernel, made_in_this_boot, parameters_set, stack_name

INNER: Final = "trial"
"""The folder of a private folder at which the steps have one in memory; beside it lie the trial's records."""
VIEW: Final = "view"
"""The empty folder of a private folder in which the agent puts together what the steps see."""
SPARES_NAME: Final = "spare-loops"
"""The file of a private folder that holds the numbers of the loop devices that were made for the trial."""

_TRY_PREFIX: Final = "strata-sandbox-"
_TRY_LIMIT_S: Final = 2 * CALL_LIMIT_S
_CONTROL: Final = Path("/dev/loop-control")
_LOOP_CTL_ADD: Final = 0x4C80  # linux/loop.h
_LOOP_CTL_REMOVE: Final = 0x4C81
# The kernel hands out free loop devices from the lowest number up, so others get these last.
_SPARE_FIRST: Final = 4096
_SPARE_LAST: Final = 8192
_CONTROLS: Final = {"dm": "/dev/mapper/control", "btrfs": "/dev/btrfs-control", "zfs": "/dev/zfs"}
_VIRTUAL_BLOCKS: Final = "/sys/devices/virtual/block"


def sandbox_of(
    plan: Plan,
    path: Path,
    devices: Iterable[str],
    reads: Iterable[str],
    kernel: HostKernel,
    *,
    disks: Mapping[str, str],
) -> dict[str, Any]:
    """The section ``sandbox`` of the bindings, for a plan whose modules are loaded.

    `path` is the trial's private folder; `reads` are files outside it that the steps read; `disks` are the
    nodes of the plan's disks by name.
    """
    wanted: dict[str, set[str]] = defaultdict(set)
    for feature in plan.prerequisites.features:
        kind, _, name = feature.partition(":")
        wanted[kind].add(name)
    if "zfs" in plan.prerequisites.modules:
        wanted["zd"], wanted["filesystem"] = {"zfs"}, wanted["filesystem"] | {"zfs"}
    kinds = [kind for kind in ("dm", "md", "bcache", "zd") if kind in wanted]
    controls = [_CONTROLS[name] for name in ("dm", "btrfs", "zfs") if name in {*kinds, *wanted["filesystem"]}]
    given = sorted(set(devices))
    return {
        "folder": str(path / INNER),
        "root": str(path / VIEW),
        "stack": stack_name(path),
        "reads": sorted(set(reads)),
        "writes": [
            each for each in _written(plan, given, kernel, disks) if (kernel.root / each[1:]).exists()
        ],
        "nodes": [*given, *(node for node in controls if (kernel.root / node[1:]).exists())],
        "kinds": kinds,
        "filesystems": sorted(wanted["filesystem"]),
        "controllers": sorted(wanted["cgroup"]),
        # nbd-client speaks to the driver by netlink, which answers in the machine's own network alone.
        "network": "nbd" in wanted["driver"],
    }


def _written(plan: Plan, devices: list[str], kernel: HostKernel, disks: Mapping[str, str]) -> Iterator[str]:
    """The files and folders of /proc and /sys that the layers' steps write."""
    yield "/proc/sys/vm/drop_caches"
    yield from (f"/{file}" for file in parameters_set(plan, disks, kernel))
    kinds = {feature.partition(":")[0] for feature in plan.prerequisites.features}
    if kinds & {"md", "bcache"}:
        yield _VIRTUAL_BLOCKS  # where assembled devices appear
    if "md" in kinds:
        yield "/sys/module/md_mod/parameters/new_array"
    if "bcache" in kinds:
        yield "/sys/fs/bcache"
        for device in devices:
            place = (kernel.root / "sys/class/block" / Path(device).resolve().name).resolve()
            yield f"/{place.relative_to(kernel.root)}"


def try_sandbox(agent: Path) -> None:
    """See that this machine can keep the steps in a sandbox.

    Raises ToolError if it cannot: they are not run without.
    """
    _sweep()
    with tempfile.TemporaryDirectory(prefix=_TRY_PREFIX) as folder:
        (Path(folder) / "root").mkdir()
        done = call(str(agent), "sandbox", folder, stack_name(Path(folder)))
    if done.returncode != 0:
        raise ToolError(
            "this machine cannot keep the steps of a plan from its other disks and files: "
            f"{done.stderr.strip()}",
            place="the host runner",
            remedy="use Linux 5.12 or later with control groups of version 2, outside of containers; "
            "or leave out --runner host: the lab needs neither",
        )


def _sweep() -> None:
    """Remove the empty control groups of try-outs that were killed; the kernel refuses those in use."""
    for place in CGROUPS:
        for group in Path("/", place).glob(f"{stack_name(Path(_TRY_PREFIX))}*"):
            with suppress(OSError):
                if time.time() - group.stat().st_mtime > _TRY_LIMIT_S:
                    for folder in (*group.glob("*/"), group):
                        folder.rmdir()


def spare_loops(plan: Plan, path: Path) -> list[str]:
    """Make loop devices for steps that attach image files; `remove_spares` removes them. Raises LabError."""
    wanted = sum(step.argv[:2] == ("losetup", "--find") for step in plan.steps)
    made: list[int] = []
    if not wanted:
        return []
    try:
        with _CONTROL.open("rb") as control:
            for number in range(_SPARE_FIRST, _SPARE_LAST):
                if len(made) == wanted:
                    break
                with suppress(FileExistsError):
                    made.append(fcntl.ioctl(control, _LOOP_CTL_ADD, number))
                    (path / SPARES_NAME).write_text("\n".join(map(str, made)))
    except OSError as error:
        raise LabError(
            f"no loop device can be made: {error.strerror}",
            place=str(_CONTROL),
            remedy="see `losetup --list`; or run the study in the lab",
        ) from error
    return [f"/dev/loop{number}" for number in made]


def remove_spares(path: Path) -> None:
    """Remove the unused loop devices that were made for the trial of a private folder."""
    file = path / SPARES_NAME
    if not file.exists() or not made_in_this_boot(path, HostKernel()):
        return
    with suppress(OSError, ValueError), _CONTROL.open("rb") as control:
        for number in map(int, file.read_text().split()):
            with suppress(OSError):
                if _SPARE_FIRST <= number < _SPARE_LAST:
                    fcntl.ioctl(control, _LOOP_CTL_REMOVE, number)


def make_folders(folder: PrivateFolder) -> None:
    """Make the folders that the agent expects in a private folder."""
    folder.make_folder(INNER, 0o755)
    folder.make_folder(VIEW, 0o755)
