# SPDX-License-Identifier: Apache-2.0
"""The origin of a report's numbers: versions, charges, hashes, and the command that reproduces them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
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
    packages: dict[str, dict[str, None]] = {}
    for record in records:
        for name, version in record.versions.packages.items():
            packages.setdefault(name, {})[version] = None
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
    """The study with its defaults, a line per option: ``devices.disk0.capacity_bytes`` and its value."""
    return [(path.removeprefix("."), value) for path, value in _flattened("", described)]


def _flattened(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flattened(f"{path}.{key}", each)
    elif isinstance(value, list) and any(isinstance(each, (Mapping, list)) for each in value):
        for index, each in enumerate(value):
            yield from _flattened(f"{path}[{index}]", each)
    elif isinstance(value, list):
        yield path, ", ".join(map(str, value))
    else:
        yield path, "–" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
