# SPDX-License-Identifier: Apache-2.0
"""``make bench``: the lab's speed, as ratios and rates measured in one run, each lab on one CPU.

The last figures are of the report of a study of 500 cells, and of checking and planning 5,000 trials.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress as Bar

from bench.planning import planning_figures
from bench.plans import BATCH, bare_plan, cost_steps, random_read
from bench.report import Figure, report_figures, show
from strata.devices.device import Device, find_device
from strata.lab.lab import require_lab
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_stack, compile_trial
from strata.plan.model import Plan
from strata.reading.load import load_study
from strata.results.events import Events, read_events
from strata.runners.base import EVENTS_NAME, PLAN_NAME, Progress, Task
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S

HERE = Path(__file__).parent
NULL_IOS = 1_000_000
ROTATING_IOS = 400_000
COST_IOS = 100_000
MACHINE_IOS = 5_000
COSTS = {
    "random reads": ("--rw=randread",),
    "random writes of zeros": ("--rw=randwrite", "--zero_buffers"),
    "random writes of random data": ("--rw=randwrite", "--refill_buffers"),
}
CONTAINERS = {"nspawn": "systemd-nspawn"} | dict.fromkeys(("dir", "btrfs", "lvm-thin", "zfs"), "Incus")
COSTED = ("null", "wd-re4-500gb", "generic-desktop-hdd", "generic-nvme-consumer")
SIZED = ("seagate-exos-x20-20tb", "intel-p5510-3840gb")


class _Stopwatch:
    """Real and virtual time of a trial's measure phase, from the runner's reports."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None

    def report(self, progress: Progress) -> None:
        if progress.phase == "measure":
            self._last = (time.monotonic(), progress.trial_ns)
            self._first = self._first or self._last

    def virtual_per_real(self) -> float:
        if self._first is None or self._last is None or self._last == self._first:
            raise SystemExit("bench: the measure phase was too short to be timed")
        return (self._last[1] - self._first[1]) / NS_PER_S / (self._last[0] - self._first[0])


def _carry_out(
    runner: LabRunner, plan: Plan, device: Device, report: Callable[[Progress], None] = lambda _: None
) -> tuple[float, Events]:
    """Run one plan; returns its real time from start to power off, in seconds, and its events."""
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        place = Path(folder)
        (place / PLAN_NAME).write_bytes(plan.to_json())
        cpu = max(os.sched_getaffinity(0))
        task = Task(plan, {"disk0": device}, place, trace=False, cpu=cpu, report=report)
        start = time.monotonic()
        runner.run(task)
        duration_s = time.monotonic() - start
        events = read_events(place / EVENTS_NAME)
    if events.end is None or events.end.outcome != "ok":
        raise SystemExit(f"bench: {plan.trial.id} failed: {events.end}")
    return duration_s, events


def _boot_s(runner: LabRunner, device: Device) -> float:
    return _carry_out(runner, bare_plan("boot", device), device)[0]


def _boot(runner: LabRunner) -> Figure:
    device = find_device("wd-re4-500gb")
    times = [_boot_s(runner, device) for _ in range(5)]
    return Figure("boot to power off, median of 5", statistics.median(times), "s", "< 0.6")


def _ios_per_second(runner: LabRunner, model: str, ios: int, aim: str) -> Figure:
    device = find_device(model)
    empty_s = min(_boot_s(runner, device) for _ in range(2))
    step = random_read(queue_depth=32, limit=(f"--io_size={ios * 4}k",))
    real_s, _ = _carry_out(runner, bare_plan("random-read", device, (step,)), device)
    name = f"modelled 4 KiB random reads, queue depth 32 in batches of {BATCH}, {model}"
    return Figure(name, ios / (real_s - empty_s), "1/real s", aim)


class _Memory:
    """The lab's peak use of the host's memory besides its own: models, media, traces."""

    def __init__(self) -> None:
        self.peak_bytes = 0

    def report(self, progress: Progress) -> None:
        """Read the memory of our only child, the lab."""
        for task in Path("/proc/self/task").iterdir():
            for child in (task / "children").read_text().split():
                with suppress(OSError):
                    status = Path(f"/proc/{child}/status").read_text()
                    kib = next((line.split()[1] for line in status.splitlines() if "RssAnon" in line), "0")
                    self.peak_bytes = max(self.peak_bytes, int(kib) << 10)


def _host_cost_ns(runner: LabRunner, model: str, what: str) -> Figure:
    """Real time in the driver and the model, per I/O, as the driver itself measures it."""
    device = find_device(model)
    plan = bare_plan("cost", device, cost_steps(*COSTS[what], ios=COST_IOS))
    _, events = _carry_out(runner, plan, device)
    before, after = (int(events.output(step)) for step in ("cost-before", "cost-after"))
    # The first write of a stored block includes the host's filesystem's cost of a new page.
    aim = "" if what == "random writes of random data" else "< 3,000"
    name = f"driver and model, 4 KiB {what}, queue depth 32, {model}"
    return Figure(name, (after - before) / COST_IOS, "ns", aim)


def _memory_per_tib(runner: LabRunner, model: str) -> Figure:
    """A disk's use of the host's memory after random writes all over it."""
    peaks = []
    for each, what in (("null", "random reads"), (model, "random writes of random data")):
        device, memory = find_device(each), _Memory()
        plan = bare_plan("memory", device, cost_steps(*COSTS[what], ios=COST_IOS))
        _carry_out(runner, plan, device, memory.report)
        peaks.append(memory.peak_bytes)
    tib = find_device(model).capacity_bytes / (1 << 40)
    value = (peaks[1] - peaks[0]) / tib / 2**20
    return Figure(f"host memory after {COST_IOS:,} random writes, {model}", value, "MiB/TiB", "")


def _pgbench_ratio(runner: LabRunner) -> Figure:
    study = load_study(HERE / "lab.toml", catalogue())
    stopwatch = _Stopwatch()
    plan = compile_trial(study, "ext4", "pgbench", 1)
    _carry_out(runner, plan, study.devices["disk0"].device, stopwatch.report)
    name = "pgbench, 10 clients, ext4 on the rotating disk"
    return Figure(name, stopwatch.virtual_per_real(), "virtual s/real s", "> 5")


def _fio_ratio(runner: LabRunner) -> Figure:
    device = find_device("wd-re4-500gb")
    stopwatch = _Stopwatch()
    step = random_read(queue_depth=1, limit=("--time_based", "--runtime=600"))
    _carry_out(runner, bare_plan("random-read", device, (step,)), device, stopwatch.report)
    name = "fio, queue depth 1, rotating disk"
    return Figure(name, stopwatch.virtual_per_real(), "virtual s/real s", "> 60")


def _machine(runner: LabRunner) -> list[Figure]:
    """Real time of a virtual machine, beside an empty lab's: its boot and end, and its I/Os one at a time."""
    study = load_study(HERE / "lab.toml", catalogue())
    device, built = study.devices["disk0"].device, compile_stack(study, "vm", 1)
    socket = next(step.machine for step in built.steps if step.machine)
    read = random_read(queue_depth=1, limit=(f"--io_size={MACHINE_IOS * 4}k",))
    argv = tuple(word.replace("${disk0}", "/dev/vda") for word in read.argv)
    read = read.model_copy(update={"argv": argv, "machine": socket})
    reading = built.model_copy(update={"steps": (*built.steps, read)})
    empty_s = min(_boot_s(runner, device) for _ in range(2))
    boot_s = min(_carry_out(runner, built, device)[0] for _ in range(2))
    real_s, _ = _carry_out(runner, reading, device)
    per_thousand_s = (real_s - boot_s) / MACHINE_IOS * 1000
    return [
        Figure("boot and end of a virtual machine with ext4, besides the lab's", boot_s - empty_s, "s", ""),
        Figure("4 KiB random reads in a virtual machine, one at a time", per_thousand_s, "real s/1000", ""),
    ]


def _containers(runner: LabRunner) -> list[Figure]:
    """Real time of one container by each manager on each pool, beside an empty lab's."""
    study = load_study(HERE / "lab.toml", catalogue())
    device = study.devices["disk0"].device
    empty_s = min(_boot_s(runner, device) for _ in range(2))
    figures = []
    for stack, manager in CONTAINERS.items():
        built = compile_stack(study, stack, 1)
        real_s = min(_carry_out(runner, built, device)[0] for _ in range(2))
        name = f"{manager} and a container on the stack {stack}, begin and end, besides the lab's"
        figures.append(Figure(name, real_s - empty_s, "s", ""))
    return figures


def main() -> None:
    """Measure everything and print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json: bool = parser.parse_args().json
    runner = LabRunner(require_lab(), measure_cost=True)
    measurements: list[Callable[[LabRunner], Figure]] = [
        _boot,
        lambda runner: _ios_per_second(runner, "null", NULL_IOS, "> 100,000"),
        lambda runner: _ios_per_second(runner, "wd-re4-500gb", ROTATING_IOS, "> 50,000"),
        *(partial(_host_cost_ns, model=model, what=what) for model in COSTED for what in COSTS),
        *(partial(_memory_per_tib, model=model) for model in SIZED),
        _pgbench_ratio,
        _fio_ratio,
    ]
    figures: list[Figure] = []
    with Bar(console=Console(stderr=True), transient=True) as bar:
        todo = bar.add_task("bench", total=len(measurements))
        for measure in measurements:
            figures.append(measure(runner))
            bar.advance(todo)
        for name, measure_all in (
            ("virtual machine", partial(_machine, runner)),
            ("containers", partial(_containers, runner)),
            ("report", report_figures),
            ("planning", planning_figures),
        ):
            todo = bar.add_task(name, total=1)
            figures += measure_all()
            bar.advance(todo)
    show(figures, "The lab on one CPU, the report, and planning", as_json=as_json)


if __name__ == "__main__":
    main()
