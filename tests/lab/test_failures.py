# SPDX-License-Identifier: Apache-2.0
"""A workload that crashes, hangs, spins or fills the disk costs its own trial, and the result says why."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from lab_factory import bare_task, head, labs_of, left_in, records, run_text, shell_step, stacks

from strata.errors import RunError
from strata.experiment.run import RunSummary
from strata.lab import Lab
from strata.model.trial import TrialKey
from strata.results.events import read_events
from strata.results.record import ResultRecord
from strata.runners.base import EVENTS_NAME, TRACE_NAME, Progress
from strata.runners.lab import LabRunner

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
    "spin": [
        "virtual time has stood still",
        "(sh) spins without entering the kernel",
        "2 processor seconds",
        "step script",
    ],
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
    """The results of the study, and the cache that its labs ran in."""

    summary: RunSummary
    found: dict[str, ResultRecord]
    cache: Path


@pytest.fixture(scope="module")
def outcome(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("failures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRATA_CACHE", str(folder / "cache"))
        summary = run_text(study(), folder, LabRunner(lab, stall_limit_s=2), scripts=True, retries=0)
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


@contextmanager
def starved(cpu: int, cache: Path) -> Iterator[None]:
    """Twenty processes spin on the lab's CPU for as long as it runs."""
    loop = ["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"]
    with ExitStack() as ended:
        for _ in range(20):
            spinning = ended.enter_context(subprocess.Popen(loop))
            ended.callback(spinning.kill)
        yield


@contextmanager
def stopped(cpu: int, cache: Path) -> Iterator[None]:
    """The lab is stopped for three seconds."""
    group = os.getpgid(labs_of(cache)[0])
    os.killpg(group, signal.SIGSTOP)
    going_on = threading.Timer(3, os.killpg, (group, signal.SIGCONT))
    going_on.start()
    yield
    going_on.join()


@pytest.mark.parametrize("hindered", [starved, stopped])
def test_a_lab_that_hardly_gets_the_processor_is_not_judged_to_stand_still(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hindered: Callable[[int, Path], AbstractContextManager[None]],
) -> None:
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    computing = shell_step("compute", "sleep 1; i=0; while [ $$i -lt 200000 ]; do i=$$((i+1)); done")
    task = bare_task(tmp_path / "attempt", "null", [computing], capacity_bytes=1 << 30)
    cpu = min(os.sched_getaffinity(0))
    with ExitStack() as until_the_end:

        def report(progress: Progress) -> None:
            if progress.step == "compute" and not begun:
                begun.append(until_the_end.enter_context(hindered(cpu, tmp_path / "cache")))

        begun: list[None] = []
        LabRunner(lab, stall_limit_s=1).run(replace(task, cpu=cpu, report=report))

    assert begun
    end = read_events(task.folder / EVENTS_NAME).end
    assert end is not None
    assert end.outcome == "ok"


def test_a_lab_that_is_blocked_is_ended(lab: Lab, tmp_path: Path) -> None:
    writes = shell_step("write", "dd if=/dev/zero of=${disk0} bs=4k count=20000 oflag=direct")
    task = bare_task(tmp_path / "attempt", "null", [writes], capacity_bytes=1 << 30, trace=True)
    os.mkfifo(task.folder / TRACE_NAME)
    never_read = os.open(task.folder / TRACE_NAME, os.O_RDWR)
    try:
        with pytest.raises(RunError, match=r"stood still.* slept for 3 s") as ended:
            LabRunner(lab, stall_limit_s=3).run(task)
    finally:
        os.close(never_read)

    assert ended.value.place == "none.steps.s1, step write"
    assert "blocked" in str(ended.value.remedy)
