# SPDX-License-Identifier: Apache-2.0
"""Data sheets that the models produce: their figures, curves and the commands that show them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import shown, shown_json
from strata.cli import app
from strata.cli.parameters import complete_device
from strata.datasheet.formulas import random_read_ns_mean
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import Curve, Picture, Subject
from strata.datasheet.sheet import Rating
from strata.devices.device import Device, bundled_devices, find_device
from strata.devices.kind import Parameter
from strata.devices.kinds.mechanism import mechanism
from strata.errors import LabError
from strata.report.device_plot import picture_tables
from strata.units import NS_PER_S

RE4 = "wd-re4-500gb"
EVO = "samsung-870-evo-1tb"


def values(device: Device) -> dict[str, float]:
    return {figure.name: figure.value for figure in sheet_of(device, quick=True).ratings()}


def test_a_rotating_disks_sheet_holds_what_a_data_sheet_has() -> None:
    device = find_device(RE4)
    found = values(device)
    computed = NS_PER_S / random_read_ns_mean(mechanism(device))

    assert found["random_read_4k_qd1"] == pytest.approx(computed, rel=0.03)
    assert found["latency_read_4k_qd1"] == pytest.approx(1e6 / computed, rel=0.03)
    assert found["random_read_4k_qd1"] < found["random_read_4k_qd4"] < found["random_read_4k_qd16"]
    assert found["random_write_4k_qd1_uncached"] < found["random_read_4k_qd1"] < found["random_write_4k_qd1"]
    for what in ("read", "write"):
        assert found[f"sequential_{what}_outer"] == pytest.approx(128, rel=0.02)
        assert found[f"sequential_{what}_inner"] == pytest.approx(61, rel=0.03)
        middle = found[f"sequential_{what}_middle"]
        assert found[f"sequential_{what}_inner"] < middle < found[f"sequential_{what}_outer"]
    assert found["flush_latency"] < found["flush_latency_32_writes"]
    assert found["flush_rate"] < 1000 / found["flush_latency"]


def test_a_flash_drives_sheet_tells_fresh_from_steady() -> None:
    found = values(find_device(EVO))

    assert found["random_write_4k_qd32_steady"] < 0.5 * found["random_write_4k_qd32"]
    assert found["random_read_4k_qd32"] > 4 * found["random_read_4k_qd1"]
    assert "random_read_4k_qd64" not in found  # SATA holds 32 commands
    assert "random_read_4k_qd256" in values(find_device("samsung-pm9a3-1920gb"))


def test_a_drive_without_a_volatile_cache_gets_no_flushes() -> None:
    assert not [name for name in values(find_device("samsung-pm9a3-1920gb")) if "flush" in name]


def test_the_same_device_has_the_same_sheet() -> None:
    assert (
        sheet_of(find_device(RE4), quick=True).ratings() == sheet_of(find_device(RE4), quick=True).ratings()
    )


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


def test_each_kind_of_device_has_its_curves() -> None:
    titles: list[str]
    for name, titles in (
        (RE4, ["Seek time", "Sequential rate"]),
        (EVO, ["Random 4-KiB reads", "Random 4-KiB writes"]),
        ("aws-ebs-gp3", ["Random 4-KiB reads"]),
        ("null", []),
    ):
        drawn = sheet_of(find_device(name), quick=True).pictures()
        assert [picture.title for picture in drawn] == titles
        for picture in drawn:
            for curve in picture.curves:
                places = [x for x, _ in curve.points]
                assert places == sorted(places)


def test_random_writing_comes_from_burst_to_steady_state() -> None:
    _, writes = sheet_of(find_device(EVO), quick=True).pictures()
    fresh, steady = (curve.points for curve in writes.curves)

    assert fresh[0][1] > 3 * steady[0][1]
    assert fresh[-1][1] == pytest.approx(steady[0][1], rel=0.35)


def test_show_prints_the_sheet_and_its_curves() -> None:
    sheet = shown("list", "devices", RE4, "--quick")

    assert "random 4-KiB reads, QD 32" in sheet
    assert "published" in sheet
    assert "Seek time" in sheet
    assert "recalled from the data sheet" in sheet
    said = " ".join(sheet.split())
    assert "28 parameters are stated, 26 of them as estimates; 9 are the kind's defaults" in said
    assert "seek_average_write –" in said
    assert "QD32 equals QD16" not in said


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


def test_curves_are_drawn_into_a_file(tmp_path: Path) -> None:
    for suffix, begin in (("svg", b"<svg"), ("html", b"<!doctype"), ("png", b"\x89PNG")):
        file = tmp_path / f"curves.{suffix}"
        shown("list", "devices", RE4, "--quick", "--plot", file)
        assert file.read_bytes().startswith(begin)


def test_a_plot_of_another_kind_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["list", "devices", RE4, "--plot", str(tmp_path / "curves.gif")])

    assert result.exit_code != 0
    assert result.stdout == ""


def test_a_disk_without_latency_has_no_sheet() -> None:
    assert "no data sheet" in shown("list", "devices", "null")


def test_the_list_tells_interface_and_title_of_every_device() -> None:
    listed, as_json = shown("list", "devices"), shown_json("list", "devices")["devices"]

    for name in bundled_devices():
        assert name in listed
    assert find_device(RE4).title in listed
    re4 = next(each for each in as_json if each["name"] == RE4)
    assert (re4["kind"], re4["interface"]) == ("rotating", "SATA 3 Gb/s")


def test_the_shell_completes_names_of_devices() -> None:
    assert RE4 in complete_device("wd-")
    assert complete_device("nothing-like-it") == []


def test_a_curve_has_a_table_from_its_first_to_its_last_point() -> None:
    points = tuple((float(depth), 10.0 * depth) for depth in range(100))
    (table,) = picture_tables(Picture("reads", "depth", "rate", (Curve("model", points),)))
    (short,) = picture_tables(Picture("reads", "depth", "rate", (Curve("model", points[:1]),)))

    assert (table.rows[0], table.rows[-1], len(table.rows)) == (("0", "0"), ("99.0", "990"), 9)
    assert len(short.rows) == 1


def test_a_controllers_sheet_tells_its_cache_from_its_disks() -> None:
    found = values(find_device("controller-bbwc-raid10-4x-wd-re4-500gb"))

    assert found["random_write_4k_qd32"] > 20 * found["random_write_4k_qd32_steady"]


def test_a_tiny_device_has_a_sheet_too() -> None:
    for name in (RE4, EVO, "aws-ebs-gp3"):
        for capacity_bytes in (1 << 20, 64 << 20):
            device = find_device(name)
            tiny = Parameter(value=capacity_bytes, unit="B", source="made up", estimate=True)
            device = dataclasses.replace(device, parameters={**device.parameters, "capacity": tiny})
            assert all(figure.value > 0 for figure in sheet_of(device, quick=True).ratings())
            assert sheet_of(device, quick=True).pictures()
