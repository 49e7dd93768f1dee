# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from strata.model.step import Step
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.os_installation import OsInstallation

# As printed in the lab by dpkg-query of dpkg 1.22.22, in a root that was installed on ext4.
STATUS = (Path(__file__).parents[1] / "golden" / "outputs" / "dpkg" / "1.22.22-status.txt").read_text()
TOOK_NS = {"unpack": 20, "essential": 32_000, "rest": 10_000, "clean": 1, "sync": 100}
WORKLOAD = OsInstallation()


def outputs(status: str = STATUS) -> Outputs:
    steps = {f"install-{name}": StepOutput(duration_ns=ns * 10**6) for name, ns in TOOK_NS.items()}
    return Outputs({**steps, "install-status": StepOutput(stdout=status)})


def steps(context: WorkloadContext) -> dict[str, Step]:
    return {step.id: step for step in WORKLOAD.steps(context)}


def test_a_package_that_is_not_configured_makes_the_result_invalid() -> None:
    broken = STATUS.replace("ii  tzdata", "iF  tzdata")

    (sound,) = WORKLOAD.checks(outputs())
    (check,) = WORKLOAD.checks(outputs(broken))

    assert (sound.verdict, check.verdict, check.required) == ("yes", "no", True)
    assert check.detail.startswith("1 packages")
    assert {m.name: m.value for m in WORKLOAD.metrics(outputs(broken))}["packages"] == 77


def test_nothing_but_its_own_target_is_written_to() -> None:
    found = steps(WorkloadContext("install", 1, target="${mount}/db", scratch_path="${scratch}/db"))

    for step in found.values():
        folders = [word for word in step.argv if "${" in word and "db:" not in word]
        assert all("${mount}/db/root" in word or "${input-" in word for word in folders), step.argv
        assert step.cwd == "${scratch}/db"
