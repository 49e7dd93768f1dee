# SPDX-License-Identifier: Apache-2.0
"""``strata lab export``: the built lab as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from strata.cli.lab.import_ import say_parts
from strata.cli.parameters import AsJson, argument
from strata.lab.carry import export_lab


def export(
    file: Annotated[Path, argument("The archive to write, such as lab.tar.", "ARCHIVE")],
    as_json: AsJson = False,
) -> None:
    """Write the built lab to a file, for machines without a network.

    It has kernel, modules, root image and agent, and the load generator and the kernel of QEMU's machines
    if they are built. OpenZFS's modules are built where they are used.

    Examples:
        strata lab build
        strata lab export lab.tar
    """
    say_parts(f"wrote {file}", export_lab(file), as_json=as_json)
