# SPDX-License-Identifier: Apache-2.0
"""`strata list disks`: the facts about a machine's disks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from disk_machine import BY_ID, GIB, Tree

from command_line import refusal, shown, shown_json
from strata.cli import parameters
from strata.disks.health import health
from strata.disks.inventory import Disk, disks


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    tree = Tree(tmp_path / "root")
    monkeypatch.setattr("strata.actions.disks.Machine", lambda: tree.machine)
    return tree


def only(tree: Tree, name: str) -> Disk:
    return next(each for each in disks(tree.machine) if each.name == name)


def as_json(*words: str) -> Any:
    return shown_json("list", "disks", *words)["disks"]


def test_a_sata_disk_is_known_by_what_sysfs_and_udev_say_of_it(tree: Tree) -> None:
    files = {
        "device/model": "WDC WD5003ABYX-0\n",
        "device/rev": "1S02\n",
        "device/wwid": "naa.50014ee2b1\n",
        "queue/rotational": "1\n",
        "queue/logical_block_size": "512\n",
        "queue/physical_block_size": "4096\n",
        "queue/write_cache": "write back\n",
        "queue/scheduler": "none [mq-deadline] kyber\n",
        "queue/discard_max_bytes": "0\n",
    }
    tree.disk("sda", size=500 * GIB)
    for file, text in files.items():
        tree.write(f"sys/block/sda/{file}", text)
    (tree.root / "sys/block/sda/device/vpd_pg80").write_bytes(b"\x00\x80\x00\x14     WD-WMAYP0000001")
    tree.link("dev/disk/by-id/ata-WDC_WD5003ABYX-0_WD-WMAYP0000001", "../../sda")
    tree.link("dev/disk/by-id/wwn-0x50014ee2b1", "../../sda")

    disk = only(tree, "sda")

    assert (disk.model, disk.serial, disk.firmware) == ("WDC WD5003ABYX-0", "WD-WMAYP0000001", "1S02")
    assert disk.path == f"{BY_ID}/ata-WDC_WD5003ABYX-0_WD-WMAYP0000001"
    assert (disk.rotational, disk.physical_sector_bytes, disk.write_cache) == (True, 4096, "write back")
    assert (disk.scheduler, disk.discard_bytes_max, disk.size_bytes) == ("mq-deadline", 0, 500 * GIB)


def test_what_sysfs_lacks_is_taken_from_udev(tree: Tree) -> None:
    tree.disk("sdb")
    number = only(tree, "sdb").number
    tree.write(f"run/udev/data/b{number}", "E:ID_SERIAL_SHORT=Z1D5\nE:ID_MODEL=ST2000\nE:ID_WWN=0x5000\n")

    disk = only(tree, "sdb")

    assert (disk.serial, disk.model, disk.wwn) == ("Z1D5", "ST2000", "0x5000")


def test_what_a_disk_says_of_itself_cannot_steer_a_terminal(tree: Tree) -> None:
    tree.disk("sda", "S1", device__model="evil\x1b[2J\u202emodel")

    assert only(tree, "sda").model == "evil\ufffd[2J\ufffdmodel"


def test_a_disk_in_use_is_not_opened(tree: Tree) -> None:
    tree.disk("sdb", "S2").mount("/dev/sdb", "/srv")

    [found] = as_json("sdb")

    assert found["content"] is None
    assert not [
        words for words in tree.called if words[0] == "wipefs" and words[-1] in ("/dev/sdb", "/dev/vdz")
    ]


def test_the_list_says_of_each_disk_whether_a_study_could_have_it(tree: Tree) -> None:
    tree.disk("sda", "S1").has("sda", "ext4", "home")
    tree.disk("sdb", "S2").swap("/dev/sdb")

    found = {each["disk"]["name"]: each for each in as_json()}

    assert "can be used with --erase S1, which destroys what is on it" in shown("list", "disks")
    assert "serial      S1" in shown("list", "disks", "sda")
    for name in ("sda", "/dev/sda", f"{BY_ID}/ata-DISK_S1", "S1"):
        assert as_json(name) == [found["sda"]]
    assert "sda" in str(refusal("list", "disks", "sdaa").remedy)

    assert found["sda"]["disk"]["path"] == f"{BY_ID}/ata-DISK_S1"
    assert (found["sda"]["reasons"], found["sda"]["erase"]) == ([], "S1")
    assert found["sda"]["content"][0]["label"] == "home"
    assert (found["sdb"]["erase"], found["sdb"]["uses"][0]["kind"]) == (None, "swap")
    assert found["sdb"]["reasons"][0]["remedy"].startswith("switch it off")


SMART = {
    "smart_status": {"passed": False},
    "temperature": {"current": 41},
    "power_on_time": {"hours": 40210},
    "ata_smart_attributes": {"table": [{"id": 5, "raw": {"value": 8}}, {"id": 197, "raw": {"value": 3}}]},
}


def test_the_health_of_a_disk_is_what_smartctl_reads(tree: Tree) -> None:
    tree.disk("sda", "S1").programs["smartctl"] = json.dumps(SMART)

    found = health(tree.machine, only(tree, "sda"))

    assert str(found) == "FAILING, 11 bad sectors or media errors, 41 °C, 40210 h in use"
    assert "health: FAILING" in shown("list", "disks")


def test_without_smartctl_an_nvme_disk_is_asked_by_nvme_cli(tree: Tree) -> None:
    log = {"critical_warning": 0, "temperature": 310, "percent_used": 3, "media_errors": "0"}
    tree.disk("nvme0n1", "S1").programs["nvme"] = json.dumps(log)

    assert str(health(tree.machine, only(tree, "nvme0n1"))) == "passed, 3 % worn, 37 °C"
    del tree.programs["nvme"]
    assert "smartmontools or nvme-cli" in str(health(tree.machine, only(tree, "nvme0n1")))


@pytest.mark.parametrize(
    "said", ["", "[]", "not JSON", '{"smart_status": 3, "ata_smart_attributes": {"table": [1]}}']
)
def test_a_disk_that_gives_no_account_is_no_error(tree: Tree, said: str) -> None:
    tree.disk("sda", "S1").programs["smartctl"] = said

    assert str(health(tree.machine, only(tree, "sda"))) == "the disk gave no account"


def test_a_shell_completes_disks_by_id_once_the_device_is_typed(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.disk("sda", "S1").part("sda", 1)
    folder = tree.root / "dev/disk/by-id"
    monkeypatch.setattr(parameters, "_BY_ID", folder)

    assert parameters.complete_disk("disk0") == []
    assert parameters.complete_disk(f"disk0={folder}/ata") == [
        f"disk0={folder}/ata-DISK_ROOT",
        f"disk0={folder}/ata-DISK_S1",
    ]


def test_many_mounts_and_processes_of_one_disk_are_one_reason_each(tree: Tree) -> None:
    tree.disk("sda", "S1")
    for number in range(9):
        tree.mount("/dev/sda", f"/srv/{number}").opened(str(700 + number), "/dev/sda", "qemu")

    uses = [each["clause"] for each in as_json("sda")[0]["uses"]]

    assert uses == [
        "is mounted at /srv/0, /srv/1, /srv/2 and 6 more",
        "is open in the processes 700 (qemu), 701 (qemu), 702 (qemu) and 6 more",
    ]
