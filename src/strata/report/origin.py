# SPDX-License-Identifier: Apache-2.0
"""The origin of a report's numbers: command, versions, charges, hashes, seeds added for precision."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from strata.results.record import ResultRecord, StudySnapshot
from strata.statistics.study import StudyResults
from strata.units import NS_PER_S, format_duration, percent, times
from strata.words import grouped, listed


def command(study: StudySnapshot) -> str:
    """The command that reproduces the study, without paths of the machine on which it ran."""
    if not study.file:
        return ""
    runner = () if study.runner == "lab" else ("--runner", study.runner)
    return shlex.join(["strata", "run", *runner, PurePath(study.file).name])


def cost_line(results: StudyResults) -> str:
    """How many trials are valid, and the real and virtual time that they took."""
    records = results.records
    line = f"{len(records)} of {len(results.readings)} trials are valid"
    if not records:
        return line
    real_s = sum(record.real_time.duration_s for record in records)
    line += f" · {format_duration(real_s * NS_PER_S)} of real time"
    virtual_s = sum((r.real_time.virtual_per_real or 0) * r.real_time.duration_s for r in records)
    if not virtual_s:
        return line
    return f"{line} for {format_duration(virtual_s * NS_PER_S)} of virtual time ({times(virtual_s / real_s)})"


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
        "labs": len(results.fingerprints),  # without the kernels that stacks ask for
        "processors": list(dict.fromkeys(map(_processor, records))) if not wall else [],
        "charges": list(dict.fromkeys(record.charges for record in records)),
        "hosts": sorted({record.real_time.host for record in records}) if wall else [],
        "started": min((record.real_time.started_at for record in records), default="") if wall else "",
        "valid": len(records),
        "trials": len(results.readings),
    }


class _Computing(NamedTuple):
    name: str
    processors: int
    priced: bool


def _processor(record: ResultRecord) -> _Computing:
    used = record.processor
    return (
        _Computing("free", 1, False)
        if used is None
        else _Computing(used.name, used.processors, used.busy_ns > 0)
    )


def options(study: StudySnapshot) -> list[tuple[str, str]]:
    """The study with its defaults, a line per option: ``devices.disk0.capacity_bytes`` and its value."""
    return [(path.removeprefix("."), value) for path, value in _flattened("", study.options())]


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


def declared_seeds(study: StudySnapshot) -> tuple[int, ...]:
    """The seeds of every workload, without the ones added for a precision."""
    added = {seed for seeds in study.added_seeds.values() for seed in seeds}
    return tuple(seed for seed in study.seeds if seed not in added)


def added_words(study: StudySnapshot) -> str:
    """The seeds added to each workload; empty where none were."""
    under = grouped((tuple(seeds), workload) for workload, seeds in study.added_seeds.items())
    under.pop((), None)
    if not under:
        return ""
    shown = [
        f"{'seeds' if len(seeds) > 1 else 'seed'} {seeds_words(seeds)} under {listed(workloads)}"
        for seeds, workloads in under.items()
    ]
    asked = _asked(study)
    return f"Added for {f'a precision of {asked}' if asked else 'precision'}: {'; '.join(shown)}."


def not_converged_words(study: StudySnapshot) -> str:
    """The cells that are less precise than the study asks for; empty if none is."""
    if not study.not_converged:
        return ""
    asked = _asked(study)
    under = grouped(
        (workload, f"{stack} ({'no interval' if width is None else f'±{percent(width)}'})")
        for (stack, workload), width in study.not_converged.items()
    )
    shown = [
        f"{listed(widths)} under {workload} after {len(study.seeds_of(workload))} seeds"
        for workload, widths in under.items()
    ]
    wanted = f" to {asked}" if asked else ""
    return (
        f"Not converged{wanted}: {'; '.join(shown)}. That is half of the 95 % interval of the ratio to the "
        "best stack. Raise study.seeds_max or study.precision, or lengthen the measured window."
    )


def precision_notes(study: StudySnapshot) -> list[str]:
    return [said for said in (added_words(study), not_converged_words(study)) if said]


def seeds_words(seeds: Sequence[int]) -> str:
    """Seeds, consecutive ones as a range: ``1 to 6, 9``."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    shown = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(shown)


def _asked(study: StudySnapshot) -> str:
    """The precision that the study asks for; empty where study.json does not say it."""
    return "" if study.precision is None else f"±{percent(study.precision)}"
