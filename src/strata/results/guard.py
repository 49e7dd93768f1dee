# SPDX-License-Identifier: Apache-2.0
"""Refusing results folders that hold symbolic links, or that other users could exchange."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from strata.errors import ResultError
from strata.files import opened_inside, refuse_exchangeable, refuse_exchangeable_path, refuse_link, refused

_OWN_NAMES: Final = (
    *(".lock", ".journal", "study.json", "trials", "query", "capabilities", "capabilities.json"),
)


def refuse_unsafe(folder: Path) -> None:
    """Refuse to write into a results folder, or to make one, where that could reach other files.

    Raises ResultError if one of Strata's files in it is a symbolic link, or another user could put one there
    while root works on it.
    """
    refuse_exchangeable_path(folder)
    try:
        for name in _OWN_NAMES:
            refuse_link(folder / name)
            if (folder / name).is_dir():
                _refuse_below(folder / name)
    except OSError as error:
        raise refused(error, "use it") from error


def listed(folder: Path) -> list[Path]:
    """The content of a folder of Strata's; nothing if it is not there.

    Raises OSError if it cannot be listed, or it or something in it is a symbolic link.
    """
    refuse_link(folder)
    if not folder.is_dir():
        return []
    found = list(folder.iterdir())
    for path in found:
        refuse_link(path)
    return found


def _refuse_below(path: Path) -> None:
    within: list[Path] = []
    # A folder that cannot be listed cannot be written to, either.
    with suppress(PermissionError), opened_inside(path) as folder:
        if os.geteuid() == 0:
            refuse_exchangeable(folder, ResultError, sticky=False)
        with os.scandir(folder) as found:
            within = [path / each.name for each in found if each.is_symlink() or each.is_dir()]
    for each in within:
        _refuse_below(each)  # a link is refused there
