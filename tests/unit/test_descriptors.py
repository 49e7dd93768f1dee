# SPDX-License-Identifier: Apache-2.0
"""Few file descriptors: what reads results works with them, and a run says at its start what is missing."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from execution_factory import fake_runner, run_tiny
from results_factory import make_study

from strata.errors import ToolError
from strata.lab.limits import provide_descriptors


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """The limit of open files, as the process would be given it."""
    held = {"limit": (64, 64)}
    monkeypatch.setattr("strata.lab.limits.resource.getrlimit", lambda which: held["limit"])
    monkeypatch.setattr("strata.lab.limits.resource.setrlimit", lambda which, limit: held.update(limit=limit))
    return held


def test_a_run_that_may_open_too_few_files_says_so_before_it_begins(
    tmp_path: Path, limits: dict[str, tuple[int, int]]
) -> None:
    runner = fake_runner()

    with pytest.raises(ToolError, match="at most 64 files may be open") as caught:
        run_tiny(tmp_path, runner)

    assert caught.value.place == "ulimit -n"
    assert runner.begun == []


def test_a_low_limit_is_raised_as_far_as_a_run_needs_it_and_an_ample_one_is_left(
    limits: dict[str, tuple[int, int]],
) -> None:
    limits["limit"] = (64, 4096)
    provide_descriptors(2, 4)
    soft, hard = limits["limit"]
    assert 64 < soft < 1024
    assert hard == 4096

    limits["limit"] = (1024, resource.RLIM_INFINITY)
    provide_descriptors(2, 4)
    assert limits["limit"] == (1024, resource.RLIM_INFINITY)


@pytest.mark.parametrize(
    "words",
    [
        ("report", "{}", "--output", "{}.html"),
        ("export", "{}", "--output", "{}.exported"),
        ("compare", "{}:ext4", "{}:xfs"),
    ],
)
def test_what_reads_results_needs_no_more_than_64_files(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = make_study(tmp_path / "results", seeds=(1, 2)).path
    program = Path(sys.executable).with_name("strata")

    done = subprocess.run(
        [program, *(word.format(folder) for word in words)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
