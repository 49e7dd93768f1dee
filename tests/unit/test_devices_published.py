# SPDX-License-Identifier: Apache-2.0
"""The table ``[published]`` of device files: what a data sheet says, to be compared with the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.devices.device import Device, device_folder, load_device
from strata.errors import DiagnosticsError

RE4 = "wd-re4-500gb"


def with_published(folder: Path, *lines: str) -> Device:
    """The RE4 with another table of published figures."""
    sound = (device_folder() / f"{RE4}.toml").read_text().partition("[published]")[0]
    file = folder / "mine.toml"
    file.write_text(sound + "\n[published]\n" + "\n".join(lines) + "\n")
    return load_device(file)


def figure(name: str, value: object, unit: str) -> str:
    return f'{name} = {{ value = {value}, unit = "{unit}", source = "a data sheet", estimate = false }}'


def test_published_figures_are_read_in_the_order_of_a_data_sheet(tmp_path: Path) -> None:
    device = with_published(
        tmp_path, figure("flush_rate", 75, "1/s"), figure("random_read_4k_qd1", 77.5, "IOPS")
    )

    assert list(device.published) == ["random_read_4k_qd1", "flush_rate"]
    assert device.published["random_read_4k_qd1"].value == 77.5
    assert device.published["flush_rate"].source == "a data sheet"


def test_what_is_published_does_not_make_another_device_of_it(tmp_path: Path) -> None:
    plain = with_published(tmp_path)
    stated = with_published(tmp_path, figure("sequential_write", 128.0, "MB/s"))

    assert plain.published == {}
    assert plain.identity() == stated.identity()


def test_a_wrong_published_figure_is_named_with_its_remedy(tmp_path: Path) -> None:
    for line, shown in (
        (figure("random_read_4k_qd2", 80, "IOPS"), 'unknown figure "random_read_4k_qd2"'),
        (figure("random_read_4k_qd3", 80, "IOPS"), "did you mean"),
        (figure("random_read_4k_qd1", 80, "1/s"), 'must be "IOPS"'),
        (figure("random_read_4k_qd1", '"many"', "IOPS"), "out of range"),
        (figure("random_read_4k_qd1", -1, "IOPS"), "out of range"),
        ('flush_rate = { value = 75, unit = "1/s", estimate = false }', "this key is missing"),
        ("flush_rate = 75", "must be a table"),
    ):
        with pytest.raises(DiagnosticsError, match="mistake") as caught:
            with_published(tmp_path, line)
        assert shown in str(caught.value)
