# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from results_factory import EventLog, S, good_log, metrics_of, plan_of, record_of

from strata.results.build import trouble_in_console
from strata.results.record import ResultRecord
from strata.spec.metric import Metric

PLAN = plan_of("btrfs", "oltp", 1)


def judged(
    tmp_path: Path, log: EventLog, console: str = "", metrics: list[Metric] | None = None
) -> ResultRecord:
    events, kernel = tmp_path / "events.jsonl", tmp_path / "console.log"
    events.write_text(log.text())
    kernel.write_text(console)
    return record_of(PLAN, events, metrics, kernel)


def reasons(record: ResultRecord) -> str:
    assert not record.validity.valid
    return "\n".join(record.validity.reasons)


def test_a_trial_that_went_well_is_valid(tmp_path: Path) -> None:
    console = "[    0.10] XFS (sda): Mounting V5 Filesystem\n[    0.20] Btrfs loaded\n"

    assert judged(tmp_path, good_log(PLAN, 75), console).validity.valid


def test_a_failed_step_is_named_with_the_end_of_what_it_said(tmp_path: Path) -> None:
    log = EventLog(PLAN)
    log.step("mkfs", S, "failed", stderr="x" * 1000 + "\nmkfs.btrfs: cannot open /dev/sda\n")
    log.finish("failed", failed_step="mkfs")

    said = reasons(judged(tmp_path, log, metrics=[]))

    assert 'step mkfs ("Make the filesystem") failed with exit code 1' in said
    assert "cannot open /dev/sda" in said
    assert "x" * 500 not in said
    assert "step load was not run" in said


def test_a_step_beyond_its_time_limit_is_named_with_the_limit(tmp_path: Path) -> None:
    log = EventLog(PLAN)
    log.step("mkfs", S)
    log.step("load", 90 * S, "timeout")
    log.finish("failed", failed_step="load")

    assert "step load" in reasons(judged(tmp_path, log, metrics=[]))
    assert "took longer than its time limit of 90 s" in reasons(judged(tmp_path, log, metrics=[]))


def test_a_full_stack_makes_a_result_invalid_even_if_every_step_succeeded(tmp_path: Path) -> None:
    log = EventLog(PLAN)
    log.step("mkfs", S)
    log.step("load", 60 * S, stderr="ERROR: could not extend file: No space left on device\n")
    log.finish()

    assert "the stack is full" in reasons(judged(tmp_path, log))


def test_the_hosts_refusal_to_write_a_disks_backing_file_is_found_in_the_console(tmp_path: Path) -> None:
    console = "[   12.345678] strata: disk sda: host write failed: -28\n"

    assert "host write failed: -28" in reasons(judged(tmp_path, good_log(PLAN, 75), console))


def test_what_the_kernel_said_of_a_broken_filesystem_counts(tmp_path: Path) -> None:
    for line in (
        "EXT4-fs error (device sda): ext4_lookup:1855: inode #2: comm x: deleted inode referenced: 12",
        "BTRFS error (device sda): parent transid verify failed",
        "XFS (sda): Metadata corruption detected at xfs_agf_read_verify",
        "I/O error, dev sda, sector 2048 op 0x1:(WRITE)",
        "Kernel panic - not syncing: Attempted to kill init!",
    ):
        assert line in reasons(judged(tmp_path, good_log(PLAN, 75), f"<3>[    1.00] {line}\n"))


@pytest.mark.parametrize(
    "line",
    [
        "I/O error, dev sdb, sector 2048 op 0x1:(WRITE)",
        "BTRFS error (device sda): bdev /dev/sdb errs: wr 2, rd 0, flush 1, corrupt 0, gen 0",
        "BTRFS error (device sda): error writing primary super block to device 2",
    ],
)
def test_what_the_kernel_says_of_a_disk_that_the_plan_lets_fail_is_no_trouble(
    tmp_path: Path, line: str
) -> None:
    console = tmp_path / "console.log"
    console.write_text(f"[    1.00] {line}\n")

    assert trouble_in_console(console, disk_lost=True) == []
    assert trouble_in_console(console) == [f"the kernel said: {line}"]


def test_an_agent_that_was_killed_leaves_an_invalid_result(tmp_path: Path) -> None:
    log = EventLog(PLAN)
    log.step("mkfs", S)
    log.add("step_start", step="load", phase="measure", argv=["pgbench"])

    assert "the agent was killed during step load" in reasons(judged(tmp_path, log, metrics=[]))


def test_a_lab_that_did_not_boot_is_told_from_one_that_failed(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("")

    said = reasons(record_of(PLAN, tmp_path / "events.jsonl", []))

    assert said == "the agent never spoke: the lab did not boot, or the agent could not be started"


def test_a_metric_that_is_no_number_is_left_out_and_said_so(tmp_path: Path) -> None:
    broken = Metric(name="iops", value=float("inf"), unit="1/s", better="higher")

    record = judged(tmp_path, good_log(PLAN, 75), metrics=[broken, *metrics_of("oltp", 75, 1)])

    assert "iops is not a number" in reasons(record)
    assert record.metric("iops") is None


def test_a_workload_without_metrics_is_invalid(tmp_path: Path) -> None:
    assert "yielded no metrics" in reasons(judged(tmp_path, good_log(PLAN, 75), metrics=[]))


def test_a_service_that_ends_by_its_stop_signal_is_no_trouble_one_that_was_killed_is(tmp_path: Path) -> None:
    def trial(stop_signal: str) -> ResultRecord:
        service = PLAN.steps[0].model_copy(update={"background": True, "stop_signal": stop_signal})
        plan = PLAN.model_copy(update={"steps": (service, PLAN.steps[1])})
        log = EventLog(plan)
        log.add("step_start", step="mkfs", phase="prepare", argv=["postgres"])
        log.step("load", 60 * S)
        log.end("mkfs", "signalled", 61 * S)
        log.finish()
        (tmp_path / "events.jsonl").write_text(log.text())
        return record_of(plan, tmp_path / "events.jsonl")

    assert trial("KILL").validity.valid
    assert "was ended by signal SIGKILL" in reasons(trial("TERM"))


def test_what_the_teardown_left_behind_makes_a_result_invalid(tmp_path: Path) -> None:
    log = good_log(PLAN, 75)
    log.lines.pop()
    log.add("undo_end", step="mkfs", outcome="failed")
    log.add("agent_end", outcome="ok", failed_step=None, reason="", left_behind=["md127 on sda and sdb"])

    said = judged(tmp_path, log).validity.reasons

    assert said == (
        "step mkfs could not be undone at teardown",
        "left behind by the teardown: md127 on sda and sdb",
    )


def test_that_a_failed_step_could_not_be_undone_either_is_no_further_reason(tmp_path: Path) -> None:
    log = EventLog(PLAN)
    log.step("mkfs", S, "failed")
    log.add("undo_end", step="mkfs", outcome="failed")
    log.finish("failed", failed_step="mkfs")

    assert "undone" not in reasons(judged(tmp_path, log, metrics=[]))


def test_the_events_of_another_trial_are_not_taken_for_this_ones(tmp_path: Path) -> None:
    said = reasons(judged(tmp_path, good_log(plan_of("xfs", "oltp", 2), 300)))

    assert "those of another trial, xfs.oltp.s2" in said


def test_the_events_of_another_plan_for_the_same_trial_are_not_taken_either(tmp_path: Path) -> None:
    other = PLAN.model_copy(update={"time_limit_ns": PLAN.time_limit_ns * 2})

    said = reasons(judged(tmp_path, good_log(other, 75)))

    assert said == "the agent carried out another plan than this trial's"
