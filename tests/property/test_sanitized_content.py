# SPDX-License-Identifier: Apache-2.0
"""The models and the content under AddressSanitizer and UBSan, on the streams of the tests of any of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples import SHARE
from strata.lab.model import LIBRARY_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
STREAMS = [
    *(HERE / f"test_any_{what}.py" for what in ("content", "controller", "rotating_drive", "network")),
    *sorted(HERE.glob("test_any_flash*.py")),
]
# Tests that compare results replay the same streams: slow, and a sanitizer finds nothing new in them.
LEFT_OUT = "lies_about or function_of_its_seed or gives_the_same_trace"


def preloaded(name: str) -> str:
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which a test uses a library with sanitizers."""
    if shutil.which("gcc") is None or not Path(preloaded("libasan.so")).is_absolute():
        pytest.skip("gcc with libasan is not installed")
    folder = tmp_path_factory.mktemp("sanitized")
    subprocess.run(
        ["make", "-C", ROOT / "kernel/disk", f"BUILD_DIR={folder}", "CC=gcc", "sanitized"],
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.so")
    return {
        **os.environ,
        LIBRARY_VARIABLE: str(built),
        "STRATA_EXAMPLES": str(SHARE / 2),
        "LD_PRELOAD": " ".join(map(preloaded, ("libasan.so", "libubsan.so"))),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter never frees all it has
    }


@pytest.mark.slow
def test_the_same_streams_pass_the_sanitizers(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", f"not ({LEFT_OUT})", *STREAMS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    # Skipped tests return 0, too.
    passed = set(re.findall(r"(\w+\.py)::\S+ PASSED", done.stdout))
    assert passed == {path.name for path in STREAMS}, done.stdout[-4000:]
