# SPDX-License-Identifier: Apache-2.0
"""Runs the linters, cargo's tests and pytest at the same time.

Prints the ten slowest tests and, as the last line, the totals of both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Totals:
    """How many tests ended how."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def pytest_totals(line: str) -> Totals:
    """The totals in pytest's closing line, such as ``=== 1 failed, 3 passed in 2.10s ===``."""
    if not re.fullmatch(r"=+ .* in [\d.]+s(?: \([\d:]+\))? =+", line):
        return Totals()
    count = {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", line)}
    failed = count.get("failed", 0) + count.get("error", 0) + count.get("errors", 0)
    return Totals(count.get("passed", 0), failed, count.get("skipped", 0))


def cargo_totals(line: str) -> Totals:
    """The totals in the closing line of one of cargo's test programs."""
    found = re.match(r"test result: .* (\d+) passed; (\d+) failed; (\d+) ignored", line)
    return Totals(int(found[1]), int(found[2]), int(found[3])) if found else Totals()


class Slowest:
    """Takes pytest's list of the slowest tests out of its output."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._inside = False

    def takes(self, line: str) -> bool:
        """Whether the line belongs to the list, which is then kept."""
        if line.startswith("==="):
            self._inside = " slowest " in line
        elif self._inside and re.match(r"[\d.]+s ", line):
            self.lines.append(line)
        return self._inside


def run(
    argv: Sequence[str],
    totals_of: Callable[[str], Totals],
    say: Callable[[str], None],
    *,
    shown: str = "",
    **variables: str,
) -> Totals:
    """Run tests, and say each line of their output.

    A failure that no test counted (collection, compilation, a checker) counts as one.
    """
    totals, environment = Totals(), {**os.environ, **variables}
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            say(line)
            totals += totals_of(line.rstrip())
    if process.returncode != 0 and totals.failed == 0:
        say(f"{shown or argv[0]} ended with exit status {process.returncode}\n")
        totals += Totals(failed=1)
    return totals


class Beside(threading.Thread):
    """The linters, whose lines are printed at once, then cargo's tests, whose lines are kept.

    They need a CPU for less than two minutes, and much of that time cargo's tests only wait. Cargo's tests
    keep to a folder of their own, because the tests of hostile options watch the machine's other folders.
    """

    def __init__(self, temporary: str) -> None:
        super().__init__()
        self._temporary = temporary
        self.totals = Totals()
        self.lines: list[str] = []

    def run(self) -> None:
        """See `threading.Thread.run`."""
        self.totals += run(["scripts/lint"], lambda _: Totals(), said, shown="lint")
        words = "test --workspace --locked --quiet --no-fail-fast"
        cargo = [sys.executable, "scripts/cargo.py", *words.split()]
        self.totals += run(cargo, cargo_totals, self.lines.append, TMPDIR=self._temporary)


def said(line: str) -> None:
    """Print a whole line, whatever else prints some."""
    sys.stdout.write(line)
    sys.stdout.flush()


def compile_once() -> None:
    """In a fresh clone, compile the tests before the workers do it all at the same time.

    The workers show what cannot be collected.
    """
    if not (ROOT / "tests" / "__pycache__").exists():
        collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
        subprocess.run(collect, cwd=ROOT, capture_output=True, check=False)


def main() -> int:
    """Run everything; exit status 1 if a test failed or none ran."""
    # Each `strata` that a test starts would compile all modules anew, for as long as most commands take.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="strata-cargo-") as temporary:
        totals = run_all(temporary)
    return 1 if totals.failed or not totals.passed else 0


def run_all(temporary: str) -> Totals:
    """Run pytest, and beside it the linters and cargo's tests."""
    chosen = [] if "--slow" in sys.argv else ["-m", "not slow"]
    chosen += [word for word in sys.argv if word == "--record-durations"]
    if "--slow" in sys.argv:
        os.environ.setdefault("STRATA_EXAMPLES", "1")
    beside = Beside(temporary)
    beside.start()
    compile_once()
    # One worker for each CPU, and two that use the time in which they wait for a disk or a clock. A file is
    # never divided, so that what its tests share is made once; the files come in the order of
    # tests/durations.md, the longest first.
    workers = ["-n", str(len(os.sched_getaffinity(0)) + 2), "--dist", "loadfile", "--no-loadscope-reorder"]
    slowest = Slowest()
    pytest = [sys.executable, "-m", "pytest", "--durations=10", "--durations-min=0.1", *workers, *chosen]
    totals = run(pytest, pytest_totals, lambda line: None if slowest.takes(line) else said(line))
    beside.join()
    print(*beside.lines, sep="", end="")
    totals += beside.totals
    print("The slowest tests:", *map(str.rstrip, slowest.lines), totals, sep="\n", flush=True)
    return totals


if __name__ == "__main__":
    sys.exit(main())
