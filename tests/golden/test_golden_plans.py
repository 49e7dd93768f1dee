# SPDX-License-Identifier: Apache-2.0
"""The plans of each layer and workload as text, so that a change of what is executed is seen in review.

A step is a line: phase, id, command, then every other field that differs from its default. Lines that a plan
shares with the plainest one, ext4's, stand there alone; ``as in layer-ext4`` names the steps among them.
The JSON of a plan follows from these fields; its form is tested where it is read (crates/agent,
docs/reference/plan-format.md). ``pytest tests/golden --update-golden`` rewrites the files.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from golden_studies import CASES, compile_case
from strata.plan.model import Plan
from strata.spec.step import Step

FOLDER = Path(__file__).parent / "plans"
# Tenants' plans are long; the simplest and the two largest stand for all.
TENANTS = ("workload-tenants", "workload-tenants-images", "workload-tenants-lvm")
REVIEWED = [name for name in CASES if not name.startswith("workload-tenants") or name in TENANTS]


PLAINEST = "layer-ext4"


def plan_text(plan: Plan, plainest: Collection[str] = ()) -> str:
    lines = [line for line in _header(plan) if line not in plainest]
    for shared, steps in groupby(plan.steps, key=lambda step: _step_line(step) in plainest):
        if shared:
            lines.append(f"as in {PLAINEST}: {' '.join(step.id for step in steps)}")
        else:
            lines += map(_step_line, steps)
    return "\n".join(lines) + "\n"


def _header(plan: Plan) -> Iterator[str]:
    for key, value in plan.model_dump(mode="json", exclude={"steps"}).items():
        yield f"{key}: {_compact(value)}"


@pytest.fixture(scope="module")
def plainest(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return plan_text(compile_case(PLAINEST, tmp_path_factory.mktemp("plainest"))).splitlines()


def _step_line(step: Step) -> str:
    fields = step.model_dump(mode="json", exclude_defaults=True)
    phase, name, title, argv = (fields.pop(key) for key in ("phase", "id", "title", "argv"))
    more = f"  {_compact(fields)}" if fields else ""
    return f"{phase} {name} ({title}): {shlex.join(argv)}{more}".replace("\n", "\\n")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("name", REVIEWED)
def test_the_plan_is_the_one_that_was_reviewed(
    name: str, plainest: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = FOLDER / f"{name}.txt"
    text = plan_text(compile_case(name, tmp_path), () if name == PLAINEST else plainest)
    if request.config.getoption("--update-golden"):
        file.write_text(text)

    assert file.read_text() == text, "review the change, then run: pytest tests/golden --update-golden"


def test_no_golden_plan_is_left_over() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(REVIEWED)
