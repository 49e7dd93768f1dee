# SPDX-License-Identifier: Apache-2.0
"""``strata list uses``: the uses that advice knows, and a file of them to change."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

from strata.cli.advise import adjusted_uses, asked_uses
from strata.cli.output import print_json, print_wrote, stdout
from strata.cli.parameters import AsJson, argument, option
from strata.errors import StudyError
from strata.files import write_page
from strata.report.advice_tables import uses_blocks
from strata.report.document import Document


def uses(
    name: Annotated[str | None, argument("Only this use. Default: all.", "USE")] = None,
    file: Annotated[
        Path | None, option("Your uses: these, or with USE also Strata's.", "--uses", "FILE")
    ] = None,
    weights: Annotated[list[str] | None, option("Set a weight; may be repeated.", "NAME=NUMBER")] = None,
    write: Annotated[Path | None, option("Write Strata's uses to a file, to change them.", "FILE")] = None,
    as_json: AsJson = False,
) -> None:
    """List the uses that advice knows, with their weights.

    Examples:
        strata list uses
        strata list uses mail-server --weights delivery=90 --weights mailboxes=10
        strata list uses --write my-uses.toml   # to be changed
    """
    if write is not None:
        if write.exists():
            raise StudyError("the file is there already", place=str(write), remedy="name another one")
        write_page(write, resources.files("strata.advice").joinpath("uses.toml").read_bytes())
        print_wrote(write)
        return
    chosen = adjusted_uses(asked_uses(file, [name] if name else []), weights or [], [])
    if as_json:
        print_json(uses=chosen)
    else:
        stdout().print(Document([*uses_blocks(chosen)]))
