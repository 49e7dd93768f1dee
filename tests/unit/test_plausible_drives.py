# SPDX-License-Identifier: Apache-2.0
"""Plausible drives: what varies between the seeds of a study, and what does not."""

from __future__ import annotations

import statistics
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from strata.devices.device import bundled_devices, device_folder, find_device
from strata.devices.kinds import KINDS
from strata.devices.plausible import drawn_drives, plausible_drive, recorded_drive
from strata.errors import StudyError
from strata.model.study import Study
from strata.plan.compile import compile_trial, spec_sha256
from study_texts import SOUND, read

RE4 = "wd-re4-500gb"
BBWC = "controller-bbwc-raid10-4x-wd-re4-500gb"


def test_every_numeric_parameter_varies_or_says_why_it_does_not() -> None:
    for kind in KINDS:
        numeric = {name for name, spec in KINDS[kind].parameters.items() if not spec.text}
        assert set(KINDS[kind].spreads) == numeric


def test_every_estimate_of_a_bundled_file_states_its_range() -> None:
    for name in bundled_devices():
        stated = tomllib.loads((device_folder() / f"{name}.toml").read_text())
        spreads = KINDS[stated["kind"]].spreads
        varying = {key for key, spread in spreads.items() if spread.low is not None}
        estimates = {key for key, each in stated["parameters"].items() if each["estimate"] and each["value"]}
        assert not [key for key in estimates & varying if "low" not in stated["parameters"][key]]


def test_a_drive_is_a_function_of_the_seed_and_the_model() -> None:
    first, again, other = (plausible_drive(find_device(RE4), seed) for seed in (1, 1, 2))

    assert first == again
    assert first.identity() != other.identity()
    assert first.capacity_bytes == other.capacity_bytes == find_device(RE4).capacity_bytes


def test_the_members_of_an_array_are_the_drive_that_the_model_alone_would_be() -> None:
    array, alone = (plausible_drive(find_device(name), 7) for name in (BBWC, RE4))

    assert array.member == alone
    assert recorded_drive(find_device(BBWC), drawn_drives([array])) == array
    assert drawn_drives([array]) == {BBWC: array.drawn, RE4: alone.drawn}


def test_half_of_the_drives_lie_below_the_stated_value_and_all_within_the_range() -> None:
    stated = find_device(RE4).parameters["seek_full_stroke"]
    drawn = [plausible_drive(find_device(RE4), seed).number("seek_full_stroke") for seed in range(300)]

    assert stated.low is not None
    assert stated.high is not None
    assert stated.low <= min(drawn) < max(drawn) <= stated.high
    assert statistics.median(drawn) == pytest.approx(float(stated.value), rel=0.05)


def studied(folder: Path, keys: str = "") -> Study:
    return read(folder, SOUND.replace("seeds = [1, 2]", f"seeds = [1, 2]\n{keys}"))


def test_a_seed_is_another_drive_for_all_stacks_and_part_of_the_identity_of_a_trial(tmp_path: Path) -> None:
    study = studied(tmp_path)
    plan = compile_trial(study, "ext4", "mix", 1)

    drives = {
        (stack, seed): study.drawn_devices(stack, seed)["disk0"] for stack in study.stacks for seed in (1, 2)
    }
    assert drives["ext4", 1] == drives["btrfs", 1] != drives["ext4", 2]
    assert spec_sha256(study, plan) != spec_sha256(replace(study, drives="exact"), plan)


def pause(study: Study, stack: str, workload: str, seed: int) -> str:
    """The pause of a trial, which stands between what is prepared and the load."""
    steps = compile_trial(study, stack, workload, seed).steps
    at = [step.id for step in steps].index("drawn-pause")
    assert steps[at - 1].phase == "prepare"
    assert steps[at + 1].phase == "warmup" if workload == "oltp" else "measure"
    return steps[at].argv[1]


def test_a_load_begins_after_a_drawn_pause_that_all_stacks_of_a_seed_share(tmp_path: Path) -> None:
    study = studied(tmp_path)

    assert pause(study, "ext4", "mix", 1) == pause(study, "btrfs", "mix", 1)
    drawn = {pause(study, "ext4", "mix", seed) for seed in (1, 2, 3, 4)}
    assert len(drawn) == 4
    assert all(0 <= float(each) < 30 for each in drawn)


def test_there_is_no_pause_for_fixed_phases_or_beside_faults_that_count_from_the_boot(tmp_path: Path) -> None:
    for fixed in ('phases = "fixed"', '[devices.disk0]\nfaults = [{ fault = "gone", at = "30s" }]'):
        text = SOUND.replace("[devices.disk0]", fixed if "[" in fixed else f"{fixed}\n\n[devices.disk0]", 1)
        steps = compile_trial(read(tmp_path, text), "ext4", "mix", 1).steps
        assert "drawn-pause" not in {step.id for step in steps}


def test_a_seed_is_another_processor_for_all_stacks_and_its_prices_stand_in_the_plan(tmp_path: Path) -> None:
    study = studied(tmp_path)
    first, again, other = (study.drawn_processor(seed) for seed in (1, 1, 2))

    assert first == again
    assert first.drawn != other.drawn
    for seed, drawn in ((1, first), (2, other)):
        plans = [compile_trial(study, stack, "mix", seed) for stack in study.stacks]
        assert {plan.processor for plan in plans} == {drawn.kernel_lines}
    for name, value in first.drawn.items():
        stated = (
            study.processor.parameters.get(name) or study.processor.programs[name.removeprefix("programs.")]
        )
        assert stated.low <= value <= stated.high
    assert "processors" not in first.drawn


def test_ranges_that_contradict_each_other_are_an_error_and_no_silent_return_to_the_stated_values() -> None:
    device = find_device(RE4)
    full = device.parameters["seek_full_stroke"]
    impossible = full.model_copy(update={"low": 0.001, "value": 0.002, "high": 0.003})
    device = replace(device, parameters={**device.parameters, "seek_full_stroke": impossible})

    with pytest.raises(StudyError, match="200 draws from its ranges contradicted each other") as caught:
        plausible_drive(device, 1)

    assert 'drives = "exact"' in str(caught.value.remedy)
