# SPDX-License-Identifier: Apache-2.0
"""Starting the lab: one User-Mode Linux process that sees the same on every machine.

What a process can tell of its host is fixed here: its arguments (only relative names and descriptors with
fixed numbers), its environment, its working folder's content, its limits, its signals, its address layout.
Disks are sparse files without a name and end with the process. It ends with its starter (``pdeathsig``).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import shutil
import signal
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError, ToolError
from strata.lab.disk_files import DISK_FD, LabDisk, check_counts, disk_files, root_text, text_file
from strata.lab.disk_image import DiskImage, PowerCut
from strata.lab.initrd import lab_initrd
from strata.lab.inputs import ProvidedInput
from strata.lab.lab import Lab
from strata.lab.memory import memory_text
from strata.lab.status import StatusPage
from strata.spec.step import MEMORY_BYTES

START_NS: Final = 1_798_761_600 * 10**9
"""Virtual time begins at 2027-01-01 00:00 UTC: later than every file of the root image, or PAM complains."""
ENVIRONMENT: Final = ("HOME=/", "PATH=/usr/bin:/bin", "TERM=linux")
TOOLS: Final = ("env", "setarch", "setpriv", "sh", "taskset")
CHARGES_NS: Final = {"syscall": 200, "yield": 1000, "clock_read": 20, "reclaim": 100}
"""What the kernel charges in virtual time; all other computing is free. Every result states it."""

# The numbers of the descriptors in the lab's process, the same on every machine; the disks' come after them.
# Our own copies lie above all until they are moved there.
_STATUS_FD: Final = 60
_EVENTS_FD: Final = 61
_TRACE_FD: Final = 62
_CONTROL_FD: Final = 63
_COPY_FD: Final = 128

# The parent may die before its death can be noticed: so look once more, afterwards. Stack and core limits are
# set because the stack's moves the address layout, and a panicking lab would leave a core of its memory.
_GUARD: Final = (
    'test "$PPID" = "$1" || exit 1; shift; umask 022; ulimit -S -c 0; ulimit -S -s 8192; exec "$@"'
)


@dataclass(frozen=True)
class Wiring:
    """What of the host a lab is connected to.

    Attributes:
        folder: Its private working folder; ``linux`` and ``initrd.cpio`` are put there.
        console: Descriptor that the console writes to.
        events: Descriptor that the agent's events go to, opened for appending.
        keyboard: Descriptor that the console reads from; None for a trial, which nobody types at.
        cpu: The CPU to pin it to; None leaves it where it is.
        trace: Descriptor that the trace of all requests goes to, opened for appending; None for no trace.
        measure_cost: The driver sums up the host's time that it takes, in ``/sys/block/DISK/host_cost_ns``.
            Never for a trial: the lab's programs could see the host by it.
    """

    folder: Path
    console: int
    events: int
    keyboard: int | None = None
    cpu: int | None = None
    trace: int | None = None
    measure_cost: bool = False


@dataclass(frozen=True)
class Power:
    """How a lab's disks begin, and how its power may end. Neither changes what happens in between.

    Content is all that outlives a boot. The state of a disk's model begins anew: where a flash drive's data
    lies, what is in its SLC cache, a shingled drive's cached zones, a cloud disk's saved-up credit.

    Attributes:
        media: What the disks hold, in their order: empty, or left by an earlier boot. None for empty ones
            that end with the lab.
        cut: When the power is cut; None for never. The lab's exit status is then `POWER_CUT_STATUS`.
    """

    media: Sequence[DiskImage] | None = None
    cut: PowerCut | None = None


@dataclass
class RunningLab:
    """A lab's process. Use it as a context: at its end the process is gone, whatever happened.

    Attributes:
        exit_status: As of ``os.waitstatus_to_exitcode``; None while it runs.
    """

    pid: int
    status: StatusPage
    exit_status: int | None = None
    _pidfd: int = field(init=False)

    def __post_init__(self) -> None:
        self._pidfd = os.pidfd_open(self.pid)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the lab's end, at most ``timeout_s`` seconds; returns whether it has come."""
        if self.exit_status is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(None if timeout_s is None else timeout_s * 1000):
                self.exit_status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.exit_status is not None

    def kill(self) -> None:
        """End the lab at once, with the processes that carry its user space."""
        if self.exit_status is None:
            with suppress(ProcessLookupError):
                if os.getpgid(self.pid) == self.pid:
                    os.killpg(self.pid, signal.SIGKILL)
                os.kill(self.pid, signal.SIGKILL)
            self.wait(None)

    def __enter__(self) -> RunningLab:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        os.close(self._pidfd)
        self.status.close()


def check_tools() -> None:
    """See that the programs that start a lab are there.

    Raises:
        ToolError: If one is missing.
    """
    missing = [tool for tool in TOOLS if shutil.which(tool, path="/usr/bin:/bin") is None]
    if missing:
        raise ToolError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing from /usr/bin",
            remedy="install the packages util-linux, coreutils and dash",
        )


def start_lab(
    lab: Lab,
    wiring: Wiring,
    *,
    initrd: bytes,
    disks: Sequence[LabDisk],
    entropy_seed: int,
    memory_bytes: int = MEMORY_BYTES,
    virtual: bool = True,
    power: Power = Power(),
    inputs: Sequence[ProvidedInput] = (),
) -> RunningLab:
    """Start a lab.

    The calling thread must live as long as the lab is to: its end is what ``pdeathsig`` notices.

    Args:
        lab: The kernel and the root image.
        wiring: What it is connected to.
        initrd: From `strata.lab.initrd.lab_initrd`.
        disks: The modelled disks, in the order in which the kernel finds them.
        entropy_seed: What all its randomness derives from.
        memory_bytes: Its memory.
        virtual: Whether it runs in virtual time, as trials do, or in real time.
        power: What the disks hold at the start, and when their power is cut.
        inputs: The files that it reads, each on a disk without latency after the others.

    Raises:
        LabError: If its files cannot be made, or there are too many disks.
        ToolError: If a program that starts it is missing, or too few files may be open.
    """
    check_tools()
    check_counts(disks, inputs)
    with ExitStack() as owned, ExitStack() as unless_started:
        status = StatusPage()
        unless_started.callback(status.close)
        try:
            (wiring.folder / "linux").symlink_to(lab.kernel.path)
            (wiring.folder / "initrd.cpio").write_bytes(initrd)
            descriptors = {_STATUS_FD: status.descriptor, _EVENTS_FD: wiring.events, 1: wiring.console}
            descriptors[2] = wiring.console
            if wiring.keyboard is not None:
                descriptors[0] = wiring.keyboard
            if wiring.trace is not None:
                descriptors[_TRACE_FD] = wiring.trace
            descriptors[_CONTROL_FD] = text_file(_control_text(wiring, power), owned)
            descriptors |= disk_files(lab, disks, inputs, power.media, wiring.folder, owned)
        except OSError as error:
            raise LabError(
                f"the lab's files cannot be made: {error.strerror}",
                place=str(wiring.folder),
                remedy="free some space there, or name another cache with STRATA_CACHE",
            ) from error
        count, keyboard = len(disks) + len(inputs), wiring.keyboard
        arguments = kernel_arguments(
            count, entropy_seed, memory_bytes=memory_bytes, virtual=virtual, keyboard=keyboard
        )
        pid = _spawn(_launch_line(wiring, arguments), descriptors, session=wiring.keyboard is None)
        unless_started.pop_all()
    return RunningLab(pid, status)


def kernel_arguments(
    disk_count: int,
    entropy_seed: int,
    *,
    memory_bytes: int = MEMORY_BYTES,
    virtual: bool = True,
    keyboard: int | None = None,
) -> list[str]:
    """The lab's command line; in virtual time a function of the trial alone."""
    configs = ",".join(str(DISK_FD + 2 * index) for index in range(disk_count + 1))
    return [
        f"mem={memory_text(memory_bytes)}",
        *(["time-travel=inf-cpu", f"time-travel-start={START_NS}"] if virtual else []),
        "norandmaps",
        "seccomp=on",
        f"entropy_seed={entropy_seed}",
        *(f"strata.charge_{name}_ns={charge_ns}" for name, charge_ns in CHARGES_NS.items()),
        f"strata.disks={configs}",
        f"strata.status={_STATUS_FD}",
        f"strata.control={_CONTROL_FD}",
        "con=null",
        "con0=null,fd:1" if keyboard is None else "con0=fd:0,fd:1",
        "ssl=null",
        f"ssl0=null,fd:{_EVENTS_FD}",
        "initrd=initrd.cpio",
        "uml_dir=.",
        "umid=lab",
        "panic=-1",
        "noreboot",
        *(["quiet"] if keyboard is not None else []),
    ]


def _control_text(wiring: Wiring, power: Power) -> str:
    """What nothing that happens in the lab depends on, but for where it ends (``strata_power.c``).

    It is no part of the command line, which the kernel takes for a source of randomness.
    """
    lines = []
    if wiring.trace is not None:
        lines.append(f"trace={_TRACE_FD}")
    if wiring.measure_cost:
        lines.append("measure_cost=1")
    if power.media is not None:
        lines.append("media=keep")
    if power.cut is not None:
        lines += [f"power_cut={power.cut.value}", f"power_seed={power.cut.seed}"]
    return "".join(f"{line}\n" for line in lines)


def boot_setting() -> dict[str, Any]:
    """What every trial's boot has in common, as JSON types; change any of it and results may change."""
    return {
        "arguments": kernel_arguments(1, 0),
        "environment": list(ENVIRONMENT),
        "guard": _GUARD,
        "root_disk": root_text(0),
        "initrd_sha256": hashlib.sha256(lab_initrd(b"", b"", b"")).hexdigest(),
    }


def _launch_line(wiring: Wiring, arguments: list[str]) -> list[str]:
    pinned = [] if wiring.cpu is None else ["taskset", "-c", str(wiring.cpu)]
    return [
        *("setpriv", "--pdeathsig", "KILL"),
        *("sh", "-c", _GUARD, "sh", str(os.getpid())),
        *("env", "-i", f"--chdir={wiring.folder}", *ENVIRONMENT),
        *("setarch", "x86_64", "-R", *pinned, "./linux", *arguments),
    ]


def _spawn(argv: list[str], descriptors: dict[int, int], *, session: bool) -> int:
    """Start a program with exactly these descriptors, by their numbers there, and default signals."""
    copies: dict[int, int] = {}
    try:
        for number, source in descriptors.items():
            copies[number] = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, _COPY_FD)
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_CLOSE, number) for number in _inheritable() if number > 2
        ]
        if 0 not in descriptors:
            actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        actions += [(os.POSIX_SPAWN_DUP2, copy, number) for number, copy in copies.items()]
        catchable = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        return os.posix_spawnp(
            argv[0],
            argv,
            {"PATH": "/usr/bin:/bin"},
            file_actions=actions,
            setsid=session,
            setsigmask=[],
            setsigdef=catchable,
        )
    except OSError as error:
        raise LabError(f"the lab cannot be started: {error.strerror}", place=argv[0]) from error
    finally:
        for copy in copies.values():
            os.close(copy)


def _inheritable() -> list[int]:
    """Descriptors that our own starter left open for us, and that a lab must not see."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  the names are numbers
        with suppress(OSError):
            if os.get_inheritable(int(name)):
                found.append(int(name))
    return sorted(found)
