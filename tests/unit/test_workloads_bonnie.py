# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.metric import Metric
from strata.model.workload import Outputs, StepOutput
from strata.workloads.bonnie import Bonnie

# As printed in the lab by bonnie++ 2.00a: 256 MiB on ext4, and synchronous with 1024 files on btrfs.
RECORDED = Path(__file__).parents[1] / "golden" / "outputs" / "bonnie"
LARGE = (RECORDED / "2.00a-ext4.csv").read_text()


def bonnie(**keys: object) -> Bonnie:
    return Bonnie.model_validate({"size": "256MiB", **keys})


def outputs(stdout: str) -> Outputs:
    return Outputs({"bonnie-measure": StepOutput(stdout=stdout)})


def metrics(stdout: str) -> dict[str, Metric]:
    return {metric.name: metric for metric in bonnie().metrics(outputs(stdout))}


def test_a_phase_that_was_left_out_is_not_called_short() -> None:
    fields = LARGE.strip().split(",")
    for place in (9, 10, 15, 16, 38, 41):
        fields[place] = ""
    (_, check) = bonnie().checks(outputs(",".join(fields)))

    assert "byte_write" not in check.detail
    assert "byte_write_latency_ns_max" not in metrics(",".join(fields))


def test_unreadable_output_is_reported() -> None:
    for stdout, cause in (
        ("Can't make directory ./Bonnie.7\n", "no line of 50 values"),
        (LARGE.replace("1.98,", "1.99,", 1), "format 1.98"),
        (LARGE.replace("121437", "+++++").replace("120984", "+++++"), "shorter than half a second"),
        (LARGE.replace("121437", "12x"), "no number"),
    ):
        with pytest.raises(RunError, match=cause):
            metrics(stdout)
