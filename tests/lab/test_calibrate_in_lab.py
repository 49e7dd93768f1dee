# SPDX-License-Identifier: Apache-2.0
"""The measuring plan as a study of the lab: a drawn disk, whose values are known, is recovered."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import records, run_text

from strata.calibration.calibrate import calibrate
from strata.calibration.script import measuring_study
from strata.datasheet.cells import read_cells
from strata.lab import Lab
from strata.runners.lab import LabRunner

SHOWN = {
    "generic-desktop-hdd": ("seek_average_read", "positioning_margin", "sustained_rate_outer"),
    "generic-sata-ssd": ("page_read_time_lower", "read_retry_share"),
}
"""Values that the jobs show, by the class."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_a_drawn_disk_is_recovered_from_its_measurement_in_the_lab(
    lab: Lab, tmp_path: Path, name: str
) -> None:
    text = measuring_study(name, writes=name.endswith("hdd"))
    text = text.replace('drives = "exact"', 'drives = "plausible"').replace("seeds = [1]", "seeds = [3]")
    text = text.replace('"fio"\n', '"fio"\nduration = "2s"\n' if name.endswith("ssd") else '"fio"\n')
    run_text(text, tmp_path / name, LabRunner(lab))
    (record,) = records(tmp_path / name / "results").values()

    found = calibrate("found", read_cells([tmp_path / name / "results"]), class_name=name)

    near = [each.is_near for each in found.cells]
    assert sum(near) >= 0.9 * len(near), [each.ratios for each in found.cells]
    values = {each.name: each for each in found.values}
    for value in SHOWN[name]:
        low, high = values[value].interval
        assert values[value].is_measured, value
        assert low <= record.drives[name][value] <= high, (value, low, high)
