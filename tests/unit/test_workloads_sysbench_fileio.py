# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from workload_factory import refused

from strata.errors import RunError
from strata.model.metric import Metric
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.sysbench.fileio import PRESETS, SysbenchFileio

# As printed in the lab by sysbench 1.0.20 on ext4: a mix by 4 threads for 5 s, and one pass of seqwr.
RECORDED = Path(__file__).parents[1] / "golden" / "outputs" / "sysbench-fileio"
MIX = (RECORDED / "sysbench-1.0.20-rndrw.txt").read_text()


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
