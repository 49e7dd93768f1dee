# SPDX-License-Identifier: Apache-2.0
"""The plans of each layer and workload as text, so that a change of what is executed is seen in review.

A step is a line: phase, id, command, then every other field that differs from its default. A line that
several plans share stands in the first of them alone; ``as in layer-ext4`` names the steps that stand there.
Of the fields beside the steps only what differs from the first plan's is shown.
The JSON of a plan follows from these fields; its form is tested where it is read (crates/agent,
docs/reference/plan-format.md). ``pytest tests/golden --update-golden`` rewrites the files.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from for_all import for_all
from golden_studies import CASES, LAYER_CASES, compile_case
from layer_cases import own_layer
from strata.model.step import Step
from strata.plan.model import Plan

FOLDER = Path(__file__).parent / "plans"
# Tenants' plans are long; the simplest and the two largest stand for all.
TENANTS = ("workload-tenants", "workload-tenants-images", "workload-tenants-lvm")
REVIEWED = [name for name in CASES if not name.startswith("workload-tenants") or name in TENANTS]


class Plans:
    """The plans of all cases as text, in their order: a step's line stands in the first plan that has it."""

    def __init__(self, folder: Path) -> None:
        self.plans = {name: compile_case(name, folder) for name in REVIEWED}
        self._first: dict[str, str] = {}
        for name, plan in self.plans.items():
            for step in plan.steps:
                self._first.setdefault(_step_line(step), name)
        self._usual = dict(_header(self.plans[REVIEWED[0]]))

    def text(self, name: str) -> str:
        usual = {} if name == REVIEWED[0] else self._usual
        header = dict(_header(self.plans[name]))
        lines = [f"{key}: {value}" for key, value in header.items() if value != usual.get(key)]
        steps = [(self._first[_step_line(step)], step) for step in self.plans[name].steps]
        for is_new, run in groupby(steps, key=lambda each: each[0] == name):
            if is_new:
                lines += [_step_line(step) for _, step in run]
                continue
            known = groupby(run, key=lambda each: each[0])
            shared = (f"{first}: {' '.join(step.id for _, step in each)}" for first, each in known)
            lines.append(f"as in {'; '.join(shared)}")
        return "\n".join(lines) + "\n"


def _header(plan: Plan) -> Iterator[tuple[str, str]]:
    """The fields beside the steps; disks and usual variables, which follow from the devices, are left out."""
    fields = plan.model_dump(mode="json", exclude={"steps"})
    implied = {*(each["name"] for each in fields["devices"]), "mount", "mounts", "scratch", "stack"}
    fields["variables"] = [each for each in fields["variables"] if each not in implied]
    assert fields["monitors"].pop("disks") == [each["name"] for each in fields["devices"]]
    for key, value in fields.items():
        yield key, _compact(value)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Plans:
    return Plans(tmp_path_factory.mktemp("plans"))


def _step_line(step: Step) -> str:
    fields = step.model_dump(mode="json", exclude_defaults=True)
    phase, name, title, argv = (fields.pop(key) for key in ("phase", "id", "title", "argv"))
    more = f"  {_compact(fields)}" if fields else ""
    return f"{phase} {name} ({title}): {shlex.join(argv)}{more}".replace("\n", "\\n")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@for_all("name", REVIEWED)
def test_the_plan_is_the_one_that_was_reviewed(
    name: str, plans: Plans, request: pytest.FixtureRequest
) -> None:
    file, text = FOLDER / f"{name}.txt", plans.text(name)
    if request.config.getoption("--update-golden"):
        file.write_text(text)

    assert file.read_text() == text, "review the change, then run: pytest tests/golden --update-golden"


def test_no_golden_plan_is_left_over() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(REVIEWED)


def test_what_a_layer_gives_and_does_in_use_is_what_was_reviewed(request: pytest.FixtureRequest) -> None:
    """What each case provides and its abilities; a step that several cases share stands in the first."""
    lines: dict[str, None] = {}
    for case in LAYER_CASES:
        own = own_layer(case)
        lower = own.context.provided
        given, lost = own.layer.provided(lower), own.layer.losses_survived(lower)
        lines[f"{case}: {given!r}, survives {lost} losses; {' '.join(own.abilities())}"] = None
        lines |= dict.fromkeys(f"  {_step_line(step)}" for each in own.abilities().values() for step in each)
        lines |= dict.fromkeys(f"  the path of {name}: {path}" for name, path in own.outcomes().items())
    file, text = FOLDER.with_name("abilities.txt"), "".join(f"{line}\n" for line in lines)
    if request.config.getoption("--update-golden"):
        file.write_text(text)

    assert file.read_text() == text, "review the change, then run: pytest tests/golden --update-golden"
