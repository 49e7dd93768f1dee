# SPDX-License-Identifier: Apache-2.0
"""The load generator's benchmark of the kernel (``strata-load kernel``): on this machine, and in the lab.

The same program does the same operations. A host says what each takes; the lab's kernel, whose processor is
free, says what it counts of each.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError, ToolError
from strata.lab import Lab
from strata.lab.progress import SetupProgress
from strata.model.step import LOAD, Prerequisites, Step
from strata.model.trial import TrialKey
from strata.plan.compile import ENVIRONMENT
from strata.plan.model import Monitors, Plan, Trial
from strata.results.events import read_events
from strata.runners.base import EVENTS_NAME, PLAN_NAME, Task
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S
from strata.words import beginning_and_end

_MEMORY: Final = Path("/dev/shm")  # noqa: S108  files in memory are the point
_FREE_BYTES_MIN: Final = 700 << 20
_LAB_MEMORY_BYTES: Final = 3 << 30
_RESULT_VERSION: Final = 1
_SAID_CHARACTERS: Final = 300
_LIMIT_NS: Final = 3600 * NS_PER_S
_FILESYSTEMS: Final[Mapping[str, str]] = {
    "ext4": "ext4",
    "xfs": "xfs",
    "btrfs": "btrfs",
    "btrfs-zstd": "btrfs",
    "btrfs-sha256": "btrfs",
}
"""What the benchmark can work on, and the filesystem that it needs."""


@dataclass(frozen=True)
class CountedOperation:
    """An operation, per time that it was done; ``counted`` has the lab's counts, and is empty on a host."""

    processor_ns: float
    wall_ns: float
    counted: Mapping[str, float]


def machine() -> str:
    """This machine's processor and kernel, for people."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{found[1].strip() if found else os.uname().machine}, Linux {os.uname().release}"


def usable_filesystems() -> list[str]:
    """What the benchmark can work on here: nothing without root, because it mounts loop devices."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        return []
    known = Path("/proc/filesystems").read_text().split()
    return [name for name, kind in _FILESYSTEMS.items() if kind in known and shutil.which(f"mkfs.{kind}")]


def measure_host(
    program: Path, filesystems: list[str], on_line: Callable[[str], None], *, shorten: int = 1
) -> dict[str, CountedOperation]:
    """The operations' times on this machine; ``on_line`` gets the name of each that is done.

    Raises ToolError if it fails, or there is no memory for its files.
    """
    if shutil.disk_usage(_MEMORY).free < _FREE_BYTES_MIN:
        remedy = "free some, or enlarge that tmpfs"
        raise ToolError(
            "the benchmark needs 700 MB of memory for its files", place=str(_MEMORY), remedy=remedy
        )
    # Mounts are private: they end with the program, however it ends.
    private = ["unshare", "--mount", "--propagation", "private"] if filesystems else []
    with tempfile.TemporaryDirectory(prefix="strata-cpu-", dir=_MEMORY) as folder:
        argv = [*private, str(program), "kernel", "--directory", folder, "--shorten", str(shorten)]
        argv += [f"--filesystem={name}" for name in filesystems]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            said = ""
            for line in running.stderr:
                said = line.strip()
                on_line(said)
            output = running.stdout.read()
        if running.returncode != 0:
            raise ToolError(f"the benchmark failed: {said}", remedy="see the kernel's log")
    return _operations(output)


def measure_lab(
    lab: Lab, filesystems: list[str], progress: SetupProgress, *, shorten: int = 1
) -> dict[str, CountedOperation]:
    """The operations' counts in a lab whose processor is free.

    Raises LabError if the lab cannot be built or its kernel counts nothing.
    """
    folders = {_FILESYSTEMS[name] for name in filesystems}
    argv = (f"${{{LOAD}}}", "kernel", "--directory", "${mount}", "--repeats", "1", "--shorten", str(shorten))
    steps = (
        Step(
            id="memory",
            phase="prepare",
            title="Mount a filesystem in memory",
            argv=("mount", "-t", "tmpfs", "-o", "size=1g,huge=never", "none", "${mount}"),
            undo={"argv": ("umount", "${mount}")},
        ),
        Step(
            id="benchmark",
            phase="measure",
            title="Do the kernel's operations",
            argv=(*argv, *(f"--filesystem={name}" for name in filesystems)),
            time_limit_ns=_LIMIT_NS,
        ),
    )
    plan = Plan(
        trial=Trial.of("cpu", TrialKey("none", "kernel", 1)),
        prerequisites=Prerequisites(
            tools=("mount", *(f"mkfs.{each}" for each in sorted(folders))),
            features=("driver:loop", *(f"filesystem:{each}" for each in sorted(folders))),
        ),
        devices=(),
        variables=("mount", "scratch", LOAD),
        environment=dict(ENVIRONMENT),
        memory_bytes=_LAB_MEMORY_BYTES,
        monitors=Monitors(interval_ns=60 * NS_PER_S, disks=()),
        time_limit_ns=_LIMIT_NS,
        steps=steps,
    )
    with tempfile.TemporaryDirectory(prefix="strata-cpu-") as name:
        folder = Path(name)
        (folder / PLAN_NAME).write_bytes(plan.to_json())
        runner = LabRunner(lab, progress=progress)
        runner.check([plan])
        runner.run(Task(plan=plan, devices={}, folder=folder, trace=False, cancel=threading.Event()))
        events = read_events(folder / EVENTS_NAME)
        failed = next(
            (run for run in events.steps.values() if run.ending and run.ending.outcome != "ok"), None
        )
        if failed is not None:
            said = beginning_and_end(events.words(failed.step), _SAID_CHARACTERS)
            raise LabError(f"the benchmark failed in the lab: {said}", remedy="see `strata lab enter`")
        found = _operations(events.output("benchmark"))
    if not any(each.counted for each in found.values()):
        raise LabError("the lab's kernel counts no work", remedy="run `strata lab build`")
    return found


def _operations(output: str | bytes) -> dict[str, CountedOperation]:
    told: dict[str, Any] = json.loads(output)
    if told.get("result_version") != _RESULT_VERSION:
        raise LabError("the load generator has another version", remedy="run `strata lab build --only load`")
    return {
        each["name"]: CountedOperation(each["processor_ns"], each["wall_ns"], each["counted"])
        for each in told["operations"]
    }
