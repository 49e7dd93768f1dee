# SPDX-License-Identifier: Apache-2.0
"""``strata advise`` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from command_line import refusal, shown, shown_json
from made_results import made_results
from record_hashes import attempt_of
from strata.cli import app
from strata.errors import DiagnosticsError, ResultError, StudyError
from strata.results.findings import FINDINGS_NAME
from strata.results.store import ResultsFolder

STACKS = ("ext4", "xfs", "btrfs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ResultsFolder:
    path = tmp_path_factory.mktemp("advise") / "results"
    return made_results(path, stacks=STACKS, workloads=("postgresql", "mail"), gains={"xfs": 1.2})


def run(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["advise", *map(str, words)], env={"COLUMNS": "100"})
    if isinstance(result.exception, Exception) and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def plain(*words: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*words, "--json").stdout)["advices"]
    return found


def test_the_decision_on_every_use_stands_on_half_a_page(folder: ResultsFolder) -> None:
    everything = run(folder.path).stdout
    one = run(folder.path, "--use", "mail-server").stdout

    assert "PostgreSQL server: choose xfs" in everything
    assert "Too little was measured to say anything about" in everything
    assert "of the score, for delivery" not in everything + one
    assert all(heading in one for heading in ("How sure", "For whom", "Not known"))
    assert len(one.splitlines()) <= 30


def test_the_evidence_in_full_is_asked_for(folder: ResultsFolder) -> None:
    one = run(folder.path, "--use", "mail-server", "--evidence").stdout

    assert "of the score, for delivery" in one
    assert "[workloads.mailboxes]" in one
    assert "of the score, for delivery" in run(folder.path, "--evidence").stdout


def test_the_ranking_fits_a_terminal_of_eighty_columns(folder: ResultsFolder) -> None:
    words = ["advise", str(folder.path), "--use", "mail-server", "--evidence"]
    said = CliRunner().invoke(app, words, env={"COLUMNS": "80"}).stdout

    assert "to the leader  95 % interval  verdict" in said
    assert all(len(line) <= 80 for line in said.splitlines())


def test_where_nothing_can_be_said_of_a_use_the_next_measurement_is_printed(folder: ResultsFolder) -> None:
    text = run(folder.path, "--use", "workstation").stdout

    assert "Workstation: cannot say" in text
    assert "[workloads.programs]" in text


def test_json_has_the_ranking_the_evidence_and_what_is_not_known(folder: ResultsFolder) -> None:
    [advice] = plain(folder.path, "--use", "postgresql-server")

    assert (advice["conclusion"], advice["leaders"], advice["time_domain"]) == ("clear", ["xfs"], "virtual")
    assert [each["stack"] for each in advice["standings"]] == ["xfs", "ext4", "btrfs"]
    behind = advice["standings"][1]
    score = behind["score"]
    ratio = score["ratio"]
    assert 1 < ratio["interval"]["low"] < ratio["ratio"] < ratio["interval"]["high"]
    assert (advice["baseline"], behind["waiting"]) == ("ext4", pytest.approx(1))
    assert behind["geometric"]["verdict"] == "worse"
    assert sum(advice["weightings"].values()) == pytest.approx(1)
    assert {each["kind"]["name"] for each in behind["evidence"]} == {"transactions_per_s", "latency_ns_p99"}
    assert advice["durability"] == {}
    assert [each["capability"] for each in advice["unprobed"][:2]] == ["durable", "disk-loss"]
    assert advice["headline"] == "choose xfs"
    assert advice["reasons"]["How sure"].startswith("Over 6 seeds")


def test_markdown_has_a_section_for_a_use(folder: ResultsFolder) -> None:
    text = run(folder.path, "--use", "mail-server", "--use", "postgresql-server", "--markdown").stdout

    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Mail server: undecided between xfs and ext4",
        "## PostgreSQL server: choose xfs",
    ]
    assert "| xfs |" in text


def test_weights_of_the_one_use_can_be_changed(folder: ResultsFolder) -> None:
    [advice] = plain(
        folder.path, "--use", "mail-server", "--weights", "delivery=40", "--weights", "mailboxes=60"
    )

    assert advice["covered"] == pytest.approx(0.4)
    assert advice["conclusion"] == "cannot say"
    with pytest.raises(StudyError, match="weights belong to one use"):
        run(folder.path, "--weights", "delivery=1")


def test_what_a_stack_must_have_is_required_of_any_use(folder: ResultsFolder) -> None:
    words = (folder.path, "--use", "mail-server", "--must", "send", "--must", "durable")
    [advice] = plain(*words, "--must", "send")

    asked = [each for each in advice["use"]["needs"] if each["why"] == "it was asked for"]
    assert [(each["capability"], each["level"]) for each in asked] == [
        ("send", "required"),
        ("durable", "required"),
    ]
    assert "send" in [each["capability"] for each in advice["unprobed"]]
    with pytest.raises(StudyError, match='there is no capability "flying"'):
        run(folder.path, "--must", "flying")


def test_a_users_uses_stand_alone_and_replace_bundled_uses_of_the_same_name(
    folder: ResultsFolder, tmp_path: Path
) -> None:
    own = tmp_path / "uses.toml"
    shown("list", "uses", "--write", own)
    text = own.read_text()
    first = text[text.index("[uses.mail-server]") : text.index("[uses.web-server]")]
    own.write_text(first.replace("Mail server", "My mail"))

    assert [each["use"]["title"] for each in plain(folder.path, "--uses", own)] == ["My mail"]
    titles = [
        each["use"]["title"]
        for each in plain(folder.path, "--uses", own, "--use", "web-server", "--use", "mail-server")
    ]
    assert titles == ["Web server", "My mail"]


def test_a_file_of_uses_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "uses.toml").write_text("mine")

    assert "there already" in refusal("list", "uses", "--write", tmp_path / "uses.toml").cause
    assert (tmp_path / "uses.toml").read_text() == "mine"


def test_the_uses_are_listed_without_results() -> None:
    text, listed = shown("list", "uses", width=100), shown_json("list", "uses")["uses"]

    assert "mail-server" in text
    assert "survival of a lost disk" in text
    assert listed[0]["weights"][0]["fits"][0]["declared"] == {"workload": "pgbench"}


def test_mistakes_in_uses_are_reported_before_results_are_read(tmp_path: Path) -> None:
    (tmp_path / "uses.toml").write_text("[uses.a]\ntitle = 3\n")

    with pytest.raises(DiagnosticsError):
        run(tmp_path / "nothing", "--uses", tmp_path / "uses.toml")


def test_virtual_and_wall_time_are_distinguished(tmp_path: Path) -> None:
    wall = made_results(tmp_path / "wall", stacks=STACKS[:2], workloads=("postgresql",), time_domain="wall")

    [advice] = plain(wall.path, "--use", "postgresql-server")

    assert advice["time_domain"] == "wall"
    assert "of one machine" in advice["reasons"]["Not known"]
    assert "virtual" not in advice["reasons"]["Not known"]


def test_virtual_results_among_wall_time_results_are_refused(tmp_path: Path) -> None:
    wall = made_results(
        tmp_path / "wall", stacks=["ext4"], workloads=["postgresql"], seeds=1, time_domain="wall"
    )
    virtual = made_results(tmp_path / "virtual", stacks=["ext4"], workloads=["postgresql"], seeds=1)
    to, source = (attempt_of(each.path, "ext4.postgresql.s1") / "result.json" for each in (wall, virtual))
    to.write_bytes(source.read_bytes())

    with pytest.raises(ResultError, match="virtual time lies among results in wall time"):
        run(wall.path)


def test_missing_trials_are_named_and_running_again_is_the_remedy(tmp_path: Path) -> None:
    missing = [f"ext4.postgresql.s{seed}" for seed in (2, 3)]
    made = made_results(tmp_path / "r", stacks=STACKS[:2], workloads=["postgresql"], seeds=3, missing=missing)

    [advice] = plain(made.path, "--use", "postgresql-server")

    assert advice["conclusion"] == "too few seeds"
    assert "2 trials that count here have no usable result" in advice["settling"][0]["text"]
    assert advice["settling"][0]["commands"] == ["strata run made.toml"]


def test_a_damaged_matrix_of_capabilities_is_refused(tmp_path: Path) -> None:
    made = made_results(tmp_path / "r", stacks=["ext4"], workloads=["postgresql"], seeds=1)
    (made.path / FINDINGS_NAME).write_text("{")

    with pytest.raises(ResultError, match="not JSON"):
        run(made.path)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="no such folder"):
        run(tmp_path / "nothing")
