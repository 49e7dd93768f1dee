# SPDX-License-Identifier: Apache-2.0
"""Disturbances of a measured window: the machine's readings at both ends, compared with limits.

docs/explanation/quiet-machine.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from strata.machine.reading import MachineReading, Process, Ticks
from strata.units import NS_PER_S, format_share, format_size, percent

_NAMED_MAX = 3


@dataclass(frozen=True)
class DisturbanceLimits:
    """Beyond these, a trial counts as disturbed. Values without a source are judgements."""

    others_cpus: float = 0.10  # of other processes: the trial keeps nine tenths of a shared CPU
    others_share: float = 0.01  # the same as a share of all CPUs, which is more on large machines
    # The share of the requested CPU time that a hypervisor withheld. The trial is slower by about that share,
    # and 2 % is within the 2.5 % that ratios are measured to.
    steal_share: float = 0.02
    steal_cpus: float = 0.005  # the least that counts: on an idle machine a few ticks are a large share
    # Other data on the disk under the loop devices, as a share of theirs: more than a filesystem's metadata.
    io_share: float = 0.25
    io_bytes_per_s: float = 1 << 20  # the least that counts
    swapped_bytes: int = 16 << 20  # a few pages always are
    clock_s: float = 0.1  # the longest suspension of the machine, or step of its wall clock


@dataclass(frozen=True)
class Own:
    """The trial's and Strata's own part of a machine."""

    roots: Collection[int] = ()  # own processes, with their descendants
    alone: Collection[int] = ()  # own processes, without their descendants
    disk: str | None = None  # the disk under the loop devices; None to watch none
    loops: Collection[str] = ()


@dataclass(frozen=True)
class Window:
    """The activity on a machine between two readings, besides the trial."""

    seconds: float
    cpus: int
    others: Mapping[str, float]  # processor time of other processes by name, in CPUs, the largest first
    own_cpus: float | None  # of the trial's processes; None if its agent had ended
    kernel_cpus: float  # of kernel threads, whoever they worked for
    steal_cpus: float
    steal_share: float
    steal_share_max: float  # in one second
    # The time in which something waited for cpu, io or memory; not judged, since the trial's own do, too.
    stall_share: Mapping[str, float]
    io_bytes: int  # other data moved on the disk under the loop devices
    loop_bytes: int  # the trial's
    swapped_bytes: int
    oom_kills: int
    throttles: int
    suspended_s: float
    clock_step_s: float
    celsius: Mapping[str, float] = field(default_factory=dict)
    hot: tuple[str, ...] = ()  # the sensors at their limit

    @property
    def others_cpus(self) -> float:
        return sum(self.others.values())

    def disturbances(self, limits: DisturbanceLimits) -> list[str]:
        """The values beyond the limits, each as a clause with its figure."""
        return [*self._of_processors(limits), *self._of_disks(limits), *self._of_the_machine(limits)]

    def _of_processors(self, limits: DisturbanceLimits) -> Iterator[str]:
        allowed = max(limits.others_cpus, limits.others_share * self.cpus)
        if self.others_cpus > allowed:
            most = ", ".join(f"{name} {used:.2f}" for name, used in [*self.others.items()][:_NAMED_MAX])
            of_all = f"{self.others_cpus:.2f} of {self.cpus} CPUs (more than {allowed:.2f})"
            yield f"other processes used {of_all}: {most}"
        if self.steal_share > limits.steal_share and self.steal_cpus > limits.steal_cpus:
            shares = percent(self.steal_share), format_share(limits.steal_share)
            yield "the hypervisor withheld {} of the processor time (more than {})".format(*shares)
        if self.throttles:
            yield f"CPUs were slowed down for their temperature {self.throttles} times"

    def _of_disks(self, limits: DisturbanceLimits) -> Iterator[str]:
        allowed = max(limits.io_share * self.loop_bytes, limits.io_bytes_per_s * self.seconds)
        if self.io_bytes > allowed:
            besides = f", besides the trial's {format_size(self.loop_bytes)}" if self.loop_bytes else ""
            yield f"others moved {format_size(self.io_bytes)} on the disk under --scratch{besides}"
        if self.swapped_bytes > limits.swapped_bytes:
            yield f"{format_size(self.swapped_bytes)} were moved to and from swap"
        if self.oom_kills:
            yield "memory ran out, and the kernel ended a process"

    def _of_the_machine(self, limits: DisturbanceLimits) -> Iterator[str]:
        for sensor in self.hot:
            yield f"too hot: {sensor}"
        if self.suspended_s > limits.clock_s:
            yield f"the machine was suspended for {self.suspended_s:.1f} s"
        if abs(self.clock_step_s) > limits.clock_s:
            yield f"its wall clock was set by {self.clock_step_s:+.1f} s"


def window_between(
    before: MachineReading, after: MachineReading, own: Own, *, steal_share_max: float = 0.0
) -> Window:
    seconds = max((after.monotonic_ns - before.monotonic_ns) / NS_PER_S, 1e-9)
    used = sorted(_others_s(before, after, own).items(), key=lambda each: -each[1])
    loop_bytes = sum(_moved_bytes(before, after, name) for name in own.loops)
    disk_bytes = _moved_bytes(before, after, own.disk) if own.disk else 0
    asleep_ns = (after.boottime_ns - before.boottime_ns) - (after.monotonic_ns - before.monotonic_ns)
    # The wall clock goes on while the machine is suspended.
    stepped_ns = (after.realtime_ns - before.realtime_ns) - (after.boottime_ns - before.boottime_ns)
    steal = steal_share(before.ticks, after.ticks)
    return Window(
        seconds=seconds,
        cpus=after.ticks.cpus,
        others={name: used_s / seconds for name, used_s in used if used_s > 0},
        own_cpus=None if (own_s := _own_s(before, after, own)) is None else own_s / seconds,
        kernel_cpus=sum(
            used_s - before.kernel_threads_s.get(pid, 0.0) for pid, used_s in after.kernel_threads_s.items()
        )
        / seconds,
        steal_cpus=(after.ticks.steal_s - before.ticks.steal_s) / seconds,
        steal_share=steal,
        steal_share_max=max(steal, steal_share_max),
        stall_share={
            kind: (total - before.stall_s.get(kind, 0)) / seconds for kind, total in after.stall_s.items()
        },
        io_bytes=max(0, disk_bytes - loop_bytes) if own.loops else disk_bytes,
        loop_bytes=loop_bytes,
        swapped_bytes=after.swapped_bytes - before.swapped_bytes,
        oom_kills=after.oom_kills - before.oom_kills,
        throttles=after.throttles - before.throttles,
        suspended_s=asleep_ns / NS_PER_S,
        clock_step_s=stepped_ns / NS_PER_S,
        celsius={each.sensor: each.celsius for each in after.temperatures},
        hot=tuple(
            f"{each.sensor} has {each.celsius:.0f} °C (limit {each.limit_celsius:.0f} °C)"
            for each in after.temperatures
            if each.is_at_limit
        ),
    )


def steal_share(before: Ticks, after: Ticks) -> float:
    steal_s = max(0.0, after.steal_s - before.steal_s)
    asked_s = steal_s + max(0.0, after.busy_s - before.busy_s)
    return steal_s / asked_s if asked_s else 0.0


def _moved_bytes(before: MachineReading, after: MachineReading, disk: str) -> int:
    return max(0, after.disk_bytes.get(disk, 0) - before.disk_bytes.get(disk, 0))


def _own_s(before: MachineReading, after: MachineReading, own: Own) -> float | None:
    """Processor time of the trial's processes; an ended one counts for the one that waited for it."""

    def spent_s(reading: MachineReading) -> float:
        ours = _ours(reading, own) - {*own.alone}
        return sum(each.own_s + each.waited_s for pid, each in reading.processes.items() if pid in ours)

    return spent_s(after) - spent_s(before) if {*own.roots} <= after.processes.keys() else None


def _others_s(before: MachineReading, after: MachineReading, own: Own) -> dict[str, float]:
    """Processor time of others by name; an ended process counts for its nearest living ancestor."""
    left_out = _ours(before, own) | _ours(after, own)
    past_s = _past_of_ended(before, after, left_out)
    used: dict[str, float] = {}
    for pid, process in after.processes.items():
        if pid in left_out:
            continue
        own_s, waited_s = process.own_s, process.waited_s
        if (known := before.processes.get(pid)) is not None and known.started == process.started:
            own_s, waited_s = own_s - known.own_s, waited_s - known.waited_s
        # Time that ended processes used before the window does not count.
        used_s = own_s + max(0.0, waited_s - past_s.get(pid, 0.0))
        used[process.name] = used.get(process.name, 0.0) + used_s
    return used


def _ours(reading: MachineReading, own: Own) -> set[int]:
    processes, roots = reading.processes, set(own.roots)
    return {*roots, *own.alone, *(pid for pid in processes if roots.intersection(_ancestors(processes, pid)))}


def _ancestors(processes: Mapping[int, Process], pid: int) -> Iterator[int]:
    """A process and its ancestors; a pid reused between reads makes no circle."""
    seen: set[int] = set()
    while pid in processes and pid not in seen:
        seen.add(pid)
        yield pid
        pid = processes[pid].parent


def _past_of_ended(
    before: MachineReading, after: MachineReading, left_out: Collection[int]
) -> dict[int, float]:
    """The earlier use of processes that ended in the window, by their nearest living ancestor."""
    past: dict[int, float] = {}
    living = {
        pid
        for pid, each in after.processes.items()
        if pid in before.processes and before.processes[pid].started == each.started
    }
    for pid, process in before.processes.items():
        if pid in living or pid in left_out:
            continue
        heir = next((each for each in _ancestors(before.processes, pid) if each in living), None)
        if heir is not None:
            past[heir] = past.get(heir, 0.0) + process.own_s + process.waited_s
    return past
