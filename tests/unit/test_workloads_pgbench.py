# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from strata.errors import RunError
from strata.model.metric import Metric, of_open_loop
from strata.model.step import Step
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.pgbench import Pgbench, metric_prefixes

LOG = """\
0 1 7000 0 1795209651 729000
1 1 8000 0 1795209651 730000
0 2 9000 0 1795209651 738000
1 2 6000 0 1795209651 736000
"""
BEGIN_NS = 1_795_209_651_000_000_000
SMALL = {"scale": 10, "clients": 10, "duration": "2s"}


def pgbench(**keys: object) -> Pgbench:
    return Pgbench.model_validate({**SMALL, **keys})


def step(workload: Pgbench, step_id: str) -> Step:
    steps = workload.steps(WorkloadContext(name="oltp", seed=1))
    return next(step for step in steps if step.id == step_id)


def outputs_of(log: str, begin: str = f"{BEGIN_NS}\n") -> Outputs:
    return Outputs(
        {
            "pgbench-initialise": StepOutput(duration_ns=2_500_000_000),
            "pgbench-begin": StepOutput(stdout=begin),
            "pgbench-load": StepOutput(files={"transactions": log}),
        }
    )


def metrics(log: str = LOG, begin: str = f"{BEGIN_NS}\n") -> dict[str, Metric]:
    return {metric.name: metric for metric in pgbench().metrics(outputs_of(log, begin))}


def test_each_of_several_scripts_has_metrics_of_its_own() -> None:
    log = LOG.replace("0 1 7000 0", "0 1 7000 1")
    load = pgbench(scripts=["New-Order.sql@3", "b/new-order.sql", "x.sql"], script_texts={})
    found = {each.name: each.value for each in load.metrics(outputs_of(log))}
    assert (found["new_order_transactions"], found["new_order_2_transactions"]) == (3, 1)
    assert (found["transactions_per_s"], found["new_order_transactions_per_s"]) == (2, 1.5)
    assert (found["latency_ns_max"], found["new_order_2_latency_ns_max"]) == (9e6, 7e6)
    assert not [name for name in found if name.startswith("x_")]
    assert not [name for name in metrics() if "order" in name]
    assert metric_prefixes(["a.sql", "a_3.sql", "x/a.sql"]) == ["a", "a_3", "a_4"]
    late = pgbench(scripts=["flag.sql", "x.sql"], script_texts={}, rate=50)
    lagging = "".join(f"{line} 1000\n" for line in LOG.splitlines())
    named = {each.name for each in late.metrics(outputs_of(lagging))}
    assert {"flag_transactions", "flag_latency_ns_p99", "schedule_lag_ns_p99"} <= named
    assert not [name for name in named if "flag_schedule_lag" in name]


def test_output_that_cannot_be_read_shows_the_step_and_its_end() -> None:
    for log, begin, cause, tail in (
        (LOG, "FATAL: no\n", "no number of nanoseconds", "FATAL: no"),
        ("", f"{BEGIN_NS}\n", "no transaction was completed", "(it is empty)"),
        (LOG, "1\n", "no transaction was completed", "(it is empty)"),
        (LOG + "0 3 70", f"{BEGIN_NS}\n", "cut off", "0 3 70"),
    ):
        with pytest.raises(RunError, match=cause) as caught:
            metrics(log, begin)
        assert "step pgbench-" in str(caught.value)
        assert tail in str(caught.value)


def test_an_open_loop_answers_with_its_latency_and_what_it_skipped() -> None:
    late = Metric.of("transactions_skipped", 3.0, "1", better="lower")
    found = of_open_loop([*metrics().values(), late])

    assert pgbench(rate=50).is_open_loop
    assert not pgbench().is_open_loop
    assert [each.name for each in found if each.headline] == ["latency_ns_p99", "transactions_skipped"]
    assert found[0].name == "latency_ns_p99"
    assert len(found) == len(metrics()) + 1


def test_a_window_is_held_against_the_checkpoints_that_the_settings_ask_for() -> None:
    settings: dict[str, Any]
    for settings, period_s in (
        ({}, 300),
        ({"checkpoint_timeout": "30s"}, 30),
        ({"checkpoint_timeout": 60}, 60),
        ({"checkpoint_timeout": "2min"}, 120),
    ):
        assert dict(pgbench(settings=settings).periods_ns) == {"checkpoint of PostgreSQL": period_s * 10**9}


def test_checksums_of_pages_are_of_the_cluster_and_no_option_of_the_server() -> None:
    for value, is_made in ((True, True), ("on", True), (False, False), ("off", False)):
        workload = pgbench(settings={"data_checksums": value, "fsync": True})
        assert ("--data-checksums" in step(workload, "pgbench-cluster").argv) is is_made, value
        server = " ".join(step(workload, "pgbench-server").argv)
        assert "data_checksums" not in server
        assert "fsync=true" in server
