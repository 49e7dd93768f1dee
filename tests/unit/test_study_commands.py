# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from strata.cli import app
from strata.plan.model import Plan
from study_texts import SOUND

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))


def strata(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from strata.program import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_each_bundled_study_is_sound_and_opens_with_its_question(file: Path) -> None:
    shown = CliRunner().invoke(app, ["check", str(file)])

    assert shown.exit_code == 0
    assert "no mistakes" in shown.stdout
    assert file.read_text().splitlines()[1].rstrip().endswith("?")


def test_a_sound_study_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SOUND)

    shown = CliRunner().invoke(app, ["check", str(file)])

    assert "2 stacks × 2 workloads × 2 seeds = 8 trials" in shown.stdout


def test_a_program_without_a_price_is_named_unless_computing_is_free(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    on_image = SOUND.replace(
        '{ layer = "ext4"', '{ layer = "xfs" }, { layer = "qcow2" }, { layer = "ext4"', 1
    )
    found = {}

    for cpu in ("generic-server-2024", "free"):
        file.write_text(on_image.replace("[study]", f'[study]\ncpu = "{cpu}"'))
        shown = CliRunner().invoke(app, ["check", str(file), "--json"])
        warnings = json.loads(shown.stdout)["warnings"]
        found[cpu] = [each["text"] for each in warnings if each["code"] == "default-price"]

    assert [text.split()[0] for text in found["generic-server-2024"]] == ["qemu-storage-daemon"]
    assert "ext4." in found["generic-server-2024"][0]
    assert found["free"] == []


def test_mistakes_end_with_exit_code_2_and_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SOUND.replace("mount = [", "mout = [").replace("scale = 10", "scale = 0"))

    shown = strata("check", str(file))

    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr
    assert "2 mistakes" in shown.stderr
    assert "stacks.ext4.layers[0].mout" in shown.stderr
    assert "workloads.oltp.scale" in shown.stderr


def test_mistakes_as_json_have_key_line_cause_and_remedy(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SOUND.replace("mount = [", "mout = ["))

    shown = CliRunner().invoke(app, ["check", str(file), "--json"])

    assert shown.exit_code == 2
    (mistake,) = json.loads(shown.stdout)["mistakes"]
    assert mistake["key"] == "stacks.ext4.layers[0].mout"
    assert mistake["line"] == 14
    assert mistake["remedy"] == 'did you mean "mount"?'


def test_a_missing_file_is_two_lines(tmp_path: Path) -> None:
    shown = strata("check", str(tmp_path / "gone.toml"))

    assert shown.returncode == 2
    assert len(shown.stderr.splitlines()) == 2


def test_a_plan_shows_every_step_with_what_it_destroys_and_undoes(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SOUND)

    shown = CliRunner().invoke(app, ["plan", str(file), "--trial", "ext4.oltp.s1"]).stdout

    for expected in ("mkfs.ext4 -q", "destroys disk0", "umount ${mount}", "as postgres", "SIGINT", "PGHOST="):
        assert expected in shown


def test_the_json_of_a_trial_is_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SOUND)

    one = CliRunner().invoke(app, ["plan", str(file), "--trial", "btrfs.mix.s2", "--json"]).stdout
    listed = CliRunner().invoke(app, ["plan", str(file), "--list"]).stdout.split()
    every = CliRunner().invoke(app, ["plan", str(file), "--json"]).stdout

    assert Plan.model_validate_json(one).trial.id == "btrfs.mix.s2"
    assert [plan["trial"]["id"] for plan in json.loads(every)] == listed


def test_a_list_is_of_the_trial_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SOUND)

    assert CliRunner().invoke(
        app, ["plan", str(file), "--trial", "ext4.oltp.s1", "--list"]
    ).stdout.split() == ["ext4.oltp.s1"]
    wrong = strata("plan", str(file), "--trial", "nope", "--list")
    assert wrong.returncode == 2
    assert 'there is no trial "nope"' in wrong.stderr
    assert wrong.stdout == ""


def test_the_design_is_said_before_anything_is_run(tmp_path: Path) -> None:
    text = SOUND.replace(
        "[devices.disk0]", 'order = "abba"\norder_seed = 7\nprecision = "5%"\n\n[devices.disk0]', 1
    )
    file = tmp_path / "study.toml"
    file.write_text(text)

    planned = CliRunner().invoke(app, ["plan", str(file)]).stdout
    checked = CliRunner().invoke(app, ["check", str(file)]).stdout
    described = json.loads(CliRunner().invoke(app, ["check", str(file), "--json"]).stdout)["study"]

    assert "mirrored in the next seed's, drawn from the study's name and order_seed 7" in planned
    assert "up to 20 seeds a workload, until ratios are within ±5 %" in checked
    assert (described["order"], described["order_seed"], described["precision"]) == ("abba", 7, 0.05)


def test_a_folder_of_studies_is_checked_as_a_whole(tmp_path: Path) -> None:
    sound = Path("studies/quickstart.toml").read_text()
    (tmp_path / "a.toml").write_text(sound)
    (tmp_path / "b.toml").write_text(sound.replace("seeds", "sedes").replace("duration", "durration"))
    (tmp_path / "c.toml").write_text("[study")
    (tmp_path / "notes.md").write_text("no study")

    shown = CliRunner().invoke(app, ["check", str(tmp_path)])
    plain = json.loads(CliRunner().invoke(app, ["check", str(tmp_path), "--json"]).stdout)

    assert shown.exit_code == 2
    lines = shown.stdout.splitlines()
    assert lines[0].startswith(
        f"{tmp_path}/a.toml: no mistakes; 3 stacks × 2 workloads × 6 seeds = 36 trials"
    )
    assert "sedes" in shown.stdout
    assert "durration" in shown.stdout
    assert any(line.startswith(f"{tmp_path}/c.toml") for line in lines)
    assert [each["valid"] for each in plain] == [True, False, False]
    assert len(plain[1]["mistakes"]) >= 2
