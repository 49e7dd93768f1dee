# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from results_factory import STACKS, WORKLOADS, good_log, make_study, metrics_of, plan_of, store_trial
from typer.testing import CliRunner

from strata.cli import app
from strata.errors import ResultError
from strata.results.query import TABLES, query
from strata.results.store import ResultsFolder


@pytest.fixture
def folder(tmp_path: Path) -> ResultsFolder:
    return make_study(tmp_path / "re'sults", seeds=(1, 2))


def test_every_table_has_the_columns_that_its_description_names(folder: ResultsFolder) -> None:
    for table, columns in TABLES.items():
        answer = query(folder, f"select * from {table}")

        assert answer.columns == tuple(name for name, _, _ in columns)
        assert answer.rows


def test_metrics_are_those_of_the_results(folder: ResultsFolder) -> None:
    sql = "select value from metrics where trial = 'xfs.oltp.s2' and metric = 'transactions_per_s'"

    assert query(folder, sql).rows == [(metrics_of("oltp", 344, 2)[0].value,)]


def test_samples_are_those_of_the_events(folder: ResultsFolder) -> None:
    sql = "select count(*) from samples where trial = 'xfs.oltp.s2' and name = 'dirty_bytes'"

    assert query(folder, sql).rows == [(60,)]


def test_a_result_that_came_later_is_in_the_next_query(folder: ResultsFolder) -> None:
    count = "select max(attempt) from trials where trial = 'xfs.oltp.s1'"
    assert query(folder, count).rows == [(1,)]
    plan = plan_of("xfs", "oltp", 1)
    store_trial(folder, plan, metrics_of("oltp", 400, 1), good_log(plan, 400))

    assert query(folder, count).rows == [(2,)]


def test_the_derived_files_can_be_thrown_away(folder: ResultsFolder) -> None:
    sql = "select * from disk_accounts order by all"
    before = query(folder, sql)
    for path in (folder.path / "query").iterdir():
        path.unlink()

    assert query(folder, sql) == before


def test_a_damaged_result_is_in_the_trials_with_its_problem(folder: ResultsFolder) -> None:
    folder.attempts("xfs.oltp.s1")[0].result_path.write_text("{")

    rows = query(folder, "select valid, problem from trials where trial = 'xfs.oltp.s1'").rows

    assert rows[0][0] is False
    assert "not JSON" in rows[0][1]


def test_damaged_derived_files_and_a_damaged_study_are_errors_not_tracebacks(folder: ResultsFolder) -> None:
    query(folder, "select 1")
    (folder.path / "query" / "trials.parquet").write_bytes(b"PAR1 and nothing more")

    with pytest.raises(ResultError, match="cannot be derived or read") as caught:
        query(folder, "select * from trials")

    assert "remove the folder" in (caught.value.remedy or "")
    content = json.loads(folder.study_path.read_text())
    folder.study_path.write_text(json.dumps({**content, "trials": {"../../x": "0" * 64}}))
    with pytest.raises(ResultError, match="trials"):
        query(folder, "select * from trials")


def test_a_query_that_is_refused_says_why_and_where_to_look(folder: ResultsFolder) -> None:
    with pytest.raises(ResultError, match="nonsense") as caught:
        query(folder, "select nonsense from trials")

    assert "--tables" in (caught.value.remedy or "")


def test_the_command_prints_tables_json_and_csv(folder: ResultsFolder) -> None:
    sql = "select trial, valid from trials order by trial limit 1"

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["query", str(folder.path), *arguments], catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    assert json.loads(run(sql, "--json")) == [{"trial": "btrfs.oltp.s1", "valid": True}]
    assert run(sql, "--csv") == "trial,valid\nbtrfs.oltp.s1,True\n"
    assert "btrfs.oltp.s1" in run(sql)
    assert {row["table"] for row in json.loads(run("--tables", "--json"))} == set(TABLES)
    with pytest.raises(ResultError, match="there is no query"):
        run()


def test_rows_too_wide_for_the_terminal_are_folded_or_listed_never_cut(folder: ResultsFolder) -> None:
    def run(sql: str) -> str:
        result = CliRunner().invoke(
            app, ["query", str(folder.path), sql], env={"COLUMNS": "80"}, catch_exceptions=False
        )
        assert result.exit_code == 0
        assert "…" not in result.stdout
        assert all(len(line) <= 80 for line in result.stdout.splitlines())
        return result.stdout

    whole = query(folder, "select record_sha256 from trials order by trial").rows[0][0]
    everything = run("select * from trials order by trial")
    assert everything.count("record_sha256") == len(STACKS) * len(WORKLOADS) * 2
    assert whole in re.sub(r"\s+", "", everything)
    folded = run("select trial, record_sha256 from trials order by trial")
    assert folded.splitlines()[0].split() == ["trial", "record_sha256"]
    assert whole[:40] in folded
