# SPDX-License-Identifier: Apache-2.0
"""Plans that no study can declare: the lab alone, and fio on a bare modelled disk."""

from __future__ import annotations

from strata.devices.device import Device
from strata.model.step import Step
from strata.plan.compile import ENVIRONMENT
from strata.plan.model import Monitors, Plan, PlanDevice, Trial
from strata.units import NS_PER_S


def bare_plan(name: str, device: Device, steps: tuple[Step, ...] = ()) -> Plan:
    """A plan without a stack: its steps see the disk itself as ``${disk0}``."""
    return Plan(
        trial=Trial(study="bench", stack="none", workload=name, seed=1, id=f"none.{name}.s1"),
        devices=(PlanDevice(name="disk0", capacity_bytes=device.capacity_bytes),),
        variables=("disk0", "mount", "scratch"),
        environment=ENVIRONMENT,
        monitors=Monitors(interval_ns=NS_PER_S, disks=("disk0",)),
        time_limit_ns=TIME_LIMIT_NS,
        steps=steps,
    )


BATCH = 16
TIME_LIMIT_NS = 24 * 3600 * NS_PER_S  # virtual: a slow disk takes an hour for what the lab does in seconds


def random_read(*, queue_depth: int, limit: tuple[str, ...]) -> Step:
    """4 KiB random reads of the bare disk through io_uring; ``limit`` says when fio ends.

    A deep queue is submitted and reaped in batches: one call per I/O would measure the cost of entering the
    kernel, not that of the modelled disk.
    """
    batch = min(BATCH, queue_depth)
    return Step(
        id="fio",
        phase="measure",
        title=f"4 KiB random reads, queue depth {queue_depth}",
        argv=(
            *("fio", "--name=random-read", "--filename=${disk0}", "--rw=randread", "--bs=4k", "--direct=1"),
            *("--ioengine=io_uring", f"--iodepth={queue_depth}", "--norandommap", "--randrepeat=0"),
            *("--randseed=1", f"--iodepth_batch_submit={batch}", f"--iodepth_batch_complete_min={batch}"),
            *("--clocksource=clock_gettime", "--output-format=json", *limit),
        ),
        time_limit_ns=TIME_LIMIT_NS,
    )


def cost_steps(*options: str, ios: int) -> tuple[Step, ...]:
    """Random I/Os at queue depth 32, between two readings of the host's time that the driver took."""
    read = ("sh", "-c", "cat /sys/block/sda/host_cost_ns")
    fio = random_read(queue_depth=32, limit=(f"--io_size={ios * 4}k",))
    argv = (*(word for word in fio.argv if not word.startswith("--rw=")), *options)
    return (
        Step(id="cost-before", phase="prepare", title="Measure from here", argv=read),
        fio.model_copy(update={"argv": argv}),
        Step(id="cost-after", phase="measure", title="What it has cost", argv=read),
    )
