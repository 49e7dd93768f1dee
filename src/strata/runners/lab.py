# SPDX-License-Identifier: Apache-2.0
"""Trials in the lab: a real kernel in virtual time on modelled disks, watched from outside."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from strata.devices.device import Device
from strata.errors import RunError
from strata.files import closing, explained
from strata.lab.boot import (
    CHARGES_NS,
    Power,
    RunningLab,
    Status,
    Wiring,
    boot_setting,
    check_tools,
    start_lab,
)
from strata.lab.disk import disk_texts
from strata.lab.disk_image import POWER_CUT_STATUS, PowerCutDamage, damage_in, trace_left_out
from strata.lab.folder import private_folder, remove_stale, run_root
from strata.lab.initrd import lab_bindings, lab_disks, lab_initrd, plan_files
from strata.lab.inputs import input_setting, provide_inputs, provided_inputs
from strata.lab.lab import Lab, ensure_for, find_lab, part_setting, refuse_damaged
from strata.lab.limits import check_memory
from strata.lab.machine import lacking_in_lab
from strata.lab.progress import SILENCE, SetupProgress
from strata.lab.qemu_kernel import lacking_inside
from strata.machine.reading import Sampler
from strata.model.inputs import InputFile
from strata.model.kernel import Kernel
from strata.plan.model import Plan, canonical_json, sha256_hex
from strata.runners.base import (
    BINDINGS_NAME,
    CONSOLE_NAME,
    EVENTS_NAME,
    TRACE_COUNTS_NAME,
    TRACE_NAME,
    Cancelled,
    EventTail,
    HostError,
    Identity,
    Progress,
    Task,
    tail_of,
    teardown_limit_ns,
)
from strata.seeds import derive_seed
from strata.units import NS_PER_S, format_duration

STALL_LIMIT_S: Final = 120.0
# The same for a program that does not enter the kernel at all.
SPIN_LIMIT_S: Final = 10.0

_POLL_S: Final = 0.1
_LOOKS_PER_READING: Final = 10  # while virtual time stands still
# A spinning process may still be charged for an interrupt now and then.
_STANDSTILL_NS: Final = 1_000_000
_HOST_FAILED: Final = b": host write failed"
_READ_FAILED: Final = b": host read failed"


class LabRunner:
    """Runs each trial in a lab of its own."""

    name = "lab"
    time_domain: Literal["virtual"] = "virtual"

    def __init__(
        self,
        lab: Lab,
        *,
        # Processor seconds that a lab may take without progress of virtual time, and the seconds that all its
        # processes may sleep.
        stall_limit_s: float = STALL_LIMIT_S,
        measure_cost: bool = False,  # see `Wiring`; for benchmarks of the lab itself
        progress: SetupProgress = SILENCE,  # shows what is fetched or unpacked before the trials
    ) -> None:
        self._lab = lab
        self._labs: dict[Kernel, Lab | None] = {lab.of: lab}  # None: its kernel is not built
        self._progress = progress
        self._measure_cost = measure_cost
        self._stall_limit_s = stall_limit_s
        self._building = threading.Lock()
        self._agent = lab.agent.path.read_bytes()

    def __reduce__(self) -> tuple[Any, ...]:
        """It travels to another machine with its labs; nothing is built there."""
        options = partial(LabRunner, stall_limit_s=self._stall_limit_s, measure_cost=self._measure_cost)
        return options, (self._lab,), {"_labs": self._labs}

    @functools.cached_property
    def identity(self) -> Identity:
        found = self._lab.fingerprint
        return Identity(
            kernel_sha256=found.kernel_sha256,
            image_sha256=found.image_sha256,
            agent_sha256=found.agent_sha256,
            packages=dict(self._lab.image.packages),
            **{f"{name}_ns": charge for name, charge in CHARGES_NS.items()},
            setting_sha256=sha256_hex(canonical_json(boot_setting())),
        )

    def identity_of(self, plan: Plan) -> Identity:
        lab = self._lab_of(plan)
        return replace(self.identity, kernel_sha256=None if lab is None else lab.kernel.sha256)

    def _lab_of(self, plan: Plan) -> Lab | None:
        """The lab with a plan's kernel, if this is built."""
        kernel = plan.kernel
        if kernel not in self._labs:
            found = find_lab(kernel)
            self._labs[kernel] = found and replace(
                self._lab, kernel=found.kernel, modules=found.modules, of=kernel
            )
        return self._labs[kernel]

    def setting(self, plan: Plan, devices: Mapping[str, Device]) -> Mapping[str, Any]:
        """The bindings, modules, programs, inputs, and the driver's integers for each disk."""
        return {
            "bindings": lab_bindings(plan),
            "disks": disk_texts(lab_disks(plan, devices)),
            **part_setting(plan, self._lab_of(plan) or replace(self._lab, modules={})),
            **input_setting(plan),
        }

    def unmet(self, plan: Plan) -> str | None:
        """The needs of virtual machines that their kernels do not meet; a lab has everything else."""
        lab = self._lab_of(plan) or self._lab
        lacking = [*lacking_inside(plan, lab.qemu_kernel)]
        return lacking_in_lab(plan) or "; ".join(lacking) or None

    def provide(self, plan: Plan, files: Iterable[InputFile]) -> None:
        self.lab_for(plan)
        provide_inputs(plan, files, self._progress)

    def lab_for(self, plan: Plan) -> Lab:
        """The lab with all parts that a plan needs, which are built if missing."""
        with self._building:
            lab = ensure_for(self._lab_of(plan) or self._lab, plan, self._progress)
            self._labs[plan.kernel] = lab
            return lab

    def check(self, plans: list[Plan]) -> None:
        """Check that a lab can start; its image has every program."""
        check_tools()
        for plan in plans:
            check_memory(plan.memory_bytes, run_root())
        remove_stale(run_root())

    def settle(self, cancel: threading.Event) -> None:
        """Nothing disturbs virtual time."""

    def run(self, task: Task) -> None:
        self.boot(task, Power())

    def boot(self, task: Task, power: Power) -> list[PowerCutDamage] | None:
        """Like `run`, but on disks that an earlier boot left, or with a power cut.

        The attempt's folder may be in use; its files are overwritten. If the plan ends before the cut, the
        lab powers off as usual. Returns the damage of the cut to each disk's writes, in the disks' order;
        None without a cut.
        """
        plan = task.plan
        lab = self.lab_for(plan)
        refuse_damaged(plan, lab)
        bindings = canonical_json(lab_bindings(plan))
        with explained(task.folder, "write the bindings"):
            (task.folder / BINDINGS_NAME).write_bytes(bindings)
        with ExitStack() as opened:
            console = opened.enter_context(_for_appending(task.folder / CONSOLE_NAME))
            events = opened.enter_context(_for_appending(task.folder / EVENTS_NAME))
            trace = opened.enter_context(_for_appending(task.folder / TRACE_NAME)) if task.trace else None
            folder = opened.enter_context(private_folder(run_root())).path
            running = opened.enter_context(
                start_lab(
                    lab.for_plan(plan),
                    Wiring(
                        folder, console, events, cpu=task.cpu, trace=trace, measure_cost=self._measure_cost
                    ),
                    initrd=lab_initrd(
                        self._agent,
                        plan.to_json(),
                        bindings,
                        *plan_files(plan, lab),
                    ),
                    disks=lab_disks(plan, task.devices),
                    memory_bytes=plan.memory_bytes,
                    processor=plan.processor,
                    entropy_seed=derive_seed(plan.trial.seed, "entropy"),
                    power=power,
                    inputs=provided_inputs(plan),
                )
            )
            _Watch(task, running, self._stall_limit_s).until_the_end()
        said = (task.folder / CONSOLE_NAME).read_text(errors="replace")
        if task.trace:
            counts = canonical_json({"left_out": trace_left_out(said)})
            with explained(task.folder, "write the trace's counts"):
                (task.folder / TRACE_COUNTS_NAME).write_bytes(counts)
        return damage_in(said) if running.exit_status == POWER_CUT_STATUS else None


class _Watch:
    def __init__(self, task: Task, running: RunningLab, stall_limit_s: float) -> None:
        self._task = task
        self._running = running
        self._stall_limit_s = stall_limit_s
        # Who raises the limit raises this one, too.
        self._spin_limit_s = (
            stall_limit_s if stall_limit_s > STALL_LIMIT_S else min(stall_limit_s, SPIN_LIMIT_S)
        )
        self._console = task.folder / CONSOLE_NAME
        self._console_read = 0
        self._tail = EventTail(task.folder / EVENTS_NAME, task.plan)
        self._limit_ns = task.plan.time_limit_ns + teardown_limit_ns(task.plan)
        self._still_ns, self._looks = 0, 0  # where virtual time stands still, and since when
        self._used_s = self._used_s_first = self._asleep_s = 0.0
        self._entries, self._program_s_first = -1, 0.0  # of the last entry into the kernel

    def until_the_end(self) -> None:
        """Return when the lab has powered off after its agent's last event, or its power was cut."""
        while not self._running.wait(_POLL_S):
            if self._task.cancel.is_set():
                raise Cancelled
            self._tail.read()
            self._look()
        self._tail.read()
        self._refuse_host_failure()
        if not self._tail.ended and self._running.exit_status != POWER_CUT_STATUS:
            raise self._died()

    def _look(self) -> None:
        status = self._running.status.read()
        self._task.report(Progress(self._tail.title, self._tail.phase, status.virtual_time_ns))
        self._refuse_host_failure()
        if status.virtual_time_ns > self._limit_ns:
            raise RunError(
                f"the trial did not end within its time limit of "
                f"{format_duration(self._task.plan.time_limit_ns)} and the time for its teardown",
                place=self._place(),
                remedy="see console.log in the attempt's folder",
            )
        if status.virtual_time_ns - self._still_ns >= _STANDSTILL_NS:
            self._still_ns, self._looks = status.virtual_time_ns, 0
        else:
            self._look_at_processes(status)

    def _look_at_processes(self, status: Status) -> None:
        """Fail when the lab only computes, or sleeps for good. A busy machine causes neither."""
        self._looks += 1
        if self._looks % _LOOKS_PER_READING:
            return
        own = [each for each in Sampler().processes() if each.group == self._running.pid]
        used_s = sum(each.own_s + each.waited_s for each in own)
        if self._looks == _LOOKS_PER_READING:
            self._used_s, self._used_s_first, self._asleep_s = used_s, used_s, 0.0
        asleep = used_s == self._used_s and all(each.state in "SZ" for each in own)
        self._asleep_s = self._asleep_s + _LOOKS_PER_READING * _POLL_S if asleep else 0.0
        self._used_s = used_s
        program_s = sum(each.own_s for each in own if each.pid != self._running.pid)
        if status.entries != self._entries:
            self._entries, self._program_s_first = status.entries, program_s
        stuck = self._stuck(status, program_s - self._program_s_first, used_s - self._used_s_first)
        if stuck is not None:
            found, remedy = stuck
            raise RunError(
                f"virtual time has stood still at {status.virtual_time_ns / NS_PER_S:.6f} s: {found}",
                place=self._place(),
                remedy=remedy,
            )

    def _stuck(self, status: Status, program_s: float, used_s: float) -> tuple[str, str] | None:
        """The fault and the remedy, of what programs and all of the lab have used since time stands still."""
        limit = f"{self._stall_limit_s:g}"
        who = (
            f"process {status.pid} ({status.comm})" if status.booted else "the kernel, which did not come up,"
        )
        if program_s > self._spin_limit_s:
            return (
                f"{who} spins without entering the kernel, for {self._spin_limit_s:g} processor seconds",
                "its computing is priced at its next system call: if it would make one, raise --stall-limit; "
                "if it waits by spinning it never does: see the table in how-to/run-a-study",
            )
        if used_s > self._stall_limit_s:
            found = f"{who} spins or computes without waiting, for {limit} processor seconds"
            return found, "if it was only slow, raise --stall-limit"
        if self._asleep_s > self._stall_limit_s:
            remedy = "the lab is blocked: see console.log in the attempt's folder, and run the trial again"
            return f"all the lab's processes slept for {limit} s, {who} ran last", remedy
        return None

    def _refuse_host_failure(self) -> None:
        """Fail when a disk's host file failed: the kernel then got errors that no real disk would give."""
        with self._console.open("rb") as file:
            file.seek(self._console_read)
            new = file.read()
        # The last line may be incomplete: read it again next time.
        self._console_read += new.rfind(b"\n") + 1
        for line in new.split(b"\n"):
            if _HOST_FAILED in line or _READ_FAILED in line:
                said = line[line.find(b"strata:") :].decode(errors="replace").strip()
                raise HostError(
                    f"the host could not hold a modelled disk's content ({said})",
                    place=self._place(),
                    # The record must be the same on every machine: no path.
                    remedy="free some space in the lab's cache, or name another one with STRATA_CACHE",
                )

    def _died(self) -> RunError:
        status = self._running.exit_status
        how = f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
        said = tail_of(self._console)
        return RunError(
            f"the lab ended with {how} before its agent was done",
            place=self._place(),
            remedy=f"its console said last:\n    {said}" if said else "its console said nothing",
        )

    def _place(self) -> str:
        trial = self._task.plan.trial.id
        return f"{trial}, step {self._tail.step_id}" if self._tail.step_id else f"{trial}, boot"


def _for_appending(path: Path) -> AbstractContextManager[int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    with explained(path, "make the file"):
        return closing(os.open(path, flags, 0o644))
