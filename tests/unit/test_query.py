# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from results_factory import STACKS, WORKLOADS, good_log, make_study, metrics_of, plan_of, store_trial

from command_line import shown
from strata.errors import ResultError
from strata.model.trial import TrialKey
from strata.report.data import TABLES
from strata.report.query import query_results as query
from strata.results.store import ResultsFolder
from strata.statistics.study import gather


@pytest.fixture
def folder(tmp_path: Path) -> ResultsFolder:
    return make_study(tmp_path / "re'sults", seeds=(1, 2))


def test_every_table_has_the_columns_that_its_description_names(folder: ResultsFolder) -> None:
    results = gather(folder)
    for name, table in TABLES.items():
        answer = query(folder, f"select * from {name}")

        assert [each.title for each in answer.columns] == [each.key for each in table.columns]
        assert answer.rows == table.of(results).rows, name


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
    folder.attempts(TrialKey("xfs", "oltp", 1))[0].result_path.write_text("{")

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
    folder.study_path.write_text(json.dumps({**content, "trials": [{"stack": "../../x"}]}))
    with pytest.raises(ResultError, match="trials"):
        query(folder, "select * from trials")


def test_a_query_that_is_refused_says_why_and_where_to_look(folder: ResultsFolder) -> None:
    with pytest.raises(ResultError, match="nonsense") as caught:
        query(folder, "select nonsense from trials")

    assert "--tables" in (caught.value.remedy or "")


def test_the_command_prints_tables_json_and_csv(folder: ResultsFolder) -> None:
    sql = "select trial, valid from trials order by trial limit 1"

    def run(*words: str) -> str:
        return shown("query", folder.path, *words)

    assert json.loads(run(sql, "--json"))["rows"] == [{"trial": "btrfs.oltp.s1", "valid": True}]
    assert run(sql, "--csv") == "trial,valid\nbtrfs.oltp.s1,true\n"
    assert "btrfs.oltp.s1" in run(sql)
    assert {row["table"] for row in json.loads(run("--tables", "--json"))["rows"]} == set(TABLES)
    with pytest.raises(ResultError, match="there is no query"):
        run()


def test_rows_too_wide_for_the_terminal_are_folded_or_listed_never_cut(folder: ResultsFolder) -> None:
    def run(sql: str) -> str:
        said = shown("query", folder.path, sql, width=80)
        assert "…" not in said
        assert all(len(line) <= 80 for line in said.splitlines())
        return said

    whole = query(folder, "select record_sha256 from trials order by trial").rows[0][0]
    everything = run("select * from trials order by trial")
    assert everything.count("record_sha256") == len(STACKS) * len(WORKLOADS) * 2
    assert whole in everything.split(), "to be copied"
    two = run("select trial, record_sha256 from trials order by trial")
    assert two.splitlines()[0] == "trial"
    assert whole in two.split()


HOSTILE = (
    "select * from read_csv('{secret}')",
    "select * from read_text('{secret}')",
    "select * from read_blob('{secret}')",
    "select * from read_json('{secret}')",
    "select * from read_parquet('{parquet}')",
    "select * from parquet_metadata('{parquet}')",
    "select * from parquet_kv_metadata('{parquet}')",
    "select * from '{secret}'",
    "from '{parquet}'",
    "select * from sniff_csv('{secret}')",
    "select * from glob('{folder}/*')",
    "select * from read_text('{own}/../study.json')",
    "select * from read_csv('http://127.0.0.1:{port}/x.csv')",
    "select * from 'http://127.0.0.1:{port}/x.parquet'",
    "select * from read_parquet('s3://bucket/x.parquet')",
    "with x as materialized (select * from read_text('{secret}')) select count(*) from x",
    "select (select content from read_text('{secret}'))",
    "copy (select 42) to '{folder}/made'",
    "copy trials to '{own}/trials.parquet' (format parquet, use_tmp_file false)",
    "copy (select 42) to '{folder}/made' (format parquet)",
    "explain analyze copy (select 42) to '{own}/trials.parquet' (use_tmp_file false)",
    "create table x as select 1; copy x from '{secret}'",
    "export database '{folder}/made'",
    "import database '{folder}'",
    "attach '{folder}/made'",
    "attach 'http://127.0.0.1:{port}/x.db'",
    "install httpfs",
    "load httpfs",
    "load '{secret}'",
    "force install httpfs from 'http://127.0.0.1:{port}'",
    "set enable_external_access = true",
    "set allowed_directories = ['/']",
    "set memory_limit = '1TB'",
    "set threads = 64",
    "reset lock_configuration",
    "pragma temp_directory = '{folder}'",
    "call pragma_database_size()",
    "create secret (type s3, key_id 'x', secret 'y')",
    "create view trials as select 1",
    "select 1; copy (select 42) to '{folder}/made'",
    "prepare x as copy (select 42) to '{folder}/made'; execute x",
    "checkpoint",
    "vacuum",
)


def test_a_query_reaches_no_file_but_its_tables_and_no_network(tmp_path: Path) -> None:
    folder, outside = make_study(tmp_path / "re'sults", seeds=(1, 2)), tmp_path / "outside"
    query(folder, "select 1")
    outside.mkdir()
    secret, parquet = outside / "secret.csv", outside / "secret.parquet"
    secret.write_text("a,b\nPASSWORD,1\n")
    parquet.write_bytes((folder.path / "query" / "metrics.parquet").read_bytes())
    own, before, answered = str(folder.path / "query").replace("'", "''"), _tree(tmp_path), []

    with socket.create_server(("127.0.0.1", 0)) as network:
        network.setblocking(False)
        places = {"secret": secret, "parquet": parquet, "folder": outside, "own": own}
        for sql in HOSTILE:
            try:
                query(folder, sql.format(**places, port=network.getsockname()[1]))
                answered.append(sql)
            except ResultError as error:
                answered += [sql] if "PASSWORD" in str(error) else []
        with pytest.raises(BlockingIOError):
            network.accept()

    assert answered == []
    assert _tree(tmp_path) == before


def _tree(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_query_that_only_reads_is_answered_however_it_is_written(folder: ResultsFolder) -> None:
    for sql in ["describe trials", "summarize metrics", "show tables", "from trials", "values (1)"]:
        assert query(folder, sql).rows, sql


def test_a_query_has_a_bound_of_memory_and_spills_into_no_folder(folder: ResultsFolder) -> None:
    sql = "select value from duckdb_settings() where name in ('memory_limit', 'temp_directory') order by name"

    assert query(folder, sql).rows == [("2.0 GiB",), ("",)]
