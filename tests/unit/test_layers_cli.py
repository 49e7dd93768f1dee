# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from command_line import shown, shown_json
from strata.diagnostics.mistakes import keys_of
from strata.model.layer import Family
from strata.plan.catalogue import catalogue
from strata.plan.sheets import grouped, layer_sheet

LAYERS = list(catalogue().layers)
README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_list_has_one_line_for_each_layer_below_its_family() -> None:
    lines = shown("list", "layers", width=80).splitlines()

    families = [line.strip() for line in lines if not line.startswith(" ")]
    assert families[: len(get_args(Family))] == list(get_args(Family))
    assert sorted(line.split()[0] for line in lines if line.startswith(" ")) == LAYERS


def test_the_readme_groups_the_layers_in_the_same_way() -> None:
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", README.read_text(), re.MULTILINE)
    listed = {family: sorted(re.findall(r"`([a-z0-9-]+)`", names)) for family, names in rows}

    for family, sheets in grouped(map(layer_sheet, LAYERS)).items():
        assert listed[family] == [sheet.name for sheet in sheets]


def test_a_layer_is_shown_with_its_interfaces_and_every_key() -> None:
    for name in LAYERS:
        said = " ".join(shown("list", "layers", name, width=200).split())
        layer = catalogue().layers[name]
        assert f"stands on {layer.requires} gives a" in said
        for key in [*keys_of(layer), *layer.allowed]:
            assert key == "layer" or key in said
    sheets = shown_json("list", "layers")["layers"]
    assert [each["name"] for each in sheets] == LAYERS
    for each in sheets:
        keys = {*keys_of(catalogue().layers[each["name"]])} - {"layer"}
        assert {key["name"] for key in each["keys"]} == keys
