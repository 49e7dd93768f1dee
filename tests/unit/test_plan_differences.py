# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from results_factory import plan_of

from strata.model.step import Step
from strata.plan.model import Plan
from strata.results.differences import changed_text, plan_changes

PLAN = plan_of("ext4", "oltp", 1)
MAKE, LOAD = PLAN.steps


def changes(tmp_path: Path, *plans: Plan, renamed: bool = False) -> list[tuple[str, str | None, str | None]]:
    paths = [tmp_path / f"{number}.json" for number in range(2)]
    for path, plan in zip(paths, plans, strict=True):
        path.write_bytes(plan.to_json())
    return [*plan_changes(*paths, renamed=renamed)]


def with_steps(*steps: Step, **fields: Any) -> Plan:
    return PLAN.model_copy(update={"steps": steps, **fields})


def make(*options: str) -> Step:
    return MAKE.model_copy(update={"argv": ("mkfs.ext4", *options, "${disk0}")})


def test_only_the_changed_words_of_a_command_line_are_shown(tmp_path: Path) -> None:
    for before, after, was, becomes in (
        (make("-q"), make("-q", "-m", "0"), None, "-m 0"),
        (make("-q", "-m", "5"), make("-q", "-m", "0"), "-m 5", "-m 0"),
        (make("-q", "--size=1"), make("-q", "--size=2"), "--size=1", "--size=2"),
        (make("-q", "-a", "1", "-b", "1"), make("-q", "-a", "2", "-b", "2"), "-a 1 … -b 1", "-a 2 … -b 2"),
    ):
        found = changes(tmp_path, with_steps(before, LOAD), with_steps(after, LOAD))
        assert found == [("step mkfs", was, becomes)]


def test_an_added_or_removed_step_is_shown_with_its_command(tmp_path: Path) -> None:
    assert changes(tmp_path, PLAN, with_steps(LOAD)) == [("step mkfs", "mkfs.ext4 '${disk0}'", None)]
    assert changes(tmp_path, with_steps(LOAD), PLAN) == [("step mkfs", None, "mkfs.ext4 '${disk0}'")]


def test_the_rest_of_a_plan_is_compared_key_by_key(tmp_path: Path) -> None:
    change: Callable[[Plan], Plan]
    expected: list[tuple[str, str, str]]
    for change, expected in (
        (lambda plan: plan, []),
        (
            lambda plan: plan.model_copy(update={"memory_bytes": 1 << 29}),
            [("memory_bytes", str(PLAN.memory_bytes), str(1 << 29))],
        ),
        (
            lambda plan: plan.model_copy(update={"environment": {"LC_ALL": "C"}}),
            [("environment.LC_ALL", "C.UTF-8", "C")],
        ),
        # Titles and a plan's trial are no differences: other places state them.
        (lambda _: with_steps(MAKE.model_copy(update={"title": "Another title"}), LOAD), []),
        (lambda _: PLAN.model_copy(update={"trial": plan_of("xfs", "oltp", 1).trial}), []),
    ):
        assert changes(tmp_path, PLAN, change(PLAN)) == expected


def test_identifiers_say_nothing_where_the_names_that_they_come_from_differ(tmp_path: Path) -> None:
    one = with_steps(make("-U", "71e116a3-c79c-491e-a0dc-be84a379cfc2"), LOAD)
    two = with_steps(make("-U", "00ca237a-e900-415a-b701-50c0ffee5000"), LOAD)

    assert changes(tmp_path, one, two, renamed=True) == []
    assert len(changes(tmp_path, one, two)) == 1


def test_a_damaged_plan_is_reported_and_two_damaged_plans_have_no_differences(tmp_path: Path) -> None:
    for damage in ("", "[", "[]", '{"steps": 1}', '{"steps": [{"id": 3}]}', '{"steps": ["x"]}'):
        good, bad = tmp_path / "good.json", tmp_path / "bad.json"
        good.write_bytes(PLAN.to_json())
        bad.write_text(damage)
        assert [*plan_changes(good, bad, renamed=False)] == [
            ("the plan", "is there", "is missing or damaged")
        ]
        assert [*plan_changes(bad, good, renamed=False)] == [
            ("the plan", "is missing or damaged", "is there")
        ]
        assert [*plan_changes(bad, tmp_path / "none.json", renamed=False)] == []


def test_long_texts_are_cut_to_where_they_differ() -> None:
    was, becomes = changed_text("a" * 500 + "x" + "b" * 500, "a" * 500 + "y" + "b" * 500)

    assert was is not None
    assert becomes is not None
    assert len(was) <= 201
    assert ("x" in was, "y" in becomes) == (True, True)
