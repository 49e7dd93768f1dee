# SPDX-License-Identifier: Apache-2.0
"""House style as failing tests: what STYLE.md asks for and a program can check."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import durations

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 600  # one public idea a file
FUNCTION_LINES_MAX = 60  # "about 60"
PICTURE_BYTES_MAX = 300_000  # of the documentation's, and of what a page should look like
COMPLEXITY_MAX = 15  # radon's, which counts comprehensions and boolean operators too, as ruff does not
SOURCE = {".py", ".rs", ".c", ".h"}
# Functions that are still above, with what they may have: a list that only grows shorter.
TANGLED = {
    "bench/processor.py: main": 16,
    "src/strata/advice/advise.py: advise": 37,
    "src/strata/advice/settling.py: _seeds": 18,
    "src/strata/advice/settling.py: settlings": 19,
    "src/strata/cli/claims.py: claims": 18,
    "src/strata/cli/explain.py: explain": 19,
    "src/strata/cli/list/disks.py: _print_all": 22,
    "src/strata/cli/plan.py: plan": 18,
    "src/strata/devices/device.py: load_device": 16,
    "src/strata/execution/estimate.py: _cell": 32,
    "src/strata/execution/power.py: cut_and_recover": 19,
    "src/strata/execution/validity_checks.py: checks_of": 17,
    "src/strata/experiment/experiment.py: answer": 20,
    "src/strata/plan/placement.py: workload_steps": 16,
    "src/strata/reading/claims.py: _misnamed": 16,
    "src/strata/reading/load.py: study": 20,
    "src/strata/reading/load_stack.py: filesystem": 18,
    "src/strata/reading/load_stack.py: fits_together": 17,
    "src/strata/reading/matrix_reading.py: _read_devices": 16,
    "src/strata/report/advice_text.py: _sure": 20,
    "src/strata/report/answer.py: overall": 22,
    "src/strata/report/costs.py: _volumes_cost": 16,
    "src/strata/report/methods.py: reproduce": 16,
    "src/strata/report/stack_facts.py: _facts": 25,
    "src/strata/report/stack_facts.py: facts_table": 18,
    "src/strata/report/survival.py: _survived": 21,
    "src/strata/report/svg.py: log_ticks": 18,
    "src/strata/report/workload_section.py: _blocks": 18,
    "src/strata/results/store.py: read_trial": 16,
    "src/strata/results/failure_reasons.py: event_failures": 20,
    "src/strata/rules/redundancy.py: _shared_disks": 16,
    "src/strata/statistics/effects.py: interactions": 16,
    "src/strata/statistics/survival_pair.py: _probe_rows": 17,
    "tests/hostile_options.py: study_text": 16,
    "tests/lab/in_lab/files.py: operation": 16,
    "tests/lab/in_lab/files.py: verify_worker": 16,
    "tests/lab/layer_lives.py: broken": 16,
    "tests/lab/signal_storm.py: strike": 19,
    "tests/unit/test_docs.py: unknown": 23,
}


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


FILES = tracked_files()
SOURCES = [path for path in FILES if path.suffix in SOURCE]
PYTHON = [path for path in SOURCES if path.suffix == ".py"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_file_can_be_read_in_one_sitting() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}

    long = {name: count for name, count in lines.items() if count > FILE_LINES_MAX}
    assert long == {}, "split them at their second idea"


def test_every_function_holds_one_idea() -> None:
    long = [
        f"{name_of(path)}:{node.lineno}: {node.name}"
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert long == []


def test_every_function_can_be_followed() -> None:
    visitors = pytest.importorskip("radon.visitors")
    found = {}
    for path in PYTHON:
        seen = visitors.ComplexityVisitor.from_ast(ast.parse(path.read_text()), no_assert=True)
        for each in (*seen.functions, *(method for kind in seen.classes for method in kind.methods)):
            name = f"{name_of(path)}: {each.name}"
            if each.complexity > TANGLED.get(name, COMPLEXITY_MAX):
                found[name] = each.complexity

    assert found == {}, "divide them, or say in a table what they say in branches"


def test_a_public_classs_name_is_its_own() -> None:
    names = Counter(
        node.name
        for path in ROOT.glob("src/**/*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert {name for name, count in names.items() if count > 1} == set()


def test_the_slowest_tests_say_what_they_are_worth() -> None:
    assert [test for test, why in durations.reasons().items() if not why] == []


def test_every_source_file_states_its_licence() -> None:
    unstated = []
    for path in SOURCES:
        licence = "GPL-2.0" if path.is_relative_to(ROOT / "kernel") else "Apache-2.0"
        if f"SPDX-License-Identifier: {licence}" not in "\n".join(path.read_text().splitlines()[:3]):
            unstated.append(name_of(path))

    assert unstated == []


def test_commands_print_text_of_others_through_what_makes_it_fit_for_a_terminal() -> None:
    unfit = re.compile(r"\bConsole\(|\bjson\.dumps\(")

    found = [name_of(path) for path in ROOT.glob("src/strata/cli/**/*.py") if unfit.search(path.read_text())]

    assert found == [], "use strata.console.Terminal and strata.printable.json_text"


def test_only_the_judge_puts_a_verdict_together() -> None:
    home = "strata.statistics.comparison"
    makers = set()
    for path in ROOT.glob("src/strata/**/*.py"):
        tree = ast.parse(path.read_text())
        knows = path.match("statistics/comparison.py") or any(
            isinstance(node, ast.ImportFrom) and node.module == home for node in ast.walk(tree)
        )
        for function in ast.walk(tree) if knows else ():
            if isinstance(function, ast.FunctionDef):
                calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
                if any(ast.unparse(call.func).rpartition(".")[2] == "Comparison" for call in calls):
                    makers.add((name_of(path), function.name))

    assert makers == {("src/strata/statistics/comparison.py", "judge")}, (
        "compare cells by StudyResults.compared"
    )


def test_nothing_is_left_for_later_in_the_sources() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b")
    here = Path(__file__).resolve()

    found = [name_of(path) for path in SOURCES if path != here and marks.search(path.read_text())]

    assert found == []


def test_the_repository_holds_no_binaries_but_small_pictures() -> None:
    binaries = [path for path in FILES if b"\0" in path.read_bytes()[:8192]]
    pictures = {
        path
        for path in binaries
        if path.suffix == ".png"
        and {"images", "golden"} & set(path.parts)
        and path.stat().st_size < PICTURE_BYTES_MAX
    }

    assert [name_of(path) for path in binaries if path not in pictures] == []
