# SPDX-License-Identifier: Apache-2.0
"""``strata advise`` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from command_line import refusal, shown
from made_results import made_results
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


def test_the_decision_stands_on_half_a_page_and_its_evidence_is_asked_for(folder: ResultsFolder) -> None:
    everything, one = run(folder.path).stdout, run(folder.path, "--use", "mail-server").stdout

    assert "PostgreSQL server: choose xfs" in everything
    assert "of the score, for delivery" not in everything + one
    assert len(one.splitlines()) <= 30
    assert "of the score, for delivery" in run(folder.path, "--use", "mail-server", "--evidence").stdout


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
