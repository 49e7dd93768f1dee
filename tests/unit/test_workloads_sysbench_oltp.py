# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.metric import Metric
from strata.model.step import Step
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.plan.compile import compile_trial
from strata.workloads.sysbench.oltp import SysbenchOltp
from study_texts import read, stack_text

SAVED = Path(__file__).parents[1] / "golden" / "outputs" / "sysbench"
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
        assert found["sysbench-prepare"].argv[-1].endswith("/content.sql")
        assert study.workloads["load"].needs_permission
