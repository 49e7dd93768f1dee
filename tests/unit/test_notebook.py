# SPDX-License-Identifier: Apache-2.0
"""Results in a notebook: frames on Arrow's memory, sections that show themselves, and the tutorial."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import strata
from made_results import made_results
from strata.errors import StudyError, ToolError
from strata.report.data import TABLES

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial" / "notebook.ipynb"
FAKE = f"""\
import sys
sys.path[:0] = [{str(ROOT / "tests")!r}, {str(ROOT / "tests" / "unit")!r}]
from execution_factory import fake_runner
from strata.actions import run
run.runner_for = lambda *_, **__: fake_runner()
"""


@pytest.fixture
def results(tmp_path: Path) -> strata.Results:
    made = made_results(
        tmp_path / "made", stacks=("ext4", "xfs"), workloads=("mail",), missing=["xfs.mail.s2"]
    )
    return strata.Results.open(made.path)


def test_frames_hold_what_strata_query_finds_in_arrows_own_memory(results: strata.Results) -> None:
    for package in ("pyarrow", "polars", "pandas"):
        pytest.importorskip(package)
    for name in TABLES:
        table = results.table(name)
        columns, [(rows,)] = table.to_arrow().schema.names, results.query(f"select count(*) from {name}").rows
        assert columns == [each.key for each in TABLES[name].columns], name
        for frame in (table.to_pandas(), table.to_polars()):
            assert ([*frame.columns], len(frame)) == (columns, rows), name
    table = results.table("metrics")
    arrow = table.to_arrow()["value"].chunk(0).buffers()[1].address
    assert table.to_polars()["value"].to_arrow().buffers()[1].address == arrow
    assert table.to_pandas()["value"].array.__arrow_array__().chunk(0).buffers()[1].address == arrow
    missing = results.table("trials").to_pandas()["problem"]
    assert missing.notna().sum() == 1


def test_tables_and_sections_show_themselves(results: strata.Results) -> None:
    pytest.importorskip("pyarrow")
    shown = results.table("trials")._repr_html_()

    assert "ext4.mail.s1" in shown
    assert "12 rows" in shown
    assert "xfs" in results.section("workload-mail")._repr_html_()
    for wrong in (lambda: results.table("metric"), lambda: results.section("workload-male")):
        with pytest.raises(StudyError) as caught:
            wrong()
        assert caught.value.remedy


@pytest.mark.parametrize("package", ["pyarrow", "polars", "pandas"])
def test_a_missing_package_is_named(
    results: strata.Results, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.parquet", None)
    asked = {"pyarrow": "to_arrow", "polars": "to_polars", "pandas": "to_pandas"}[package]

    with pytest.raises(ToolError) as caught:
        getattr(results.table("metrics"), asked)()

    assert (caught.value.remedy or "").startswith(f"pip install {package}, or pipx inject")


def test_the_tutorial_runs_from_its_first_cell_to_its_last(tmp_path: Path) -> None:
    """The lab's place is taken by the fake runner, and the notebook is kept without outputs."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook: Any = nbformat.read(TUTORIAL, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(FAKE))

    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()

    for cell in code:
        shown = "".join(f"{each.get('text', '')}{each.get('data', '')}" for each in cell.outputs)
        assert shown, cell.source
        assert "Traceback" not in shown
