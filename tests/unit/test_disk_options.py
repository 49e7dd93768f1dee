# SPDX-License-Identifier: Apache-2.0
"""A disk's declared faults, its write cache switched off, and the consequences for the trial."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from golden_text import Golden
from strata.devices.device import find_device
from strata.errors import PlanError, StudyError
from strata.lab.disk import driver_config
from strata.lab.disk_image import PowerCutDamage, damage_in, trace_left_out
from strata.lab.model import READ, ModelledDisk
from strata.lab.programs import AgentBuild
from strata.model.study import Study
from strata.plan.aspects.power_cut import cut_step, with_cut_after
from strata.plan.compile import compile_trial, spec_sha256
from strata.plan.recovery import compile_recovery
from strata.runners.host import HostRunner
from study_texts import SOUND, mistakes, read, stack_text
from volume_texts import network_text

MODEL = 'model = "wd-re4-500gb"'
FAULTS = (
    '[{ fault = "slow", from = "10s", until = "20s", factor = 2.5 }, { fault = "gone", at = "30s" }, '
    '{ fault = "unreadable", first_sector = 2048, sectors = 8 }, { fault = "ignores-flush" }, '
    '{ fault = "corrupt", first_sector = 16, sectors = 1, at = "5s" }]'
)


def with_options(options: str) -> str:
    assert SOUND.count(MODEL) == 1
    return SOUND.replace(MODEL, f"{MODEL}\n{options}")


def identity(study: Study) -> str:
    return spec_sha256(study, compile_trial(study, "ext4", "oltp", 1))


def test_the_driver_gets_the_faults_and_the_state_of_the_cache(tmp_path: Path) -> None:
    study = read(tmp_path, with_options(f"faults = {FAULTS}\nwrite_cache = false"))

    text = driver_config(study.devices["disk0"].device, name="sda", backing_fd=66)

    assert [line for line in text.splitlines() if line.startswith(("fault=", "write_through="))] == [
        "write_through=1",
        "fault=slow,10000000000,20000000000,250",
        "fault=gone,30000000000",
        "fault=unreadable,2048,8",
        "fault=ignores-flush",
        "fault=corrupt,16,1,5000000000",
    ]
    ModelledDisk(text)  # the driver's own reader takes it


def test_another_fault_is_another_trial_and_none_is_not(tmp_path: Path) -> None:
    plain = identity(read(tmp_path, SOUND))
    ignoring = 'faults = [{ fault = "ignores-flush" }]'
    for options in (f"faults = {FAULTS}", ignoring, "write_cache = false"):
        assert identity(read(tmp_path, with_options(options))) != plain
    assert identity(read(tmp_path, with_options("faults = []\nwrite_cache = true"))) == plain


def test_every_mistake_in_the_faults_is_named_by_its_place(tmp_path: Path) -> None:
    faults = (
        '[{ fault = "slow", from = "20s", until = "10s", factor = 2 }, { fault = "slow", factor = 0.5 }, '
        '{ fault = "gone" }, { fault = "burns" }, 3, '
        '{ fault = "unreadable", first_sector = -1, sectors = 0 }, '
        '{ fault = "corrupt", first_sector = 99999999999, sectors = 1, at = "1s", until = "2s" }, '
        '{ fault = "unreadable", first_sector = 99999999999, sectors = 1 }]'
    )
    found = mistakes(tmp_path, with_options(f"faults = {faults}"))

    assert set(found) == {
        "devices.disk0.faults[0].until",
        "devices.disk0.faults[1].factor",
        "devices.disk0.faults[2].at",
        "devices.disk0.faults[3].fault",
        "devices.disk0.faults[4]",
        "devices.disk0.faults[5].first_sector",
        "devices.disk0.faults[5].sectors",
        "devices.disk0.faults[6].until",
        "devices.disk0.faults[7].sectors",
    }


def test_a_disk_without_a_volatile_cache_has_none_to_switch_off(tmp_path: Path) -> None:
    text = SOUND.replace('model = "null"', 'model = "null"\nwrite_cache = false')

    assert "it has no volatile write cache" in mistakes(tmp_path, text)["devices.disk1.write_cache"]


def test_the_recovery_mounts_checks_and_mounts_again_and_destroys_nothing(
    tmp_path: Path, golden: Golden
) -> None:
    study = read(tmp_path, SOUND)
    names = ("ext4", "raw", "guest", "xfs", "qcow2")  # an image is checked while it is not served
    layers = ", ".join(f'{{ layer = "{name}" }}' for name in names)
    guest = stack_text(layers, 1, 'workload = "fio"\npreset = "random-mix-4k"', model="wd-re4-500gb")
    images = compile_recovery(read(tmp_path, guest), "stack", 1)
    lines = []
    for plan in (compile_recovery(study, "ext4", 1, [cut_step()]), images):
        assert not any(step.destroys for step in plan.steps)
        for step in plan.steps:
            form = f"{'in the background, ' * step.background}in {step.cgroup}, ends {step.takes_down}"
            lines.append(f"{step.id}: {shlex.join(step.argv)} ({form})")
        lines.append("")
    golden("recovery.txt", "\n".join(lines))


def test_a_cut_after_a_step_leaves_out_what_follows(tmp_path: Path) -> None:
    plan = compile_trial(read(tmp_path, SOUND), "ext4", "oltp", 1)

    assert [step.id for step in with_cut_after(plan, "ext4-mount").steps] == [
        "ext4-make",
        "ext4-mount",
        "power-cut",
    ]
    with pytest.raises(PlanError, match="its steps are ext4-make"):
        with_cut_after(plan, "nowhere")


def test_what_the_lab_says_of_a_cut_is_read() -> None:
    console = (
        "Linux\nstrata: power cut at 3000000001 ns: disk=sda writes_acknowledged=220 volatile=123 kept=28 "
        "lost=30 torn=65 lost_acknowledged=95 settled_blocks=0 marks_lost=0 error=0\n"
        "strata: trace: 7 requests left out\n"
    )

    assert damage_in(console) == [PowerCutDamage("sda", 3_000_000_001, 220, 123, 28, 30, 65, 95, 0)]
    assert trace_left_out(console) == 7
    assert trace_left_out("") == 0


def test_what_a_program_writes_to_the_console_is_no_account_of_a_cut() -> None:
    line = (
        "strata: power cut at {} ns: disk=sda writes_acknowledged=2 volatile=1 kept=1 lost=0 torn=0 "
        "lost_acknowledged=0 settled_blocks=0 marks_lost=0 error=0\n"
    )
    forged = "strata: power cut at 1 ns: disk=sda error=x\n" + line.format(1) + line.format("9" * 5000)

    assert damage_in(forged + "no newline " + line.format(7)) == [
        PowerCutDamage("sda", 7, 2, 1, 1, 0, 0, 0, 0)
    ]
    assert damage_in(line.format(7)[:-3]) == []
    assert trace_left_out("strata: trace: 9 requests left out\nstrata: trace: 7 requests left out\n") == 7


def test_several_slow_faults_add_up_and_never_overflow() -> None:
    twice = network_text(latency_ns=1_000_000) + "fault=slow,0,0,300\n" * 2
    endless = network_text(latency_ns=1_000_000_000) + "fault=slow,0,0,1000000\n" * 60

    read = ModelledDisk(twice).closed_loop(READ, [0, 8], 8, depth=1)
    assert read.latency_ns.tolist() == [5_000_000, 5_000_000]
    assert read.part("fault_ns").tolist() == [4_000_000, 4_000_000]
    late = ModelledDisk(endless).closed_loop(READ, [0, 8], 8, depth=1)
    assert late.latency_ns.tolist() == [(1 + 60 * 9_999) * 1_000_000_000] * 2


def test_only_a_controller_has_members() -> None:
    text = network_text() + "".join(f"member.{line}\n" for line in network_text().splitlines())

    with pytest.raises(ValueError, match="only a controller has members"):
        ModelledDisk(text)


def test_a_slow_disk_takes_longer_while_it_is_slow(tmp_path: Path) -> None:
    device = find_device("wd-re4-500gb")
    slow = read(
        tmp_path, with_options('faults = [{ fault = "slow", from = "1s", until = "2s", factor = 10 }]')
    )
    sectors, times = [8000, 80_000_000, 8000, 80_000_000], [0, 500_000_000, 1_500_000_000, 2_500_000_000]
    latencies = []
    for each in (device, slow.devices["disk0"].device):
        text = driver_config(each, name="sda", backing_fd=0)
        trace = ModelledDisk(text).arrivals(READ, sectors, 8, times)
        latencies.append(trace.latency_ns.tolist())
    assert latencies[1][0] == latencies[0][0]
    assert latencies[1][2] == 10 * latencies[0][2]
    assert latencies[1][3] == latencies[0][3]


def test_a_real_disk_does_not_pretend_to_have_faults(tmp_path: Path) -> None:
    for options in ("write_cache = false", 'faults = [{ fault = "gone", at = "1s" }]'):
        study = read(tmp_path, with_options(options))
        plan = compile_trial(study, "ext4", "oltp", 1)
        runner = HostRunner(AgentBuild(Path("/nonexistent"), "0" * 64), scratch=tmp_path, journal=tmp_path)
        with pytest.raises(StudyError, match="a real disk has neither"):
            runner.setting(plan, {used.name: used.device for used in study.stack_devices("ext4")})
