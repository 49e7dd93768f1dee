# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strata.errors import RunError
from strata.model.histogram import decode
from strata.model.metric import Metric, of_open_loop
from strata.model.step import Step
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.pgbench import Pgbench

SAVED = Path(__file__).parents[1] / "golden" / "outputs" / "pgbench"
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


def test_metrics_come_from_the_log() -> None:
    found = metrics()

    assert found["transactions_per_s"].value == 2  # four in two seconds
    assert found["transactions_per_s"].headline
    assert (found["transactions"].value, found["transactions"].unit) == (4, "1")
    assert found["latency_ns_mean"].value == 7_500_000
    assert found["latency_ns_max"].value == 9_000_000
    assert found["latency_ns_p50"].value == pytest.approx(7_000_000, rel=1e-3)
    assert found["initialisation_ns"].value == 2_500_000_000
    assert found["initialisation_ns"].phase == "prepare"
    assert "transactions_failed" not in found


def test_failed_transactions_are_counted_and_not_timed() -> None:
    found = metrics(log=LOG + "0 3 failed 0 1795209651 740000\n1 3 serialization 0 1795209651 741000\n")

    assert found["transactions_failed"].value == 2
    assert found["transactions"].value == 4
    encoded = found["latency_ns_p99"].histogram
    assert encoded is not None
    assert decode(encoded).get_total_count() == 4


def test_what_ended_outside_the_measured_window_is_not_counted() -> None:
    cold = "0 0 90000 0 1795209650 999999\n0 0 failed 0 1795209650 999998\n"
    late = "0 9 80000 0 1795209653 0\n"

    found, checks = metrics(cold + LOG + late), [*pgbench().checks(outputs_of(cold + LOG + late))]

    assert found == metrics()
    assert (found["latency_ns_max"].value, found["transactions"].value) == (9_000_000, 4)
    assert [check.verdict for check in checks] == ["yes"]
    assert pgbench().rates_per_s(outputs_of(cold + LOG + late)) == [4.0, 0.0]


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


def test_a_trial_that_ended_early_is_named() -> None:
    with pytest.raises(RunError, match="no step"):
        pgbench().metrics(Outputs({}))
    with pytest.raises(RunError, match="left no file"):
        pgbench().metrics(Outputs({"pgbench-load": StepOutput()}))


# Recorded in the lab: 700 transactions a second were due, more than the disk bears.
OPEN_LOOP = {"duration": "3s", "rate": 700, "latency_limit": "60ms", "script_text": "SELECT 1;"}
OPEN_LOOP_OUTPUTS = Outputs(
    {
        "pgbench-initialise": StepOutput(duration_ns=474_230_000),
        "pgbench-begin": StepOutput(stdout="1798761603361000000\n"),
        "pgbench-load": StepOutput(files={"transactions": (SAVED / "17.11-open-loop.log").read_text()}),
    }
)


def test_an_open_loop_has_its_lag_and_its_skipped_transactions_as_metrics() -> None:
    found = {metric.name: metric for metric in pgbench(**OPEN_LOOP).metrics(OPEN_LOOP_OUTPUTS)}

    # Sums over the columns by awk. Every eighth line of the recording is left, of which pgbench itself said
    # "rate limit schedule lag: avg 56.044 (max 59.999) ms".
    assert found["schedule_lag_ns_mean"].value == pytest.approx(54_474_400, rel=1e-4)
    assert found["schedule_lag_ns_max"].value == pytest.approx(59_799_000, rel=1e-4)
    assert found["latency_ns_mean"].value == pytest.approx(71_189_700, rel=1e-4)
    assert found["transactions"].value == 59
    assert found["transactions_skipped"].value == 6
    assert "transactions_failed" not in found
    assert found["schedule_lag_ns_p99"].value <= found["latency_ns_p99"].value


def test_an_open_loop_that_could_not_keep_its_schedule_is_reported() -> None:
    checks = {check.name: check.verdict for check in pgbench(**OPEN_LOOP).checks(OPEN_LOOP_OUTPUTS)}

    assert (checks["no-transaction-failed"], checks["no-transaction-skipped"]) == ("yes", "no")


def test_each_transaction_that_was_done_has_a_beginning_and_an_end() -> None:
    spans = pgbench().spans_ns(outputs_of(LOG))

    assert len(spans) == 4
    assert max(end - begin for begin, end in spans) == 9_000_000
    assert all(end % 1000 == 0 and end > 1_795_209_651 * 10**9 - 1 for _, end in spans)


def test_rates_are_of_whole_seconds() -> None:
    rates = pgbench(**OPEN_LOOP).rates_per_s(OPEN_LOOP_OUTPUTS)

    assert len(rates) == 3
    assert sum(rates) == 59
    assert all(rate > 20 for rate in rates[:2])


def test_an_open_loop_answers_with_its_latency_and_what_it_skipped() -> None:
    late = Metric.of("transactions_skipped", 3.0, "1", better="lower")
    found = of_open_loop([*metrics().values(), late])

    assert pgbench(rate=50).is_open_loop
    assert not pgbench().is_open_loop
    assert [each.name for each in found if each.headline] == ["latency_ns_p99", "transactions_skipped"]
    assert found[0].name == "latency_ns_p99"
    assert len(found) == len(metrics()) + 1


def test_an_open_loop_without_a_latency_keeps_its_rate() -> None:
    rate = metrics()["transactions_per_s"]

    assert of_open_loop([rate]) == [rate]


def test_a_window_is_held_against_the_checkpoints_that_the_settings_ask_for() -> None:
    settings: dict[str, Any]
    for settings, period_s in (
        ({}, 300),
        ({"checkpoint_timeout": "30s"}, 30),
        ({"checkpoint_timeout": 60}, 60),
        ({"checkpoint_timeout": "2min"}, 120),
    ):
        assert dict(pgbench(settings=settings).periods_ns) == {"checkpoint of PostgreSQL": period_s * 10**9}
