# SPDX-License-Identifier: Apache-2.0
"""The plans of each layer and workload as files, so that a change of what is executed is seen in review.

``pytest tests/golden --update-golden`` rewrites them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden_studies import CASES, compile_case

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_the_one_that_was_reviewed(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = FOLDER / f"{name}.json"
    compiled = compile_case(name, tmp_path).model_dump(mode="json")
    text = json.dumps(compiled, indent=2, ensure_ascii=False) + "\n"
    if request.config.getoption("--update-golden"):
        file.write_text(text)

    assert file.read_text() == text, "review the change, then run: pytest tests/golden --update-golden"


def test_no_golden_plan_is_left_over() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(CASES)
