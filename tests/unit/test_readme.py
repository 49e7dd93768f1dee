# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

from strata.plan.catalogue import catalogue
from strata.spec.load import load_study

README = Path(__file__).parents[2] / "README.md"


BLOCKS = re.findall(r"^```toml\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
REST = """
[study]
name = "readme"
question = "Is it sound?"
seeds = [1]
[workloads.mix]
workload = "fio"
preset = "random-mix-4k"
duration = "10s"
"""
DISKS = "".join(f'[devices.disk{number}]\nmodel = "wd-re4-500gb"\n' for number in range(4))


def test_the_example_study_of_the_readme_is_sound(tmp_path: Path) -> None:
    (whole,) = (block for block in BLOCKS if "[study]" in block)
    file = tmp_path / "study.toml"
    file.write_text(whole)

    assert load_study(file, catalogue()).trial_count > 1


def test_the_example_stack_of_the_readme_is_sound(tmp_path: Path) -> None:
    (part,) = (block for block in BLOCKS if "[study]" not in block)
    file = tmp_path / "study.toml"
    file.write_text(REST + DISKS + part)

    assert len(load_study(file, catalogue()).stacks["guest"].layers) == 7
