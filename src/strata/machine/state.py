# SPDX-License-Identifier: Apache-2.0
"""A machine's settings and load, and which of them make measurements noisy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strata.machine.disturbance import DisturbanceLimits, Window
from strata.machine.reading import Sampler, chosen
from strata.units import format_size

# Programs that work on the disks or the processors for minutes, and end by themselves.
_MAINTENANCE: Final = frozenset(
    {
        *("apt", "apt-get", "aptitude", "dpkg", "dnf", "yum", "rpm", "unattended-upgr", "zypper", "snap"),
        *("updatedb", "mandb", "fstrim", "e2scrub", "xfs_scrub", "btrfs", "rsync", "restic", "borg"),
    }
)
_CRON: Final = ("cron", "crond", "anacron")
_RESYNCS: Final = ("resync", "recovery", "reshape", "check")
_TIMERS: Final = "etc/systemd/system/timers.target.wants/*.timer"
_HALT_POLL: Final = "sys/module/haltpoll/parameters/guest_halt_poll_ns"
# With less, a trial's page cache is smaller than the machine's memory suggests. A judgement.
_AVAILABLE_SHARE_MIN: Final = 0.5


@dataclass(frozen=True)
class Remark:
    """A difference from a quiet machine, with its remedy."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


HALTS_AT_ONCE: Final = Remark(
    "idle CPUs halt at once (haltpoll.guest_halt_poll_ns is 0), and waking one takes tens of microseconds",
    f"write Linux's default, 200000, to /{_HALT_POLL}",
)


@dataclass(frozen=True)
class State:
    """A machine's settings and load; unknown values are None or empty."""

    cpus: int
    governors: Mapping[str, int]  # the number of frequency policies with each governor
    turbo: bool | None  # whether CPUs may exceed their nominal frequency
    smt: bool | None
    numa_nodes: int
    is_virtual: bool
    halts_at_once: bool  # whether an idle CPU of a virtual machine is given back without waiting for work
    huge_pages: str
    swappiness: int | None
    swap_used_bytes: int
    memory_bytes: int
    available_bytes: int
    load_average: Sequence[float]
    steady_power: bool  # False on battery
    schedulers: Mapping[str, str] = field(default_factory=dict)  # of each disk under test
    frequency_khz: Mapping[str, int] = field(default_factory=dict)
    maintenance: tuple[str, ...] = ()  # programs that run for minutes, and arrays being synchronised
    timers: tuple[str, ...] = ()  # jobs that may start at any time

    def remarks(self) -> Iterator[Remark]:
        slow = {name: count for name, count in self.governors.items() if name != "performance"}
        if slow:
            policies = sum(self.governors.values())
            named = ", ".join(f"{name} ({count} of {policies})" for name, count in slow.items())
            yield Remark(f"CPU frequency governor: {named}", "`cpupower frequency-set -g performance`")
        if self.turbo:
            yield Remark(
                "turbo: the CPUs' frequency depends on their temperature and on how many are busy",
                "write 1 to /sys/devices/system/cpu/intel_pstate/no_turbo or 0 to .../cpufreq/boost",
            )
        if not self.steady_power:
            yield Remark("the machine runs on battery", "plug it in")
        if self.is_virtual:
            yield Remark(
                "the machine is virtual: its CPUs and disks are shared with others",
                "prefer a machine of your own; withheld CPU time is watched",
            )
        if self.halts_at_once:
            yield HALTS_AT_ONCE
        if self.swap_used_bytes:
            yield Remark(f"{format_size(self.swap_used_bytes)} are in swap", "`swapoff -a`")
        if self.available_bytes < _AVAILABLE_SHARE_MIN * self.memory_bytes:
            available, memory = format_size(self.available_bytes), format_size(self.memory_bytes)
            yield Remark(f"only {available} of {memory} of memory are available", "end what holds the rest")
        if self.maintenance:
            yield Remark(f"at work: {', '.join(self.maintenance)}", "let it end, or stop it")
        if self.timers:
            remedy = "stop it while you measure (`systemctl stop NAME`)"
            yield Remark(f"may begin to work at any time: {', '.join(self.timers)}", remedy)


def state_of(machine: Sampler, disks: Sequence[str] = ()) -> State:
    """Read the state of a machine and of these disks, by the kernel's names."""
    rows = machine.lines("proc/meminfo")
    memory = {words[0].rstrip(":"): int(words[1]) << 10 for words in rows if len(words) == 3}
    swappiness = machine.text("proc/sys/vm/swappiness")
    running = {each.name for each in machine.processes()}
    enabled = machine.text("sys/kernel/mm/transparent_hugepage/enabled")
    policies = machine.places("sys/devices/system/cpu/cpufreq/policy*")
    return State(
        cpus=machine.ticks().cpus,
        governors=dict(Counter(filter(None, (machine.text(each / "scaling_governor") for each in policies)))),
        turbo=_turbo(machine),
        smt={"1": True, "0": False}.get(machine.text("sys/devices/system/cpu/smt/active")),
        numa_nodes=len(machine.places("sys/devices/system/node/node[0-9]*")),
        is_virtual=_is_virtual(machine),
        halts_at_once=_halts_at_once(machine),
        huge_pages=chosen(enabled),
        swappiness=int(swappiness) if swappiness.isdecimal() else None,
        swap_used_bytes=memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        memory_bytes=memory.get("MemTotal", 0),
        available_bytes=memory.get("MemAvailable", 0),
        load_average=[float(each) for each in machine.text("proc/loadavg").split()[:3]],
        steady_power=not _on_battery(machine),
        schedulers={name: chosen(machine.text(f"sys/block/{name}/queue/scheduler")) for name in disks},
        frequency_khz={
            each.name: int(text)
            for each in policies
            if (text := machine.text(each / "scaling_cur_freq")).isdecimal()
        },
        maintenance=(*sorted(running & _MAINTENANCE), *_resyncs(machine)),
        timers=(*_timers(machine), *(name for name in _CRON if name in running)),
    )


def busy_remarks(window: Window, limits: DisturbanceLimits) -> Iterator[Remark]:
    for found in window.disturbances(limits):
        yield Remark(found, "end it, or trials will count as disturbed")


def _turbo(machine: Sampler) -> bool | None:
    intel = machine.text("sys/devices/system/cpu/intel_pstate/no_turbo")
    other = machine.text("sys/devices/system/cpu/cpufreq/boost")
    return intel == "0" if intel else other == "1" if other else None


def _is_virtual(machine: Sampler) -> bool:
    flags = next((words for words in machine.lines("proc/cpuinfo") if words[:1] == ["flags"]), [])
    signs = (machine.has(each) for each in ("sys/hypervisor/type", "proc/device-tree/hypervisor"))
    return "hypervisor" in flags or any(signs)


def _halts_at_once(machine: Sampler) -> bool:
    in_use = machine.text("sys/devices/system/cpu/cpuidle/current_governor") == "haltpoll"
    return in_use and machine.text(_HALT_POLL) == "0"


def _on_battery(machine: Sampler) -> bool:
    supplies = machine.places("sys/class/power_supply/*")
    mains = [machine.text(each / "online") for each in supplies if machine.text(each / "type") == "Mains"]
    return bool(mains) and "1" not in mains


def _resyncs(machine: Sampler) -> Iterator[str]:
    array = ""
    for words in machine.lines("proc/mdstat"):
        array = words[0] if words[1:2] == [":"] else array
        yield from (f"{word} of {array}" for word in words if word in _RESYNCS)


def _timers(machine: Sampler) -> Iterator[str]:
    if machine.has("run/systemd/system"):  # else nothing starts them
        yield from (each.name for each in machine.places(_TIMERS))
