# SPDX-License-Identifier: Apache-2.0
"""Partitions in the lab: a sound table at whole MiB, whose entries are the devices that layers stand on."""

from __future__ import annotations

from pathlib import Path

from lab_factory import records, run_text, shell_step
from layer_lives import LOAD, MODEL, carry_out

from golden_studies import study_of
from strata.lab import Lab
from strata.plan.compile import compile_stack
from strata.runners.lab import LabRunner
from strata.units import MIB
from study_texts import read, stack_text


def test_the_table_holds_the_partitions_that_the_pool_uses(lab: Lab, tmp_path: Path) -> None:
    study = study_of("layer-partition-roles", tmp_path, model=MODEL, capacity="4GiB")
    plan = compile_stack(study, "stack", 1)
    looks = (
        shell_step("verify", "sfdisk --verify ${disk2}"),
        shell_step("table", "sfdisk --quiet --list --output Name,Start,Sectors ${disk2}"),
        shell_step("size", "blockdev --getsize64 ${disk2.special}"),
        shell_step("pool", "zpool list -v -H -P -p"),
    )
    plan = plan.model_copy(update={"steps": (*plan.steps, *looks)})
    events = carry_out(lab, tmp_path, [("first", plan), ("second", plan)], study)
    first, second = events["first"], events["second"]

    assert first.end is not None
    assert first.end.outcome == "ok", first.end
    assert "No errors detected" in first.output("verify")
    _, *rows = (row.split() for row in first.output("table").splitlines())
    assert [row[0] for row in rows] == ["esp", "log", "rest", "special", "cache"]
    assert all(int(number) % (MIB // 512) == 0 for row in rows for number in row[1:])
    special = next(row for row in rows if row[0] == "special")
    assert int(special[1]) * 512 == 1024 * MIB
    assert int(first.output("size")) == int(special[2]) * 512 == 1024 * MIB
    assert "disk2-part-special" in first.output("pool")
    assert first.sha256 == second.sha256


def test_every_filesystem_of_a_stack_is_mounted_on_its_own_partition(lab: Lab, tmp_path: Path) -> None:
    partition = '{ layer = "partition", disk = "disk1", sizes = { database = "rest", wal = "512MiB" } }'
    text = stack_text(f'{partition}, {{ layer = "ext4" }}', 2, LOAD, model=MODEL, capacity="1GiB")
    for name, layer in (("database", "xfs"), ("wal", "ext4")):
        text += f'[stacks.stack.filesystems.{name}]\ndevices = ["disk1.{name}"]\n'
        text += f'layers = [{{ layer = "{layer}" }}]\nmount = "/{name}"\n'
    study = read(tmp_path, text)
    plan = compile_stack(study, "stack", 1)
    look = shell_step("mounts", "findmnt --noheadings --raw --output TARGET,FSTYPE --real")
    plan = plan.model_copy(update={"steps": (*plan.steps, look)})
    events = carry_out(lab, tmp_path, [("first", plan), ("second", plan)], study)

    assert events["first"].end is not None
    assert events["first"].end.outcome == "ok", events["first"].end
    mounted = dict(line.split() for line in events["first"].output("mounts").splitlines())
    own = {target: kind for target, kind in mounted.items() if target.startswith("/mnt")}
    assert own == {"/mnt/stack": "ext4", "/mnt/lower/at/database": "xfs", "/mnt/lower/at/wal": "ext4"}
    assert events["first"].sha256 == events["second"].sha256


def test_the_disks_account_is_divided_by_filesystem(lab: Lab, tmp_path: Path) -> None:
    partition = '{ layer = "partition", disk = "disk1", sizes = { data = "512MiB", log = "rest" } }'
    text = stack_text(f'{partition}, {{ layer = "ext4" }}', 2, LOAD, model=MODEL, capacity="1GiB")
    for name in ("data", "log"):
        text += f'[stacks.stack.filesystems.{name}]\ndevices = ["disk1.{name}"]\n'
        text += f'layers = [{{ layer = "ext4" }}]\nmount = "/{name}"\n'
    text += '[workloads.copy]\nworkload = "command"\nplace = "data"\n'
    text += "load = ['dd if=/dev/zero of=${data}/a bs=1M count=8 conv=fsync']\n"
    run_text(text, tmp_path, LabRunner(lab), jobs=1)
    record = records(tmp_path / "results")["stack.copy.s1"]

    assert record.validity.valid, record.validity.reasons
    used = record.volumes
    found = {name: each.named("stack") for name, each in used.items() if each.filesystem}
    assert found == {"disk0": "stack", "disk1.data": "data", "disk1.log": "log"}
    data, log, disk = used["disk1.data"].account, used["disk1.log"].account, record.disks["disk1"]
    assert data["write_bytes"] >= 8 * MIB > log["write_bytes"]
    assert data["flushes"] > 0
    for key in ("writes", "write_bytes", "flushes"):
        assert disk[key] == sum(each.account[key] for each in used.values() if each.disk == "disk1")
    assert record.filesystems["disk1.data"]["write_bytes"] == 8 * MIB
