# SPDX-License-Identifier: Apache-2.0
"""The command line in this process, so that a test can patch and limit what it meets."""

from __future__ import annotations

import sys

import pytest

from strata.cli import main


def strata(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str, str]:
    """Run a command; returns its exit code, its output and its errors."""
    monkeypatch.setattr(sys, "argv", ["strata", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err
