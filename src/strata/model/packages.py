# SPDX-License-Identifier: Apache-2.0
"""The Debian packages that a study adds to the lab's root image, and the file that locks their versions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import StrictStr

from strata.diagnostics.mistakes import read_toml
from strata.diagnostics.names import checked
from strata.errors import StudyError
from strata.files import write_durably
from strata.model.duties import RunsPrograms
from strata.model.workload import Workload, loads_of

# Debian's policy, 5.6.1
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+", re.ASCII)
# The same, 5.6.12; a version becomes part of a script that root runs
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+~:-]*", re.ASCII)
_SUFFIX: Final = ".packages.lock"

PackageName = Annotated[
    StrictStr,
    checked(
        lambda name: _NAME.fullmatch(name) is not None,
        '"{:.60}" is not the name of a Debian package',
        'such as "redis-server"',
    ),
]


@dataclass(frozen=True)
class PackageLock:
    """What a study's workloads ask for, and the versions of all packages that this adds to the image."""

    asked: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def exact(self) -> tuple[str, ...]:
        return tuple(f"{name}={version}" for name, version in sorted(self.versions.items()))


def asked_packages(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """The packages that workloads and their tenants ask for, sorted."""
    parts = (part for load in workloads for part in loads_of(load) if isinstance(part, RunsPrograms))
    return tuple(sorted({name for part in parts for name in part.packages_asked()}))


def lock_path(study: Path) -> Path:
    return study.with_suffix(_SUFFIX)


def read_lock(study: Path) -> PackageLock:
    """The lock beside a study file; an empty one if there is none. Raises StudyError."""
    path = lock_path(study)
    if not path.exists():
        return PackageLock()
    tables, _ = read_toml(path)
    asked: Any = tables.get("asked")
    versions: Any = tables.get("packages")
    is_lock = isinstance(asked, list) and isinstance(versions, dict)
    if (
        not is_lock
        or not all(isinstance(each, str) and _NAME.fullmatch(each) for each in (*asked, *versions))
        or not all(isinstance(each, str) and _VERSION.fullmatch(each) for each in versions.values())
    ):
        remedy = "delete it: the next run in the lab writes it anew"
        raise StudyError("it is no lock of packages", place=str(path), remedy=remedy)
    return PackageLock(tuple(asked), dict(versions))


def write_lock(study: Path, lock: PackageLock) -> Path:
    """Write the lock beside a study file. Raises OSError."""
    lines = [
        "# Written by `strata run`: the versions of the packages that the study adds to the lab's image.",
        "# Keep it with the study; delete it to take the mirror's versions anew.",
        f"asked = {json.dumps(lock.asked)}",
        "",
        "[packages]",
        *(f'"{name}" = "{version}"' for name, version in sorted(lock.versions.items())),
    ]
    path = lock_path(study)
    write_durably(path, ("\n".join(lines) + "\n").encode())
    return path
