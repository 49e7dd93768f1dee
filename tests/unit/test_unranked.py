# SPDX-License-Identifier: Apache-2.0
"""A cell whose load waited for nothing is shown with the reason, and never ranked, advised or judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advice_studies import around, study, use, weight
from command_line import shown_json
from made_results import made_results
from strata.advice.advise import advise
from strata.model.trial import TrialKey
from strata.model.warning import Check, Verdict
from strata.report.answer import standings
from strata.results.store import ResultsFolder
from strata.statistics.study import CellResults, StudyResults

LEVELS = {"slow": 100.0, "fast": 200.0, "idle": 900.0}
WHY = "neither disks nor processors were busy"


def limited(verdict: Verdict) -> Check:
    return Check(name="limited", verdict=verdict, detail="disk0 had requests for 3 % of the window")


def marked(results: StudyResults, stack: str, seeds: int = 6) -> StudyResults:
    """The results with a stack whose load waited for nothing in this many seeds."""
    cell = results.cells[stack, "oltp"]
    records = {
        seed: record.model_copy(update={"checks": (limited("no" if seed <= seeds else "yes"),)})
        for seed, record in cell.records.items()
    }
    cells = {**results.cells, (stack, "oltp"): CellResults(stack, "oltp", records)}
    return replace(results, cells=cells)


def results(*idle: str) -> StudyResults:
    found = study({name: {"oltp": around(level)} for name, level in LEVELS.items()})
    for stack in idle:
        found = marked(found, stack)
    return found


def test_the_best_stack_is_the_best_of_those_whose_load_waited_for_something() -> None:
    (standing,) = standings(results("idle"), "oltp")

    assert standing.best == "fast"
    assert [(each.stack, each.verdict) for each in standing.others] == [("slow", "worse")]
    assert standing.unranked == {"idle": WHY}


@pytest.mark.parametrize(("seeds", "best"), [(2, "idle"), (3, "fast")])
def test_half_of_the_seeds_decide(seeds: int, best: str) -> None:
    (standing,) = standings(marked(results(), "idle", seeds), "oltp")

    assert standing.best == best


def test_advice_neither_chooses_it_nor_counts_it() -> None:
    (advice,) = advise(results("idle"), [use(weight("database", 1))], None)

    assert advice.leader == "fast"
    assert [(out.stack, WHY in out.text) for out in advice.out] == [("idle", True)]


def test_more_seeds_are_asked_for_no_cell_without_a_rank() -> None:
    noisy = study({"slow": {"oltp": around(100, 0.3)}, "idle": {"oltp": around(110, 0.3)[::-1]}})

    assert noisy.unconverged()
    assert not marked(marked(noisy, "slow"), "idle").unconverged()


def test_two_results_of_such_a_cell_are_neither_better_nor_worse(tmp_path: Path) -> None:
    for name in ("before", "after"):
        folder = made_results(tmp_path / name, stacks=["ext4"], workloads=["postgresql"], seeds=6)
        for seed in range(1, 7):
            (attempt,) = ResultsFolder.open(folder.path).attempts(TrialKey("ext4", "postgresql", seed))
            record = attempt.read_result()
            rate = record.metrics[0].model_copy(update={"value": 100.0 if name == "before" else 50.0})
            changes = {"checks": (limited("no"),), "metrics": (rate, *record.metrics[1:])}
            attempt.write_result(record.model_copy(update=changes))

    found = shown_json("compare", tmp_path / "before", tmp_path / "after", "--fail-on", "worse")

    assert {row["comparison"]["verdict"] for row in found["rows"]} == {"not ranked"}
