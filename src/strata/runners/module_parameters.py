# SPDX-License-Identifier: Apache-2.0
"""Kernel module parameters that a trial on a host sets, and their previous values.

They affect every user of the module, and a killed trial cannot restore them. So the previous values are noted
in the private folder before the first step.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from strata.errors import LabError, RunError
from strata.lab.folder import PREFIX
from strata.plan.model import Plan
from strata.runners.assembled import made_in_this_boot, stack_name
from strata.runners.kernel import Kernel

PARAMETERS_NAME: Final = "parameters.json"
"""The file of a private folder that holds each parameter's previous value and the value to restore."""

_PARAMETER: Final = re.compile(r"/(sys/module/[a-z0-9_]+/parameters/[a-z0-9_]+)", re.ASCII)
_ZFS: Final = "sys/module/zfs/parameters"
_ARC_MAX: Final = f"{_ZFS}/zfs_arc_max"
_ARC_STATISTICS: Final = "proc/spl/kstat/zfs/arcstats"
_POOLS: Final = "proc/spl/kstat/zfs"


def parameters_set(plan: Plan) -> list[str]:
    """The parameter files that a plan's steps write, without the leading slash."""
    words = {word for step in plan.steps if step.argv[0] == "tee" for word in step.argv[1:]}
    return sorted(match[1] for word in words if (match := _PARAMETER.fullmatch(word)))


def endangered_pools(plan: Plan, kernel: Kernel) -> str | None:
    """Why a plan must not run on a machine with other ZFS pools, as half a sentence.

    A limit of the cache, which every pool's plan sets, costs other pools speed at worst; any other parameter
    may cost them data.
    """
    names = [Path(file).name for file in parameters_set(plan) if file.startswith(_ZFS) and file != _ARC_MAX]
    folder = kernel.root / _POOLS
    pools = sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
    others = [pool for pool in pools if not pool.startswith(stack_name(Path(PREFIX)))]
    if not names or not others:
        return None
    return f"{', '.join(names)} would hold for other ZFS pools, too: {', '.join(others)}"


def note_parameters(plan: Plan, path: Path, kernel: Kernel) -> None:
    """Note the current values of the parameters that a plan sets. Raises LabError if that fails."""
    noted = {}
    for file in parameters_set(plan):
        was = kernel.text(file)
        if was:
            # 0 means that ZFS chooses the limit, when it is loaded: set later it changes nothing.
            limit = _arc_limit(kernel) if file == _ARC_MAX else None
            noted[file] = {"was": was, "back": limit or was}
    if not noted:
        return
    try:
        (path / PARAMETERS_NAME).write_text(json.dumps(noted))
    except OSError as error:
        raise LabError(
            f"the modules' parameters cannot be noted: {error.strerror}", place=str(path)
        ) from error


def set_back(path: Path, kernel: Kernel) -> list[str]:
    """Restore the parameters of a trial that was killed; returns a line for each.

    Raises RunError if one cannot be written.
    """
    if not made_in_this_boot(path, kernel):
        return []
    noted: dict[str, dict[str, str]] = {}
    with suppress(OSError, ValueError):
        noted = json.loads((path / PARAMETERS_NAME).read_text())
    said = []
    for file, values in noted.items():
        now = kernel.text(file)
        if not _PARAMETER.fullmatch(f"/{file}") or not now or now in values.values():
            continue
        try:
            (kernel.root / file).write_text(f"{values['back']}\n")
        except OSError as error:
            raise RunError(
                f"a module's parameter cannot be set back to {values['back']}: {error.strerror}",
                place=f"/{file}",
                remedy="run `strata clean` as root",
            ) from error
        said.append(f"set {Path(file).name} back to {values['back']}")
    return said


def _arc_limit(kernel: Kernel) -> str | None:
    return next((words[-1] for words in kernel.lines(_ARC_STATISTICS) if words[:1] == ["c_max"]), None)
