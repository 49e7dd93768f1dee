# SPDX-License-Identifier: Apache-2.0
"""The real disks of a run on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from strata.errors import StrataError, ToolError
from strata.lab.cache import cache_root
from strata.model.study import Study
from strata.runners.disks import RealDisks, choose_disks

WORK: Final = Path("/var/lib/strata")
"""Private folders of trials on real disks alone, which other users must be able to enter."""


def real_disks(
    study: Study,
    named: list[str] | None,
    erase: list[str] | None,
    *,
    host: bool,
    scratch: Path | None,
    place: Path,
) -> RealDisks:
    """The disks that a run uses, with the content that they lose. Raises ToolError, DiagnosticsError."""
    if not host and (named or erase):
        raise ToolError(
            "real disks are for the host runner",
            place="--disk" if named else "--erase",
            remedy="add --runner host, or leave it out: the lab models the disks",
        )
    if not named:
        if erase:
            raise ToolError("no disk is named", place="--erase", remedy="add --disk NAME=/dev/disk/by-id/…")
        return RealDisks()
    if os.geteuid() != 0:
        raise ToolError("real disks need root", place="--disk", remedy="use sudo; or leave --disk out")
    more = {"the study": study.file.resolve(), "the scratch folder": (scratch or WORK).resolve()}
    return choose_disks(study, named, erase or [], {**own_folders(place), **more})


def own_folders(place: Path) -> dict[str, Path]:
    """Folders that must not be on a disk that is used, by their content; ``place`` holds the results."""
    return {
        "the root filesystem": Path("/"),
        "the files of the boot": Path("/boot"),
        "the results": place.resolve(),
        "Strata's cache": cache_root().resolve(),
    }


def scratch_beside(chosen: RealDisks, study: Study, scratch: Path | None) -> Path | None:
    """The user's folder of private folders; else, for real disks alone, Strata's own. Raises StrataError."""
    if scratch is not None or not chosen.chosen:
        return scratch
    used = {name for stack in study.stacks.values() for name in stack.all_devices}
    if left := sorted(used - set(chosen.chosen)):
        raise ToolError(
            f"no disk is named for {', '.join(left)}",
            place="--disk",
            remedy=f"add --disk {left[0]}=…; or --scratch DIR, for a file in place of a disk",
        )
    try:
        if not WORK.is_dir():
            WORK.mkdir()
            WORK.chmod(0o755)  # whatever the umask is
    except OSError as error:
        raise StrataError(
            f"the folder cannot be made: {error.strerror}", place=str(WORK), remedy="name one by --scratch"
        ) from error
    return WORK
