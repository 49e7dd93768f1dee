# SPDX-License-Identifier: Apache-2.0
"""Starting the lab: one User-Mode Linux process that sees the same on every machine.

Everything by which a process could know its host is fixed here: arguments (only relative names and
descriptors with fixed numbers), environment, working folder, limits, signals, address layout. Disks are
sparse files without a name and end with the process. It ends with its starter (``pdeathsig``).
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import mmap
import os
import select
import shutil
import signal
import struct
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from strata.errors import LabError, ToolError
from strata.lab.disk import DISK_FD, LabDisk, check_counts, disk_files, root_text, text_file
from strata.lab.disk_image import DiskImage, PowerCut
from strata.lab.initrd import lab_initrd
from strata.lab.inputs import ProvidedInput
from strata.lab.lab import Lab
from strata.lab.limits import lies_on_disk, provide_descriptors
from strata.model.step import MEMORY_BYTES
from strata.seeds import derive_seed
from strata.units import NS_PER_S

START_NS: Final = 1_798_761_600 * 10**9
"""Virtual time begins at 2027-01-01 00:00 UTC: later than every file of the root image, or PAM complains."""
ENVIRONMENT: Final = ("HOME=/", "PATH=/usr/bin:/bin", "TERM=linux")
TUNABLES: Final = ":".join(
    (
        "glibc.cpu.hwcaps="
        "-XSAVE,-XSAVEC,-AVX,-AVX2,-AVX512F,-FMA,-FMA4,-BMI1,-BMI2,-LZCNT,-MOVBE,-POPCNT,-SSSE3,-SSE4_1,-SSE4_2,"
        "-ERMS,-RTM,-Slow_BSF,-Slow_SSE4_2,-Fast_Rep_String,-Fast_Copy_Backward,-Fast_Unaligned_Load,"
        "-Fast_Unaligned_Copy,-Prefer_PMINUB_for_stringop",
        "glibc.cpu.x86_data_cache_size=32768",
        "glibc.cpu.x86_shared_cache_size=1048576",
        "glibc.cpu.x86_non_temporal_threshold=786432",
        "glibc.cpu.x86_memset_non_temporal_threshold=786432",
        "glibc.cpu.x86_rep_movsb_threshold=2048",
        "glibc.cpu.x86_rep_stosb_threshold=2048",
    )
)
"""The C library of programs in the lab works as on an x86-64 processor without extensions.

It chooses its functions by the processor. Which pages they touch first, how much stack a program's start
takes, and the last digit of logarithms would depend on the host otherwise.
"""
OPENSSL_FEATURES: Final = "0x7808010:0"
"""OpenSSL likewise: of its capabilities SSE2 and what is older, and nothing of the later words."""
TOOLS: Final = ("env", "setarch", "setpriv", "sh", "taskset")
CHARGES_NS: Final = {"syscall": 200, "yield": 1000, "clock_read": 20, "reclaim": 100}
"""The kernel's charges in virtual time where the processor is free. Every result states them."""

# The numbers of the descriptors in the lab's process, the same on every machine; the disks' come after them.
# Our own copies lie above all until they are moved there.
_PROCESSOR_FD: Final = 59
_STATUS_FD: Final = 60
_EVENTS_FD: Final = 61
_TRACE_FD: Final = 62
_CONTROL_FD: Final = 63
_COPY_FD: Final = 128
# linux/seccomp.h, and the call's number for x86-64
_SECCOMP: Final = 317
_SECCOMP_GET_ACTION_AVAIL: Final = 2
_SECCOMP_RET_TRAP: Final = 0x30000
_STATUS_PAGE_BYTES: Final = 4096
_STATUS_LAYOUT: Final = struct.Struct("<8sQQQI16s")

# The parent may die before its death can be noticed, so the guard looks once more, afterwards. The stack's
# limit moves the address layout, and a panicking lab would leave a core of its memory: so both are set.
_GUARD: Final = (
    'test "$PPID" = "$1" || exit 1; shift; umask 022; ulimit -S -c 0; ulimit -S -s 8192; exec "$@"'
)


@dataclass(frozen=True)
class Wiring:
    """The connections of a lab to its host."""

    folder: Path  # its private working folder, for ``linux`` and ``initrd.cpio``
    console: int  # descriptor for the console's output
    events: int  # descriptor for the agent's events, opened for appending
    keyboard: int | None = None  # descriptor for the console's input; None for a trial
    cpu: int | None = None  # the CPU to pin it to, or any of the caller's
    trace: int | None = None  # descriptor for the trace of all requests, opened for appending
    # The driver sums up the host's time that it takes, in ``/sys/block/DISK/host_cost_ns``. Never for a
    # trial: the lab's programs could see the host by it.
    measure_cost: bool = False


@dataclass(frozen=True)
class Power:
    """How a lab's disks begin, and how its power may end. Neither changes what happens in between.

    After a cut of the power only content is left. An orderly power-off leaves the state of the disks' models,
    too (``kernel/disk/nonvolatile.h``): the places of a flash drive's data, its SLC cache, a shingled drive's
    cached zones, a cloud disk's saved-up credit. Caches and queues begin anew in any case.
    """

    # The disks' content, in their order: empty, or left by an earlier boot. None for empty disks that end
    # with the lab.
    images: Sequence[DiskImage] | None = None
    cut: PowerCut | None = None  # the power cut, after which the lab's exit status is `POWER_CUT_STATUS`
    # The virtual time that the machine has been up before. Its calendar goes on from there, and its
    # randomness is another one: nothing must be drawn a second time.
    earlier_ns: int = 0


@dataclass(frozen=True)
class Status:
    """One reading of the lab's clock and the task that it runs; times and counts since its boot.

    ``booted``: the kernel publishes them.
    """

    booted: bool
    virtual_time_ns: int
    context_switches: int
    entries: int  # of programs into the kernel
    pid: int
    comm: str


class StatusPage:
    """The page on which a running lab publishes its status: a file without a name, shared with the lab.

    The kernel's side is struct strata_status in ``kernel/patches``. It writes without locks, so a reading may
    mix two instants; it serves progress and the watchdog, never a result.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("strata-status", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, _STATUS_PAGE_BYTES)
        self._page = mmap.mmap(self.descriptor, _STATUS_PAGE_BYTES, prot=mmap.PROT_READ)

    def read(self) -> Status:
        """The lab's status now."""
        magic, virtual_time_ns, switches, entries, pid, comm = _STATUS_LAYOUT.unpack_from(self._page)
        name = comm.split(b"\0", 1)[0].decode(errors="replace")
        return Status(magic == b"STRATA01", virtual_time_ns, switches, entries, pid, name)

    def close(self) -> None:
        """Close it when the lab has ended."""
        self._page.close()
        os.close(self.descriptor)


@dataclass
class RunningLab:
    """A lab's process. Use it as a context: at its end the process is gone, whatever happened."""

    pid: int
    status: StatusPage
    exit_status: int | None = None  # from ``os.waitstatus_to_exitcode``; None while it runs
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
    """Raise a `ToolError` if a program that starts a lab is missing, or a system call is forbidden."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path="/usr/bin:/bin") is None]
    if missing:
        raise ToolError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing from /usr/bin",
            remedy="install the packages util-linux, coreutils and dash",
        )
    if refused := _refused_calls():
        raise ToolError(
            f"{' and '.join(refused)} may not be used here, which every lab needs",
            remedy="in a container run it with --security-opt seccomp=unconfined",
        )


@functools.cache
def _refused_calls() -> list[str]:
    """The system calls that a filter around this process refuses: containers have one."""
    libc, trap = ctypes.CDLL(None), ctypes.c_uint32(_SECCOMP_RET_TRAP)
    has_seccomp = libc.syscall(_SECCOMP, _SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(trap)) == 0
    fixed = subprocess.run(("/usr/bin/setarch", "-R", "true"), check=False, capture_output=True)
    has = {"the system call seccomp": has_seccomp, "personality": fixed.returncode == 0}
    return [name for name, is_there in has.items() if not is_there]


def start_lab(
    lab: Lab,
    wiring: Wiring,
    *,
    initrd: bytes,
    disks: Sequence[LabDisk],
    entropy_seed: int,
    memory_bytes: int = MEMORY_BYTES,
    processor: Sequence[str] = (),
    virtual: bool = True,
    power: Power = Power(),
    inputs: Sequence[ProvidedInput] = (),
) -> RunningLab:
    """Start a lab, in virtual time, as trials run, or in real time.

    The calling thread must outlive the lab: ``pdeathsig`` notices its end. The kernel finds the disks in the
    given order, then the inputs, each on a disk without latency. ``processor`` has the lines of
    `strata.devices.processor.Processor.kernel_lines`.
    """
    check_tools()
    provide_descriptors(1, len(disks) + len(inputs))
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
            descriptors[_PROCESSOR_FD] = text_file("".join(f"{line}\n" for line in processor), owned)
            descriptors[_CONTROL_FD] = text_file(_control_text(wiring, power), owned)
            descriptors |= disk_files(lab, disks, inputs, power.images, wiring.folder, owned)
        except OSError as error:
            raise LabError(
                f"the lab's files cannot be made: {error.strerror}",
                place=str(wiring.folder),
                remedy="free some space there, or name another cache with STRATA_CACHE",
            ) from error
        count, keyboard = len(disks) + len(inputs), wiring.keyboard
        arguments = kernel_arguments(
            count,
            derive_seed(entropy_seed, "later", str(power.earlier_ns)) if power.earlier_ns else entropy_seed,
            memory_bytes=memory_bytes,
            virtual=virtual,
            keyboard=keyboard,
            later_ns=-(-power.earlier_ns // NS_PER_S) * NS_PER_S,
        )
        # User-Mode Linux puts its memory there, or into /dev/shm.
        variables = ("TMPDIR=.",) if lies_on_disk(memory_bytes) else ()
        pid = _spawn(_launch_line(wiring, arguments, variables), descriptors, session=wiring.keyboard is None)
        unless_started.pop_all()
    return RunningLab(pid, status)


def kernel_arguments(
    disk_count: int,
    entropy_seed: int,
    *,
    memory_bytes: int = MEMORY_BYTES,
    virtual: bool = True,
    keyboard: int | None = None,
    later_ns: int = 0,
) -> list[str]:
    """The lab's command line; in virtual time a function of the trial alone."""
    configs = ",".join(str(DISK_FD + 2 * index) for index in range(disk_count + 1))
    return [
        f"mem={memory_text(memory_bytes)}",
        *(["time-travel=inf-cpu", f"time-travel-start={START_NS + later_ns}"] if virtual else []),
        "norandmaps",
        "seccomp=notify",  # signals where the host's seccomp cannot notify, with the same results
        f"entropy_seed={entropy_seed}",
        *(f"strata.charge_{name}_ns={charge_ns}" for name, charge_ns in CHARGES_NS.items()),
        f"strata.disks={configs}",
        f"strata.status={_STATUS_FD}",
        f"strata.cpu={_PROCESSOR_FD}",
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
        # An unknown parameter is a variable of the first process.
        f"GLIBC_TUNABLES={TUNABLES}",
        f"OPENSSL_ia32cap={OPENSSL_FEATURES}",
        *(["quiet"] if keyboard is not None else []),
    ]


def _control_text(wiring: Wiring, power: Power) -> str:
    """Settings without influence on events in the lab, except for its end (``strata_power.c``).

    They are no part of the command line, which the kernel takes for a source of randomness.
    """
    lines = {
        f"trace={_TRACE_FD}\n": wiring.trace is not None,
        "measure_cost=1\n": wiring.measure_cost,
        "media=keep\n": power.images is not None,
    }
    cut = "" if power.cut is None else f"power_cut={power.cut.value}\npower_seed={power.cut.seed}\n"
    return "".join(line for line, stated in lines.items() if stated) + cut


def boot_setting() -> dict[str, Any]:
    """The settings of every trial's boot, as JSON types; a change of any may change results."""
    return {
        "arguments": kernel_arguments(1, 0),
        "environment": list(ENVIRONMENT),
        "guard": _GUARD,
        "root_disk": root_text(0),
        "initrd_sha256": hashlib.sha256(lab_initrd(b"", b"", b"")).hexdigest(),
    }


def _launch_line(wiring: Wiring, arguments: list[str], variables: Sequence[str] = ()) -> list[str]:
    # Two processes of a lab take turns at each system call. On two CPUs, which sleep meanwhile, it is five
    # times as slow. Labs of several callers should not all take the first CPU.
    cpus = sorted(os.sched_getaffinity(0))
    cpu = cpus[os.getpid() % len(cpus)] if wiring.cpu is None else wiring.cpu
    return [
        *("setpriv", "--pdeathsig", "KILL"),
        *("sh", "-c", _GUARD, "sh", str(os.getpid())),
        *("env", "-i", f"--chdir={wiring.folder}", *ENVIRONMENT, *variables),
        *("setarch", "x86_64", "-R", "taskset", "-c", str(cpu), "./linux", *arguments),
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


_UNITS: Final = ((30, "G"), (20, "M"))


def memory_text(memory_bytes: int) -> str:
    """The size as on the kernel's command line. Keep the form: the kernel seeds randomness from that line."""
    for shift, unit in _UNITS:
        if memory_bytes % (1 << shift) == 0:
            return f"{memory_bytes >> shift}{unit}"
    return str(memory_bytes)
