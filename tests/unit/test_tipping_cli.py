# SPDX-License-Identifier: Apache-2.0
"""``strata tipping``, on results whose tipping point is planted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tipping_studies import (
    SETTLE,
    TEXT,
    linear,
    measured,
    planted,
)

from command_line import refusal, shown
from strata.advice.advise import advise
from strata.advice.tipping_weights import only_weights
from strata.advice.uses import bundled_uses
from strata.plan.catalogue import catalogue
from strata.report.page import page_of
from strata.results.store import ResultsFolder
from strata.statistics.study import gather


@pytest.fixture
def found_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runner = planted(linear(1.4))
    monkeypatch.setattr("strata.cli.run.runner_for", lambda *words, **options: runner)
    measured(tmp_path, planted(linear(1.4)))
    return tmp_path / "results"


def test_the_command_says_what_would_change_the_answer_and_the_report_shows_it(
    found_by_command: Path,
) -> None:
    words = (str(found_by_command), "--use", "postgresql-server", "--parameter", SETTLE, "--jobs", "1")
    text = " ".join(shown("tipping", *words).split())

    assert "ext4 stays best unless" in text
    assert "write_settle" in text
    assert "then xfs is best" in text
    assert "ext4 stays best unless" in page_of(ResultsFolder.open(found_by_command))


def test_without_a_use_every_use_with_an_answer_is_asked_about(found_by_command: Path) -> None:
    words = ("tipping", str(found_by_command), "--parameter", SETTLE, "--jobs", "1", "--json")

    found = json.loads(shown(*words))

    assert [each["use"] for each in found] == ["postgresql-server"]
    tips = [each for each in found[0]["points"] if each["outcome"] == "tips"]
    assert [each["quantity"] for each in tips] == [SETTLE]
    assert "estimated range 0.4 ms to 2 ms" in tips[0]["sentence"]


def test_a_named_use_without_an_answer_is_refused(found_by_command: Path) -> None:
    refused = refusal("tipping", str(found_by_command), "--use", "mail-server")

    assert refused.exit_code == 6
    assert "strata advise RESULTS --use mail-server" in str(refused)


def test_another_study_than_that_of_the_results_is_refused(found_by_command: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(TEXT.replace("clients = 10", "clients = 12"))

    refused = refusal("tipping", str(found_by_command), "--use", "postgresql-server", "--study", str(other))

    assert "not the study of the results" in refused.cause


def test_weights_alone_do_not_replace_what_trials_found(found_by_command: Path) -> None:
    words = (str(found_by_command), "--use", "postgresql-server", "--parameter", SETTLE, "--jobs", "1")
    shown("tipping", *words)
    folder = ResultsFolder.open(found_by_command)
    results = gather(folder)
    [advice] = advise(results, [bundled_uses(catalogue())["postgresql-server"]], None)

    kept = only_weights(folder, results, advice)

    assert SETTLE in {each.quantity for each in kept.points if each.outcome == "tips"}
