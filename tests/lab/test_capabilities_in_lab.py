# SPDX-License-Identifier: Apache-2.0
"""`strata capabilities` on real stacks: what is known of them is found out, and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from lab_factory import surveyed

from strata.lab import Lab
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.results.capabilities import Capability
from strata.runners.lab import LabRunner
from study_texts import HEAD, SSD, disk, fio

DISKS = disk("disk0", SSD, "1GiB") + disk("disk1", SSD, "1GiB") + disk("ssd", SSD, "256MiB")
STACKS = """\
[stacks.btrfs]
devices = ["disk0", "disk1"]
layers = [{ layer = "btrfs", data = "raid1" }]
[stacks.cached]
devices = ["disk0", "disk1"]
layers = [{ layer = "md", level = 1 }, { layer = "dm-writecache", cache = "ssd" }, { layer = "ext4" }]
[stacks.special]
devices = ["disk0", "disk1"]
layers = [{ layer = "zpool", vdev = "mirror", special = ["ssd"] }, { layer = "zfs" }]
[stacks.md-lvm-ext4]
devices = ["disk0", "disk1"]
layers = [{ layer = "md", level = 1 }, { layer = "lvm", size = "512MiB" }, { layer = "ext4" }]
"""
PROBES = {
    "btrfs": ["corruption-healed", "disk-loss", "restore-older", "snapshot"],
    "md-lvm-ext4": ["corruption-healed", "disk-loss", "grow"],
}


Probed = Callable[[Sequence[str], Sequence[str]], Sequence[Capability]]


def all_of(probed: Probed) -> dict[tuple[str, str], Capability]:
    cells = (probed([stack], probes) for stack, probes in PROBES.items())
    return {(cell.stack, cell.probe): cell for row in cells for cell in row}


@pytest.fixture(scope="module")
def probed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Probed:
    """The cells of probes on stacks, whose findings are kept in one folder."""
    folder = tmp_path_factory.mktemp("capabilities")
    (folder / "study.toml").write_text(HEAD + DISKS + STACKS + fio("mix"))
    study = load_study(folder / "study.toml", catalogue())
    return lambda stacks, probes: surveyed(lab, study, folder, probes, stacks).cells


@pytest.fixture(scope="module")
def cells(probed: Probed) -> dict[tuple[str, str], Capability]:
    return all_of(probed)


def test_a_mirror_with_checksums_heals_the_copy_that_is_read_and_one_without_returns_it(
    cells: dict[tuple[str, str], Capability],
) -> None:
    assert cells["btrfs", "corruption-healed"].verdict == "yes"
    assert cells["md-lvm-ext4", "corruption-healed"].verdict == "no"
    assert "as if it were good" in cells["md-lvm-ext4", "corruption-healed"].note


def test_both_go_on_without_a_disk(cells: dict[tuple[str, str], Capability]) -> None:
    assert [cells[stack, "disk-loss"].verdict for stack in ("btrfs", "md-lvm-ext4")] == ["yes", "yes"]


@pytest.mark.slow
def test_a_mirror_does_not_survive_the_loss_of_the_one_ssd_beside_it(probed: Probed) -> None:
    cells = probed(["cached", "special"], ["disk-loss"])

    assert [cell.verdict for cell in cells] == ["no", "no"]
    assert [cell.note.partition(":")[0] for cell in cells] == ["ssd", "ssd"]


def test_snapshots_are_taken_and_gone_back_to_and_cost_little(
    cells: dict[tuple[str, str], Capability],
) -> None:
    taken = cells["btrfs", "snapshot"]

    assert taken.verdict == cells["btrfs", "restore-older"].verdict == "yes"
    assert 0 < (taken.duration_ns or 0) < 10**9
    assert 0 < (taken.write_bytes or 0) < 4 << 20
    assert all("btrfs subvolume" in command for command in taken.commands)


def test_a_volume_and_the_filesystem_on_it_grow_while_in_use(
    cells: dict[tuple[str, str], Capability],
) -> None:
    assert cells["md-lvm-ext4", "grow"].verdict == "yes", cells["md-lvm-ext4", "grow"].note


def test_what_was_found_is_kept(
    probed: Probed, cells: dict[tuple[str, str], Capability], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LabRunner, "run", lambda *_: pytest.fail("it booted again"))

    assert all_of(probed) == cells
