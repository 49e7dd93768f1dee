# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from command_line import refusal, shown, shown_json
from made_results import made_results
from strata.cli import app

RUNS = 9


def made(folder: Path, planted: dict[int, float], **given: Any) -> list[Path]:
    """Results of runs; from each planted one on, ext4 under mail is this many times as good."""
    given = {"stacks": ("ext4", "xfs"), "workloads": ("mail",), "checks": (), **given}
    level, found = 1.0, []
    for run in range(RUNS):
        level *= planted.get(run, 1.0)
        drawn = run if given.get("time_domain") == "wall" else 0
        place = folder / f"run-{run}"
        found.append(made_results(place, gains={"ext4": level}, drawn=drawn, **given).path)
    return found


@pytest.mark.parametrize(
    ("planted", "domain"),
    [
        *(({}, "virtual"), ({4: 0.95}, "virtual"), ({8: 0.95}, "virtual"), ({3: 0.9, 6: 1.1}, "virtual")),
        *(({}, "wall"), ({5: 0.85}, "wall")),
    ],
)
def test_the_runs_at_which_a_metric_changed_are_found(
    tmp_path: Path, planted: dict[int, float], domain: str
) -> None:
    """The same seeds repeat to the digit in the lab; on a host every run draws its own noise."""
    runs = made(tmp_path, planted, time_domain=domain)

    found = shown_json("history", *runs, "--metric", "operations_per_s")

    by_stack = {each["cell"].split(".")[0]: each["changes"] for each in found["tracks"]}
    assert by_stack["xfs"] == []
    assert [each["run"] for each in by_stack["ext4"]] == [*planted]
    for each, gain in zip(by_stack["ext4"], planted.values(), strict=True):
        assert each["gain"] == pytest.approx(gain, abs=0.03)


def test_the_page_has_a_chart_for_each_workload_and_names_the_run(tmp_path: Path) -> None:
    runs, page = made(tmp_path / "runs", {4: 0.9}), tmp_path / "history.html"

    said = shown("history", *runs, "--page", page, "--markdown", width=200)

    assert "run-4 (Linux 7.2.12-strata)" in said
    assert "run-3" not in said
    text = page.read_text()
    assert text.count("<figure") > 1  # the headline, and the counts that changed with it
    assert "run-4" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_change_below_the_threshold_is_none(tmp_path: Path) -> None:
    runs = made(tmp_path, {4: 0.95})

    assert "0 changes" in shown("history", *runs, "--threshold", "6%")


def test_bad_input_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = made(tmp_path, {})
    wall = made_results(tmp_path / "wall", stacks=1, workloads=1, time_domain="wall").path
    other = made_results(tmp_path / "other", stacks=["f2fs"], workloads=["pages"]).path

    assert CliRunner().invoke(app, ["history", str(runs[0])]).exit_code == 2
    for words in ((runs[0], wall), (runs[0], other), (runs[0], tmp_path / "none")):
        error = refusal("history", *words)
        assert error.exit_code == 6
        assert error.remedy
    monkeypatch.setitem(sys.modules, "ruptures", None)
    assert "pip install ruptures" in (refusal("history", *runs).remedy or "")
