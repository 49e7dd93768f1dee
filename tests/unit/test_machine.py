# SPDX-License-Identifier: Apache-2.0
"""A machine's state and what disturbs a trial on it, by a fake tree of /proc and /sys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from strata.machine.disturbance import DisturbanceLimits, Own, window_between
from strata.machine.reading import Sampler
from strata.machine.state import state_of
from strata.units import NS_PER_S

HZ = 100
QUIET = {
    "proc/stat": "cpu 1000 0 1000 5000 0 0 0 0 0 0\ncpu0 0 0 0\ncpu1 0 0 0\n",
    "proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 8000000 kB\nSwapTotal: 100 kB\nSwapFree: 100 kB\n",
    "proc/loadavg": "0.00 0.01 0.05 1/100 4242",
    "proc/vmstat": "pswpin 0\npswpout 0\noom_kill 0\n",
    "proc/cpuinfo": "flags\t\t: fpu vme\n",
    "proc/diskstats": "8 0 sda 1 0 0 0 1 0 0 0\n7 0 loop0 1 0 0 0 1 0 0 0\n",
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "performance\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    "sys/devices/system/cpu/smt/active": "0\n",
    "sys/devices/system/cpu/cpuidle/current_governor": "haltpoll\n",
    "sys/module/haltpoll/parameters/guest_halt_poll_ns": "200000\n",
    "sys/block/sda/queue/scheduler": "[none] mq-deadline\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "proc/sys/vm/swappiness": "60\n",
    "sys/class/power_supply/AC/type": "Mains\n",
    "sys/class/power_supply/AC/online": "1\n",
    "sys/class/hwmon/hwmon0/name": "nvme\n",
    "sys/class/hwmon/hwmon0/temp1_label": "Composite\n",
    "sys/class/hwmon/hwmon0/temp1_input": "41850\n",
    "sys/class/hwmon/hwmon0/temp1_max": "74850\n",
    "sys/class/hwmon/hwmon0/temp2_input": "41850\n",
    "sys/class/hwmon/hwmon0/temp2_max": "65261850\n",
}
INIT, AGENT, FIO, NEIGHBOUR, SHELL = 1, 50, 51, 60, 61


@dataclass
class Tree:
    """A fake machine, whose clocks are set by hand."""

    root: Path
    monotonic_s: float = 100.0
    suspended_s: float = 0.0
    stepped_s: float = 0.0

    def __post_init__(self) -> None:
        self.write(QUIET)
        self.process(INIT, 0, "init")

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def process(
        self, pid: int, parent: int, name: str, *, own_s: float = 0, waited_s: float = 0, flags: int = 0
    ) -> None:
        own, waited = int(own_s * HZ), int(waited_s * HZ)
        zeros = "0 " * 7
        text = f"{pid} ({name}) S {parent} 0 0 0 0 {flags} 0 0 0 0 {own} 0 {waited} 0 0 0 0 0 {pid} {zeros}\n"
        self.write({f"proc/{pid}/stat": text})

    def ended(self, pid: int) -> None:
        (self.root / f"proc/{pid}/stat").unlink()
        (self.root / f"proc/{pid}").rmdir()

    @property
    def machine(self) -> Sampler:
        def clocks() -> tuple[int, int, int]:
            boot_s = self.monotonic_s + self.suspended_s
            times = (self.monotonic_s, boot_s, 1e9 + boot_s + self.stepped_s)
            monotonic_ns, boottime_ns, realtime_ns = (round(each * NS_PER_S) for each in times)
            return monotonic_ns, boottime_ns, realtime_ns

        return Sampler(self.root, clocks)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def remarks(tree: Tree) -> str:
    return "\n".join(map(str, state_of(tree.machine, ["sda"]).remarks()))


def test_of_a_quiet_machine_nothing_is_said(tree: Tree) -> None:
    assert remarks(tree) == ""
    state = state_of(tree.machine, ["sda"])
    assert state.schedulers == {"sda": "none"}
    assert (state.huge_pages, state.swappiness, state.turbo) == ("madvise", 60, False)


def test_what_deviates_is_said_with_what_to_do(tree: Tree) -> None:
    for file, text, said in (
        (
            "sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
            "powersave",
            "powersave (1 of 2); `cpupower frequency-set -g performance`",
        ),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0", "turbo"),
        ("proc/cpuinfo", "flags : fpu hypervisor\n", "the machine is virtual"),
        ("proc/meminfo", "MemTotal: 8192 kB\nMemAvailable: 1024 kB\n", "only 1 MiB of 8 MiB of memory"),
        (
            "proc/meminfo",
            "MemTotal: 9 kB\nMemAvailable: 9 kB\nSwapTotal: 2048 kB\nSwapFree: 1024 kB\n",
            "1 MiB are in swap; `swapoff -a`",
        ),
        ("sys/class/power_supply/AC/online", "0", "on battery"),
        ("sys/module/haltpoll/parameters/guest_halt_poll_ns", "0", "idle CPUs halt at once"),
        ("proc/9/stat", f"9 (dpkg) S 1 {'0 ' * 40}", "at work: dpkg"),
        ("proc/9/stat", f"9 (cron) S 1 {'0 ' * 40}", "may begin to work at any time: cron"),
        (
            "proc/mdstat",
            "md0 : active raid1 sdb[1] sdc[0]\n  [==>..]  resync = 12.0% (1/9) finish=1min\n",
            "at work: resync of md0",
        ),
    ):
        tree.write({file: text})
        assert said in remarks(tree)


def test_timers_are_named_where_something_starts_them(tree: Tree) -> None:
    tree.write({"etc/systemd/system/timers.target.wants/apt-daily.timer": ""})
    assert remarks(tree) == ""

    tree.write({"run/systemd/system/.keep": ""})

    assert "apt-daily.timer" in remarks(tree)


def disturbances(tree: Tree, *changes: dict[str, str], limits: DisturbanceLimits | None = None) -> list[str]:
    """The disturbances found in a window of ten seconds in which these files changed."""
    before = tree.machine.reading()
    tree.monotonic_s += 10
    for files in changes:
        tree.write(files)
    own = Own(roots=(AGENT,), disk="sda", loops=("loop0",))
    return window_between(before, tree.machine.reading(), own).disturbances(limits or DisturbanceLimits())


def test_a_trials_own_processes_do_not_disturb_it(tree: Tree) -> None:
    tree.process(AGENT, INIT, "agent")
    tree.process(FIO, AGENT, "fio", own_s=1)
    before = tree.machine.reading()

    tree.monotonic_s += 10
    tree.ended(FIO)
    tree.process(AGENT, INIT, "agent", own_s=0.1, waited_s=9)
    tree.process(FIO + 1, AGENT, "postgres", own_s=9)

    window = window_between(before, tree.machine.reading(), Own(roots=(AGENT,)))
    assert window.others_cpus == 0
    assert window.own_cpus == pytest.approx(1.71)
    assert window.disturbances(DisturbanceLimits()) == []


def test_a_neighbour_that_computes_is_named_with_its_share(tree: Tree) -> None:
    tree.process(NEIGHBOUR, INIT, "neighbour (it)", own_s=500)
    before = tree.machine.reading()

    tree.monotonic_s += 10
    tree.process(NEIGHBOUR, INIT, "neighbour (it)", own_s=505)

    found = window_between(before, tree.machine.reading(), Own()).disturbances(DisturbanceLimits())
    assert found == ["other processes used 0.50 of 2 CPUs (more than 0.10): neighbour (it) 0.50"]


def test_short_lived_neighbours_count_through_whoever_waited_for_them(tree: Tree) -> None:
    tree.process(SHELL, INIT, "make", waited_s=100)
    before = tree.machine.reading()

    tree.monotonic_s += 10
    tree.process(SHELL, INIT, "make", waited_s=104)

    window = window_between(before, tree.machine.reading(), Own())
    assert window.others == pytest.approx({"make": 0.4})


def test_what_an_ended_neighbour_had_used_before_the_window_does_not_count(tree: Tree) -> None:
    tree.process(SHELL, INIT, "bash")
    tree.process(NEIGHBOUR, SHELL, "backup", own_s=1000, waited_s=50)
    before = tree.machine.reading()

    tree.monotonic_s += 10
    tree.ended(NEIGHBOUR)
    tree.process(SHELL, INIT, "bash", waited_s=1050.5)

    window = window_between(before, tree.machine.reading(), Own())
    assert window.others == pytest.approx({"bash": 0.05})
    assert window.disturbances(DisturbanceLimits()) == []


def test_kernel_threads_work_for_the_trial(tree: Tree) -> None:
    before = tree.machine.reading()

    tree.monotonic_s += 10
    tree.process(2, 0, "kworker/0:1", own_s=9, flags=0x0020_0000)

    window = window_between(before, tree.machine.reading(), Own())
    assert window.others_cpus == 0
    assert window.kernel_cpus == pytest.approx(0.9)


def test_on_many_cpus_more_is_allowed(tree: Tree) -> None:
    tree.process(NEIGHBOUR, INIT, "monitor", own_s=0)
    rows = "cpu 0 0 0 0 0 0 0 0\n" + "".join(f"cpu{number} 0\n" for number in range(64))
    tree.write({"proc/stat": rows})
    before = tree.machine.reading()

    tree.monotonic_s += 10
    tree.process(NEIGHBOUR, INIT, "monitor", own_s=6)

    window = window_between(before, tree.machine.reading(), Own())
    assert window.disturbances(DisturbanceLimits()) == []
    assert replace(window, cpus=8).disturbances(DisturbanceLimits()) != []


def test_what_exceeds_a_limit_in_the_window_is_found(tree: Tree) -> None:
    files: dict[str, str]
    for files, said in (
        (
            {"proc/stat": "cpu 1800 0 1000 5000 0 0 0 200 0 0\ncpu0 0\ncpu1 0\n"},
            "the hypervisor withheld 20 % of the processor time (more than 2 %)",
        ),
        (
            {"proc/diskstats": "8 0 sda 1 0 204800 0 1 0 0 0\n7 0 loop0 1 0 0 0 1 0 0 0\n"},
            "others moved 100 MiB on the disk under --scratch",
        ),
        ({"proc/vmstat": "pswpin 8192\npswpout 0\noom_kill 0\n"}, "32 MiB were moved to and from swap"),
        ({"proc/vmstat": "oom_kill 1\n"}, "memory ran out"),
        (
            {"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n"},
            "CPUs were slowed down for their temperature 3 times",
        ),
        (
            {"sys/class/hwmon/hwmon0/temp1_input": "75850\n"},
            "too hot: nvme Composite has 76 °C (limit 75 °C)",
        ),
    ):
        assert disturbances(tree) == []
        found = disturbances(tree, files)
        assert len(found) == 1
        assert said in found[0]


def test_the_trials_own_data_on_the_disk_under_scratch_is_not_others(tree: Tree) -> None:
    own = "8 0 sda 1 0 200000 0 1 0 220000 0\n7 0 loop0 1 0 200000 0 1 0 200000 0\n"

    assert disturbances(tree, {"proc/diskstats": own}) == []


def test_a_clock_that_stood_still_or_was_set_is_found(tree: Tree) -> None:
    for clock, seconds, said in (
        ("suspended_s", 60, "the machine was suspended for 60.0 s"),
        ("stepped_s", -3600, "its wall clock was set by -3600.0 s"),
    ):
        before = tree.machine.reading()
        tree.monotonic_s += 10
        setattr(tree, clock, seconds)
        assert window_between(before, tree.machine.reading(), Own()).disturbances(DisturbanceLimits()) == [
            said
        ]


def test_a_zone_that_reaches_its_passive_trip_point_is_found(tree: Tree) -> None:
    zone = "sys/class/thermal/thermal_zone0"
    tree.write({f"{zone}/type": "x86_pkg_temp", f"{zone}/temp": "50000"})
    tree.write({f"{zone}/trip_point_0_type": "critical", f"{zone}/trip_point_0_temp": "105000"})
    tree.write({f"{zone}/trip_point_1_type": "passive", f"{zone}/trip_point_1_temp": "95000"})
    assert disturbances(tree) == []

    assert disturbances(tree, {f"{zone}/temp": "96000"}) == ["too hot: x86_pkg_temp has 96 °C (limit 95 °C)"]
