# SPDX-License-Identifier: Apache-2.0
"""Settings of the kernel and of disks' queues: stated, set before anything is built, restored on a host."""

from __future__ import annotations

from pathlib import Path

from strata.plan.compile import compile_trial
from strata.plan.model import Plan
from strata.runners.kernel import BOOT_NAME, HostKernel, note_parameters, parameters_set, set_back
from study_texts import HEAD, disk, fio, mistakes, read

KNOBS = """[devices.disk0.queue]
scheduler = "kyber"
rotational = false
[stacks.ext4]
layers = [{ layer = "ext4" }]
sysctl.vm.dirty_bytes = "16MiB"
"""
TEXT = HEAD + 'sysctl.vm = { dirty_ratio = 5, swappiness = 10 }\nprepare = "once"\n' + disk("disk0")
TEXT += KNOBS + fio("load")


def plan_of(tmp_path: Path, text: str = TEXT) -> Plan:
    study = read(tmp_path, text)
    (stack,) = study.stacks
    return compile_trial(study, stack, "load", 1)


def test_knobs_are_set_first_and_again_after_a_restart(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)

    told = [(step.argv[-1], step.stdin) for step in plan.steps if step.argv[0] == "tee"]
    knobs = [("/proc/sys/vm/dirty_bytes", "16777216\n"), ("/proc/sys/vm/swappiness", "10\n")]
    for end, part in (("", told[:4]), ("-again", told[4:])):
        queue = f"/sys/dev/block/${{disk0-queue{end}}}/queue"
        assert sorted(part) == [*knobs, (f"{queue}/rotational", "0\n"), (f"{queue}/scheduler", "kyber\n")]
    names = [step.id for step in plan.steps]
    assert names.index("disk0-queue-rotational") < names.index("ext4-make")
    assert names.index("restart") < names.index("sysctl-vm-dirty-bytes-again")
    assert names.index("disk0-queue-rotational-again") < next(
        at for at, name in enumerate(names) if name.startswith("ext4-again")
    )
    assert {"scheduler:kyber", "sysctl:vm.dirty_bytes"} <= {*plan.prerequisites.features}


def test_a_knob_is_a_factor_without_a_table_of_its_own(tmp_path: Path) -> None:
    text = (
        HEAD + disk("disk0") + '[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n' + fio("load") + "[matrix]\n"
    )
    for name, key, values in (
        ("scheduler", "devices.disk0.queue.scheduler", ["none", "kyber"]),
        ("dirty", "study.sysctl.vm.dirty_bytes", ["16MiB", "1GiB"]),
        ("swap", "stacks.*.sysctl.vm.swappiness", [1, 100]),
    ):
        text += f'{name} = {{ key = "{key}", values = {values} }}\n'
    study = read(tmp_path, text)

    assert len(study.stacks) == 8
    found = {
        (study.devices[stack.devices[0]].queue.scheduler, *stack.sysctl.vm.stated().values())
        for stack in study.stacks.values()
    }
    assert len(found) == 8
    assert study.describe().stacks["ext4-scheduler-none-dirty-1gib-swap-100"].sysctl == {
        "dirty_bytes": 1 << 30,
        "swappiness": 100,
    }


def test_mistakes_of_knobs_are_found_at_once(tmp_path: Path) -> None:
    wrong = TEXT.replace('"kyber"', '"cfq"').replace("dirty_ratio = 5", "dirty_ratio = 5, dirty_bytes = 1")
    wrong = wrong.replace("swappiness = 10", "swappiness = 201").replace("rotational", "rotation")

    found = mistakes(tmp_path, wrong)

    places = ("devices.disk0.queue.scheduler", "devices.disk0.queue.rotation", "study.sysctl.vm.swappiness")
    assert {*places} <= {*found}
    both = TEXT.replace("dirty_ratio = 5", 'dirty_ratio = 5, dirty_bytes = "1MiB"')
    assert ["same limit" in str(each) for each in mistakes(tmp_path, both).values()] == [True]


def test_flushes_that_a_knob_keeps_from_a_disk_are_a_risk(tmp_path: Path) -> None:
    study = read(tmp_path, TEXT.replace("rotational = false", 'write_cache = "write through"'))

    assert [risk for risk in study.power_risks("ext4", "load") if "write through" in risk]


def test_a_host_restores_what_a_killed_trial_set(tmp_path: Path) -> None:
    root, trial = tmp_path / "root", tmp_path / "strata-x"
    queue = root / "sys/devices/pci0000:00/ata1/block/sda/queue"
    was = {
        root / "proc/sys/kernel/random/boot_id": "this-boot",
        root / "proc/sys/vm/dirty_ratio": "20",
        root / "proc/sys/vm/dirty_bytes": "0",
        root / "proc/sys/vm/swappiness": "60",
        queue / "scheduler": "none [mq-deadline] kyber",
        queue / "rotational": "1",
    }
    for file, text in {**was, trial / BOOT_NAME: "this-boot"}.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "sys/class/block").mkdir(parents=True)
    (root / "sys/class/block/sda").symlink_to(queue.parent)
    plan, kernel, disks = plan_of(tmp_path), HostKernel(root), {"disk0": "/dev/sda"}
    assert len(parameters_set(plan, disks, kernel)) == 5

    note_parameters(plan, disks, trial, kernel)
    # As the kernel does: one limit clears the other.
    for file, text in zip([*was][1:], ("0", "16777216", "10", "none mq-deadline [kyber]", "0"), strict=True):
        file.write_text(text)
    said = set_back(trial, kernel)

    assert len(said) == 4
    back = [file.read_text().strip() for file in [*was][1:]]
    assert back == ["20", "16777216", "60", "mq-deadline", "1"]  # the ratio clears the size in a real kernel


def test_a_kernel_without_a_knob_says_so(tmp_path: Path) -> None:
    asks = TEXT.replace('"kyber"', '"bfq"').replace("rotational = false", "wbt_lat_usec = 0")
    plan = plan_of(tmp_path, asks)

    class Bare(HostKernel):
        def _can_load(self, module: str) -> bool:
            return False

    said = "; ".join(Bare(tmp_path / "nothing").unmet(plan.needs_outside))
    for name in ("wbt_lat_usec", "bfq", "vm.dirty_bytes"):
        assert name in said
