# SPDX-License-Identifier: Apache-2.0
"""Ageing: what a study may ask for, which stacks it acts on, and what a result says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from execution_factory import TEXT, fio_output, run_tiny, study_in

from strata.model.step import Step
from strata.plan.compile import compile_trial, skipped, spec_sha256
from strata.plan.model import Plan
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.fake import FakeRunner, Output
from study_texts import mistakes

AGE = 'age = { fill = "50%", overwrites = 2 }'
SMALL = TEXT.replace('"wd-re4-500gb"', '"wd-re4-500gb"\ncapacity = "4GiB"')


def aged(text: str = SMALL, age: str = AGE) -> str:
    return text.replace("seeds = [1, 2]\n", f"seeds = [1, 2]\n{age}\n")


def age_output(plan: Plan, step: Step, ended: dict[str, Any] | None = None) -> Output:
    report: dict[str, Any] = {"result_version": 1, "personality": "age", "sets": [{"files_existing": 700}]}
    report["sets"][0]["bytes"] = 175 << 20
    if step.id == "age-fill":
        return json.dumps(report), {}
    if step.id.endswith("usage"):
        held_bytes = (900 if step.purpose and step.purpose.when == "before" else 200) << 20
        return f"Overall:\n    Used:  {held_bytes}\n", {}
    if step.id.startswith("age-churn"):
        return json.dumps({**report, "ended_early": ended, "by_operation": {"create": {"count": 1400}}}), {}
    return fio_output(plan, step)


def record_of(folder: Path, runner: FakeRunner) -> ResultRecord:
    run_tiny(folder, runner, text=aged(), only="ext4.mix.s1")
    (reading,) = (each for each in ResultsFolder.open(folder / "results").readings() if each.record)
    assert reading.record is not None
    return reading.record


def test_ageing_depends_on_the_seed_and_not_on_the_layers(tmp_path: Path) -> None:
    study = study_in(tmp_path, aged())

    def words(stack: str, seed: int) -> list[tuple[tuple[str, ...], str | None]]:
        steps = compile_trial(study, stack, "mix", seed).steps
        return [(step.argv, step.stdin) for step in steps if step.id.startswith("age-")]

    assert words("ext4", 1) == words("xfs", 1)
    assert words("ext4", 1) != words("ext4", 2)


def test_ageing_is_part_of_the_specification_and_a_study_without_it_keeps_its_own(tmp_path: Path) -> None:
    def identity(text: str) -> str:
        study = study_in(tmp_path, text)
        return spec_sha256(study, compile_trial(study, "ext4", "mix", 1))

    more = identity(aged(age=AGE.replace("2 }", "3 }")))
    assert len({identity(SMALL), identity(aged()), more}) == 3


def test_what_ends_in_a_block_device_is_skipped_with_the_reason(tmp_path: Path) -> None:
    study = study_in(tmp_path, aged() + "\n[stacks.bare]\nlayers = []\n")

    assert skipped(study) == {
        ("bare", "mix"): "the study ages filesystems (study.age), and the stack ends in a block device"
    }


def test_what_ageing_fills_is_no_room_for_the_workload(tmp_path: Path) -> None:
    wanted = SMALL.replace('size = "1GiB"', 'size = "2GiB"')

    assert mistakes(tmp_path, wanted) == {}
    assert "2GiB do not fit" in mistakes(tmp_path, aged(wanted))["workloads.mix.size"]


def test_all_mistakes_in_it_are_reported_at_once_at_their_keys(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path, aged(age='age = { fill = "96%", overwrites = -1, file_size = "1B", colour = 1 }')
    )

    assert set(found) == {
        "study.age.fill",
        "study.age.overwrites",
        "study.age.file_size",
        "study.age.colour",
    }


def test_files_too_large_to_be_many_are_refused(tmp_path: Path) -> None:
    found = mistakes(tmp_path, aged(age='age = { fill = "1%", file_size = "1MiB" }'))

    assert "fewer than 64 files of 1MiB" in found["study.age.file_size"]


def test_a_result_says_how_its_filesystem_was_aged_and_how_long_that_took(tmp_path: Path) -> None:
    record = record_of(tmp_path, FakeRunner(output=age_output))

    (check,) = (each for each in record.checks if each.name == "aged")
    assert check.verdict == "yes"
    assert check.detail.startswith("700 files hold 175 MiB after 1,400 were deleted and as many written anew")
    took = [each for each in record.metrics if each.name.startswith("age_")]
    assert [each.name for each in took] == ["age_fill_ns", "age_churn_ns", "age_sync_ns"]
    assert {(each.phase, each.headline) for each in took} == {("prepare", False)}
    assert all(each.value > 0 for each in took)


def test_snapshots_of_ageing_are_there_when_the_load_begins_and_are_sent_and_deleted_after_it(
    tmp_path: Path,
) -> None:
    text = aged(age='age = { fill = "20%", snapshots = 3 }').replace('layer = "xfs"', 'layer = "btrfs"')
    run_tiny(tmp_path, FakeRunner(output=age_output), text=text, only="xfs.mix.s1")
    (reading,) = (each for each in ResultsFolder.open(tmp_path / "results").readings() if each.record)
    assert reading.record is not None
    found = {each.name: each.value for each in reading.record.metrics if each.name.startswith("aged_")}
    steps = [step.id for step in compile_trial(study_in(tmp_path, text), "xfs", "mix", 1).steps]

    assert found["aged_snapshots_bytes"] == 700 << 20
    assert set(found) == {"aged_snapshots_bytes", "aged_snapshots_send_ns", "aged_snapshots_delete_ns"}
    assert "after 4,200 were deleted" in next(
        each.detail for each in reading.record.checks if each.name == "aged"
    )
    order = ["btrfs-aged-1-take", "btrfs-aged-3-take", "fio", "btrfs-aged-send", "btrfs-aged-drop-1-drop"]
    places = [next(at for at, step in enumerate(steps) if step.startswith(name)) for name in order]
    assert places == sorted(places)


def test_a_snapshot_below_a_guest_is_taken_outside_it(tmp_path: Path) -> None:
    above = '{ layer = "xfs" }, { layer = "raw", size = "2GiB" }, { layer = "guest" }, { layer = "ext4"'
    guest = f'layer = "lvm-thin" }}, {above}'
    text = aged(age='age = { fill = "20%", snapshots = 2 }').replace('layer = "xfs"', guest)

    steps = compile_trial(study_in(tmp_path, text), "xfs", "mix", 1).steps

    ageing = {each.id: each.cgroup for each in steps if each.phase == "prepare" and "age" in each.id}
    assert ageing["age-churn-1"] == ageing["age-churn-2"] == ageing["age-sync"] is not None
    assert {ageing[name] for name in ageing if name.startswith("lvm-thin-aged")} == {None}


def test_snapshots_of_ageing_need_a_layer_that_takes_them_and_room(tmp_path: Path) -> None:
    text = aged(age='age = { fill = "20%", snapshots = 3 }')

    assert set(skipped(study_in(tmp_path, text)).values()) == {"no layer of the stack takes snapshots"}
    for age, cause in (
        ('fill = "50%", snapshots = 3', "its snapshots keep what is replaced"),
        ('fill = "20%", snapshots = 300', "would be replaced between two of its 300 snapshots"),
        ('fill = "20%", overwrites = 0, snapshots = 1', "would be replaced between two"),
    ):
        assert cause in mistakes(tmp_path, aged(age=f"age = {{ {age} }}"))["study.age.snapshots"]


@pytest.mark.parametrize(("ended", "valid"), [(None, True), ({"detail": "no space was left"}, False)])
def test_ageing_that_ends_early_makes_the_result_invalid(
    tmp_path: Path, ended: dict[str, Any] | None, valid: bool
) -> None:
    runner = FakeRunner(output=lambda plan, step: age_output(plan, step, ended))

    record = record_of(tmp_path, runner)

    assert record.validity.valid == valid
    if not valid:
        assert "no space was left" in record.validity.reasons[0]
