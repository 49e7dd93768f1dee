# SPDX-License-Identifier: Apache-2.0
"""``strata lab enter``: a shell inside a lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.cli.parameters import argument, option
from strata.lab.shell import open_shell


def enter(
    study: Annotated[Path | None, argument("A study file, for its disks.", "STUDY")] = None,
    stack: Annotated[str | None, option("Build this stack of the study.", "NAME")] = None,
    device: Annotated[str | None, option("One disk of this model, without a study.", "DEVICE")] = None,
    virtual: Annotated[bool, option("In virtual time, where waiting takes no time.", "--virtual")] = False,
) -> None:
    """Open a shell inside a lab, on modelled disks.

    Everything written there is lost when the shell ends.

    Examples:
        strata lab enter
        strata lab enter studies/quickstart.toml --stack xfs
        strata lab enter --device wd-re4-500gb
    """
    raise typer.Exit(open_shell(study=study, stack=stack, device=device, virtual=virtual))
