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
SYNCHRONOUS = (RECORDED / "2.00a-btrfs-synchronous.csv").read_text()


def bonnie(**keys: object) -> Bonnie:
    return Bonnie.model_validate({"size": "256MiB", **keys})


def outputs(stdout: str) -> Outputs:
    return Outputs({"bonnie-measure": StepOutput(stdout=stdout)})


def metrics(stdout: str) -> dict[str, Metric]:
    return {metric.name: metric for metric in bonnie().metrics(outputs(stdout))}


def test_rates_are_in_bytes_and_latencies_in_ns() -> None:
    found = metrics(LARGE)

    assert found["block_write_bytes_per_s"].value == 121_437 * 1024
    assert found["rewrite_bytes_per_s"].value == 120_984 * 1024
    assert found["rewrite_cpu_share"].value == 0.01
    assert found["byte_write_latency_ns_max"].value == 1_639_000
    assert found["block_write_bytes_per_s"].headline


def test_small_files_come_after_the_fields_of_their_sizes() -> None:
    found = metrics(SYNCHRONOUS)

    assert found["random_seeks_per_s"].value == 357.2
    assert found["random_seeks_latency_ns_max"].value == 116_000_000
    assert [found[f"sequential_{name}_per_s"].value for name in ("creates", "deletes")] == [21, 48]
    assert [found[f"random_{name}_per_s"].value for name in ("creates", "deletes")] == [20, 48]


def test_a_phase_that_was_too_short_has_no_rate_and_is_named() -> None:
    found = metrics(LARGE)
    (_, check) = bonnie().checks(outputs(LARGE))

    assert "block_read_bytes_per_s" not in found
    assert found["block_read_latency_ns_max"].value == 1_000
    assert check.verdict == "no"
    assert "block_read" in check.detail
    assert "block_write" not in check.detail


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
