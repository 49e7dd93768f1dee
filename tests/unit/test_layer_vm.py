# SPDX-License-Identifier: Apache-2.0
"""The layer vm: where steps run, what does not fit, and what a host says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from execution_factory import study_in
from results_factory import EventLog

from command_line import checked
from strata.bundled import project_root
from strata.errors import DiagnosticsError
from strata.execution.schedule import plan_study
from strata.lab.cache import Cache, Inputs
from strata.lab.lab import Project
from strata.lab.machine import QemuProcessor
from strata.lab.programs import AgentBuild
from strata.model.inputs import InputFile
from strata.model.step import QEMU_KERNEL
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, skipped
from strata.plan.model import Plan
from strata.reading.load import load_study
from strata.results.events import read_events
from strata.results.machines import machine_accounts, machine_counts
from strata.runners.fake import FakeRunner
from strata.runners.host import HostRunner
from strata.runners.kernel import HostKernel
from strata.runners.machines import machine_nodes, processor_of
from study_texts import HEAD, SSD, disk, fio, read, written

TEXT = HEAD + 'memory = "{memory}"\n' + disk("disk0", capacity="40GiB")
TEXT += '[stacks.stack]\nlayers = [{layers}, {{ layer = "ext4" }}]\n' + fio("load")


def study_of(folder: Path, layers: str, memory: str = "1GiB") -> Study:
    return read(folder, TEXT.format(layers=layers, memory=memory))


def plan_of(folder: Path, layers: str) -> Plan:
    return compile_trial(study_of(folder, layers), "stack", "load", 1)


def test_a_control_group_is_of_the_kernel_that_runs_what_it_limits(tmp_path: Path) -> None:
    above = plan_of(tmp_path, '{ layer = "vm" }, { layer = "guest", memory = "128MiB" }')
    below = plan_of(tmp_path, '{ layer = "guest", memory = "512MiB" }, { layer = "vm" }')
    steps = {step.id: step for step in above.steps}
    groups = {step.id: step.cgroup for step in below.steps}

    assert steps["guest-group"].machine == steps["fio-measure"].machine is not None
    assert steps["fio-measure"].cgroup is not None
    assert groups["vm-start"] is not None
    assert groups["vm-flushing"] is groups["fio-measure"] is None


def test_machines_that_cannot_be_are_refused(tmp_path: Path) -> None:
    on_xfs = '{{ layer = "xfs" }}, {{ {} }}, {{ layer = "vm"{} }}'
    for layers, memory, cause in (
        ('{ layer = "vm" }, { layer = "vm" }', "1GiB", "cannot start another one"),
        ('{ layer = "vm" }, { layer = "zpool" }, { layer = "zvol" }', "1GiB", "may hold 512MiB of memory"),
        ('{ layer = "vm" }', "256MiB", "its memory is a part of the lab's"),
        ('{ layer = "vm", cache = "writeback", aio = "native" }', "1GiB", "without the page cache only"),
        ('{ layer = "vm", queues = 2 }', "1GiB", "one request queue for each processor"),
        ('{ layer = "vm", bus = "virtio-scsi" }', "1GiB", "has no virtio-scsi"),
        (on_xfs.format('layer = "raw", server = "loop"', ""), "1GiB", "opens the image"),
        (on_xfs.format('layer = "qcow2", cache = "none"', ', cache = "unsafe"'), "1GiB", 'cache = "unsafe"'),
        (on_xfs.format('layer = "raw", aio = "io_uring"', ""), "1GiB", 'with aio = "native"'),
    ):
        with pytest.raises(DiagnosticsError, match=cause):
            study_of(tmp_path, layers, memory)


def test_data_are_written_back_by_the_machines_kernel_before_a_snapshot_below_it(tmp_path: Path) -> None:
    for between in ("", '{ layer = "lvm" }, '):
        layers = f'{{ layer = "xfs" }}, {{ layer = "qcow2" }}, {between}{{ layer = "vm" }}'
        text = TEXT.format(layers=layers, memory="1GiB") + 'before_measure = ["snapshot"]\n'

        plan = compile_trial(read(tmp_path, text), "stack", "load", 1)

        machines = {step.id: step.machine for step in plan.steps}
        serving = next(step for step in plan.steps if "--chardev" in step.argv)
        (monitor,) = (word for word in serving.argv if word.startswith("socket,id=monitor"))
        taking = next(step for step in plan.steps if step.id == "qcow2-snapshot-snapshot")
        assert machines["qcow2-snapshot-sync"] == machines["fio-measure"] is not None
        assert machines["qcow2-snapshot-snapshot"] is machines["qcow2-drop-drop"] is None
        assert f"path={taking.argv[3]}," in monitor


def test_a_file_that_a_load_reads_is_a_disk_of_the_machine(tmp_path: Path) -> None:
    for keys, start, device in (
        ("", "vm-serve", "/dev/vdc"),
        (', emulator = "qemu"', "vm-start", "/dev/vdc"),
        (', emulator = "qemu", bus = "virtio-scsi"', "vm-start", "/dev/vdb"),
    ):
        head = TEXT.format(layers=f'{{ layer = "vm"{keys} }}', memory="1GiB").partition("[workloads.load]")[0]
        study = read(tmp_path, f'{head}[workloads.load]\nworkload = "tree"\n')
        steps = {step.id: step for step in compile_trial(study, "stack", "load", 1).steps}

        assert any("${input-archive}" in word for word in steps[start].argv)
        assert f"--file={device}" in steps["tree-unpack"].argv


def test_a_load_in_a_machine_sees_no_filesystem_outside_it(tmp_path: Path) -> None:
    text = TEXT.format(layers='{ layer = "vm" }', memory="1GiB")
    text = text.replace("[stacks.stack]", disk("ssd", SSD) + "[stacks.stack]")
    beside = """[stacks.stack.filesystems.log]
devices = ["ssd"]
layers = [{ layer = "xfs" }]
mount = "/log"
"""
    study = read(tmp_path, text + beside)

    assert "sees none of the filesystems outside it" in "".join(skipped(study).values())


def test_what_tenants_wrote_is_written_back_in_each_ones_machine_and_then_below(tmp_path: Path) -> None:
    study = load_study(project_root() / "studies/four-guests.toml", catalogue())
    steps = compile_trial(study, "lvm", "four", 1).steps

    for name in ("settled", "db-settled", "mail-settled", "settled-together"):
        at = next(index for index, step in enumerate(steps) if step.id == name)
        inside, outside = steps[at - 4 : at], steps[at]
        assert len({step.machine for step in inside}) == 4
        assert {step.argv for step in (*inside, outside)} == {("sync",)}
        assert outside.machine is None


def test_the_lab_says_why_a_machine_has_one_processor_and_a_host_has_no_user_mode_linux(
    tmp_path: Path,
) -> None:
    for cpus, stacks in ((1, []), (2, ["stack"])):
        layers = f'{{ layer = "vm", cpus = {cpus} }}'
        file = written(tmp_path / "study.toml", TEXT.format(layers=layers, memory="1GiB"))
        refused = checked(file)["host_only"]
        assert [*refused.values()] == [stacks] * len(stacks)
        assert all("virtual time stands" in why for why in refused)
    unmet = HostKernel(tmp_path).unmet(plan_of(tmp_path, '{ layer = "vm" }').prerequisites)
    assert any("only the lab has User-Mode" in reason for reason in unmet)


def test_a_machine_is_qemus_on_a_host_unless_the_study_says_otherwise(tmp_path: Path) -> None:
    for emulator, tool in (("", "qemu-system-x86_64"), (', emulator = "uml"', "qemu-storage-daemon")):
        study = study_of(tmp_path, f'{{ layer = "lvm" }}, {{ layer = "vm"{emulator} }}').on_host()

        plan = compile_trial(study, "stack", "load", 1)

        started = next(step for step in plan.steps if step.id.startswith("vm-") and tool in step.argv)
        assert "disk0" not in started.destroys  # it lies on a volume
        assert tool in plan.prerequisites.tools


def test_a_machine_and_the_host_each_need_what_their_own_steps_use(tmp_path: Path) -> None:
    below = '{ layer = "zpool" }, { layer = "zvol" }, { layer = "vm", emulator = "qemu" }'
    plan = plan_of(tmp_path, below)

    inside, outside = plan.inside, plan.needs_outside

    assert (outside.modules, inside.modules) == (("zfs",), ())
    assert "zpool" in outside.tools
    assert "zpool" not in inside.tools
    assert "filesystem:ext4" in inside.features
    assert "filesystem:ext4" not in outside.features
    assert "fio" not in outside.tools


def test_a_machine_runs_by_kvm_where_processor_and_kernel_have_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '{ layer = "vm", emulator = "qemu" }')
    for number, (flags, device, processor) in enumerate(
        (
            ("fpu vmx", True, QemuProcessor.KVM),
            ("fpu svm", False, QemuProcessor.EMULATED),
            ("fpu hypervisor", True, QemuProcessor.EMULATED),
        )
    ):
        root = tmp_path / str(number)
        for name in ("proc", "dev"):
            (root / name).mkdir(parents=True)
        (root / "proc/cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
        if device:
            (root / "dev/kvm").touch()
        assert processor_of(HostKernel(root)) is processor
        nodes = ["/dev/kvm"] if processor is QemuProcessor.KVM else []
        assert machine_nodes(plan, HostKernel(root)) == nodes


def test_a_trial_of_another_part_of_the_study_has_the_machines_that_it_ran_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(tmp_path, '{ layer = "vm", emulator = "qemu" }')
    monkeypatch.setenv("STRATA_CACHE", str(tmp_path / "cache"))
    project, cache = Project.read(project_root()), Cache(tmp_path / "cache")
    found: dict[str, dict[str, Any]] = {
        QEMU_KERNEL: {"version": "7.2", "modules": {}, "aliases": {}, "built_in": []},
        "image": {"packages": {}, "locked": True, "moved": []},
    }

    def made(folder: Path, part: str) -> Mapping[str, Any]:
        for name in ("vmlinuz", "root.squashfs"):
            (folder / name).write_text(part)
        return {"sha256": f"of the {part}", "size_bytes": len(part), **found[part]}

    for part in found:
        cache.build(part, Inputs(project.wanted(part), {}), partial(made, part=part))
    runner = HostRunner(AgentBuild(Path("/nonexistent"), "0" * 64), scratch=tmp_path, journal=tmp_path)

    own = runner.setting(plan, {})["machines"]

    assert (own[QEMU_KERNEL], own["image"]) == (f"of the {QEMU_KERNEL}", "of the image")
    assert "has no filesystem ext4" in (runner.unmet(plan) or "")  # this kernel has no modules


def test_trials_are_skipped_for_what_the_parts_provided_for_them_lack(tmp_path: Path) -> None:
    class Providing(FakeRunner):
        provided = False

        def provide(self, plan: Plan, files: Iterable[InputFile]) -> None:
            self.provided = True

        def unmet(self, plan: Plan) -> str | None:
            return "the kernel has no xfs" if self.provided and plan.trial.stack == "xfs" else None

    planned, left_out = plan_study(study_in(tmp_path), Providing())

    assert {each.key.stack for each in planned} == {"ext4"}
    assert set(left_out.values()) == {"the kernel has no xfs"}


def test_ignored_flushes_are_a_risk_that_results_name(tmp_path: Path) -> None:
    unsafe = study_of(tmp_path, '{ layer = "vm", cache = "unsafe" }')
    assert any("ignores flushes" in risk for risk in unsafe.power_risks("stack", "load"))
    assert not study_of(tmp_path, '{ layer = "vm" }').power_risks("stack", "load")


def test_what_a_machines_kernel_counted_is_that_of_the_measured_window(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '{ layer = "vm" }')
    disk = "10 0 80 0 {writes} 0 800 {writes} 0 0 0 0 0 0 0 {flushes} 0\n"
    said = {
        "vm-accounts-before": disk.format(writes=20, flushes=3)
        + "vda ext4 writes 4 write_bytes 4096 syncs 1\nunpriced_calls:sort 3\n",
        "vm-accounts-after": disk.format(writes=50, flushes=13)
        + "vda ext4 writes 6 write_bytes 12288 syncs 11\nunpriced_calls:sort 7\n",
    }
    log = EventLog(plan)
    for step in plan.steps:
        log.step(step.id, 1, stdout=said.get(step.id, ""))
    log.finish()
    events = read_events(log.written(tmp_path))

    accounts = machine_accounts(plan, events)["vm"]

    assert [dict(each) for each in machine_counts(plan, events)] == [{"unpriced_calls:sort": 4}]
    assert set(accounts) == {"disk", "ext4"}
    assert accounts["ext4"] == {"writes": 2, "write_bytes": 8192, "syncs": 10}
    disk_counts = {name: count for name, count in accounts["disk"].items() if count}
    assert disk_counts == {"writes": 30, "write_ns": 30_000_000, "flushes": 10}
