# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.workload import Outputs, StepOutput
from strata.workloads.generator.fill_and_fragment import FillAndFragment

RECORDED = Path(__file__).parents[1] / "golden" / "outputs" / "load"
PARTS = ("fill", "extents-before", "read-before", "rewrite", "read-after", "extents-after")


def workload(**keys: object) -> FillAndFragment:
    return FillAndFragment.model_validate({"writers": 4, "size": "32MiB", "extents": 1000, **keys})


def outputs(**others: str) -> Outputs:
    """As printed in the lab, on btrfs."""
    texts = {part: (RECORDED / f"0.1-btrfs-fragment-{part}.json").read_text() for part in PARTS}
    texts.update({name.replace("_", "-"): text for name, text in others.items()})
    return Outputs({f"fragment-{part}": StepOutput(stdout=text) for part, text in texts.items()})


def test_the_cost_of_rewriting_is_the_ratio_of_reading_before_and_after() -> None:
    found = {metric.name: metric for metric in workload().metrics(outputs())}

    assert found["read_time_ratio"].value == pytest.approx(1.425, abs=0.001)
    assert found["read_after_bytes_per_s"].value < found["read_before_bytes_per_s"].value
    assert (found["extents_per_file_before"].value, found["extents_per_file_after"].value) == (1, 422.5)
    assert found["bytes_per_extent_after"].value < found["bytes_per_extent_before"].value
    assert found["fill_bytes_per_s"].phase == "prepare"
    assert found["rewrite_latency_ns_p99"].value > 0


def test_a_filesystem_that_tells_no_extents_has_no_figure_of_them() -> None:
    untold = (RECORDED / "0.1-zfs-fragment-extents-after.json").read_text()

    found = {
        metric.name for metric in workload().metrics(outputs(extents_before=untold, extents_after=untold))
    }

    assert not [name for name in found if "extent" in name]
    assert "read_time_ratio" in found


def test_another_output_is_an_error_that_shows_it() -> None:
    with pytest.raises(RunError, match="not its JSON"):
        workload().metrics(outputs(extents_after="{}"))
