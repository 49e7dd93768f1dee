# SPDX-License-Identifier: Apache-2.0
"""The models and the medium under AddressSanitizer and UBSan, on the streams of test_any_medium.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strata.lab.model import LIBRARY_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
STREAMS = "test_every_request or test_a_cut_leaves or test_what_no_mark or test_bad_sectors"


def preloaded(name: str) -> str:
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_the_same_streams_pass_the_sanitizers(tmp_path: Path) -> None:
    if shutil.which("gcc") is None or not Path(preloaded("libasan.so")).is_absolute():
        pytest.skip("gcc with libasan is not installed")
    flags = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    subprocess.run(
        ["make", "-C", "kernel/disk", f"BUILD_DIR={tmp_path}", f"CFLAGS={flags}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    environment = {
        **os.environ,
        LIBRARY_VARIABLE: str(tmp_path / "libstratadisk.so"),
        "LD_PRELOAD": " ".join(map(preloaded, ("libasan.so", "libubsan.so"))),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter never frees all it has
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/property/test_any_medium.py", "-k", STREAMS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "4 passed" in done.stdout
