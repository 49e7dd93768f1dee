# SPDX-License-Identifier: Apache-2.0
"""Faults of a disk as programs in the lab meet them, and a trace that agrees with the kernel's own counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from lab_factory import bare_task, carried_out, shell_step

from strata.devices.device import find_device
from strata.devices.faults import Corrupt, Fault, Gone, Slow, Unreadable
from strata.lab import Lab
from strata.lab.boot import Power
from strata.lab.disk_image import DiskImage, PowerCut
from strata.model.step import Step
from strata.results.events import Events
from strata.runners.lab import LabRunner
from strata.traces.kinds import OPS
from strata.traces.table import parse_records

CAPACITY_BYTES = 1 << 30
READ_SECTORS = "dd if=${disk0} bs=4k count=1 iflag=direct skip=%d 2>/dev/null | sha256sum"
DEVICE = find_device("generic-desktop-hdd")


FAULT = "echo %s >/sys/module/strata/parameters/fault"


def boot(
    lab: Lab, folder: Path, steps: tuple[Step, ...], *faults: Fault, trace: bool = False, disks: int = 1
) -> Events:
    device = replace(DEVICE, faults=faults)
    task = bare_task(
        folder / "attempt",
        device,
        steps,
        capacity_bytes=CAPACITY_BYTES,
        trace=trace,
        disks=disks,
        features=("md:raid10",) if disks > 1 else (),
    )
    return carried_out(lab, task)


def test_programs_meet_unreadable_corrupt_and_vanished_sectors(lab: Lab, tmp_path: Path) -> None:
    write = "dd if=/dev/urandom of=${disk0} bs=4k oflag=direct 2>/dev/null count=1 seek=%d"
    read = "dd if=${disk0} of=/dev/null bs=4k count=1 iflag=direct skip=%d"
    steps = (
        shell_step("fill", write % 5),
        shell_step("unreadable", read % 4, expect=(1,)),
        shell_step("rewrite", write % 4),
        shell_step("readable", read % 4),
        shell_step("sound", READ_SECTORS % 5),
        shell_step("wait", "sleep 10"),
        shell_step("corrupt", READ_SECTORS % 5),
        shell_step("repeat", READ_SECTORS % 5),
        shell_step("wait-again", "sleep 10"),
        shell_step("gone", read % 100, expect=(1,)),
    )
    events = boot(
        lab,
        tmp_path,
        steps,
        Unreadable(first_sector=32, sectors=8),
        Corrupt.model_validate({"first_sector": 40, "sectors": 8, "at": "5s"}),
        Gone.model_validate({"at": "15s"}),
    )
    assert "No data available" in events.output("unreadable", "stderr")
    assert events.output("sound") != events.output("corrupt")
    assert events.output("corrupt") == events.output("repeat")


def test_a_slow_disk_takes_longer_by_its_factor(lab: Lab, tmp_path: Path) -> None:
    read = (
        "fio --name=r --filename=${disk0} --rw=randread --bs=4k --direct=1 --number_ios=3000 --norandommap "
        "--randrepeat=1 --clocksource=clock_gettime --output-format=json"
    )
    steps = (shell_step("before", read), shell_step("wait", "sleep 100"), shell_step("slow", read))
    events = boot(lab, tmp_path, steps, Slow.model_validate({"from": "50s", "factor": 5}))
    means = [
        json.loads(events.output(step)[events.output(step).index("{") :])["jobs"][0]["read"]["lat_ns"]["mean"]
        for step in ("before", "slow")
    ]
    assert means[1] == pytest.approx(5 * means[0], rel=0.05)


def test_a_program_in_the_lab_damages_loses_and_gets_back_a_disk(lab: Lab, tmp_path: Path) -> None:
    write = "dd if=/dev/urandom of=${disk0} bs=4k oflag=direct 2>/dev/null count=1 seek=%d"
    read = "dd if=${disk0} of=/dev/null bs=4k count=1 iflag=direct skip=%d"
    steps = (
        shell_step("fill", write % 5),
        shell_step("sound", READ_SECTORS % 5),
        shell_step("damage", FAULT % "sda corrupt,8,2000000,0"),
        shell_step("corrupt", READ_SECTORS % 5),
        shell_step("untouched", read % 0),
        shell_step("lose", FAULT % "${disk0} gone,0"),
        shell_step("gone", read % 0, expect=(1,)),
        shell_step("return", FAULT % "${disk0} back"),
        shell_step("back", READ_SECTORS % 5),
        shell_step("spoil", FAULT % "sda unreadable,800,8"),
        shell_step("unreadable", read % 100, expect=(1,)),
        shell_step("slow-down", FAULT % "sda slow,0,0,300"),
        shell_step("slow", read % 200 + "; grep fault_ns /sys/block/sda/account"),
    )
    events = boot(lab, tmp_path, steps)
    assert events.output("sound") != events.output("corrupt")
    assert events.output("corrupt") == events.output("back")
    assert "No such device" in events.output("gone", "stderr")
    assert "No data available" in events.output("unreadable", "stderr")
    assert int(events.output("slow").split()[1]) > 0


def test_a_fault_that_makes_no_sense_is_refused_and_the_log_says_why(lab: Lab, tmp_path: Path) -> None:
    wrong = ("sdz gone,0", "sda back", "sda burns", "rootimage gone,0", "sda unreadable,99999999999,1")
    steps = (
        *(
            shell_step(f"wrong-{index}", FAULT % f'"{text}"', expect=(1, 2))
            for index, text in enumerate(wrong)
        ),
        shell_step("log", "dmesg | grep 'strata: fault' | sed 's/.*strata: //'"),
    )
    assert boot(lab, tmp_path, steps).output("log").splitlines() == [
        'fault "sdz gone,0": no such disk',
        'fault "sda back": the disk is not gone',
        'fault "sda burns": unknown kind of fault',
        'fault "rootimage gone,0": the root image has no faults',
        'fault "sda unreadable,99999999999,1": the disk has no such sectors',
    ]


def test_an_array_drops_a_disk_that_is_gone_and_is_rebuilt_when_it_is_back(lab: Lab, tmp_path: Path) -> None:
    disks = "${disk0} ${disk1} ${disk2} ${disk3}"
    state = "grep -o '\\[[U_]*\\]$$' /proc/mdstat"
    steps = (
        shell_step(
            "make",
            f"mdadm --create /dev/md0 --run --level=10 --raid-devices=4 --assume-clean --size=64M {disks}",
        ),
        shell_step("fill", "dd if=/dev/urandom of=/dev/md0 bs=1M count=32 oflag=direct 2>/dev/null"),
        shell_step("before", "sha256sum </dev/md0"),
        shell_step("lose", FAULT % "${disk1} gone,0"),
        shell_step("degraded", "echo 3 >/proc/sys/vm/drop_caches; sha256sum </dev/md0"),
        shell_step("write", "dd if=/dev/urandom of=/dev/md0 bs=1M count=1 oflag=direct 2>/dev/null"),
        shell_step("state", state),
        shell_step("return", FAULT % "${disk1} back"),
        shell_step(
            "add", "mdadm /dev/md0 --remove ${disk1}; mdadm /dev/md0 --add ${disk1}; mdadm --wait /dev/md0"
        ),
        shell_step("rebuilt", state),
    )
    events = boot(lab, tmp_path, steps, disks=4)
    assert events.output("before") == events.output("degraded")
    assert events.output("state").strip() == "[U_UU]"
    assert events.output("rebuilt").strip() == "[UUUU]"


def test_the_trace_holds_what_the_kernel_counts(lab: Lab, tmp_path: Path) -> None:
    steps = (
        shell_step("make", "mkfs.ext4 -q -F ${disk0}"),
        shell_step("mount", "mount --mkdir ${disk0} ${mount}"),
        shell_step(
            "work", "for i in 1 2 3 4 5; do dd if=/dev/urandom of=${mount}/$$i bs=1M count=4 conv=fsync; done"
        ),
        shell_step("unmount", "umount ${mount}"),
        shell_step("count", "cat /sys/block/sda/stat"),
    )
    events = boot(lab, tmp_path, steps, trace=True)
    counted = list(map(int, events.output("count").split()))
    path = tmp_path / "attempt" / "trace.bin"
    records = parse_records(path.read_bytes(), 2, path)
    assert set(records["disk"]) == {1}

    def count(op: str) -> tuple[int, int]:
        chosen = records[records["op"] == OPS.index(op)]
        return len(chosen), int(chosen["sectors"].sum())

    assert count("read") == (counted[0], counted[2])
    assert count("flush")[0] == counted[15]
    assert counted[15] >= 5
    # The kernel also counts a flush without data as a write of nothing.
    writes, sectors = count("write")
    assert sectors == counted[6]
    assert 0 <= counted[4] - writes <= counted[15]
    assert json.loads((tmp_path / "attempt" / "trace.json").read_text()) == {"left_out": 0}


def test_neither_a_trace_nor_a_cut_to_come_changes_what_happens(lab: Lab, tmp_path: Path) -> None:
    """The same events, byte for byte: bare, traced, and with all that a cut of the power needs being kept."""
    steps = (
        shell_step("make", "mkfs.btrfs -q -f ${disk0}"),
        shell_step("mount", "mount --mkdir ${disk0} ${mount}"),
        shell_step("work", "dd if=/dev/urandom of=${mount}/file bs=1M count=30 conv=fsync 2>/dev/null"),
        shell_step("unmount", "umount ${mount}; cat /sys/block/sda/stat /sys/block/sda/account"),
    )
    found = []
    with DiskImage(tmp_path) as image:
        kept = Power([image], PowerCut(at_ns=10**15, seed=5))
        for name, trace, power in (
            ("bare", False, Power()),
            ("traced", True, Power()),
            ("armed", False, kept),
        ):
            task = bare_task(tmp_path / name, DEVICE, steps, capacity_bytes=CAPACITY_BYTES, trace=trace)
            LabRunner(lab).boot(task, power)
            found.append((task.folder / "events.jsonl").read_bytes())
    assert b'"outcome":"ok","failed_step":null' in found[0]
    assert found[0] == found[1] == found[2]
