# SPDX-License-Identifier: Apache-2.0
"""Which seeds were added for precision and what did not come to it: said wherever results are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_results import made_results
from strata.model.trial import CellKey
from strata.report.origin import declared_seeds, precision_notes, seeds_words
from strata.report.page import render
from strata.report.report import Report
from strata.report.sections import document
from strata.results.record import StudySnapshot
from strata.statistics.study import StudyResults, gather

ADDED = "Added for a precision of ±2.5 %: seed 4 under postgresql."
NOT_CONVERGED = (
    "Not converged to ±2.5 %: xfs (±4.1 %) under postgresql after 4 seeds; ext4 (no interval) under mail "
    "after 3 seeds."
)


def sequential(study: StudySnapshot) -> StudySnapshot:
    return study.model_copy(
        update={
            "added_seeds": {"postgresql": (4,)},
            "not_converged": {
                CellKey("xfs", "postgresql"): 0.041,
                CellKey("ext4", "mail"): None,
            },
            "precision": 0.025,
        }
    )


@pytest.fixture
def results(tmp_path: Path) -> StudyResults:
    missing = {f"{stack}.mail.s4" for stack in ("ext4", "xfs")}
    made = gather(made_results(tmp_path / "results", stacks=2, workloads=2, seeds=4, missing=missing))
    return replace(made, snapshot=sequential(made.snapshot))


def test_both_are_a_sentence_with_the_precision_asked_for_wherever_results_are_shown(
    results: StudyResults,
) -> None:
    added, not_converged = precision_notes(results.snapshot)
    report = Report(results)

    assert declared_seeds(results.snapshot) == (1, 2, 3)
    for shown in (f"{added} {not_converged}", render(report), document(report).markdown()):
        said = " ".join(shown.replace("\\", "").split())
        assert ADDED in said
        assert NOT_CONVERGED in said


def test_a_study_that_asks_for_no_precision_says_nothing(tmp_path: Path) -> None:
    assert (
        precision_notes(gather(made_results(tmp_path / "results", stacks=2, workloads=1, seeds=2)).snapshot)
        == []
    )


def test_seeds_that_follow_one_another_are_a_range() -> None:
    assert seeds_words((1, 2, 3, 4, 9, 11, 12)) == "1 to 4, 9, 11, 12"
