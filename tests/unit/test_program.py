# SPDX-License-Identifier: Apache-2.0
"""The program `strata` as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_ctrl_c_while_the_program_loads_ends_it_without_a_traceback(tmp_path: Path) -> None:
    # Found before the real one: Ctrl-C is pressed when the first library is loaded.
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")

    done = subprocess.run(
        [sys.executable, "-c", "from strata.program import main; main()", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (130, "strata: interrupted\n")
