# SPDX-License-Identifier: Apache-2.0
"""One cell has one verdict, wherever it is shown."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final

import pytest

from command_line import shown, shown_json
from made_results import made_results
from present import present
from strata.model.matrix import Factor, FactorLevel, Matrix, Variant
from strata.model.trial import CellKey
from strata.model.warning import Check
from strata.report.heat_map import heat_map
from strata.report.page import page_of
from strata.results.store import ResultsFolder
from strata.statistics.study import gather
from strata.units import times

DISTURBED = Check(name="undisturbed", verdict="no", detail="another process ran for 3 s of the window")
IDLE = Check(name="limited", verdict="no", detail="disk0 had requests for 3 % of the window")
MATRIX = Matrix(
    factors={
        "fs": Factor(name="fs", levels=tuple(FactorLevel(name=each, text=each) for each in ("ext4", "xfs")))
    },
    stacks={each: Variant(base="any", levels={"fs": each}) for each in ("ext4", "xfs")},
)
METRIC: Final = "transactions_per_s"
CLAIM = """[[claims]]
id = "it"
claim = "XFS is faster."
source = "a test"
[[claims.expect]]
workload = "postgresql"
metric = "transactions_per_s"
stack = "xfs"
against = "ext4"
is = "better"
"""


def results(path: Path, *checks: Check, gain: float = 1.2) -> Path:
    """Two stacks, the second ``gain`` times as good in each of six seeds, as levels of a matrix's factor."""
    folder = made_results(
        path, stacks=["ext4", "xfs"], workloads=["postgresql"], gains={"xfs": gain / 1.1}, checks=checks
    )
    snapshot = folder.study()
    changed = snapshot.model_copy(update={"matrix": MATRIX})
    (folder.path / "study.json").write_text(changed.model_dump_json())
    return folder.path


def verdicts(path: Path) -> dict[str, str]:
    """What each place says of the slower stack against the faster, or of B against A."""
    folder, found = ResultsFolder.open(path), {}
    rows = shown_json("show", path, "--metric", METRIC)["cells"]
    [found["show"]] = (row["verdict"] for row in rows if row["verdict"] != "best")
    [found["matrix"]] = (
        effect["comparison"]["verdict"]
        for view in shown_json("show", path)["effects"]
        for effect in view["found"]
        if view["kind"]["name"] == METRIC
    )
    for a, b in (("ext4", "xfs"), ("xfs", "ext4")):
        [found[f"compare {a} {b}"]] = (row["comparison"]["verdict"] for row in compared(path, a, b)["rows"])
    [_, behind] = shown_json("advise", path, "--use", "postgresql-server")["advices"][0]["standings"]
    found["advise"] = behind["score"]["verdict"]
    found["its evidence"] = behind["evidence"][0]["verdict"]
    shown("export", path, "--output", path.parent / "export", "--format", "csv", "--force")
    with (path.parent / "export/cells.csv").open() as lines:
        of_metric = [row["verdict"] for row in csv.DictReader(lines) if row["metric"] == METRIC]
    [found["export"]] = (each for each in of_metric if each != "best")
    found["report"] = heat_map(gather(folder), "xfs").cells["ext4", "postgresql"].verdict
    return found


def compared(path: Path, a: str, b: str, *options: str, exit_code: int = 0) -> Any:
    return shown_json("compare", f"{path}:{a}", f"{path}:{b}", *options, exit_code=exit_code)


def claimed(path: Path) -> tuple[str, str]:
    file = path.parent / "my.claims.toml"
    file.write_text(CLAIM)
    [claim] = shown_json("claims", path, "--claims", file)["claims"]
    return claim["verdict"], claim["why"]


def test_doubtful_numbers_are_doubtful_everywhere(tmp_path: Path) -> None:
    path = results(tmp_path / "r", DISTURBED)

    found = verdicts(path)

    assert found == dict.fromkeys(found, "doubtful")
    assert claimed(path) == ("undecided", "xfs: disturbed; ext4: disturbed")
    assert "doubtful" in page_of(ResultsFolder.open(path))
    said = shown("compare", f"{path}:ext4", f"{path}:xfs")
    assert "ext4 → xfs under postgresql: doubtful (xfs: disturbed; ext4: disturbed)." in said


def test_sound_numbers_are_worse_everywhere_and_better_the_other_way_round(tmp_path: Path) -> None:
    path = results(tmp_path / "r")

    found = verdicts(path)

    # The matrix compares the second level with the first.
    assert [found.pop("matrix"), found.pop("compare ext4 xfs")] == ["better", "better"]
    assert found == dict.fromkeys(found, "worse")
    assert claimed(path) == ("reproduced", "")


def test_a_ratio_has_one_direction_in_show_report_compare_and_advice(tmp_path: Path) -> None:
    path = results(tmp_path / "r", gain=3.0)
    study = gather(ResultsFolder.open(path))
    kind = next(kind for kind in study.metrics("postgresql") if kind.name == "latency_ns_p99")
    cells = CellKey("ext4", "postgresql"), CellKey("xfs", "postgresql")
    gain = present(study.compared(kind, *cells)).gain

    assert gain < 0.5  # a latency more than twice as long
    assert f" {times(gain)} (" in shown("show", path, "--metric", kind.name)
    assert f"{times(gain)} (" in page_of(ResultsFolder.open(path)).replace("\u00a0", " ")
    options = ("--metric", kind.name, "--threshold", "3%")
    assert f"{gain:.3f}" in shown("compare", f"{path}:xfs", f"{path}:ext4", *options)
    [row] = compared(path, "xfs", "ext4", *options)["rows"]
    assert (row["comparison"]["gain"], row["comparison"]["ratio"]["ratio"]) == (
        pytest.approx(gain),
        pytest.approx(1 / gain),
    )


def test_a_gate_fails_by_no_number_that_the_report_doubts(tmp_path: Path) -> None:
    for name, checks, worse, undecided in (
        ("sound", (), 1, 0),
        ("disturbed", (DISTURBED,), 0, 1),
        ("idle", (IDLE,), 0, 1),
    ):
        path = results(tmp_path / name, *checks)

        compared(path, "xfs", "ext4", "--fail-on", "worse", exit_code=worse)
        compared(path, "xfs", "ext4", "--fail-on", "undecided", exit_code=undecided)
        compared(path, "ext4", "xfs", "--fail-on", "worse")


def test_the_mean_over_cells_is_as_doubtful_as_they_are(tmp_path: Path) -> None:
    folders = [
        made_results(tmp_path / name, stacks=2, workloads=2, gains={"ext4": gain}, checks=[DISTURBED]).path
        for name, gain in (("a", 1.0), ("b", 0.5))
    ]

    assert {each["comparison"]["verdict"] for each in shown_json("compare", *folders)["overall"]} == {
        "doubtful"
    }
