# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import DiagnosticsError, PlanError
from strata.model.step import Command, Step
from strata.plan.compile import (
    check_steps,
    compile_stack,
    compile_trial,
    find_trial,
    runnable_trials,
    spec_sha256,
    trials,
)
from strata.workloads.fio import Fio
from study_texts import SOUND, read, stack_text


def test_another_seed_of_the_order_gives_another_order(tmp_path: Path) -> None:
    text = SOUND.replace("seeds = [1, 2]", "seeds = [1, 2, 3, 4, 5, 6, 7, 8]")
    keyed = text.replace("[devices.disk0]", "order_seed = 2\n\n[devices.disk0]", 1)

    one, other = trials(read(tmp_path, text)), trials(read(tmp_path, keyed))

    assert one != other
    assert sorted(trial.id for trial in one) == sorted(trial.id for trial in other)


def test_the_first_block_begins_with_the_reference(tmp_path: Path) -> None:
    for order in ("blocks", "abba"):
        for reference in ("ext4", "btrfs"):
            keys = f'order = "{order}"\nreference = "{reference}"\n\n[devices.disk0]'
            for order_seed in range(8):
                text = SOUND.replace("[devices.disk0]", f"order_seed = {order_seed}\n{keys}", 1)

                ordered = trials(read(tmp_path, text))

                assert ordered[0].stack == reference
                if order == "abba":
                    assert ordered[3].stack == reference


def test_a_reference_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticsError, match='there is no stack "ext5"'):
        read(tmp_path, SOUND.replace("[devices.disk0]", 'reference = "ext5"\n\n[devices.disk0]', 1))


def test_in_the_order_of_the_file_nothing_is_drawn(tmp_path: Path) -> None:
    text = SOUND.replace("[devices.disk0]", 'order = "file"\n\n[devices.disk0]', 1)

    blocks = [f"{stack}.{load}" for load in ("oltp", "mix") for stack in ("ext4", "btrfs")]
    assert [trial.id for trial in trials(read(tmp_path, text))] == [
        f"{block}.s{seed}" for seed in (1, 2) for block in blocks
    ]


def test_the_order_is_no_part_of_a_trials_specification(tmp_path: Path) -> None:
    mirrored = SOUND.replace("[devices.disk0]", 'order = "abba"\norder_seed = 5\n\n[devices.disk0]', 1)
    hashes = []
    for text in (SOUND, mirrored):
        study = read(tmp_path, text)
        hashes.append(spec_sha256(study, compile_trial(study, "ext4", "oltp", 1)))

    assert hashes[0] == hashes[1]


def test_the_specification_is_that_of_content_not_of_place_or_comments(tmp_path: Path) -> None:
    study = read(tmp_path, SOUND)
    (tmp_path / "elsewhere").mkdir()
    same = read(tmp_path / "elsewhere", "# a comment\n" + SOUND)

    first, second = (spec_sha256(each, compile_trial(each, "ext4", "mix", 1)) for each in (study, same))

    assert first == second


def test_another_seed_option_or_device_is_another_specification(tmp_path: Path) -> None:
    def identity(text: str, seed: int = 1) -> str:
        study = read(tmp_path, text)
        return spec_sha256(study, compile_trial(study, "ext4", "mix", seed))

    base = identity(SOUND)

    assert base != identity(SOUND, seed=2)
    assert base != identity(SOUND.replace("noatime", "relatime"))
    assert base != identity(SOUND.replace('"wd-re4-500gb"', '"null"'))
    assert base != identity(SOUND.replace('"wd-re4-500gb"', '"wd-re4-500gb"\ncapacity = "50GiB"'))


def test_results_of_an_earlier_reading_of_the_metrics_have_another_specification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = read(tmp_path, SOUND)
    mix, oltp = (compile_trial(study, "ext4", workload, 1) for workload in ("mix", "oltp"))
    before = spec_sha256(study, mix), spec_sha256(study, oltp)

    monkeypatch.setattr(Fio, "metrics_version", Fio.metrics_version + 1)

    assert spec_sha256(study, mix) != before[0]
    assert spec_sha256(study, oltp) == before[1]


def test_the_parameters_of_a_device_are_part_of_the_specification(tmp_path: Path) -> None:
    def identity(queue_depth: int) -> str:
        (tmp_path / "mine.toml").write_text(
            'title = "x"\nkind = "null"\n[parameters]\n'
            'capacity = { value = 68719476736, unit = "B", source = "x", estimate = true }\n'
            f'queue_depth = {{ value = {queue_depth}, unit = "1", source = "x", estimate = true }}\n'
        )
        study = read(tmp_path, SOUND.replace('"wd-re4-500gb"', '"mine.toml"'))
        return spec_sha256(study, compile_trial(study, "ext4", "mix", 1))

    assert identity(8) != identity(16)
    assert identity(8) == identity(8)


def test_an_unknown_trial_gets_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        find_trial(read(tmp_path, SOUND), "ext4.oltp.s3")

    assert "ext4.oltp.s" in str(caught.value.remedy)


def test_a_plan_asks_for_what_altering_and_scrubbing_its_stack_need(tmp_path: Path) -> None:
    layers = '{ layer = "ext4" }, { layer = "qcow2" }, { layer = "xfs", project_quota = true }'
    load = 'workload = "fio"\npreset = "random-mix-4k"\n'
    asking = f'{load}scrub = true\nbefore_measure = ["snapshot"]\n'
    texts = [stack_text(layers, 1, workload, model="wd-re4-500gb") for workload in (load, asking)]

    less, more = (compile_trial(read(tmp_path, text), "stack", "load", 1).prerequisites for text in texts)

    assert "quota:xfs" in less.features
    assert set(more.features) - set(less.features) == {"xfs-scrub"}
    assert set(more.tools) - set(less.tools) >= {"python3", "sync", "xfs_scrub"}


def step(**fields: object) -> Step:
    return Step.model_validate({"id": "one", "phase": "build", "title": "One", "argv": ("true",), **fields})


def test_steps_that_break_a_rule_are_refused() -> None:
    steps: list[Step]
    for steps, problem in (
        ([step(), step()], 'two steps are called "one"'),
        ([step(phase="measure"), step(id="two")], "follows one of phase"),
        ([step(argv=("echo", "${gone}"))], "unknown variables gone"),
        ([step(undo=Command(argv=("rm", "${gone}")))], "unknown variables gone"),
        ([step(stdin="${gone}")], "unknown variables gone"),
        ([step(destroys=("disk9",))], "destroys a device"),
        ([step(binds="disk0")], "bound already"),
        ([step(takes_down=("two",)), step(id="two")], "do not come before it"),
        ([step(background=True)], "without a way to see that it is ready"),
    ):
        with pytest.raises(PlanError, match=problem):
            check_steps(steps, ["disk0"], ["disk0"], place="trial")


def test_what_was_taken_down_may_be_bound_anew() -> None:
    up, down = step(binds="loop"), step(id="down", takes_down=("one",))

    check_steps([up, down, step(id="again", binds="loop", argv=("true", "${loop}"))], [], [], place="trial")


def test_a_study_of_which_nothing_can_be_run_says_why(tmp_path: Path) -> None:
    load = 'workload = "fio"\npreset = "random-mix-4k"\n'
    text = stack_text('{ layer = "xfs", barriers = false }', 1, load, model="wd-re4-500gb")
    study = read(tmp_path, text)

    assert trials(study) == []
    with pytest.raises(PlanError, match=r"nothing of this study can be run: .*4\.19"):
        runnable_trials(study)


def test_a_doubled_dollar_sign_is_no_variable() -> None:
    check_steps([step(argv=("echo", "$${gone} $$"))], [], [], place="trial")


def test_the_stack_alone_can_be_compiled(tmp_path: Path) -> None:
    plan = compile_stack(read(tmp_path, SOUND), "ext4", 1)

    assert [step.id for step in plan.steps] == ["ext4-make", "ext4-mount"]
