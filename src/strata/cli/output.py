# SPDX-License-Identifier: Apache-2.0
"""Where a command prints to: its result to standard output, everything else to standard error.

Colours are rich's affair: on a terminal alone, and none where NO_COLOR is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from strata.lab.progress import SetupProgress

_wishes = {"quiet": False}


def ask_quiet(quiet: bool) -> None:
    """Say whether the command that runs now is to print its result and errors alone."""
    _wishes["quiet"] = quiet


def is_quiet() -> bool:
    """Whether ``--quiet`` was given."""
    return _wishes["quiet"]


def results() -> Console:
    """For what was asked for: standard output."""
    from strata.console import Terminal  # noqa: PLC0415  many commands print nothing by rich

    return Terminal(highlight=False)


def notes() -> Console:
    """For progress, "wrote …" and what to do next: standard error, and nothing with ``--quiet``."""
    from strata.console import Terminal  # noqa: PLC0415

    return Terminal(stderr=True, highlight=False, quiet=is_quiet())


def setup_progress() -> SetupProgress:
    """For what is built before a command can begin."""
    from strata.lab.progress import SILENCE, console_progress  # noqa: PLC0415  it imports the lab

    return SILENCE if is_quiet() else console_progress()


def print_json(value: object) -> None:
    """A result for programs."""
    from strata.printable import json_text  # noqa: PLC0415  pydantic takes a moment to load

    print(json_text(value, indent=2))
