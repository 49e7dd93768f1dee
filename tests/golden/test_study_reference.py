# SPDX-License-Identifier: Apache-2.0
"""The study file's page has every key as the code has it, and every layer and workload has a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generated import filled
from generated.study import key_tables, named_tables, with_key_tables
from strata.plan.catalogue import catalogue

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = REFERENCE / "study-file.md"
KEYS = re.compile(r"^<!-- generated: keys (\S+) -->$", re.MULTILINE)
UPDATE = "pytest tests/golden/test_study_reference.py --update-golden"


def test_the_study_files_page_has_every_key(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(with_key_tables(page))
        return
    assert page == with_key_tables(page), UPDATE


def test_every_layer_and_workload_has_a_page_with_its_keys(request: pytest.FixtureRequest) -> None:
    known = {"layer": [*catalogue().layers], "workload": [*catalogue().workloads]}
    tables = key_tables()
    placed = set(named_tables(PAGE.read_text()))
    for group, models in known.items():
        folder = REFERENCE / f"{group}s"
        if request.config.getoption("--update-golden"):
            for name in models:
                if not (page := folder / f"{name}.md").exists():
                    page.write_text(f"# `{name}`\n\n<!-- generated: {group} {name} -->\n")
        assert {page.stem for page in folder.glob("*.md")} == set(models), UPDATE
        for name in models:
            text = (folder / f"{name}.md").read_text()
            assert text.startswith(f"# `{name}`\n\n<!-- generated: {group} {name} -->\n")
            assert tables.get(f"{group}-{name}", "") in filled(text)
            placed |= {
                f"{group}-{name}",
                *re.findall(r"^<!-- generated: keys (\S+) -->$", text, re.MULTILINE),
            }

    assert not set(tables) - placed, "give the table a line `<!-- generated: keys NAME -->` in a page"
