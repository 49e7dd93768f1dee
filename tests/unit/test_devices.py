# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from command_line import shown, shown_json
from strata.datasheet.formulas import random_read_ns_mean, seek_ns, sustained_bytes_per_s
from strata.devices.device import bundled_devices, device_folder, find_device, load_device
from strata.devices.kinds.mechanism import fit_seek_curve, grid_distance, mechanism
from strata.errors import DiagnosticsError, LabError, StudyError
from strata.lab.disk import driver_config

RE4 = "wd-re4-500gb"


def broken(folder: Path, sound: str, wrong: str) -> str:
    text = (device_folder() / f"{RE4}.toml").read_text()
    assert sound in text
    file = folder / "mine.toml"
    file.write_text(text.replace(sound, wrong, 1))
    with pytest.raises(DiagnosticsError) as caught:
        load_device(file)
    return str(caught.value)


@pytest.mark.parametrize("name", bundled_devices())
def test_each_bundled_device_states_a_source_for_each_parameter(name: str) -> None:
    device = find_device(name)

    for parameter in device.parameters.values():
        assert len(parameter.source) > 3
        if any(word in parameter.source for word in ("estimate", "chosen", "recalled")):
            assert parameter.estimate


def test_an_unknown_device_gets_the_nearest_name() -> None:
    with pytest.raises(StudyError) as caught:
        find_device("wd-re4")

    assert f'did you mean "wd-re4-2tb" or "{RE4}"' in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("sound", "wrong", "shown"),
    [
        ("track_skew =", "track_skw =", 'did you mean "track_skew"'),
        ('unit = "rpm"', 'unit = "Hz"', 'must be "rpm"'),
        ("value = 7200", "value = 72", "out of range"),
        ("value = 7200", 'value = "7200"', "out of range"),
        ("zone_count = { value = 16,", "zone_count = { value = 16.0,", "whole number"),
        ("value = 500107862016", "value = 500107862017", "multiple of 512"),
        ("value = 61.0, low = 55.5, high = 67.1", "value = 161.0", "swap"),
        ("value = 8.9, low = 8.46, high = 10.7", "value = 12.0", "between 7.167 and 10.27 ms"),
        ("seek_track_to_track = { value = 2.0", "seek_track_to_track = { value = 2.5", "longer than"),
        ('kind = "rotating"', 'kind = "rotary"', '"rotating"'),
        ("low = 8.46", "low = 9", "not within its range, 9 to 10.7"),
        ("low = 8.46, ", "", "two ends"),
        ("value = 7200", "low = 7100, high = 7300, value = 7200", "does not vary"),
        # No logarithm leads from zero to the upper end.
        ("write_settle = { value = 1.0, low = 0.4", "write_settle = { value = 0, low = 0", "the drive lacks"),
        (", estimate = false }", " }", "missing"),
        ("[parameters]", "[paramters]", '"parameters"'),
    ],
)
def test_a_wrong_parameter_is_named_with_its_remedy(
    tmp_path: Path, sound: str, wrong: str, shown: str
) -> None:
    assert shown in broken(tmp_path, sound, wrong)


@pytest.mark.parametrize(
    ("intercept_ms", "mean_ms", "full_ms", "b", "k"),
    [
        (2.0, 8.9, 17.5, 12.13, 0.233),
        (2.2, 8.5, 18.0, 9.65, 0.116),
        (1.0, 7.4, 15.0, 11.46, 0.271),
        (2.2, 10.5, 20.0, 15.04, 0.303),
    ],
)
def test_the_fitted_seek_curve_is_that_of_the_table_in_the_literature(
    intercept_ms: float, mean_ms: float, full_ms: float, b: float, k: float
) -> None:
    curve = fit_seek_curve(intercept_ms, mean_ms, full_ms)

    assert curve.b == pytest.approx(b, abs=0.01)
    assert curve.k == pytest.approx(k, abs=0.001)
    assert curve.at(0) == intercept_ms
    assert curve.at(1) == pytest.approx(full_ms)
    assert curve.mean == pytest.approx(mean_ms)
    assert curve.at(curve.k) == pytest.approx(curve.c + curve.e * curve.k)


def test_a_seek_curve_that_does_not_exist_is_refused() -> None:
    with pytest.raises(LabError):
        fit_seek_curve(2.0, 12.0, 17.5)


def test_the_zones_hold_the_capacity_and_have_the_sustained_rates() -> None:
    disk = mechanism(find_device(RE4))

    assert disk.sectors == 976_773_168
    assert len(disk.zones) == 16
    assert sustained_bytes_per_s(disk, 0) == pytest.approx(128e6, rel=1e-3)
    assert sustained_bytes_per_s(disk, 15) == pytest.approx(61e6, rel=1e-3)
    for outer, inner in zip(disk.zones, disk.zones[1:], strict=False):
        assert inner.first_sector == outer.first_sector + outer.sectors
        assert inner.first_track == outer.first_track + outer.tracks
        assert inner.sectors_per_track < outer.sectors_per_track


def test_the_seek_table_reaches_across_the_disk() -> None:
    disk = mechanism(find_device(RE4))
    points = len(disk.seek_curve_ns)

    assert grid_distance(points - 2) < disk.tracks - 1 <= grid_distance(points - 1)
    assert disk.seek_curve_ns[0] == 2_000_000
    assert list(disk.seek_curve_ns) == sorted(disk.seek_curve_ns)
    assert seek_ns(disk, disk.tracks - 1) == pytest.approx(17.5e6, rel=1e-3)


def test_a_random_read_takes_what_the_literature_computes() -> None:
    disk = mechanism(find_device(RE4))

    assert 1e9 / random_read_ns_mean(disk) == pytest.approx(76, abs=0.5)
    assert random_read_ns_mean(disk, span_bytes=1 << 30) < random_read_ns_mean(disk) / 1.9


def keys(config: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in config.splitlines() if not line.startswith("zone="))


def test_the_drivers_text_holds_every_key_once() -> None:
    config = driver_config(find_device(RE4), name="sda", backing_fd=12, read_only=True)

    assert config.endswith("\n")
    found = keys(config)
    assert found["name"] == "sda"
    assert found["capacity_sectors"] == "976773168"
    assert found["read_only"] == "1"
    assert found["backing_fd"] == "12"
    assert found["model"] == "rotating"
    assert found["rotation_ns"] == "8333333"
    assert found["track_skew_ns"] == "1041667"
    assert len(found) == sum(not line.startswith("zone=") for line in config.splitlines())
    assert sum(line.startswith("zone=") for line in config.splitlines()) == 16


def test_a_smaller_part_of_a_disk_keeps_its_mechanism() -> None:
    device = find_device(RE4)
    whole = driver_config(device, name="sda", backing_fd=3).splitlines()
    part = driver_config(device, name="sda", backing_fd=3, capacity_bytes=50 << 30).splitlines()

    assert [line for line in part if line.startswith("zone=")] == [
        line for line in whole if line.startswith("zone=")
    ][:2]
    assert [line for line in part if "seek_curve" in line] == [line for line in whole if "seek_curve" in line]


def test_the_window_never_exceeds_the_queue() -> None:
    found = keys(driver_config(find_device(RE4), name="sda", backing_fd=3, queue_depth=4))

    assert (found["queue_depth"], found["window"]) == ("4", "4")


def test_a_null_disk_has_no_mechanism() -> None:
    found = keys(driver_config(find_device("null"), name="sdb", backing_fd=3))

    assert found["model"] == "null"
    assert "rotation_ns" not in found


@pytest.mark.parametrize("wrong", [{"name": "disk-0"}, {"capacity_bytes": 1 << 60}, {"capacity_bytes": 1000}])
def test_what_the_driver_would_refuse_is_refused_here(wrong: dict[str, object]) -> None:
    with pytest.raises(LabError):
        driver_config(find_device(RE4), **{"name": "sda", "backing_fd": 3, **wrong})  # type: ignore[arg-type]


def test_the_commands_show_devices_with_their_sources() -> None:
    listed = shown_json("list", "devices")["devices"]
    sheet = shown_json("list", "devices", RE4)

    assert [device["name"] for device in listed] == bundled_devices()
    assert sheet["parameters"]["rotation_speed"]["value"] == 7200
    assert sheet["parameters"]["rotation_speed"]["source"]
    assert "7200" in shown("list", "devices", RE4)
