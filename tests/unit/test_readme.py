# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

from strata.plan.catalogue import catalogue
from strata.spec.load import load_study

README = Path(__file__).parents[2] / "README.md"


def test_the_example_study_of_the_readme_is_sound(tmp_path: Path) -> None:
    found = re.search(r"^```toml\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    file = tmp_path / "study.toml"
    file.write_text(found[1])

    assert load_study(file, catalogue()).trial_count > 1
