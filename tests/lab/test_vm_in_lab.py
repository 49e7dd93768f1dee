# SPDX-License-Identifier: Apache-2.0
"""A virtual machine in the lab: its flushes reach the disk, it repeats, and unflushed writes are lost."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from lab_factory import head, records, run_text, shell_step

from present import present
from record_hashes import hashes
from strata.lab import Lab
from strata.lab.boot import Power
from strata.lab.disk_image import DiskImage, PowerCut
from strata.model.step import Step
from strata.model.study import Study
from strata.plan.aspects.power_cut import cut_step
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.plan.recovery import compile_recovery
from strata.reading.load import load_study
from strata.results.events import Events, read_events
from strata.results.machines import machine_accounts
from strata.runners.base import EVENTS_NAME, PLAN_NAME, Task
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S
from study_texts import written

STUDY = """
[stacks.vm]
layers = [{below}{{ layer = "vm", memory = "{memory}", cache = "{cache}"{keys} }}, {{ layer = "ext4" }}]

[workloads.sync]
workload = "dd"
content = "random"
size = "1MiB"
bs = "4KiB"
oflag = ["dsync"]
"""
TENANTS = """
[stacks.vm]
layers = [{{ layer = "lvm" }}]
each = [{{ layer = "vm", memory = "{memory}"{keys} }}, {{ layer = "ext4" }}]

[workloads.sync]
workload = "tenants"
alone = "1s"
[[workloads.sync.tenants]]
name = "one"
before = {{ workload = "tree", archive = "small.tar" }}
load = {{ {load}, size = "2MiB", duration = "1s" }}
[[workloads.sync.tenants]]
name = "two"
load = {{ {load}, size = "4MiB", duration = "1s" }}
"""
LOAD = 'workload = "sysbench-fileio", preset = "random-mix-4k-fsync", files = 4, flags = ["direct"]'
RAW = '{ layer = "xfs" }, { layer = "raw", size = "128MiB", preallocation = "full" }, '
QCOW2 = RAW.replace("raw", "qcow2")
QEMU = ', emulator = "qemu"'
EMULATORS = [pytest.param("", id="uml"), pytest.param(QEMU, id="qemu", marks=pytest.mark.slow)]
FSYNCS = 256
FLUSH_COUNT = 15  # its place in /sys/block/DISK/stat (Documentation/block/stat.rst)
KEPT = "dd if=/dev/urandom of=/dev/vda bs=64k seek=64 count=16 conv=notrunc,fdatasync status=none"
# Under `writethrough` QEMU leaves out the flush of a write that is the first since another flush, because it
# counts the write only afterwards (Denis V. Lunev on qemu-devel, 29 December 2025).
FIRST = KEPT.replace("seek=64", "seek=0")
TALK = (
    "perl -MIO::Socket::INET -e '"
    "$$s = IO::Socket::INET->new(Listen => 1, LocalAddr => q(127.0.0.1:7)) or die; "
    "$$c = IO::Socket::INET->new(PeerAddr => q(127.0.0.1:7)) or die; print $$s->accept->peerhost'"
)
# Calls that copy, beside the start of two programs.
COMPUTE = (
    "begin=$$(date +%s%N); dd if=/dev/zero of=/dev/shm/file bs=64 count=10000 status=none; "
    "echo $$(($$(date +%s%N) - begin))"
)
LONG_INPUT = 16_384  # bytes; a terminal is throttled at 4 KiB
READ = "dd if=DISK bs=64k skip=64 count=16 iflag=direct status=none | sha256sum"


def study_of(folder: Path, cache: str = "none", below: str = "", keys: str = "") -> Study:
    text = STUDY.format(cache=cache, below=below, keys=keys, memory=memory_of(keys))
    return load_study(written(folder / "study.toml", head("vm", [1], capacity="4GiB") + text), catalogue())


def memory_of(keys: str) -> str:
    """Debian's kernel needs more than the lab's."""
    return "256MiB" if QEMU in keys else "128MiB"


def in_machine(plan: Plan, *steps: Step) -> list[Step]:
    """The steps, in the machine that others of the plan run in."""
    machine = next(step.machine for step in plan.steps if step.machine is not None)
    return [step.model_copy(update={"machine": machine}) for step in steps]


def run(lab: Lab, folder: Path, study: Study, plan: Plan, power: Power | None = None) -> Events:
    folder.mkdir()
    (folder / PLAN_NAME).write_bytes(plan.to_json())
    task = Task(plan=plan, devices=study.drawn_devices("vm", 1), folder=folder, trace=False)
    LabRunner(lab).boot(task, power or Power())
    return read_events(folder / EVENTS_NAME)


@pytest.mark.parametrize(
    ("below", "keys"),
    [
        pytest.param("", "", id="disk"),
        pytest.param(RAW, "", id="raw", marks=pytest.mark.slow),
        pytest.param(QCOW2, "", id="qcow2", marks=pytest.mark.slow),  # it survives power cuts below
        pytest.param("", f"{QEMU}, cpus = 2", id="qemu-cpus", marks=pytest.mark.slow),
        pytest.param("", f'{QEMU}, bus = "virtio-scsi"', id="qemu-scsi", marks=pytest.mark.slow),
    ],
)
def test_each_flush_of_the_machine_is_one_of_the_modelled_disk_and_a_run_repeats(
    lab: Lab, tmp_path: Path, below: str, keys: str
) -> None:
    study = study_of(tmp_path, below=below, keys=keys)
    plan = compile_trial(study, "vm", "sync", 1)
    node = "sda" if "scsi" in keys else "vda"
    index = next(index for index, step in enumerate(plan.steps) if step.id == "dd-write")
    before, after = (
        in_machine(plan, shell_step(name, f"cat /sys/block/{node}/stat")) for name in ("before", "after")
    )
    steps = (*plan.steps[:index], *before, plan.steps[index], *after)
    plan = plan.model_copy(update={"steps": steps})

    one, two = (run(lab, tmp_path / name, study, plan) for name in ("one", "two"))

    assert present(one.end).outcome == "ok", present(one.end)
    counts = [int(one.output(name).split()[FLUSH_COUNT]) for name in ("before", "after")]
    disk = [each.account["flushes"] for each in one.accounts if each.step == "dd-write"]
    assert disk[1] - disk[0] == counts[1] - counts[0] >= FSYNCS
    # A flush of this disk takes milliseconds; what the machine alone acknowledges takes microseconds.
    ending = present(one.steps["dd-write"].ending)
    assert ending.duration_ns > FSYNCS * 5_000_000
    assert one.sha256 == two.sha256


def test_computing_costs_in_a_machine_as_much_as_outside(lab: Lab, tmp_path: Path) -> None:
    study = study_of(tmp_path)
    plan = compile_trial(study, "vm", "sync", 1)
    machine = tuple(step for step in plan.steps if step.id.startswith("vm-"))
    (inside,) = in_machine(plan, shell_step("inside", COMPUTE))
    plan = plan.model_copy(update={"steps": (*machine, inside, shell_step("outside", COMPUTE))})

    events = run(lab, tmp_path / "run", study, plan)

    assert present(events.end).outcome == "ok", present(events.end)
    took = {name: int(events.output(name)) for name in ("inside", "outside")}
    assert took["inside"] == pytest.approx(took["outside"], rel=0.25)


def test_a_server_in_a_machine_is_reached_by_tcp(lab: Lab, tmp_path: Path) -> None:
    study = study_of(tmp_path)
    plan = compile_trial(study, "vm", "sync", 1)
    machine = tuple(step for step in plan.steps if step.id.startswith("vm-"))
    plan = plan.model_copy(update={"steps": (*machine, *in_machine(plan, shell_step("talk", TALK)))})

    events = run(lab, tmp_path / "run", study, plan)

    assert events.end is not None
    assert events.end.outcome == "ok", events.end
    assert events.output("talk") == "127.0.0.1"


def test_a_step_has_more_input_than_the_line_to_the_machine_holds(lab: Lab, tmp_path: Path) -> None:
    study = study_of(tmp_path)
    plan = compile_trial(study, "vm", "sync", 1)
    machine = tuple(step for step in plan.steps if step.id.startswith("vm-"))
    count = shell_step("count", "wc -c").model_copy(update={"stdin": "x" * LONG_INPUT})
    steps = in_machine(plan, count, shell_step("next", "echo done"))
    plan = plan.model_copy(update={"steps": (*machine, *steps)})

    one, two = (run(lab, tmp_path / name, study, plan) for name in ("one", "two"))

    assert present(one.end).outcome == "ok", present(one.end)
    assert [one.output(name).strip() for name in ("count", "next")] == [str(LONG_INPUT), "done"]
    assert one.sha256 == two.sha256


@pytest.mark.parametrize(
    "layers",
    [
        '{ layer = "integrity" }, { layer = "ext4" }',
        *(
            pytest.param(layers, marks=pytest.mark.slow)
            for layers in (
                '{ layer = "lvm-thin" }, { layer = "ext4" }',
                '{ layer = "xfs" }, { layer = "qcow2" }, { layer = "ext4" }',
                '{ layer = "zpool", arc_max = "64MiB" }, { layer = "zfs" }',
            )
        ),
    ],
)
def test_layers_that_write_from_the_page_of_zeros_work_in_a_machine(
    lab: Lab, tmp_path: Path, layers: str
) -> None:
    text = head("vm", [1], capacity="1GiB") + STUDY.format(cache="none", below="", keys="", memory="256MiB")
    text = text.replace('{ layer = "ext4" }]', f"{layers}]")
    study = load_study(written(tmp_path / "study.toml", text), catalogue())
    plan = compile_trial(study, "vm", "sync", 1)

    events = run(lab, tmp_path / "run", study, plan)

    assert present(events.end).outcome == "ok", present(events.end)
    accounts = machine_accounts(plan, events)["vm"]
    # On ZFS one flush can commit several fsyncs.
    assert accounts["disk"]["flushes"] > FSYNCS // 2


@pytest.mark.parametrize("keys", EMULATORS)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="none"),
        pytest.param({"below": RAW}, id="raw", marks=pytest.mark.slow),
        pytest.param({"below": QCOW2.replace("full", "off")}, id="qcow2"),
        pytest.param({"keys": ', aio = "io_uring"'}, id="io_uring", marks=pytest.mark.slow),
        pytest.param({"cache": "directsync"}, id="directsync", marks=pytest.mark.slow),
        pytest.param({"cache": "writethrough"}, id="writethrough"),
        pytest.param({"cache": "unsafe"}, id="unsafe"),
    ],
)
def test_an_acknowledged_write_survives_a_power_cut_unless_qemu_ignores_flushes(
    lab: Lab, tmp_path: Path, options: dict[str, str], keys: str
) -> None:
    options = {**options, "keys": options.get("keys", "") + keys}
    study, survives = study_of(tmp_path, **options), options.get("cache") != "unsafe"
    plan = compile_trial(study, "vm", "sync", 1)
    kept = f"{FIRST}; {KEPT}" if keys and options.get("cache") == "writethrough" else KEPT
    inside = in_machine(plan, shell_step("kept", kept), shell_step("read", READ.replace("DISK", "/dev/vda")))
    lower = tuple(each for each in plan.steps if each.phase == "build" and not each.id.startswith("ext4"))
    cut = plan.model_copy(update={"steps": (*lower, *_built(inside), cut_step())})
    lower = tuple(step for step in compile_recovery(study, "vm", 1).steps if not step.id.startswith("ext4"))
    again = plan.model_copy(update={"steps": (*lower, *_built(inside[1:]))})

    with DiskImage(tmp_path) as image:
        first = run(lab, tmp_path / "cut", study, cut, Power([image], PowerCut()))
        second = run(lab, tmp_path / "again", study, again, Power([image]))

    assert first.end is None
    assert present(second.end).outcome == "ok", present(second.end)
    assert (first.output("read") == second.output("read")) is survives


@pytest.mark.parametrize("keys", EMULATORS)
def test_tenants_each_have_a_machine_and_two_runs_are_equal(lab: Lab, tmp_path: Path, keys: str) -> None:
    text = head("vm", [1], capacity="8GiB").replace('phases = "fixed"', 'memory = "1GiB"\nphases = "fixed"')
    text += TENANTS.format(keys=keys, memory=memory_of(keys), load=LOAD)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with tarfile.open(tmp_path / name / "small.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo("file"))
        run_text(text, tmp_path / name, LabRunner(lab), jobs=1)

    (record,) = records(tmp_path / "one/results").values()

    assert record.validity.valid, record.validity.reasons
    values = {each.name: each.value for each in record.metrics}
    assert values["one_files"] == 1
    assert {"one_relative_speed", "two_relative_speed", "aggregate_relative_speed"} <= set(values)
    machines = present(record.machines)
    reads = [machines[name]["disk"]["reads"] for name in ("one-vm", "two-vm")]
    assert min(reads) > 0
    # Each machine's direct I/O is the disk's.
    assert sum(reads) == pytest.approx(record.disks["disk0"]["reads"], rel=0.1)
    assert hashes(tmp_path / "one/results") == hashes(tmp_path / "two/results")


# `$$` is a dollar sign of the shell.
COUNT = "for i in $$(seq 20); do echo $$i >> ${mount}/count; SYNC; echo $$i; done; exec sleep 9"
# A process's name has 15 characters.
KILL = {"": "pkill -KILL -x machine-kernel", QEMU: "pkill -KILL -x qemu-system-x86"}


@pytest.mark.parametrize("keys", EMULATORS)
@pytest.mark.parametrize(
    ("cache", "synced"),
    [
        ("none", False),
        ("unsafe", True),
        pytest.param("none", True, marks=pytest.mark.slow),
        pytest.param("unsafe", False, marks=pytest.mark.slow),
    ],
)
def test_a_machine_that_is_killed_loses_only_what_it_has_not_synced(
    lab: Lab, tmp_path: Path, cache: str, synced: bool, keys: str
) -> None:
    """Even what QEMU or its storage daemon never flushed is in the page cache of the machine below."""
    study = study_of(tmp_path, cache, keys=keys)
    plan = compile_trial(study, "vm", "sync", 1)
    built = tuple(step for step in plan.steps if step.phase == "build")
    sync = "sync ${mount}/count" if synced else "true"
    (count,) = in_machine(plan, shell_step("count", COUNT.replace("SYNC", sync)))
    kill = shell_step("kill", KILL[keys]).model_copy(update={"lane": "kill", "not_before_ns": NS_PER_S})
    count = count.model_copy(update={"lane": "count", "expect_exit": (127,)})
    killed = plan.model_copy(update={"steps": (*built, count, kill)})
    mount = "mkdir -p /run/disk && mount ${disk0} /run/disk && cat /run/disk/count; umount /run/disk"
    read = shell_step("read", f"{mount} && e2fsck -fn ${{disk0}} >&2")
    again = plan.model_copy(update={"steps": (read,)})

    with DiskImage(tmp_path) as image:
        first = run(lab, tmp_path / "killed", study, killed, Power([image]))
        second = run(lab, tmp_path / "again", study, again, Power([image]))

    acknowledged, found = first.output("count").split(), second.output("read").split()
    assert len(acknowledged) > 10
    assert present(second.end).outcome == "ok", second.words("read")
    assert (found[: len(acknowledged)] == acknowledged) is synced


def _built(steps: list[Step]) -> list[Step]:
    return [step.model_copy(update={"phase": "build"}) for step in steps]
