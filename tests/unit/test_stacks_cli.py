# SPDX-License-Identifier: Apache-2.0
"""`strata plan --stacks`: what a study's stacks are made of, drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from command_line import shown, shown_json
from study_texts import SOUND


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "study.toml"
    file.write_text(SOUND)
    return file


def test_each_level_stands_above_what_it_stands_on_with_its_keys_and_size(study: Path) -> None:
    said = shown("plan", study, "--stacks", "--stack", "ext4").splitlines()
    drawn, facts = said[: said.index("")], said[said.index("") + 1 :]

    assert facts[0] == "What the stacks give and cost"
    assert "466 GiB" in facts[2]
    assert drawn[0] == "ext4"
    assert "ext4  mount noatime  filesystem, 466 GiB" in drawn[1]
    assert "disk0  wd-re4-500gb, 466 GiB" in drawn[2]
    assert len(drawn) == 3


def test_a_drawing_is_an_svg_that_names_levels_and_disks(study: Path, tmp_path: Path) -> None:
    shown("plan", study, "--stacks", "--svg", tmp_path / "drawn")

    root = ET.fromstring((tmp_path / "drawn" / "btrfs.svg").read_text())
    texts = [text.strip() for text in root.itertext() if text.strip()]
    assert {"btrfs", "disk0", "disk1"} <= set(texts)
    assert any("data raid1" in text for text in texts)


def test_shared_layers_and_each_tenants_own_are_distinguished(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    own = '{ layer = "guest" }, { layer = "ext4" }'
    lvm = f'[stacks.ext4]\ndevices = ["disk0"]\nlayers = [{{ layer = "lvm" }}]\neach = [{own}]\n'
    begin, end = SOUND.index("[stacks.ext4]"), SOUND.index("[stacks.btrfs]")
    file.write_text(SOUND[:begin] + lvm + SOUND[end:])

    only = ("plan", file, "--stack", "ext4")
    lines = [line.strip(" │└─├") for line in shown(*only).partition("\n\n")[0].splitlines()]
    levels = shown_json(*only)["stacks"][0]["levels"]
    shown(*only, "--svg", tmp_path)

    assert [line.partition("  ")[0].partition(" (")[0] for line in lines] == [
        *("ext4", "each tenant has of its own", "ext4", "guest", "shared by all tenants", "lvm", "disk0"),
    ]
    assert [(level["name"], level["for_each_tenant"]) for level in levels] == [
        *(("ext4", True), ("guest", True), ("lvm", False)),
    ]
    assert "shared by all tenants" in (tmp_path / "ext4.svg").read_text()
