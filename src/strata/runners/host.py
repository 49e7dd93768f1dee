# SPDX-License-Identifier: Apache-2.0
"""Trials on this machine's kernel, in wall time, on loop devices over sparse files."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from strata.durable import explained
from strata.errors import LabError, RunError, StudyError, ToolError
from strata.lab.agent import AgentBuild
from strata.lab.folder import private_folder
from strata.lab.inputs import input_setting, input_variables, provide_inputs, provided_inputs
from strata.lab.load import LoadBuild, load_setting, load_variables, require_load, uses_load
from strata.lab.progress import SILENCE, SetupProgress
from strata.plan.compile import ENVIRONMENT
from strata.plan.model import Plan, canonical_json, sha256_hex
from strata.runners.assembled import BOOT_NAME, boot_id, stack_name
from strata.runners.base import (
    BINDINGS_NAME,
    CONSOLE_NAME,
    EVENTS_NAME,
    PLAN_NAME,
    Cancelled,
    EventTail,
    Identity,
    Progress,
    Task,
    tail_of,
    teardown_limit_ns,
)
from strata.runners.kernel import Kernel
from strata.runners.leavings import Journal, remove_leavings
from strata.runners.machine import missing_tools, scratch_of, tool_versions
from strata.runners.module_parameters import endangered_pools, note_parameters
from strata.runners.network_devices import Connections, network_devices
from strata.runners.sandbox import INNER, make_folders, sandbox_of, spare_loops, try_sandbox
from strata.spec.device import Device
from strata.spec.inputs import InputFile
from strata.spec.memory_limit import limited_bytes
from strata.spec.step import Requires
from strata.spec.tenancy import KERNEL_RESERVE_BYTES
from strata.units import NS_PER_S, format_duration, format_size

TOOLS: Final = ("losetup", "setpriv")
_FREE_BYTES_MIN: Final = 2 << 30
_POLL_S: Final = 0.1
# A cancelled trial tears down in order, but a user who pressed Ctrl-C will not wait for a slow unmount.
_CANCEL_LIMIT_S: Final = 30.0


@dataclass(frozen=True)
class Place:
    """A trial's private folder and what is in it."""

    path: Path

    def file(self, device: str) -> Path:
        """The file behind a device's loop device."""
        return self.path / f"{device}.img"

    @property
    def mount(self) -> Path:
        """The stack's mount point."""
        return self.path / INNER / "mount"

    @property
    def scratch(self) -> Path:
        """The trial's working folder, which is not on the stack."""
        return self.path / INNER / "scratch"

    @property
    def bindings(self) -> Path:
        """The bindings as the agent is given them; their path marks it as this trial's."""
        return self.path / BINDINGS_NAME


class HostRunner:
    """Runs one trial at a time on this machine, as root.

    Args:
        agent: The agent that executes the plans.
        scratch: Folder for the files behind the loop devices: on the disk that is to be measured.
        journal: The results folder, which keeps the record of what must be removed after a crash.
        load: The load generator, for the plans that run it.
        progress: Told when something must be fetched or unpacked before the trials.
    """

    name = "host"
    time_domain: Literal["wall"] = "wall"

    def __init__(
        self,
        agent: AgentBuild,
        *,
        scratch: Path,
        journal: Path,
        load: LoadBuild | None = None,
        progress: SetupProgress = SILENCE,
    ) -> None:
        self._progress = progress
        self._agent = agent
        self._load = load
        self._scratch = scratch.resolve()  # as the kernel names mounts and loop files
        self._journal = Journal(journal)
        self._kernel = Kernel()
        self._lacking: dict[Requires, list[str]] = {}
        self._programs: Mapping[str, str] = {}

    @property
    def identity(self) -> Identity:
        """The agent's hash and the machine: its name, its kernel, the disk under the scratch folder."""
        kernel, scratch = os.uname(), scratch_of(self._scratch)
        machine = {
            "host": kernel.nodename,
            "kernel": [kernel.release, kernel.version],
            "filesystem": scratch.filesystem,
            "device": scratch.device,
        }
        return Identity(
            kernel_sha256=None,
            image_sha256=None,
            agent_sha256=self._agent.sha256,
            packages={
                **self._programs,
                "scratch filesystem": scratch.filesystem,
                "scratch device": scratch.device,
            },
            setting_sha256=sha256_hex(canonical_json(machine)),
        )

    def setting(self, plan: Plan, devices: Mapping[str, Device]) -> Mapping[str, Any]:
        """The load generator and inputs. A device is here what lies under the scratch folder: the machine's.

        Raises:
            StudyError: If the study lets something go wrong with a disk: only a modelled one obeys.
        """
        for name, device in devices.items():
            if device.faults or not device.write_cache:
                raise StudyError(
                    "a real disk has neither the study's faults nor its write cache switched off",
                    place=f"devices.{name}",
                    remedy="leave out faults and write_cache, or run the study in the lab",
                )
        return {**load_setting(plan, self._load), **input_setting(plan)}

    def unmet(self, plan: Plan) -> str | None:
        """The programs that are not installed, what kernel and memory lack, what would harm other pools."""
        if plan.requires not in self._lacking:  # many trials of a study need the same
            self._lacking[plan.requires] = [
                *missing_tools(plan.requires.tools, ENVIRONMENT),
                *self._kernel.unmet(plan.requires),
            ]
        endangered = endangered_pools(plan, self._kernel)
        found = (endangered, _short_memory(plan))
        lacking = [*self._lacking[plan.requires], *filter(None, found)]
        return f"on this machine {'; '.join(lacking)}" if lacking else None

    def provide(self, plan: Plan, files: Iterable[InputFile]) -> None:
        """Put what a plan reads into the cache."""
        provide_inputs(plan, files, self._progress)

    def check(self, plans: list[Plan]) -> None:
        """See that this machine can run the plans, after removing what a killed run left on it."""
        if os.geteuid() != 0:
            raise ToolError(
                "the host runner needs root, for loop devices and mounts",
                remedy="use sudo; or leave out --runner host: the lab needs no root",
            )
        _check_programs()
        _check_scratch(self._scratch, plans)
        for plan in plans:
            if uses_load(plan):
                require_load(plan, self._load)
        self._journal.clean()
        if plans:
            try_sandbox(self._agent.path)
        tools = sorted({tool for plan in plans for tool in plan.requires.tools})
        self._programs = tool_versions(tools, ENVIRONMENT)

    def run(self, task: Task) -> None:
        """Attach the disks, let the agent carry out the plan, and leave nothing behind."""
        self._kernel.load(task.plan.requires)
        if endangered := endangered_pools(task.plan, self._kernel):  # imported since the study was begun
            raise LabError(endangered, place="ZFS", remedy="export them, or run the study in the lab")
        wanted = task.plan.network_devices
        # The devices last: what is left of the trial is removed when other trials can take them again.
        with self._place() as place, network_devices(wanted) as slots, _loops(place, task.plan) as loops:
            load = {} if self._load is None else load_variables(task.plan, str(self._load.path))
            found = {**loops, **slots, **load, **_read_variables(task.plan)}
            with explained(place.path, "make the trial's folders", LabError):
                make_folders(place.path)
                (place.path / BOOT_NAME).write_text(boot_id(self._kernel))
                devices = [*loops.values(), *slots.values(), *spare_loops(task.plan, place.path)]
                reads = [*load.values(), *_read_variables(task.plan).values()]
                sandbox = sandbox_of(task.plan, place.path, devices, reads, self._kernel)
                bindings = canonical_json({**_bindings(place, found, loops), "sandbox": sandbox})
                place.bindings.write_bytes(bindings)
            note_parameters(task.plan, place.path, self._kernel)
            with explained(task.folder, "write the bindings"):
                (task.folder / BINDINGS_NAME).write_bytes(bindings)
            self._execute(task, place, Connections(place.path, list(slots.values())))

    @contextmanager
    def _place(self) -> Iterator[Place]:
        with private_folder(self._scratch, before=self._journal.record) as path:
            try:
                yield Place(path)
            finally:
                remove_leavings(path, grace_s=0)
                self._journal.forget(path)

    def _execute(self, task: Task, place: Place, connections: Connections) -> None:
        argv = [
            *("setpriv", "--pdeathsig", "TERM"),
            *(str(self._agent.path), "run"),
            *("--plan", str(task.folder.absolute() / PLAN_NAME)),
            *("--bindings", str(place.bindings)),
            *("--events", str(task.folder.absolute() / EVENTS_NAME)),
        ]
        path = task.folder / CONSOLE_NAME
        with explained(path, "start the agent"), path.open("wb") as console:
            process = subprocess.Popen(
                argv,
                cwd="/",
                env={"PATH": ENVIRONMENT["PATH"], "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _watch(task, process, connections)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _watch(task: Task, process: subprocess.Popen[bytes], connections: Connections) -> None:
    """Follow the agent until it ends.

    Raises:
        Cancelled: If the task was cancelled; the agent has then torn down or was killed.
        RunError: If the agent did not come to its end.
    """
    tail = EventTail(task.folder / EVENTS_NAME, task.plan)
    started_s = time.monotonic()
    limit_s = (task.plan.time_limit_ns + teardown_limit_ns(task.plan)) / NS_PER_S
    trial = task.plan.trial.id
    while not _ended_within(process, _POLL_S):
        tail.read()
        connections.record()
        passed_s = time.monotonic() - started_s
        task.report(Progress(tail.title, tail.phase, int(passed_s * NS_PER_S)))
        if task.cancel.is_set():
            process.send_signal(signal.SIGTERM)
            _ended_within(process, _CANCEL_LIMIT_S)
            raise Cancelled
        if passed_s > limit_s:
            raise RunError(
                f"the agent did not end within the time limit of {format_duration(task.plan.time_limit_ns)} "
                "and the time for its teardown",
                place=f"{trial}, step {tail.step_id}",
                remedy="see whether the disk under --scratch still answers",
            )
    tail.read()
    if not tail.ended:
        said = tail_of(task.folder / CONSOLE_NAME)
        raise RunError(
            f"the agent ended with exit status {process.returncode} before it was done",
            place=f"{trial}, step {tail.step_id or 'none'}",
            remedy=f"it said last:\n    {said}" if said else "it said nothing",
        )


def _ended_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
    return process.returncode is not None


def _read_variables(plan: Plan) -> dict[str, str]:
    """The variables of a plan's inputs. They may lie where only root can read, who the steps run as."""
    return input_variables(plan, [str(each.path) for each in provided_inputs(plan)])


def _bindings(place: Place, found: Mapping[str, str], loops: Mapping[str, str]) -> dict[str, object]:
    return {
        "runner": "host",
        "variables": {
            **found,
            "mount": str(place.mount),
            "mounts": str(place.path / INNER / "mounts"),
            "scratch": str(place.scratch),
            "stack": stack_name(place.path),
        },
        "stat_names": {name: Path(loop).name for name, loop in loops.items()},
    }


@contextmanager
def _loops(place: Place, plan: Plan) -> Iterator[dict[str, str]]:
    """Loop devices over sparse files, by the plan's names; `remove_leavings` detaches them in any case."""
    loops = {}
    for device in plan.devices:
        file = place.file(device.name)
        try:
            with file.open("wb") as content:
                content.truncate(device.capacity_bytes)
        except OSError as error:
            raise LabError(
                f"a file of {format_size(device.capacity_bytes)} cannot be made: {error.strerror}",
                place=str(file),
                remedy='use a filesystem with larger files, or give the device a `capacity` like "50GiB"',
            ) from error
        done = subprocess.run(
            ["losetup", "--find", "--show", "--direct-io=on", str(file)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LabError(
                f"no loop device for {device.name}: {done.stderr.strip()}",
                place=str(file),
                remedy="--scratch must be on a filesystem with direct I/O, such as ext4 or XFS on a disk",
            )
        loops[device.name] = done.stdout.strip()
    yield loops


def _short_memory(plan: Plan) -> str | None:
    """Why the guests and tenants of a plan do not fit into this machine's memory, as a clause."""
    wanted_bytes = limited_bytes(plan.steps)
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted_bytes + KERNEL_RESERVE_BYTES <= machine_bytes or not wanted_bytes:
        return None
    return (
        f"the guests and tenants may take {format_size(wanted_bytes)} of memory, and of "
        f"{format_size(machine_bytes)} the kernel needs {format_size(KERNEL_RESERVE_BYTES)}"
    )


def _check_programs() -> None:
    """What every trial needs; what single ones need is seen by `HostRunner.unmet`."""
    path = ENVIRONMENT["PATH"]
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=path)]
    if missing:
        raise ToolError(
            f"missing on this machine: {', '.join(missing)}",
            place=f"PATH={path}",
            remedy="install util-linux, or run the study in the lab",
        )
    if not Path("/dev/loop-control").exists():
        raise ToolError(
            "this machine has no loop devices", place="/dev/loop-control", remedy="try `modprobe loop`"
        )


def _check_scratch(scratch: Path, plans: list[Plan]) -> None:
    if not scratch.is_dir():
        raise ToolError(
            "there is no such folder", place=str(scratch), remedy="create it, or name another one"
        )
    for folder in (scratch, *scratch.parents):
        if not folder.stat().st_mode & 0o001:
            raise ToolError(
                "other users cannot enter this folder, and a plan's steps run as several",
                place=str(folder),
                remedy=f"chmod o+x {folder}, or name another --scratch",
            )
    try:
        free = os.statvfs(scratch)
    except OSError as error:
        raise ToolError(f"cannot be read: {error.strerror}", place=str(scratch)) from error
    free_bytes = free.f_bavail * free.f_frsize
    if plans and free_bytes < _FREE_BYTES_MIN:
        raise ToolError(
            f"only {format_size(free_bytes)} are free ({os.strerror(errno.ENOSPC)} is near)",
            place=str(scratch),
            remedy=f"free at least {format_size(_FREE_BYTES_MIN)}, or name another --scratch",
        )
