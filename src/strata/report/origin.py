# SPDX-License-Identifier: Apache-2.0
"""Where a report's numbers come from: versions, charges, hashes, and the command that makes them again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from strata.results.snapshot import StudySnapshot
from strata.statistics.study import StudyResults


def command(study: StudySnapshot) -> str:
    """The command that reproduces the study, without paths of the machine on which it ran."""
    if not study.file:
        return ""
    runner = () if study.runner == "lab" else ("--runner", study.runner)
    return shlex.join(["strata", "run", *runner, PurePath(study.file).name])


def origin(results: StudyResults) -> dict[str, Any]:
    """Versions, charges and hashes; several values of one where the results differ in it."""
    records = results.records
    packages: dict[str, list[str]] = {}
    for record in records:
        for name, version in record.versions.packages.items():
            if version not in packages.setdefault(name, []):
                packages[name].append(version)
    wall = results.snapshot.time_domain == "wall"
    return {
        "kernels": list(dict.fromkeys(record.versions.kernel for record in records)),
        "strata": list(dict.fromkeys(record.versions.strata for record in records)),
        "agents": list(dict.fromkeys(record.versions.agent for record in records)),
        "packages": {name: ", ".join(packages[name]) for name in sorted(packages)},
        "fingerprints": list(dict.fromkeys(record.fingerprint for record in records)),
        "charges": list(dict.fromkeys(record.charges for record in records)),
        "hosts": sorted({record.real_time.host for record in records}) if wall else [],
        "started": min(record.real_time.started_at for record in records) if wall else "",
        "valid": len(records),
        "trials": len(results.readings),
    }


def options(described: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The study as it was understood, a line per option: ``devices.disk0.capacity_bytes`` and its value."""
    found: list[tuple[str, str]] = []
    _flatten("", described, found)
    return found


def _flatten(path: str, value: Any, found: list[tuple[str, str]]) -> None:
    if isinstance(value, Mapping):
        for key, each in value.items():
            _flatten(f"{path}.{key}" if path else str(key), each, found)
    elif isinstance(value, list) and any(isinstance(each, (Mapping, list)) for each in value):
        for index, each in enumerate(value):
            _flatten(f"{path}[{index}]", each, found)
    elif isinstance(value, list):
        found.append((path, ", ".join(map(str, value))))
    else:
        found.append((path, {True: "true", False: "false", None: "–"}.get(value, str(value))
                      if value is None or isinstance(value, bool) else str(value)))  # fmt: skip
