# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.histogram import decode
from strata.model.metric import Metric
from strata.model.step import Step
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.plan.compile import compile_trial
from strata.workloads.sysbench.oltp import SysbenchOltp
from study_texts import read, stack_text

SAVED = Path(__file__).parents[1] / "golden" / "outputs" / "sysbench"
# Recorded in the lab: the report of a warm-up of 4 s, then that of a window of 6 s.
OPEN_LOOP = SAVED / "1.0.20-mariadb-open-loop.txt"
CLOSED = SAVED / "1.0.20-postgresql.txt"
SMALL = {"server": "mariadb", "threads": 8, "warmup": "4s", "duration": "6s"}


def workload(**keys: object) -> SysbenchOltp:
    return SysbenchOltp.model_validate({**SMALL, **keys})


def steps(found: SysbenchOltp) -> dict[str, Step]:
    return {step.id: step for step in found.steps(WorkloadContext(name="oltp", seed=1))}


def outputs(text: str) -> Outputs:
    return Outputs(
        {
            "sysbench-prepare": StepOutput(duration_ns=1_112_590_570),
            "sysbench-load": StepOutput(stdout=text),
        }
    )


def metrics(found: SysbenchOltp, text: str) -> dict[str, Metric]:
    return {metric.name: metric for metric in found.metrics(outputs(text))}


def test_metrics_come_from_sysbenchs_report() -> None:
    found = metrics(workload(server="postgresql"), CLOSED.read_text())

    assert found["transactions_per_s"].headline
    assert found["transactions"].value == 7624  # of the window alone
    assert found["transactions_per_s"].value == pytest.approx(7624 / 6, rel=0.01)
    assert found["prepare_ns"].value == 1_112_590_570
    assert found["prepare_ns"].phase == "prepare"
    encoded = found["latency_ns_p99"].histogram
    assert encoded is not None
    assert decode(encoded).get_total_count() == found["transactions"].value
    assert found["latency_ns_p50"].value < found["latency_ns_p99"].value <= found["latency_ns_max"].value
    assert "queue_time_ns_mean" not in found


def test_an_open_loop_has_the_time_in_the_queue_as_a_metric() -> None:
    found = metrics(workload(rate=100), OPEN_LOOP.read_text())

    # The sum of latencies over the transactions, less what the eight threads executed.
    assert found["latency_ns_mean"].value == pytest.approx(1482.05e6 / 628)
    assert found["transactions"].value == 628
    assert 0 < found["queue_time_ns_mean"].value < found["latency_ns_mean"].value


def test_rates_are_by_the_second() -> None:
    found = workload(rate=100).rates_per_s(outputs(OPEN_LOOP.read_text()))

    assert len(found) in (5, 6)  # sysbench may end before it prints the last one
    assert sum(found) == pytest.approx(100 * len(found), rel=0.1)


def test_restarts_are_reported_and_lost_connections_invalidate() -> None:
    text = CLOSED.read_text()
    checks = {check.name: check for check in workload().checks(outputs(text))}
    lost = {
        check.name: check
        for check in workload().checks(
            outputs(text.replace("reconnects:                          0", "reconnects:    3"))
        )
    }

    assert checks["connections-kept"].verdict == "yes"
    assert (lost["connections-kept"].verdict, lost["connections-kept"].required) == ("no", True)
    restarted = metrics(workload(), text).get("transactions_restarted")
    assert (checks["no-transaction-restarted"].verdict == "no") == (restarted is not None)
    assert not checks["no-transaction-restarted"].required


def test_output_that_cannot_be_read_shows_the_step_and_its_end() -> None:
    for text, cause, tail in (
        ("FATAL: unable to connect\n", "no report at its end", "unable to connect"),
        (CLOSED.read_text().replace("|", "!"), "no histogram", "execution time"),
    ):
        with pytest.raises(RunError, match=cause) as caught:
            metrics(workload(), text)
        assert "step sysbench-load" in str(caught.value)
        assert tail in str(caught.value)


def test_a_dump_beside_the_study_is_read_by_the_servers_client(tmp_path: Path) -> None:
    for server in ("postgresql", "mariadb"):
        (tmp_path / "dump.sql").write_text("CREATE TABLE item (id int);\n\\restrict x\n")
        text = f'workload = "sysbench-oltp"\nserver = "{server}"\nduration = "5s"\n'
        text += 'init = "dump.sql"\nscript_text = "SELECT 1;"'
        study = read(tmp_path, stack_text('{ layer = "ext4" }', 1, text, model="wd-re4-500gb"))
        plan = compile_trial(study, "stack", "load", 1)
        found = {each.id: each for each in plan.steps}

        (dump,) = plan.inputs
        assert (dump.kind, dump.source) == ("file", "dump.sql")
        assert "--file=${input-dump}" in found["sysbench-init"].argv
        assert found["sysbench-prepare"].argv[-1].endswith("/content")
        assert study.workloads["load"].needs_permission
