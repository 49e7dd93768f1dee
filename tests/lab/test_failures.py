# SPDX-License-Identifier: Apache-2.0
"""A workload that crashes, hangs, spins or fills the disk costs its own trial, and the result says why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_factory import head, labs_of, left_in, records, run_text, stacks

from strata.execution.run import Summary
from strata.lab import Lab
from strata.results.record import ResultRecord
from strata.runners.lab import LabRunner
from strata.spec.trial import TrialKey

pytestmark = pytest.mark.lab

SCRIPTS = {
    "good": 'script = "echo fine"',
    "crash": 'script = "echo before; kill -SEGV $$$$"',
    "wrong-exit": 'script = "echo not today >&2; exit 3"',
    "hang": 'script = "sleep infinity"\nlimit = "20s"',
    "hang-hard": 'script = "trap \'\' TERM; while :; do sleep 1000; done"\nlimit = "20s"',
    "spin": 'script = "while :; do :; done"',
    "full": 'script = "dd if=/dev/zero of=MOUNT/big bs=1M count=600 conv=fsync"',
    # reboot(2) with LINUX_REBOOT_CMD_POWER_OFF, behind the agent's back.
    "off": "script = \"perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0)'\"",
    "unknown": 'script = "true"\nprogram = "no-such-program"',
}
SAID = {
    "crash": ["was ended by signal", "SEGV"],
    "wrong-exit": ["failed with exit code 3", "not today"],
    "hang": ["took longer than its time limit of 20 s"],
    "hang-hard": ["took longer than its time limit of 20 s"],
    "spin": ["virtual time has stood still", "spins", "(sh)", "step script"],
    "full": ["No space left on device"],
    "off": ["the lab ended with exit status 0 before its agent was done", "reboot: Power down"],
    "unknown": ["could not be started", "no-such-program"],
}


def study() -> str:
    workloads = "".join(
        f'\n[workloads.{name}]\nworkload = "script"\n{keys}\n' for name, keys in SCRIPTS.items()
    )
    return head("failures", [1], "512MiB") + stacks("ext4") + workloads


@dataclass(frozen=True)
class Outcome:
    """What came of the study, and where its labs ran."""

    summary: Summary
    found: dict[str, ResultRecord]
    cache: Path


@pytest.fixture(scope="module")
def outcome(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("failures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRATA_CACHE", str(folder / "cache"))
        summary = run_text(study(), folder, LabRunner(lab, stall_limit_s=4), scripts=True)
    return Outcome(summary, records(folder / "results"), folder / "cache")


@pytest.mark.parametrize("name", SAID)
def test_the_result_is_invalid_and_says_why(outcome: Outcome, name: str) -> None:
    record = outcome.found[f"ext4.{name}.s1"]

    assert not record.validity.valid
    assert TrialKey("ext4", name, 1) in outcome.summary.invalid
    for words in SAID[name]:
        assert words in " ".join(record.validity.reasons)


def test_the_other_trials_are_kept(outcome: Outcome) -> None:
    assert outcome.summary.valid == (TrialKey("ext4", "good", 1),)
    assert outcome.found["ext4.good.s1"].validity.valid
    assert outcome.summary.exit_code != 0


def test_no_failure_leaves_anything_behind(outcome: Outcome) -> None:
    assert left_in(outcome.cache) == []
    assert labs_of(outcome.cache) == []
