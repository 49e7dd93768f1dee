# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.step import Step
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.sql_suite import SqlSuite

SAVED = Path(__file__).parents[1] / "golden" / "outputs" / "mariadb"
SESSIONS = ("write", "read-keys", "read-ranges", "change")


def suite(**keys: object) -> SqlSuite:
    return SqlSuite.model_validate({"rows": 4000, "commits": 200, **keys})


def steps(workload: SqlSuite, seed: int = 1) -> list[Step]:
    return workload.steps(WorkloadContext(name="suite", seed=seed))


def outputs(**changed: str) -> Outputs:
    texts = {name: (SAVED / f"11.8.6-sql-suite-{name}.txt").read_text() for name in SESSIONS}
    return Outputs(
        {f"sql-suite-{name}": StepOutput(stdout=text) for name, text in {**texts, **changed}.items()}
    )


def test_a_suite_that_broke_off_says_where() -> None:
    cut = outputs(write="strata\tbegin\t1798761630.675807\nstrata\tcreate_tables\t1798761634.633819\n")

    with pytest.raises(RunError, match="not all executed") as caught:
        suite().metrics(cut)
    assert "step sql-suite-write" in str(caught.value)
    assert "create_tables" in str(caught.value)


def test_rows_that_are_missing_in_the_end_invalidate() -> None:
    (sound,) = suite().checks(outputs())
    (wrong,) = suite(rows=5000).checks(outputs())
    (unknown,) = suite().checks(outputs(change=""))

    assert (sound.verdict, sound.required) == ("yes", True)
    assert wrong.verdict == "no"
    assert unknown.verdict == "unknown"


def test_content_derives_from_the_seed() -> None:
    def text(seed: int) -> list[str | None]:
        return [step.stdin for step in steps(suite(), seed)]

    assert text(1) == text(1)
    assert text(1) != text(2)
