# SPDX-License-Identifier: Apache-2.0
"""Pages and plots as files, written alike by every command that makes one."""

from __future__ import annotations

from pathlib import Path

from strata.durable import make_folder, write_durably
from strata.errors import ResultError


def write_page(output: Path, page: str | bytes) -> None:
    """Write a page durably, into a folder that may be new.

    Raises:
        ResultError: If the name is a folder's, or the file cannot be written.
    """
    refuse_folder(output)
    output = output.parent.resolve() / output.name  # a link to a folder may be named
    make_folder(output.parent)
    write_durably(output, page.encode() if isinstance(page, str) else page)


def refuse_folder(output: Path) -> None:
    """Check the name of a file before minutes are spent on its content.

    Raises:
        ResultError: If the name is a folder's.
    """
    if output.is_dir():
        raise ResultError("it is a folder", place=str(output), remedy="name a file")
