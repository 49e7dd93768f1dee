# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from workload_factory import refused

from strata.errors import RunError
from strata.model.histogram import decode
from strata.model.metric import Metric
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.sysbench.fileio import PRESETS, SysbenchFileio

# As printed in the lab by sysbench 1.0.20 on ext4: a mix by 4 threads for 5 s, and one pass of seqwr.
RECORDED = Path(__file__).parents[1] / "golden" / "outputs" / "sysbench-fileio"
MIX = (RECORDED / "sysbench-1.0.20-rndrw.txt").read_text()
PASS = (RECORDED / "sysbench-1.0.20-seqwr.txt").read_text()


def fileio(**keys: object) -> SysbenchFileio:
    return SysbenchFileio.model_validate({"mode": "rndrw", "duration": "5s", "size": "128MiB", **keys})


def argv(workload: SysbenchFileio, step_id: str = "fileio-measure") -> tuple[str, ...]:
    return next(step.argv for step in workload.steps(WorkloadContext("io", 1)) if step.id == step_id)


def metrics(workload: SysbenchFileio, stdout: str) -> dict[str, Metric]:
    steps = {
        "fileio-prepare": StepOutput(duration_ns=4_000_000_000),
        "fileio-measure": StepOutput(stdout=stdout),
    }
    return {metric.name: metric for metric in workload.metrics(Outputs(steps))}


def test_rates_are_by_direction_and_bytes_are_of_whole_blocks() -> None:
    found = metrics(fileio(), MIX)

    assert found["read_operations_per_s"].value == 118.02
    assert found["write_operations_per_s"].value == 78.35
    assert found["operations_per_s"].value == pytest.approx(196.37)
    assert found["operations_per_s"].headline
    assert found["operations"].value == 1000
    # sysbench itself rounds them to 0.01 MiB/s.
    assert found["read_bytes_per_s"].value == 118.02 * 16384
    assert found["fsyncs_per_s"].value == 347.59
    assert found["prepare_ns"].phase == "prepare"


def test_latencies_are_of_every_event_and_mergeable() -> None:
    found = metrics(fileio(), MIX)
    encoded = found["latency_ns_p99"].histogram

    assert encoded is not None
    assert decode(encoded).get_total_count() == 2258
    assert found["latency_ns_mean"].value == pytest.approx(20013.97e6 / 2258)
    assert found["latency_ns_max"].value == 93_880_000
    # As sysbench prints it: 27.66 ms.
    assert found["latency_ns_p95"].value == pytest.approx(27.66e6, rel=0.002)


def test_files_that_are_made_in_the_window_take_no_time_before_it() -> None:
    workload = fileio(preset="sequential-write-2m", mode=None, duration=None, size="256MiB")
    found = metrics(workload, PASS)

    assert "prepare_ns" not in found
    assert "read_operations_per_s" not in found
    assert found["bytes_per_s"].headline
    assert "fileio-prepare" not in [step.id for step in workload.steps(WorkloadContext("io", 1))]
    assert {"--time=0", "--events=128"} <= set(argv(workload))


def test_the_windows_throughput_is_by_the_second() -> None:
    outputs = Outputs({"fileio-measure": StepOutput(stdout=MIX)})

    assert fileio().rates_per_s(outputs) == pytest.approx([3.12, 3.13, 3.13, 3.13, 3.13])


def test_output_without_figures_or_requests_is_reported() -> None:
    with pytest.raises(RunError, match="printed no time_s"):
        metrics(fileio(), "FATAL: Cannot open file\n")
    with pytest.raises(RunError, match="no request"):
        metrics(fileio(), MIX.replace("118.02", "0.00").replace("78.35", "0.00"))


def test_a_preset_says_all_that_a_pass_needs() -> None:
    for preset in PRESETS:
        workload = SysbenchFileio(preset=preset)
        assert not refused(workload)
        assert ("--file-fsync-all=on" in argv(workload)) == preset.endswith("-fsync")
        assert "--file-fsync-freq=0" in argv(workload) or "read" in preset


def test_blocks_are_random_unless_zeros_are_asked_for() -> None:
    nothing = Outputs({})

    assert "--validate=on" in argv(fileio())
    assert not [*fileio().checks(nothing)]
    assert "--validate=off" in argv(fileio(validate=False))
    assert [check.verdict for check in fileio(validate=False).checks(nothing)] == ["no"]
