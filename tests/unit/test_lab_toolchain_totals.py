# SPDX-License-Identifier: Apache-2.0
"""`make test` ends with the slowest tests and the totals of pytest and cargo, which compiles only changes."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run_tests() -> ModuleType:
    return script("run_tests")


def test_pytests_closing_line_is_counted(run_tests: ModuleType) -> None:
    for line, totals in (
        ("============ 3 failed, 107 passed, 2 skipped, 5 deselected in 12.01s ============", (107, 3, 2)),
        ("========== 812 passed, 1 warning, 1 error in 83.20s (0:01:23) ==========", (812, 1, 0)),
        ("================ no tests ran in 0.10s ================", (0, 0, 0)),
        ("=========================== short test summary info ===========================", (0, 0, 0)),
        ("tests/unit/test_a.py::test_3_passed_in_2s PASSED", (0, 0, 0)),
    ):
        assert run_tests.pytest_totals(line) == run_tests.Totals(*totals)
    ended = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out"
    assert run_tests.cargo_totals(ended) == run_tests.Totals(3, 2, 1)


def test_what_cannot_even_start_counts_as_failed(run_tests: ModuleType) -> None:
    broken = [sys.executable, "-c", "import sys; print('error: could not compile'); sys.exit(101)"]
    lines = list[str]()

    totals = run_tests.run(broken, run_tests.cargo_totals, lines.append, shown="cargo")

    assert totals == run_tests.Totals(failed=1)
    assert lines == ["error: could not compile\n", "cargo ended with exit status 101\n"]


def test_the_copy_of_the_crates_keeps_the_times_of_files_that_have_not_changed(tmp_path: Path) -> None:
    cargo = script("cargo")
    same, changed, gone, new = (
        Path("crates") / name for name in ("same.rs", "changed.rs", "gone.rs", "a/new.rs")
    )
    cargo.update(tmp_path, {same: b"1", changed: b"2", gone: b"3"})
    for path in (same, changed):
        os.utime(tmp_path / path, (1, 1))

    cargo.update(tmp_path, {same: b"1", changed: b"4", new: b"5"})

    assert cargo.contents(tmp_path) == {same: b"1", changed: b"4", new: b"5"}
    assert (tmp_path / same).stat().st_mtime == 1
    assert (tmp_path / changed).stat().st_mtime > 1
