# SPDX-License-Identifier: Apache-2.0
"""The command line in this process, so that a test can patch and limit what it meets."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from strata.cli import app, main
from strata.errors import StrataError
from strata.printable import JSON_FORMAT

Typed = Callable[..., tuple[int, str, str]]
"""Runs a command; returns its exit code, its output and its errors."""


def strata(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str, str]:
    """Run a command; returns its exit code, its output and its errors."""
    monkeypatch.setattr(sys, "argv", ["strata", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def shown(*words: object, width: int = 160, exit_code: int = 0) -> str:
    """The output of a command in a terminal of this width; it must end with the exit code."""
    environment = {"COLUMNS": str(width)}
    done = CliRunner().invoke(app, list(map(str, words)), env=environment, catch_exceptions=False)
    assert done.exit_code == exit_code, done.output
    return done.stdout


def shown_json(*words: object, exit_code: int = 0) -> Any:
    """What ``--json`` prints, without the version of its format."""
    found = json.loads(shown(*words, "--json", exit_code=exit_code))
    assert found.pop("format") == JSON_FORMAT
    return found


def checked(file: object, *words: object) -> Any:
    """What ``strata check`` finds of a sound study."""
    return shown_json("check", file, *words)["studies"][str(file)]


def refusal(*words: object) -> StrataError:
    """The error that ends a command."""
    error = CliRunner().invoke(app, list(map(str, words))).exception
    assert isinstance(error, StrataError), error
    return error
