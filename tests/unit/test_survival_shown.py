# SPDX-License-Identifier: Apache-2.0
"""What failures did: the tables of a report, `strata compare`, and the words of an advice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from results_factory import FINGERPRINT, TITLES, WORKLOADS, make_study
from typer.testing import CliRunner

from advice_studies import around, capabilities, study
from command_line import shown, shown_json
from strata.cli import app
from strata.model.metric import Metric
from strata.model.survival import REBUILT, lost_disk_variants
from strata.plan.catalogue import catalogue
from strata.report.survival import survival_tables
from strata.report.table import markdown
from strata.results.capabilities import Capabilities, Capability, PowerCutFinding, ProbeTitle
from strata.results.findings import write_capabilities
from strata.results.record import ResultRecord
from strata.statistics.study import CellResults, StudyResults
from strata.units import NS_PER_S

WORKLOAD = next(iter(WORKLOADS))
CHECKED = ("corruption-detected", "corruption-healed")


def rows(found: Capabilities | None, results: StudyResults, title: str) -> Mapping[str, str]:
    """The rows of the table whose title begins so, by the stack's name."""
    [table] = [each for each in survival_tables(found, results) if each.title.startswith(title)]
    lines = [line for line in markdown(replace(table, title="")).splitlines()[2:] if "|" in line]
    column = [each.title for each in table.columns].index("stack")
    return {line.split("|")[1 + column].strip(): line for line in lines}


def rebuilding(results: StudyResults, seconds: Mapping[int, float]) -> StudyResults:
    """The results with the time to rebuild of these seeds of ``a.database-rebuilding``."""

    def rebuilt(record: ResultRecord, seed: int) -> ResultRecord:
        took = Metric(name=REBUILT, value=seconds[seed] * NS_PER_S, unit="ns", better="lower")
        return record.model_copy(update={"metrics": (*record.metrics, took)})

    at = ("a", "database-rebuilding")
    records = results.cells[at].records
    known = {seed: rebuilt(each, seed) if seed in seconds else each for seed, each in records.items()}
    return replace(results, cells={**results.cells, at: CellResults(*at, known)})


def degraded() -> StudyResults:
    return study(
        {
            "a": {
                "database": around(100),
                "database-degraded": around(50),
                "database-rebuilding": around(20),
            },
            "b": {"database": around(300)},
        },
        risks={},
    )


def test_a_report_shows_the_speed_without_a_disk_and_the_time_to_rebuild() -> None:
    ended = rows(None, rebuilding(degraded(), dict.fromkeys(range(1, 7), 12)), "Speed")
    unended = rows(None, rebuilding(degraded(), dict.fromkeys(range(1, 6), 12)), "Speed")

    assert "| 0.50 × as good (95 % interval 0." in ended["a"]
    assert "| 0.20 × as good (95 % interval 0." in ended["a"]
    assert "| 12.0 s |" in ended["a"]
    assert "no end seen in the window (in 1 of 6 trials)" in unended["a"]
    assert ended["b"].count("not tried") == 3


def test_a_report_shows_second_losses_and_whether_wrong_data_are_returned() -> None:
    found = capabilities(
        a="disk-loss second-disk-loss:no corruption-detected:partial corruption-healed",
        b="disk-loss:no corruption-detected:failed",
    )
    cells = tuple(
        cell.model_copy(update={"returned_as_data": True, "note": "a scrub found 3 errors"})
        if (cell.stack, cell.probe) == ("a", "corruption-detected")
        else cell
        for cell in found.cells
    )
    lines = rows(found.model_copy(update={"cells": cells}), degraded(), "Lost disks")

    assert [each.strip() for each in lines["a"].split("|")[2:7]] == [
        *("yes", "no", "partial (a scrub found 3 errors)", "yes", "yes")
    ]
    assert [each.strip() for each in lines["b"].split("|")[2:7]] == [
        *("no", "not tried", "cannot say", "not tried", "cannot say")
    ]


def test_a_workload_is_no_variant_by_its_name_alone() -> None:
    load = (
        catalogue()
        .workloads["pgbench"]
        .model_validate({"workload": "pgbench", "scale": 1, "clients": 1, "duration": "60s"})
    )
    lost = load.model_copy(update={"before_measure": ["lose-disk"]})
    other = lost.model_copy(update={"clients": 9})

    assert lost_disk_variants(load, {"oltp": load, "oltp-degraded": lost}) == {"degraded": "oltp-degraded"}
    assert lost_disk_variants(load, {"oltp": load, "oltp-degraded": other}) == {}


def made(folder: Path, *, lost: int, returned: bool, took_s: int = 2) -> str:
    """A results folder, after four power cuts and the probes of corruption on ext4."""
    results = make_study(folder)
    stacks = {name: TITLES[name] for name in ("ext4", "xfs")}
    at = {"stack": "ext4", "workload": WORKLOAD, "seed": 1, "at_ns": 5, "verdict": "sound"}
    took = {"acknowledged": 100, "recovery_ns": took_s * NS_PER_S}
    cuts = [
        PowerCutFinding.model_validate({**at, **took, "number": number, "lost": lost if number == 1 else 0})
        for number in range(1, 5)
    ]
    cells = [
        Capability(stack="ext4", probe=name, verdict="partial", returned_as_data=returned) for name in CHECKED
    ]
    found = Capabilities(
        study="quickstart",
        fingerprint=FINGERPRINT,
        probes=tuple(ProbeTitle(name=name, title=name) for name in CHECKED),
        stacks=stacks,
        cells=tuple(cells),
        cuts=tuple(cuts),
    )
    write_capabilities(results, found)
    return str(folder)


@pytest.mark.parametrize(("lost", "returned"), [(7, False), (0, True)])
def test_a_stack_that_lost_more_than_before_is_worse_and_fails_a_gate(
    tmp_path: Path, lost: int, returned: bool
) -> None:
    first, second = (
        made(tmp_path / "a", lost=0, returned=False),
        made(tmp_path / "b", lost=lost, returned=returned, took_s=3),
    )
    said = CliRunner().invoke(app, ["compare", first, second, "--fail-on", "worse", "--json"])
    found = {(row["what"], row["verdict"]): row for row in json.loads(said.stdout)["survival"]}

    assert said.exit_code == 1
    assert "acknowledged operations lost" in said.stderr if lost else "returned as data" in said.stderr
    assert found["time to recover", "not judged"]["first"] == "2 s"
    assert found["time to recover", "not judged"]["second"] == "3 s"
    if lost:
        assert found["acknowledged operations lost", "worse"]["second"] == "7 of 400"


def test_what_one_of_two_results_has_not_tried_is_not_judged(tmp_path: Path) -> None:
    first = str(make_study(tmp_path / "a").path)
    second = made(tmp_path / "b", lost=3, returned=True)

    found = shown_json("compare", first, second)["survival"]

    assert {row["verdict"] for row in found} == {"not judged"}
    assert {row["first"] for row in found} == {None}


def test_losses_stand_below_the_speeds_and_equal_ones_fail_no_gate(tmp_path: Path) -> None:
    first, second = (made(tmp_path / name, lost=3, returned=True) for name in "ab")

    said = shown("compare", first, second, "--fail-on", "worse")
    written = shown("compare", first, second, "--markdown")

    assert said.index("What failures did") > said.index(WORKLOAD)
    assert f"| acknowledged operations lost | ext4 | {WORKLOAD} | 3 of 400 | 3 of 400 | equal |" in written
