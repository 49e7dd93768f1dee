# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Typed, checked, shown, shown_json
from strata.lab.disk import driver_config
from strata.lab.model import ModelledDisk
from strata.plan.catalogue import catalogue
from strata.reading.claims import SUFFIX
from strata.reading.load import load_study
from study_texts import EXT4_AND_XFS, HEAD, SOUND, disk, fio, mistakes, read

STUDIES = sorted(
    each for each in (Path(__file__).parents[2] / "studies").rglob("*.toml") if not each.name.endswith(SUFFIX)
)

HDD = "generic-nearline-hdd"  # with sectors of 4 KiB


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(SOUND)
    return path


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.stem)
def test_each_bundled_study_is_sound_and_opens_with_its_question(study: Path) -> None:
    assert "no mistakes" in shown("check", study)
    assert study.read_text().splitlines()[1].rstrip().endswith("?")


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.stem)
def test_the_lab_has_each_disk_of_a_bundled_study(study: Path) -> None:
    for used in load_study(study, catalogue()).devices.values():
        assert ModelledDisk(
            driver_config(used.device, name="sda", backing_fd=0, capacity_bytes=used.capacity_bytes)
        )


def test_the_used_part_of_a_disk_has_whole_physical_sectors(tmp_path: Path) -> None:
    def study(capacity: str) -> str:
        stacks = EXT4_AND_XFS.replace(disk("disk0"), disk("disk0", HDD, capacity))
        return HEAD + stacks + fio("mix")

    assert read(tmp_path, study("500GB")).devices["disk0"].capacity_bytes == 500_000_000_000 // 4096 * 4096
    assert "less than a sector" in mistakes(tmp_path, study("512B"))["devices.disk0.capacity"]


def test_a_program_without_a_price_is_named_unless_computing_is_free(file: Path) -> None:
    in_machine = SOUND.replace('{ layer = "ext4"', '{ layer = "vm" }, { layer = "ext4"', 1)
    in_machine += '[workloads.own]\nworkload = "command"\nload = ["tac /etc/passwd"]\n'
    found = {}

    for cpu in ("generic-server-2024", "free"):
        file.write_text(in_machine.replace("[study]", f'[study]\ncpu = "{cpu}"'))
        warnings = checked(file)["warnings"]
        found[cpu] = [each["text"] for each in warnings if each["code"] == "default-price"]

    [text] = found["generic-server-2024"]
    assert "default price: tac in btrfs.own and ext4.own" in text
    assert ";" not in text  # no other program
    assert found["free"] == []


def test_the_programs_that_hold_a_container_are_not_named(file: Path) -> None:
    plain = '{ layer = "ext4", mount = ["noatime"] }'
    for layers in (f'{plain}, {{ layer = "nspawn" }}', '{ layer = "incus" }'):
        file.write_text(SOUND.replace(plain, layers, 1))
        found = checked(file)

        assert layers in file.read_text()
        assert [each for each in found["warnings"] if each["code"] == "default-price"] == []


def test_mistakes_end_with_exit_code_2_and_no_traceback(file: Path, typed: Typed) -> None:
    file.write_text(SOUND.replace("mount = [", "mout = [").replace("scale = 10", "scale = 0"))

    code, _, said = typed("check", file)
    (mistake, _) = shown_json("check", file, exit_code=2)["mistakes"][str(file)]

    assert code == 2
    assert "Traceback" not in said
    assert all(
        words in said for words in ("2 mistakes", "stacks.ext4.layers[0].mout", "workloads.oltp.scale")
    )
    assert (mistake["key"], mistake["line"]) == ("stacks.ext4.layers[0].mout", 14)
    assert mistake["remedy"] == 'did you mean "mount"?'


def test_a_plan_shows_every_step_with_what_it_destroys_and_undoes(file: Path) -> None:
    said = shown("plan", file, "--trial", "ext4.oltp.s1")

    for expected in ("mkfs.ext4 -q", "destroys disk0", "umount ${mount}", "as postgres", "SIGINT", "PGHOST="):
        assert expected in said
    listed = shown("plan", file, "--list").split()
    assert [plan["trial"]["id"] for plan in shown_json("plan", file)["plans"]] == listed


def test_the_design_is_printed_before_anything_is_run(file: Path) -> None:
    design = 'order = "abba"\norder_seed = 7\nprecision = "5%"\n\n[devices.disk0]'
    file.write_text(SOUND.replace("[devices.disk0]", design, 1))

    described = checked(file)["declared"]

    assert "mirrored in the next seed's, drawn from the study's name and order_seed 7" in shown("plan", file)
    assert "up to 20 seeds a workload, until ratios are within ±5 %" in shown("check", file)
    assert (described["order"], described["order_seed"], described["precision"]) == ("abba", 7, 0.05)


def test_a_folder_of_studies_is_checked_as_a_whole(tmp_path: Path) -> None:
    sound = Path("studies/quickstart.toml").read_text()
    (tmp_path / "a.toml").write_text(sound)
    (tmp_path / "b.toml").write_text(sound.replace("seeds", "sedes").replace("duration", "durration"))
    (tmp_path / "c.toml").write_text("[study")
    (tmp_path / "notes.md").write_text("no study")

    said = shown("check", tmp_path, exit_code=2)
    found = shown_json("check", tmp_path, exit_code=2)

    lines = said.splitlines()
    assert lines[0].startswith(
        f"{tmp_path}/a.toml: no mistakes; 3 stacks × 2 workloads × 6 seeds = 36 trials"
    )
    assert "sedes" in said
    assert "durration" in said
    assert any(line.startswith(f"{tmp_path}/c.toml") for line in lines)
    assert [*found["studies"]] == [f"{tmp_path}/a.toml"]
    assert [*found["mistakes"]] == [f"{tmp_path}/b.toml", f"{tmp_path}/c.toml"]
    assert len(found["mistakes"][f"{tmp_path}/b.toml"]) >= 2
