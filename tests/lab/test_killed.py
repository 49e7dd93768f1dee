# SPDX-License-Identifier: Apache-2.0
"""Whenever `strata run` is killed, the same command completes the study as if nothing had happened."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_factory import (
    STRATA,
    copy,
    environment,
    head,
    labs_of,
    left_in,
    outlived,
    public_folder,
    shared_lab,
    stacks,
    strata,
)

from strata.lab import Lab

STUDY = head("killed", [1, 2]) + stacks("ext4", "xfs") + copy("32MiB")
# Labs notice their starter's death at once, but the kernel takes a moment to take them down.
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Ground:
    """The folder of all runs, and the name of one test's cache in it: what it leaves disturbs no other."""

    path: Path
    name: str

    @property
    def cache(self) -> Path:
        return self.path / f"cache-{self.name}"

    @property
    def env(self) -> dict[str, str]:
        return environment(self.cache, self.path / "shared")

    def words(self, results: str) -> list[str]:
        return ["run", str(self.path / "study.toml"), "--results", str(self.path / results)]

    def start(self, results: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*STRATA, *self.words(results)],
            env=self.env,
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def place(lab: Lab) -> Iterator[Path]:
    with public_folder() as path:
        (path / "study.toml").write_text(STUDY)
        shared_lab(lab, path / "shared")
        yield path


@pytest.fixture
def ground(place: Path, request: pytest.FixtureRequest) -> Ground:
    return Ground(place, request.node.name)


def comes_true(condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def unfinished(results: Path) -> list[Path]:
    attempts = results.glob("records/*/attempt-*")
    parts = [path for path in results.rglob("*") if path.name.endswith(".part")]
    return parts + [path for path in attempts if not (path / "result.json").is_file()]


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)]
)
def test_asked_to_stop_it_leaves_nothing_and_keeps_what_is_finished(
    ground: Ground, number: signal.Signals
) -> None:
    process = ground.start(f"stopped-{number}")
    assert comes_true(lambda: labs_of(ground.cache) != [])

    process.send_signal(number)

    assert process.wait(30) == 128 + number
    assert outlived(ground.cache) == []
    assert left_in(ground.cache) == []
    assert unfinished(ground.path / f"stopped-{number}") == []


def test_clean_removes_what_a_killed_run_left(ground: Ground) -> None:
    process = ground.start("cleaned")
    assert comes_true(lambda: labs_of(ground.cache) != [])
    process.kill()
    process.wait()
    assert comes_true(lambda: labs_of(ground.cache) == []), outlived(ground.cache)
    assert left_in(ground.cache) != []

    done = strata("lab", "clean", str(ground.path / "cleaned"), env=ground.env, cwd=ground.path)

    assert "deleted" in done.stdout
    assert left_in(ground.cache) == []
    assert unfinished(ground.path / "cleaned") == []
