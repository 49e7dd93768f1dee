# SPDX-License-Identifier: Apache-2.0
"""Trials on this machine's kernel, in wall time, on loop devices over sparse files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from strata.devices.device import Device
from strata.errors import LabError, StudyError, ToolError
from strata.files import closing, explained, refuse_exchangeable_path, try_lock
from strata.lab.folder import PrivateFolder, private_folder
from strata.lab.initrd import Inside
from strata.lab.inputs import input_setting, input_variables, provide_inputs, provided_inputs
from strata.lab.programs import AgentBuild, LoadBuild, load_setting, load_variables, require_load, uses_load
from strata.lab.progress import SILENCE, SetupProgress
from strata.lab.qemu_kernel import uses_qemu
from strata.model.inputs import InputFile
from strata.model.memory_limit import limited_bytes
from strata.model.step import AGENT, QEMU_OPTIONS, Prerequisites
from strata.plan.compile import ENVIRONMENT
from strata.plan.model import Plan, canonical_json, sha256_hex
from strata.rules.fit import KERNEL_RESERVE_BYTES
from strata.runners.base import (
    BINDINGS_NAME,
    CONSOLE_NAME,
    EVENTS_NAME,
    PLAN_NAME,
    Cancelled,
    Identity,
    Progress,
    Task,
    ending_with_strata,
)
from strata.runners.block_devices import Connections, attach_images, network_devices
from strata.runners.conditioning import condition
from strata.runners.disks import RealDisks
from strata.runners.kernel import (
    BOOT_NAME,
    HostKernel,
    boot_id,
    endangered_pools,
    note_parameters,
    stack_name,
)
from strata.runners.leftovers import Journal, remove_leftovers
from strata.runners.machine import missing_tools, scratch_of, tool_versions
from strata.runners.machines import (
    MachineParts,
    accelerator,
    container_image,
    find_machines,
    has_containers,
    image_setting,
    lacking_for_machines,
    machine_nodes,
    provide_image,
    provide_machines,
)
from strata.runners.sandbox import INNER, make_folders, sandbox_of, spare_loops, try_sandbox
from strata.runners.watching import Surroundings, follow
from strata.units import format_size

TOOLS: Final = ("setpriv",)
_LOAD_NAME: Final = "load"  # where the users that steps run as can execute it
_FREE_BYTES_MIN: Final = 2 << 30
_LOCK: Final = Path("/run/strata-host.lock")  # only root may write to its folder
_POLL_S: Final = 0.2
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9._+=@/-]+", re.ASCII)


class HostRunner:
    """Runs one trial at a time on this machine, as root."""

    name = "host"
    time_domain: Literal["wall"] = "wall"

    def __init__(
        self,
        agent: AgentBuild,
        *,
        scratch: Path,  # for the files behind the loop devices, on the disk to be measured
        journal: Path,  # the results folder, which records what to remove after a crash
        disks: RealDisks | None = None,  # in place of files
        load: LoadBuild | None = None,  # for the plans that run it
        progress: SetupProgress = SILENCE,  # shows what is fetched or unpacked before the trials
        surroundings: Surroundings | None = None,  # watched around the trials; by default this machine
    ) -> None:
        self._progress = progress
        self._agent = agent
        self._load = load
        self._named_scratch = scratch
        self._scratch = scratch.resolve()  # as the kernel names mounts and loop files
        self._journal = Journal(journal)
        self._disks = disks or RealDisks()
        self._kernel = HostKernel()
        self._lacking: dict[Prerequisites, list[str]] = {}
        self._machines: dict[tuple[str, ...], MachineParts] = {}  # by the packages of their image
        self._programs: Mapping[str, str] = {}
        self._results = journal
        self._around = surroundings or Surroundings(scratch_of(self._scratch).disk)

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
                **self._disks.packages,
                "scratch filesystem": scratch.filesystem,
                "scratch device": scratch.device,
            },
            setting_sha256=sha256_hex(canonical_json(machine)),
        )

    def identity_of(self, plan: Plan) -> Identity:
        return self.identity

    def setting(self, plan: Plan, devices: Mapping[str, Device]) -> Mapping[str, Any]:
        """The load generator, inputs, real disks. Other devices are what lies under the scratch folder.

        Raises StudyError if the study asks for faults or a switched-off cache: only a modelled disk has
        these.
        """
        for name, device in devices.items():
            if device.faults or not device.write_cache:
                raise StudyError(
                    "a real disk has neither the study's faults nor its write cache switched off",
                    place=f"devices.{name}",
                    remedy="leave out faults and write_cache, or run the study in the lab",
                )
        machines = self._machines_of(plan)
        own = {**image_setting(plan), **(machines.setting(self._kernel) if machines else {})}
        own |= accelerator(plan, self._kernel)
        return {**load_setting(plan, self._load), **input_setting(plan), **self._disks.setting(plan), **own}

    def unmet(self, plan: Plan) -> str | None:
        """Missing programs, kernel features and memory, and danger to other ZFS pools."""
        needed = plan.needs_outside
        if needed not in self._lacking:  # many trials of a study need the same
            self._lacking[needed] = [
                *missing_tools(needed.tools, ENVIRONMENT),
                *self._kernel.unmet(needed),
            ]
        found = (endangered_pools(plan, self._kernel), _short_memory(plan))
        machines = lacking_for_machines(plan, self._machines_of(plan))
        lacking = [*self._lacking[needed], *machines, *filter(None, found)]
        return f"on this machine {'; '.join(lacking)}" if lacking else None

    def _machines_of(self, plan: Plan) -> MachineParts | None:
        """The parts of a plan's machines, the same if another part of the study ran before."""
        known = self._machines.get(plan.prerequisites.packages) if uses_qemu(plan) else None
        return known or find_machines(plan)

    def provide(self, plan: Plan, files: Iterable[InputFile]) -> None:
        packages = plan.prerequisites.packages
        if packages not in self._machines and (made := provide_machines(plan, self._progress)):
            self._machines[packages] = made
        if has_containers(plan):
            provide_image(plan, self._progress)
        provide_inputs(plan, files, self._progress)

    def check(self, plans: list[Plan]) -> None:
        """Check that this machine can run the plans, after removing what a killed run left."""
        if os.geteuid() != 0:
            raise ToolError(
                "the host runner needs root, for loop devices and mounts",
                remedy="use sudo; or leave out --runner host: the lab needs no root",
            )
        # Other users must be able to enter root's new folders, and to write nothing.
        os.umask(0o022)
        _check_programs()
        _check_scratch(self._scratch, plans)
        refuse_exchangeable_path(self._named_scratch, ToolError)
        for plan in plans:
            if uses_load(plan):
                require_load(plan, self._load)
        self._journal.clean()
        if plans:
            try_sandbox(self._agent.path)
        tools = sorted({tool for plan in plans for tool in plan.needs_outside.tools})
        self._programs = tool_versions(tools, ENVIRONMENT)
        if plans:
            self._around.tell(self._progress.say)

    def settle(self, cancel: threading.Event) -> None:
        self._around.settle(cancel)

    def run(self, task: Task) -> None:
        """Attach the disks, let the agent carry out the plan, and leave nothing behind."""
        self._kernel.load(task.plan.needs_outside)
        if endangered := endangered_pools(task.plan, self._kernel):  # imported since the study was begun
            raise LabError(endangered, place="ZFS", remedy="export them, or run the study in the lab")
        wanted = task.plan.network_devices
        # Network devices last: they are released before the trial's leftovers are removed.
        with (
            turn(task),
            self._place() as folder,
            network_devices(wanted) as slots,
            self._disks.taken(task.plan, folder.path) as disks,
        ):
            path = folder.path
            devices = [device for device in task.plan.devices if device.name not in disks]
            images = attach_images(folder, {each.name: each.capacity_bytes for each in devices})
            bound = {**disks, **images}
            load = load_variables(task.plan, str(path / _LOAD_NAME))
            # The files may be readable by root alone: steps open them as root.
            inputs = input_variables(task.plan, [str(each.path) for each in provided_inputs(task.plan)])
            with explained(path, "make the trial's folders", LabError):
                make_folders(folder)
                folder.write(BOOT_NAME, boot_id(self._kernel).encode())
                nodes = [*bound.values(), *slots.values(), *spare_loops(task.plan, path)]
                nodes += machine_nodes(task.plan, self._kernel)
                machines = self._machine_variables(task.plan, folder, {**_folders_of(path), **load})
                reads = [*load.values(), *inputs.values()]
                if image := container_image(task.plan, folder):
                    machines[AGENT] = str(self._agent.path)
                    reads.append(str(image))
                reads += [value for name, value in machines.items() if name != QEMU_OPTIONS]
                sandbox = sandbox_of(task.plan, path, nodes, reads, self._kernel, disks=bound)
                if image:
                    sandbox["container"] = {"image": str(image), "reads": [*load.values()]}
                variables = {**bound, **slots, **load, **inputs, **machines}
                variables |= accelerator(task.plan, self._kernel)
                bindings = canonical_json({**_bindings(path, variables, bound), "sandbox": sandbox})
                folder.write(BINDINGS_NAME, bindings)
                if load and self._load is not None:  # the cache may be a folder that only root can enter
                    folder.write(_LOAD_NAME, self._load.path.read_bytes(), 0o755)
            note_parameters(task.plan, bound, path, self._kernel)
            with explained(task.folder, "write the bindings"):
                (task.folder / BINDINGS_NAME).write_bytes(bindings)
            self._around.conditioned = condition(task, disks, self._results)
            self._execute(task, path, Connections(path, list(slots.values())))

    def _machine_variables(
        self, plan: Plan, folder: PrivateFolder, places: Mapping[str, str]
    ) -> dict[str, str]:
        if not uses_qemu(plan):
            return {}
        parts = self._machines[plan.prerequisites.packages]
        inside = Inside(self._agent.path.read_bytes(), self._load, places)
        return parts.variables(plan, self._agent, folder, inside, self._kernel)

    @contextmanager
    def _place(self) -> Iterator[PrivateFolder]:
        def remove(path: Path) -> None:
            remove_leftovers(path, grace_s=0)
            self._journal.forget(path)

        with private_folder(self._scratch, before=self._journal.record, remove=remove) as folder:
            yield folder

    def _execute(self, task: Task, path: Path, connections: Connections) -> None:
        argv = [
            *ending_with_strata("TERM"),
            *(str(self._agent.path), "run"),
            *("--plan", str(task.folder.absolute() / PLAN_NAME)),
            *("--bindings", str(path / BINDINGS_NAME)),
            *("--events", str(task.folder.absolute() / EVENTS_NAME)),
        ]
        log = task.folder / CONSOLE_NAME
        with explained(log, "start the agent"), log.open("wb") as console:
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
            follow(task, process, connections, self._around.watch(task, process.pid))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


@contextmanager
def turn(task: Task, lock: Path = _LOCK) -> Iterator[None]:
    """Wait until no other run has a trial on this machine, then keep others waiting.

    Two trials would disturb each other's wall time. Two of one seed also make filesystems with the same UUID,
    which btrfs refuses. Raises Cancelled, LabError.
    """
    with explained(lock, "take turns with other runs", LabError):
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with closing(descriptor):
        while not try_lock(descriptor):
            task.report(Progress("waiting for another run's trial on this machine", "", 0))
            if task.cancel.wait(_POLL_S):
                raise Cancelled
        yield


def _folders_of(path: Path) -> dict[str, str]:
    """The variables of a trial's folders."""
    return {name: str(path / INNER / name) for name in ("mount", "mounts", "scratch")}


def _bindings(path: Path, found: Mapping[str, str], loops: Mapping[str, str]) -> dict[str, object]:
    return {
        "runner": "host",
        "variables": {
            **found,
            **_folders_of(path),
            "stack": stack_name(path),
        },
        "stat_names": {name: Path(loop).name for name, loop in loops.items()},
    }


def _short_memory(plan: Plan) -> str | None:
    """Why the plan's guests and tenants do not fit into this machine's memory, as a clause."""
    wanted_bytes = limited_bytes(plan.steps)
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted_bytes + KERNEL_RESERVE_BYTES <= machine_bytes or not wanted_bytes:
        return None
    return (
        f"the guests and tenants may take {format_size(wanted_bytes)} of memory, and of "
        f"{format_size(machine_bytes)} the kernel needs {format_size(KERNEL_RESERVE_BYTES)}"
    )


def _check_programs() -> None:
    """Check for what every trial needs; `HostRunner.unmet` covers single trials."""
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
    if not _PLAIN_PATH.fullmatch(str(scratch)):
        # fio splits file names at colons, PostgreSQL folders of sockets at commas: parts are other paths.
        raise ToolError(
            "programs that a plan runs would take a part of this path for another one",
            place=str(scratch),
            remedy="name a folder whose path has only letters, digits and . _ - + = @ /",
        )
    # The sandbox shows these folders with their own permissions; the private folder below is always passable.
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
