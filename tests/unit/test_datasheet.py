# SPDX-License-Identifier: Apache-2.0
"""Data sheets that the models produce: their figures, curves and the commands that show them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import shown, shown_json
from golden_text import Golden
from strata.cli import app
from strata.datasheet.formulas import random_read_ns_mean
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import Curve, Picture, Subject
from strata.datasheet.sheet import Rating
from strata.devices.device import find_device
from strata.devices.kind import Parameter
from strata.devices.kinds.mechanism import mechanism
from strata.errors import LabError
from strata.report.device_plot import picture_tables
from strata.units import NS_PER_S

RE4 = "wd-re4-500gb"
EVO = "samsung-870-evo-1tb"


SHEETS = (
    RE4,
    EVO,
    "samsung-pm9a3-1920gb",
    "generic-smr-hdd",
    "aws-ebs-gp2",
    "controller-bbwc-raid10-4x-wd-re4-500gb",
    "null",
)


def test_the_sheets_of_seven_devices_have_their_figures_and_curves(golden: Golden) -> None:
    lines = []
    for name in SHEETS:
        sheet = sheet_of(find_device(name), quick=True)
        lines.append(f"# {name}")
        lines += [f"{each.name}: {each.value:.4g} {each.unit}" for each in sheet.ratings()]
        for picture in sheet.pictures():
            for curve in picture.curves:
                points = " ".join(f"{x:.3g}/{y:.4g}" for x, y in curve.points)
                lines.append(f"{picture.title}, {curve.name}: {points}")
        lines.append("")
    golden("sheets.txt", "\n".join(lines))


def test_random_reads_at_depth_1_take_what_the_formula_computes() -> None:
    device = find_device(RE4)
    found = {each.name: each.value for each in sheet_of(device, quick=True).ratings()}
    computed = NS_PER_S / random_read_ns_mean(mechanism(device))

    assert found["random_read_4k_qd1"] == pytest.approx(computed, rel=0.03)
    assert found["latency_read_4k_qd1"] == pytest.approx(1e6 / computed, rel=0.03)


def test_figures_stand_beside_what_is_published_of_them() -> None:
    stated = {
        "random_read_4k_qd1": Parameter(value=100, unit="IOPS", source="made up", estimate=True),
        "sequential_read": Parameter(value=64.0, unit="MB/s", source="made up", estimate=True),
    }
    device = dataclasses.replace(find_device(RE4), published=stated)
    figures = {figure.name: figure for figure in sheet_of(device, quick=True).ratings()}

    assert figures["random_read_4k_qd1"].ratio == pytest.approx(0.76, abs=0.03)
    assert figures["sequential_read_outer"].ratio == pytest.approx(2.0, rel=0.02)
    assert figures["sequential_read_inner"].ratio is None


def test_a_published_value_of_zero_has_no_ratio() -> None:
    nothing = Parameter(value=0, unit="ms", source="made up", estimate=True)

    assert Rating("flush_latency", "flush", "ms", 3.0, nothing).ratio is None


def test_progress_is_reported_before_each_measurement() -> None:
    counts: list[int] = []
    titles: list[str] = []
    sheet = sheet_of(find_device("aws-ebs-gp3"), quick=True)
    sheet.ratings(begin=counts.append, step=titles.append)

    assert counts == [len(titles)]
    assert titles[0] == "random 4-KiB reads, QD 1"


def test_parameters_that_the_model_refuses_are_an_error_of_the_device() -> None:
    device = find_device(RE4)
    wrong = Parameter(value=2.0, unit="rev", source="made up", estimate=True)
    broken = dataclasses.replace(device, parameters={**device.parameters, "track_skew": wrong})

    with pytest.raises(LabError, match="the model refuses the device"):
        sheet_of(broken, quick=True).ratings()


def test_a_drive_that_chooses_among_a_part_of_its_queue_says_so() -> None:
    few = Subject(find_device(RE4)).with_values({"scheduler_window": 8}).device

    assert "the 8 oldest commands of its queue of 32" in sheet_of(few).note
    assert "QD32 equals QD16" in sheet_of(few).note
    assert not sheet_of(find_device(RE4)).note


def test_show_gives_json_with_ratios() -> None:
    sheet = shown_json("list", "devices", RE4, "--quick")
    figures = {figure["name"]: figure for figure in sheet["data_sheet"]}

    assert figures["sequential_read_outer"]["ratio"] == pytest.approx(1.0, abs=0.02)
    assert figures["random_read_4k_qd1"]["unit"] == "IOPS"
    assert sheet["published"]["sequential_read_outer"]["value"] == 128.0
    assert "no data sheet" in shown("list", "devices", "null")


def test_curves_are_drawn_into_a_file(tmp_path: Path) -> None:
    for suffix, begin in (("svg", b"<svg"), ("html", b"<!doctype"), ("png", b"\x89PNG")):
        file = tmp_path / f"curves.{suffix}"
        shown("list", "devices", RE4, "--quick", "--plot", file)
        assert file.read_bytes().startswith(begin)


def test_a_plot_of_another_kind_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["list", "devices", RE4, "--plot", str(tmp_path / "curves.gif")])

    assert result.exit_code != 0
    assert result.stdout == ""


def test_a_curve_has_a_table_from_its_first_to_its_last_point() -> None:
    points = tuple((float(depth), 10.0 * depth) for depth in range(100))
    (table,) = picture_tables(Picture("reads", "depth", "rate", (Curve("model", points),)))
    (short,) = picture_tables(Picture("reads", "depth", "rate", (Curve("model", points[:1]),)))

    assert (table.rows[0], table.rows[-1], len(table.rows)) == (("0", "0"), ("99.0", "990"), 9)
    assert len(short.rows) == 1


def test_a_tiny_device_has_a_sheet_too() -> None:
    for name in (RE4, EVO, "aws-ebs-gp3"):
        for capacity_bytes in (1 << 20, 64 << 20):
            device = find_device(name)
            tiny = Parameter(value=capacity_bytes, unit="B", source="made up", estimate=True)
            device = dataclasses.replace(device, parameters={**device.parameters, "capacity": tiny})
            assert all(figure.value > 0 for figure in sheet_of(device, quick=True).ratings())
            assert sheet_of(device, quick=True).pictures()
