# SPDX-License-Identifier: Apache-2.0
"""The study file's page has every key as the code has it, and a section for every layer and workload."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generated.study import key_tables, named_tables, with_key_tables
from strata.plan.catalogue import catalogue

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "study-file.md"


def test_the_study_files_page_has_every_key(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(with_key_tables(page))
        return
    assert page == with_key_tables(page), "pytest tests/golden/test_study_reference.py --update-golden"


def test_every_table_has_a_place_and_every_layer_and_workload_a_section() -> None:
    page = PAGE.read_text()
    sections = set(re.findall(r"^### `(.*)`$", page, re.MULTILINE))

    assert sorted(named_tables(page)) == sorted(key_tables()), (
        "write the lines `<!-- keys: NAME -->` and `<!-- end of keys -->` where the table belongs, then run: "
        "pytest tests/golden/test_study_reference.py --update-golden"
    )
    assert sections == {*catalogue().layers, *catalogue().workloads}
