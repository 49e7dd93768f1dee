# SPDX-License-Identifier: Apache-2.0
"""A study that searches a rate, and a runner whose stacks have a planted capacity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strata.model.step import Step
from strata.plan.model import Plan
from strata.runners.fake import FakeRunner, Output
from study_texts import EXT4_AND_XFS, pgbench_log

TEXT = f"""\
[study]
name = "knee"
question = "How much can each carry?"
seeds = [1, 2, 3]
{EXT4_AND_XFS}
[workloads.oltp]
workload = "pgbench"
scale = 1
clients = 10
warmup = "1s"
duration = "4s"
rate = 200
find = {{ metric = "latency_ns_p99", below = "20ms" }}
"""
BELOW_US = 20_000
IDLE_US = 4_000


def number_of(step: Step, option: str) -> float:
    return next(float(word.partition("=")[2]) for word in step.argv if word.startswith(f"{option}="))


def rate_of(plan: Plan) -> float:
    return number_of(next(step for step in plan.steps if step.id == "pgbench-load"), "--rate")


def latency_us(rate: float, capacity: float) -> int:
    """The latency of a queue, which grows without limit towards the capacity."""
    return round(min(IDLE_US / (1 - rate / capacity), 1e7)) if rate < capacity else 10_000_000


def highest_rate(capacity: float) -> float:
    """The rate at which this latency is the limit."""
    return capacity * (1 - IDLE_US / BELOW_US)


def capacity_runner(
    capacities: Mapping[str, float], scatter: Mapping[int, float] | None = None, **options: Any
) -> FakeRunner:
    """pgbench on stacks of these capacities, each times the factor of its seed."""

    def output(plan: Plan, step: Step) -> Output:
        if step.id == "pgbench-begin":
            return "0\n", {}
        if step.id != "pgbench-load":
            return "", {}
        trial, rate = plan.trial, rate_of(plan)
        capacity = capacities[trial.stack] * (scatter or {}).get(trial.seed, 1.0)
        # pgbench's time is that of warm-up and window; the log begins with the window.
        log = pgbench_log(
            latency_us(rate, capacity),
            min(rate, capacity),
            window_s=round(number_of(step, "--time")),
            lag=" 0",
        )
        return "", {"transactions": log}

    return FakeRunner(output=output, **options)
