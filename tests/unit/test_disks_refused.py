# SPDX-License-Identifier: Apache-2.0
"""Dangerous set-ups: each is refused with a sentence that says why, and one that says what to do."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from disk_machine import BY_ID, GIB, Tree
from disk_setups import SDA, SDB, SETUPS, Setup, made
from execution_factory import TEXT, study_in

from strata.errors import DiagnosticsError
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.runners.disks import RealDisks, choose_disks

Chosen = Callable[..., RealDisks]
STUDY = (
    TEXT.replace('model = "wd-re4-500gb"', 'model = "wd-re4-500gb"\ncapacity = "4GiB"')
    .replace(
        "[stacks.ext4]", '[devices.disk1]\nmodel = "wd-re4-500gb"\ncapacity = "4GiB"\n\n[stacks.ext4]', 1
    )
    .replace("layers = [", 'devices = ["disk0"]\nlayers = [')
)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A machine with its root on vdz, and the disks sda and sdb, which are empty and not in use."""
    tree = Tree(tmp_path / "root")
    tree.disk("sda", "S1")
    tree.disk("sdb", "S2")
    return tree


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_in(tmp_path_factory.mktemp("study"), STUDY)


@pytest.fixture
def chosen(tree: Tree, study: Study) -> Chosen:
    def choose(
        *words: str, erase: tuple[str, ...] = (), holding: Mapping[str, str] | None = None
    ) -> RealDisks:
        folders = {"the root filesystem": "/", **(holding or {})}
        paths = {name: Path(folder) for name, folder in folders.items()}
        return choose_disks(study, words or (f"disk0={SDA}",), erase, paths, tree.machine)

    return choose


@pytest.fixture
def diagnostic(chosen: Chosen) -> Callable[..., str]:
    def refused(*words: str, **given: Any) -> str:
        with pytest.raises(DiagnosticsError) as mistakes:
            chosen(*words, **given)
        return str(mistakes.value)

    return refused


@pytest.mark.parametrize("setup", SETUPS, ids=[each[0] for each in SETUPS])
def test_a_dangerous_set_up_is_refused_with_the_reason_and_a_remedy(
    tree: Tree, diagnostic: Callable[..., str], setup: Setup
) -> None:
    _, prepare, path, cause, remedy = setup
    prepare(tree)

    said = diagnostic(f"disk0={path}")

    assert cause in said
    assert remedy in said


def test_an_empty_disk_that_nothing_uses_is_taken_with_its_own_size(tree: Tree, chosen: Chosen) -> None:
    disks = chosen()

    assert disks.chosen["disk0"].lost == ()
    assert disks.devices["disk0"].capacity_bytes == 100 * GIB


@pytest.mark.parametrize("what", ["the results", "the scratch folder", "Strata's cache"])
def test_a_disk_with_a_folder_of_the_run_is_refused(
    tree: Tree, diagnostic: Callable[..., str], what: str
) -> None:
    made(tree, "dm-0", tree.part("sda", 1), "LVM-abc", "vg-srv")
    tree.mount("/dev/dm-0", "/srv")

    said = diagnostic(f"disk0={SDA}", holding={what: "/srv/somewhere/deep"})

    assert f"sda holds {what} (/srv/somewhere/deep)" in said


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ((f"disk0={SDA}", f"disk1={SDA}"), "disk1 and disk0 are the same disk, sda"),
        ((f"disk0={SDA}", f"disk1={BY_ID}/wwn-0xS1"), "disk1 and disk0 are the same disk, sda"),
        ((f"disk0={SDA}-part1", f"disk1={SDA}-part2"), "disk1 and disk0 are the same disk, sda"),
        ((f"disk0={SDA}", f"disk0={SDB}"), "disk0 is given two disks"),
        ((f"disk7={SDA}",), 'the study has no device "disk7"'),
        (("disk0",), "this is not NAME=PATH"),
    ],
)
def test_each_device_of_the_study_gets_a_disk_of_its_own(
    tree: Tree, diagnostic: Callable[..., str], words: tuple[str, ...], cause: str
) -> None:
    tree.link("dev/disk/by-id/wwn-0xS1", "../../sda")
    tree.part("sda", 1)
    tree.part("sda", 2)

    assert cause in diagnostic(*words)


def ext4_superblock(blocks: int, free: int) -> bytes:
    block = bytearray(1024)
    struct.pack_into("<3I", block, 4, blocks, 0, free)
    struct.pack_into("<I", block, 24, 2)
    return bytes(block)


def home(tree: Tree) -> str:
    tree.has("sda", "gpt", uuid="T-1")
    name = tree.part("sda", 1)
    tree.has(name, "ext4", "home", "U-1")
    tree.bytes_at(name, 1024, ext4_superblock(2 << 18, 1 << 18))
    return '(gpt), UUID T-1; sda1: a filesystem ext4, "home", UUID U-1, 2 GiB, 1 GiB used'


def group_text(name: str, group_id: str) -> bytes:
    cut = [group_id[:6], *(group_id[at : at + 4] for at in range(6, 26, 4)), group_id[26:]]
    return f'{name} {{\nid = "{"-".join(cut)}"\nseqno = 1\n'.encode()


def volume(tree: Tree, group_id: str = "a" * 32) -> str:
    """A physical volume, as LVM writes it; its group once had another name and belonged to another one."""
    tree.has("sda", "LVM2_member", uuid="P-1")
    header = bytes(4) + b" LVM2 x[5A%r0N*>" + struct.pack("<I4Q", 1, 4096, 1 << 20, 1536, 300)
    tree.bytes_at("sda", 4096, header)
    tree.bytes_at("sda", 4096 + 512, group_text("vg_old", "o" * 32))
    tree.bytes_at("sda", 4096 + 1536, group_text("vg_mail", group_id))
    return "sda: a physical volume of LVM, of the group vg_mail, UUID P-1"


CONTENTS: dict[str, tuple[tuple[str | None, ...], str]] = {
    "md": (("linux_raid_member", "host:0", "A-1"), 'a member of an MD array, "host:0", UUID A-1'),
    "zfs": (("zfs_member", "tank", "7"), 'a disk of a ZFS pool, "tank"'),
    "bcache": (("bcache", None, "B-1"), "a device of bcache, UUID B-1"),
    "luks": (("crypto_LUKS", None, "L-1"), "an encrypted volume (LUKS), UUID L-1"),
    "swap": (("swap", None, "W-1"), "a swap area, UUID W-1"),
    "controller": (("ddf_raid_member",), "a member of a controller's array"),
    "multipath": (("mpath_member",), "a path of a multipath device"),
    "ntfs": (("ntfs", "Windows", "N-1"), 'a filesystem ntfs, "Windows"'),
    "unknown": (("newfs",), "a filesystem newfs"),
}


@pytest.mark.parametrize("name", ["partitions", "lvm", *CONTENTS])
def test_what_would_be_lost_is_named_and_the_serial_number_is_asked_for(
    tree: Tree, chosen: Chosen, diagnostic: Callable[..., str], name: str
) -> None:
    if name in CONTENTS:
        signature, lost = CONTENTS[name]
        tree.has("sda", *signature)
    else:
        lost = {"partitions": home, "lvm": volume}[name](tree)

    said = diagnostic()

    assert "it is not empty, and all of this would be lost: " in said
    assert lost in said
    assert "add --erase S1" in said
    assert [str(each) for each in chosen(erase=("S1",)).chosen["disk0"].lost]


def test_a_physical_volume_is_refused_while_its_group_is_in_use_also_if_no_active_volume_lies_on_it(
    tree: Tree, chosen: Chosen, diagnostic: Callable[..., str]
) -> None:
    volume(tree)
    made(tree, "dm-0", "sdb", "LVM-" + "o" * 32 + "v" * 32, "vg_old-home")
    assert chosen(erase=("S1",)).chosen

    made(tree, "dm-1", "sdb", "LVM-" + "a" * 32 + "v" * 32, "vg_mail-home")

    said = diagnostic(erase=("S1",))
    assert "sda belongs to the volume group vg_mail, which is in use" in said
    assert "vgreduce" in said


@pytest.mark.parametrize("serial", ["S", "s1", "S1 ", "S2", "S1-part1", "*"])
def test_a_serial_number_that_is_not_exactly_the_disks_erases_nothing(
    tree: Tree, diagnostic: Callable[..., str], serial: str
) -> None:
    tree.has("sda", "ext4")

    said = diagnostic(erase=(serial,))

    assert "none of the named disks has this serial number" in said
    assert "add --erase S1" in said


def btrfs_superblock(members: int) -> bytes:
    block = bytearray(4096)
    struct.pack_into("<QQ", block, 0x70, 20 * GIB, GIB)
    struct.pack_into("<Q", block, 0x88, members)
    return bytes(block)


def test_one_of_several_devices_of_a_btrfs_is_not_erased_unless_all_are(
    tree: Tree, chosen: Chosen, diagnostic: Callable[..., str]
) -> None:
    for name in ("sda", "sdb"):
        tree.has(name, "btrfs", "data", "U-1")
        tree.bytes_at(name, 0x10000, btrfs_superblock(2))

    said = diagnostic(erase=("S1",))

    assert "sda is one of 2 devices of the btrfs U-1" in said
    assert "btrfs device remove" in said
    both = chosen(f"disk0={SDA}", f"disk1={SDB}", erase=("S1", "S2"))
    assert set(both.chosen) == {"disk0", "disk1"}


def test_a_disk_that_cannot_be_read_is_not_taken_to_be_empty(
    tree: Tree, diagnostic: Callable[..., str]
) -> None:
    tree.unreadable.add("sda")

    said = diagnostic(erase=("S1",))

    assert "its content cannot be determined" in said


def test_all_reasons_against_all_disks_are_reported_at_once(
    tree: Tree, diagnostic: Callable[..., str]
) -> None:
    tree.mount("/dev/sda", "/srv")
    tree.swap("/dev/sdb")

    said = diagnostic(f"disk0={SDA}", "disk1=/dev/sdb")

    assert "3 mistakes" in said
    assert "is mounted at /srv" in said
    assert "is a swap area" in said
    assert "anew at each start" in said


def test_a_partition_is_erased_by_the_serial_number_of_its_disk_and_its_own(
    tree: Tree, chosen: Chosen, diagnostic: Callable[..., str]
) -> None:
    tree.has(tree.part("sda", 1), "ext4")

    said = diagnostic(f"disk0={SDA}-part1", erase=("S1",))

    assert "add --erase S1-part1" in said
    assert chosen(f"disk0={SDA}-part1", erase=("S1-part1",)).chosen["disk0"].disk.name == "sda1"


def test_a_disk_takes_the_place_of_the_model_with_its_sectors_and_with_what_the_study_asks_of_it(
    tree: Tree, study: Study, chosen: Chosen, tmp_path: Path
) -> None:
    tree.write("sys/block/sda/queue/logical_block_size", "4096\n")
    file = tmp_path / "asked.toml"
    file.write_text(STUDY.replace('capacity = "4GiB"', 'capacity = "4GiB"\nwrite_cache = false', 1))

    real = load_study(file, catalogue(), chosen().devices)

    assert real.stacks["ext4"].offers(real.capacities_bytes)[0].sector_bytes == 4096
    assert study.stacks["ext4"].offers(study.capacities_bytes)[0].sector_bytes == 512
    assert (real.devices["disk0"].name, real.devices["disk0"].device.kind) == ("disk0", "real")
    assert not real.devices["disk0"].device.write_cache  # which the host runner refuses
