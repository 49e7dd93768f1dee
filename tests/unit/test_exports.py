# SPDX-License-Identifier: Apache-2.0
"""Exports agree with the statistics and overwrite no file of the user's."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import duckdb
import pytest
from PIL import Image
from typer.testing import CliRunner

from command_line import shown_json
from made_results import made_results
from strata.advice.asked import advise_on_all
from strata.cli import app
from strata.errors import ResultError
from strata.files import read_plain
from strata.printable import JSON_FORMAT
from strata.report.data import TABLES, cells_table
from strata.report.export import FORMATS, MANIFEST, export
from strata.report.figures import figures
from strata.report.heat_map import draw_heat_map, heat_map, shade
from strata.report.report import Report
from strata.report.sections import document
from strata.report.table import csv_text, objects, parquet
from strata.results.counts import every_metric
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults, gather

MISSING = ("xfs.mail.s2", "btrfs.mail.s1", "btrfs.mail.s2", "btrfs.mail.s3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ResultsFolder:
    """Two workloads, one of which has no result on btrfs."""
    path = tmp_path_factory.mktemp("exports") / "results"
    return made_results(path, stacks=["ext4", "xfs", "btrfs"], workloads=2, seeds=3, missing=MISSING)


@pytest.fixture(scope="module")
def study(folder: ResultsFolder) -> StudyResults:
    return gather(folder)


def read_csv(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def number(text: str) -> float | None:
    return float(text) if text else None


def check_cells(study: StudyResults, found: list[dict[str, Any]]) -> None:
    """Every number of the table is the statistics' own, to the last digit."""
    cells = {(row["workload"], row["stack"], row["metric"]): row for row in found}
    for workload in study.workloads:
        for kind in study.kinds(workload):
            best = study.ranking(workload, kind)[0]
            against = {each.stack: each for each in study.against(best, {workload: [kind]})}
            for stack, summary in study.summaries(workload, kind.name).items():
                row = cells.pop((workload, stack, kind.name))
                assert row["estimate"] == summary.estimate
                assert row["n"] == summary.n
                assert row["unit"] == kind.unit
                assert row["method"] == summary.method
                assert summary.interval is not None or row["interval_low"] is None
                if summary.interval is not None:
                    ends = (summary.interval.low, summary.interval.high)
                    assert (row["interval_low"], row["interval_high"]) == ends
                assert row["best"] == best
                if stack == best:
                    assert row["verdict"] == "best"
                    assert row["ratio_to_best"] == 1.0
                elif stack in against:
                    assert row["ratio_to_best"] == against[stack].ratio.ratio
                    assert row["verdict"] == against[stack].verdict
    assert not cells


def test_cells_in_csv_and_parquet_are_the_statistics(study: StudyResults, tmp_path: Path) -> None:
    table = cells_table(study)
    found = read_csv(csv_text(table).encode())

    assert list(found[0]) == [each.key for each in table.columns]
    numeric = {each.key for each in table.columns if each.unit in {"1", "count"}}
    check_cells(
        study,
        [{key: number(value) if key in numeric else value for key, value in row.items()} for row in found],
    )
    check_cells(study, read_parquet(tmp_path / "cells.parquet", parquet(table)))


def read_parquet(path: Path, content: bytes) -> list[dict[str, Any]]:
    path.write_bytes(content)
    answer = duckdb.read_parquet(str(path))
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


def test_a_missing_cell_has_no_row_and_no_bar(study: StudyResults) -> None:
    found = {(row["workload"], row["stack"]) for row in objects(cells_table(study))}

    assert ("mail", "btrfs") not in found
    assert ("postgresql", "btrfs") in found
    bars = next(each for each in figures(study) if each.name == "mail-operations-per-s")
    assert "btrfs" not in bars.drawing.alternative


def test_every_value_of_every_trial_is_in_the_tables_and_trials_without_a_result_too(
    study: StudyResults, tmp_path: Path
) -> None:
    metrics, trials = (TABLES[name].of(study) for name in ("metrics", "trials"))

    expected = {
        (record.trial.id, metric.name): metric.value
        for record in study.records
        for metric in every_metric(record)
    }
    from_csv = read_csv(csv_text(metrics).encode())
    assert {(row["trial"], row["metric"]): float(row["value"]) for row in from_csv} == expected
    from_parquet = read_parquet(tmp_path / "t.parquet", parquet(metrics))
    assert {(row["trial"], row["metric"]): row["value"] for row in from_parquet} == expected
    absent = [row for row in read_csv(csv_text(trials).encode()) if not row["record_sha256"]]
    assert {row["trial"] for row in absent} == set(MISSING)
    assert {(row["valid"], row["problem"]) for row in absent} == {("false", "not run yet")}


def test_everything_but_pictures_is_the_same_bytes_again(folder: ResultsFolder, tmp_path: Path) -> None:
    kinds = [each for each in FORMATS if each != "png"]
    first = export(gather(folder), tmp_path / "one", kinds)
    second = export(gather(folder), tmp_path / "two", kinds)

    assert first == second
    for each in first:
        assert (tmp_path / "one" / each.path).read_bytes() == (tmp_path / "two" / each.path).read_bytes()


def test_each_figure_is_an_svg_and_a_png_twice_its_size(study: StudyResults, tmp_path: Path) -> None:
    written = export(study, tmp_path / "out", ["markdown", "svg", "png"])

    stems = {Path(each.path).stem for each in written} - {"report"}
    assert {"all-cells", "postgresql-transactions-per-s", "postgresql-over-time"} <= stems
    links = re.findall(r"^- \[.+\]\((.+)\)$", (tmp_path / "out" / "report.md").read_text(), re.MULTILINE)
    assert {f"figures/{stem}.svg" for stem in stems} == {*links}
    for stem in stems:
        root = ET.fromstring((tmp_path / f"out/figures/{stem}.svg").read_bytes())
        with Image.open(tmp_path / f"out/figures/{stem}.png") as picture:
            assert picture.width == pytest.approx(2 * float(root.get("width", 0)), abs=2)
        title = root.find("{http://www.w3.org/2000/svg}title")
        assert title is not None
        assert stem == "all-cells" or (title.text or "").startswith(stem.split("-")[0])


def test_study_json_is_what_show_prints(folder: ResultsFolder, tmp_path: Path) -> None:
    export(gather(folder), tmp_path, ["json"])

    found = json.loads((tmp_path / "study.json").read_text())

    assert found.pop("format") == JSON_FORMAT
    assert found == shown_json("show", folder.path)
    assert {name for name, table in TABLES.items() if table.is_exported} <= found.keys()


def test_a_folder_that_is_no_export_is_refused(study: StudyResults, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(ResultError, match="files that are not an export's"):
        export(study, tmp_path, ["csv"])
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ResultError, match="it is a file"):
        export(study, tmp_path / "thesis.tex", ["csv"])


def test_an_export_replaces_its_own_files_and_keeps_files_of_other_formats(
    study: StudyResults, tmp_path: Path
) -> None:
    export(study, tmp_path, ["csv", "svg"])
    (tmp_path / "notes.txt").write_text("mine")
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    # A figure of a workload that the study had once.
    stale = tmp_path / "figures" / "gone-over-time.svg"
    stale.write_text("old")
    manifest["files"]["figures/gone-over-time.svg"] = (
        "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4"
    )
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))

    export(study, tmp_path, ["svg"])

    assert not stale.exists()
    assert (tmp_path / "cells.csv").exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert "cells.csv" in json.loads((tmp_path / MANIFEST).read_text())["files"]


def test_an_exported_file_may_be_larger_than_the_json_that_is_read(
    study: StudyResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(study, tmp_path, ["markdown"])
    limit_bytes = (tmp_path / MANIFEST).stat().st_size
    monkeypatch.setattr(read_plain, "__defaults__", (limit_bytes,))
    assert (tmp_path / "report.md").stat().st_size > limit_bytes

    export(study, tmp_path, ["markdown"])  # it compares what is there with what it wrote


def test_a_file_that_was_changed_since_is_overwritten_by_force_alone(
    study: StudyResults, tmp_path: Path
) -> None:
    export(study, tmp_path, ["markdown"])
    (tmp_path / "report.md").write_text("with my remarks")

    with pytest.raises(ResultError, match=re.escape("report.md was changed since the export")):
        export(study, tmp_path, ["markdown"])
    assert (tmp_path / "report.md").read_text() == "with my remarks"
    export(study, tmp_path, ["csv"])
    export(study, tmp_path, ["markdown"], force=True)
    assert (tmp_path / "report.md").read_text() == document(
        Report(study, advice=advise_on_all(study, None))
    ).markdown()


def test_a_list_of_files_that_cannot_be_trusted_is_refused(study: StudyResults, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (tmp_path / "a.csv").write_text("mine")
    for content in [
        "",
        "[]",
        '{"export_version": 99, "files": {}}',
        '{"export_version": 1, "files": {"../a.csv": ""}}',
    ]:
        (target / MANIFEST).write_text(content)
        with pytest.raises(ResultError, match="not a list of exported files"):
            export(study, target, ["csv"], force=True)
    assert (tmp_path / "a.csv").read_text() == "mine"


def test_the_command_says_what_it_wrote(folder: ResultsFolder, tmp_path: Path) -> None:
    said = CliRunner().invoke(
        app, ["export", str(folder.path), "-o", str(tmp_path / "out"), "--format", "csv", "--json"]
    )

    assert said.exit_code == 0
    files = json.loads(said.stdout)["files"]
    assert [each["path"] for each in files] == [
        f"{name}.csv" for name, table in TABLES.items() if table.is_exported
    ]
    for each in files:
        assert (tmp_path / "out" / each["path"]).stat().st_size == each["bytes"]


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--format", "docx"], 'no format "docx"'), (["--reference", "ntfs"], 'no stack "ntfs"')],
)
def test_what_there_is_not_is_refused_before_anything_is_written(
    folder: ResultsFolder, tmp_path: Path, words: list[str], message: str
) -> None:
    said = CliRunner().invoke(app, ["export", str(folder.path), "-o", str(tmp_path / "out"), *words])

    assert isinstance(said.exception, ResultError)
    assert message in str(said.exception)
    assert not (tmp_path / "out").exists()


def test_a_study_without_a_valid_result_has_nothing_to_export(tmp_path: Path) -> None:
    folder = made_results(
        tmp_path / "results", stacks=1, workloads=1, seeds=1, missing=["ext4.postgresql.s1"]
    )

    with pytest.raises(ResultError, match="no valid result to report"):
        export(gather(folder), tmp_path / "out")


def test_the_heat_map_is_the_statistics_comparisons(study: StudyResults) -> None:
    found = heat_map(study, "xfs")

    expected = {(each.stack, each.workload): each for each in study.against("xfs")}
    assert {
        place: each.comparison for place, each in found.cells.items() if each.comparison is not None
    } == expected
    assert found.cells["xfs", "postgresql"].text == "1"
    assert found.cells["btrfs", "mail"].text == "–"
    drawing = draw_heat_map(found, "made")
    assert "btrfs not compared" in drawing.alternative
    root = ET.fromstring(drawing.svg)
    boxes = [each for each in root.iter("rect") if each.get("height") == "24"]
    assert len(boxes) == len(study.stacks) * len(study.workloads)


def test_a_reference_without_results_leaves_its_workload_uncompared(study: StudyResults) -> None:
    found = heat_map(study, "btrfs")

    assert {found.cells[stack, "mail"].text for stack in study.stacks} == {"–"}


def test_shades_are_as_strong_as_gains() -> None:
    steps = {1.0: 0, 1.029: 0, 1 / 1.029: 0, 1.1: 1, 1.3: 2, 1.7: 3, 2.0: 4, 9.0: 4, 0.9: -1, 0.4: -4}

    assert {gain: shade(gain) for gain in steps} == steps


@pytest.mark.parametrize(("stacks", "seeds"), [(1, 1), (1, 3), (2, 1)])
def test_a_study_of_one_stack_or_one_seed_can_be_exported(tmp_path: Path, stacks: int, seeds: int) -> None:
    folder = made_results(tmp_path / "results", stacks=stacks, workloads=1, seeds=seeds)
    kinds = [each for each in FORMATS if each != "png"]
    written = export(gather(folder), tmp_path / "out", kinds)

    assert any(each.path == "figures/all-cells.svg" for each in written) is (stacks > 1)
    for each in written:
        content = (tmp_path / "out" / each.path).read_bytes()
        assert each.format == "parquet" or b"NaN" not in content
