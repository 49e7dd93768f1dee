# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.dd import Dd

# As printed in the lab by dd of coreutils 9.7, over 128 MiB on ext4.
RECORDED = Path(__file__).parents[1] / "golden" / "outputs" / "dd"
WRITTEN = (RECORDED / "coreutils-9.7-write.txt").read_text()
READ = (RECORDED / "coreutils-9.7-read.txt").read_text()
SMALL = {"content": "random", "size": "128MiB"}


def dd(**keys: object) -> Dd:
    return Dd.model_validate({**SMALL, **keys})


def argv(workload: Dd, step_id: str, kind: str = "filesystem") -> tuple[str, ...]:
    target = "${mount}" if kind == "filesystem" else "${disk0}"
    context = WorkloadContext("copy", 1, target=target, target_kind=kind)  # type: ignore[arg-type]
    return next(step.argv for step in workload.steps(context) if step.id == step_id)


def outputs(written: str = WRITTEN, read: str = READ) -> Outputs:
    return Outputs(
        {
            "dd-write": StepOutput(stderr=written),
            "dd-sync": StepOutput(duration_ns=1_000_000_000),
            "dd-read": StepOutput(stderr=read),
        }
    )


def test_what_dd_did_not_copy_is_no_rate() -> None:
    for written, cause in (
        ("dd: error writing 'x': No space left on device\n", "does not say how long"),
        ("1+0 records in\n1048576 bytes (1.0 MB, 1.0 MiB) copied, 0.01 s, 100 MB/s\n", "1048576 bytes of"),
    ):
        with pytest.raises(RunError, match=cause):
            dd().metrics(outputs(written=written))


def test_zeros_leave_a_mark() -> None:

    assert "if=/dev/zero" in argv(dd(content="zeros"), "dd-write")
    assert "if=/dev/urandom" in argv(dd(), "dd-write")
    assert [check.verdict for check in dd(content="zeros").checks(outputs())] == ["no"]
    assert not [*dd().checks(outputs())]
