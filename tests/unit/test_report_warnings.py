# SPDX-License-Identifier: Apache-2.0
"""Checks and their warnings in `strata show` and in the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from results_factory import good_log, metrics_of, plan_of, snapshot_of, store_trial

from command_line import shown, shown_json
from strata.model.warning import Check
from strata.report.page import render
from strata.results.store import ResultsFolder
from strata.statistics.study import gather

UNSTEADY = Check(name="steady", verdict="no", detail="they differ by 45.0% of their mean (at most 20%)")
STEADY = UNSTEADY.model_copy(update={"verdict": "yes", "detail": "they differ by 3.0%"})
CACHED = Check(name="did-io-in-window", verdict="no", detail="not a byte of it reached a disk")
SMALL = Check(name="larger-than-memory", verdict="no", detail="64 MiB of data fit into 1 GiB", tenant="db")
OWN = Check(name="no-transaction-failed", verdict="unknown", detail="its log is empty")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ResultsFolder:
    """ext4 is unsteady in one of two seeds, xfs is cached; both know of too little data."""
    stacks, seeds = {"ext4": 329.0, "xfs": 344.0}, (1, 2)
    snapshot = snapshot_of(stacks, seeds, ("oltp",))
    workloads = tuple(each.model_copy(update={"rationale": "A ledger."}) for each in snapshot.workloads)
    folder = ResultsFolder.create(
        tmp_path_factory.mktemp("warnings") / "results", snapshot.model_copy(update={"workloads": workloads})
    )
    for stack, level in stacks.items():
        for seed in seeds:
            plan = plan_of(stack, "oltp", seed)
            attempt = store_trial(folder, plan, metrics_of("oltp", level, seed), good_log(plan, level))
            steady = UNSTEADY if (stack, seed) == ("ext4", 2) else STEADY
            checks = (steady, SMALL, OWN, *([CACHED] if stack == "xfs" else []))
            attempt.write_result(attempt.read_result().model_copy(update={"checks": checks}))
    return folder


def test_the_table_marks_numbers_with_warnings_and_says_why_below(folder: ResultsFolder) -> None:
    text = shown("show", str(folder.path))

    assert "¹" in text
    assert "ext4 under oltp: not steady in 1 of 2 seeds: they differ by 45.0%" in text
    assert "xfs under oltp: cached: the measured window did not reach the disks" in text
    # A warning that holds on every stack is one line.
    assert text.count("db: the data set fits into memory") == 1
    assert "no transaction failed" not in text


def test_a_trial_shows_each_check_as_a_question(folder: ResultsFolder) -> None:
    text = shown("show", str(folder.path), "--trial", "ext4.oltp.s2")

    assert "Was the steady state reached?" in text
    assert "db: was the data set larger than the memory that could cache it?" in text
    assert "No transaction failed?" in text


def test_json_holds_the_checks(folder: ResultsFolder) -> None:
    checks = {
        (each["trial"], each["name"]): each["verdict"]
        for each in shown_json("show", str(folder.path))["checks"]
    }

    assert checks["ext4.oltp.s2", "steady"] == "no"
    assert checks["ext4.oltp.s1", "steady"] == "yes"


def test_the_report_warns_beside_the_answer(folder: ResultsFolder) -> None:
    page = render(gather(folder))

    assert "Warning: not steady on ext4 (1 of 2 seeds)." in page
    assert "Warning: cached: the measured window did not reach the disks on xfs." in page
    assert "Warning: db" not in page
    assert "A ledger." in page
    assert "was the steady state reached?" in page
    assert "yes 1, no 1" in page


def test_results_without_checks_are_shown_as_before(tmp_path: Path) -> None:
    plan = plan_of("ext4", "oltp", 1)
    folder = ResultsFolder.create(tmp_path / "results", snapshot_of({"ext4": 1.0}, (1,), ("oltp",)))
    store_trial(folder, plan, metrics_of("oltp", 329, 1), good_log(plan, 329))

    assert "Warning:" not in render(gather(folder))
    assert "checks" not in shown("show", str(folder.path), "--trial", plan.trial.id)
