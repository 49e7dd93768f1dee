# SPDX-License-Identifier: Apache-2.0
"""The four paths of the documentation: their commands lead from the question to the answer.

The runner is a fake one; tests/lab/test_docs_commands.py runs the same pages in the lab.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from execution_factory import fio_output
from typer.testing import CliRunner

from doc_pages import pages
from strata.cli import app
from strata.model.step import Step
from strata.plan.model import Plan
from strata.runners.fake import FakeRunner, Output
from study_texts import pgbench_log

PATHS = [page for page in pages() if page.name.startswith("docs/paths/") and page.commands]
RECORDED = Path(__file__).parents[1] / "golden/outputs/load"
CAPACITIES = {"ext4": 900.0, "xfs": 1000.0, "usual": 900.0, "large-wal": 950.0}
IN_THE_LAB_ALONE = ("strata capabilities",)


def output(plan: Plan, step: Step) -> Output:
    """Of pgbench, fio and file-storm; other loads say nothing, so that their trials are invalid."""
    if step.id == "pgbench-begin":
        return "0\n", {}
    if step.id == "pgbench-load":
        capacity = CAPACITIES.get(plan.trial.stack, 700.0)
        lag = " 0" if any(word.startswith("--rate") for word in step.argv) else ""
        return "", {"transactions": pgbench_log(4000, capacity, window_s=30, lag=lag)}
    recorded = RECORDED / f"0.1-btrfs-{step.id}.json"
    return (recorded.read_text(), {}) if recorded.exists() else fio_output(plan, step)


@pytest.mark.parametrize("page", PATHS, ids=lambda page: page.name)
def test_the_commands_of_a_path_end_well(
    page: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next(each for each in PATHS if each is page)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *_, **__: FakeRunner(output=output))
    for name, text in path.files.items():
        (tmp_path / name).write_text(text)

    for command in path.commands:
        if not command.text.startswith(IN_THE_LAB_ALONE):
            done = CliRunner().invoke(app, list(command.words[1:]))
            assert done.exit_code == 0, f"{command.place}: {command.text}\n{done.output}{done.exception}"


def test_there_is_a_path_for_each_reader() -> None:
    assert [Path(page.name).stem for page in PATHS] == ["database", "home-server", "kernel-ci", "platform"]
