# SPDX-License-Identifier: Apache-2.0
"""``strata lab import``: a built lab from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from strata.cli.output import print_json
from strata.cli.parameters import AsJson, argument
from strata.lab.cache import Entry
from strata.lab.carry import import_lab
from strata.printable import printable


def import_(
    file: Annotated[Path, argument("An archive of `strata lab export`.", "ARCHIVE")], as_json: AsJson = False
) -> None:
    """Take a built lab from a file of `strata lab export`.

    Every file is compared with its hash and must be of this version of Strata. The lab's programs run as
    you: take an archive only from somebody you trust, and compare the hashes that both commands print. When
    root imports, every user of the machine can use the lab.

    Examples:
        strata lab import lab.tar
    """
    say_parts("the cache has", import_lab(file), as_json=as_json)


def say_parts(beginning: str, found: Mapping[str, Entry], *, as_json: bool) -> None:
    """Name the parts of a lab with the hash of each."""
    if as_json:
        print_json({part: {"kind": e.kind, "key": e.key, "sha256": e.sha256} for part, e in found.items()})
        return
    print(
        printable(f"{beginning}: {', '.join(f'{part} {entry.sha256[:12]}' for part, entry in found.items())}")
    )
