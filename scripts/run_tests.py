# SPDX-License-Identifier: Apache-2.0
"""Runs pytest and cargo's tests and prints the totals of both as the last line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import platformdirs

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Totals:
    passed: int
    failed: int
    skipped: int

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def python_tests(*, slow: bool) -> Totals:
    """Run pytest; one that could not even collect its tests counts as one failed test."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "junit.xml"
        argv = [sys.executable, "-m", "pytest", f"--junitxml={record}", *([] if slow else ["-m", "not slow"])]
        status = subprocess.run(argv, cwd=ROOT, check=False).returncode
        totals = Totals(0, 0, 0)
        if record.exists():
            for suite in ET.parse(record).getroot().iter("testsuite"):
                count = {
                    name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
                }
                failed = count["failures"] + count["errors"]
                totals += Totals(count["tests"] - failed - count["skipped"], failed, count["skipped"])
    if status != 0 and totals.failed == 0:
        totals += Totals(0, 1, 0)
    return totals


def rust_tests() -> Totals:
    """Run cargo's tests; a compilation that fails counts as one failed test."""
    cache = Path(os.environ.get("STRATA_CACHE") or platformdirs.user_cache_dir("strata"))
    environment = {"CARGO_TARGET_DIR": str(cache / "cargo"), **os.environ}
    argv = ["cargo", "test", "--workspace", "--locked", "--quiet", "--no-fail-fast"]
    totals = Totals(0, 0, 0)
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := re.match(r"test result: .* (\d+) passed; (\d+) failed; (\d+) ignored", line):
                totals += Totals(int(found[1]), int(found[2]), int(found[3]))
    if process.returncode != 0 and totals.failed == 0:
        totals += Totals(0, 1, 0)
    return totals


def main() -> int:
    totals = python_tests(slow="--slow" in sys.argv) + rust_tests()
    print(totals, flush=True)
    return 1 if totals.failed or not totals.passed else 0


if __name__ == "__main__":
    sys.exit(main())
