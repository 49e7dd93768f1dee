# SPDX-License-Identifier: Apache-2.0
"""Completion of values in a shell, by the metavar of the parameter. Only names are read, never a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import typer

_STUDY: Final = "study.json"
_BY_ID: Final = Path("/dev/disk/by-id")


def complete_study(incomplete: str) -> list[str]:
    return _matching(incomplete, _below(_folder(incomplete), "*.toml"))


def complete_results(incomplete: str) -> list[str]:
    return _matching(incomplete, (each.parent for each in _below(_folder(incomplete), f"*/{_STUDY}")))


def complete_trial(incomplete: str) -> list[str]:
    """``RESULTS/TRIAL``; results folders until one is typed."""
    folder = _folder(incomplete)
    if (folder / _STUDY).is_file():
        return _matching(incomplete, (folder / each.name for each in _listed(folder / "trials", "*")))
    return complete_results(incomplete)


def complete_trial_id(context: typer.Context, incomplete: str) -> list[str]:
    """The ids of the trials of the results folder that was typed before."""
    # An option without its value ends the parsing; the rest is in the arguments.
    typed = [context.params.get("results"), *context.args]
    folders = [Path(each) for each in typed if isinstance(each, str | Path)]
    found = next((each for each in folders if (each / _STUDY).is_file()), None)
    trials = _listed(found / "trials", "*") if found else []
    return [each.name for each in trials if each.name.startswith(incomplete)]


def complete_device(incomplete: str) -> list[str]:
    from strata.spec.device import bundled_devices  # noqa: PLC0415

    return [name for name in bundled_devices() if name.startswith(incomplete)]


def complete_workload(incomplete: str) -> list[str]:
    from strata.plan.catalogue import catalogue  # noqa: PLC0415

    return [name for name in catalogue().workloads if name.startswith(incomplete)]


def complete_disk(incomplete: str) -> list[str]:
    """``NAME=PATH``, once the name is typed: the disks of /dev/disk/by-id, without their partitions."""
    name, equals, path = incomplete.partition("=")
    start = f"{name}=" if equals else ""
    found = (str(each) for each in _listed(_BY_ID, "*") if "-part" not in each.name)
    return [start + each for each in found if equals and each.startswith(path)]


COMPLETERS: Final[Mapping[str, Callable[..., list[str]]]] = {
    "STUDY": complete_study,
    "RESULTS": complete_results,
    "TRIAL": complete_trial,
    "STACK.WORKLOAD.sSEED": complete_trial_id,
    "DEVICE": complete_device,
    "WORKLOAD": complete_workload,
    "NAME=DISK": complete_disk,
}


def _folder(incomplete: str) -> Path:
    return Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    """The paths of a pattern in a folder and in its subfolders."""
    subfolders = (each for each in _listed(folder, "*/") if not each.name.startswith("."))
    for place in (folder, *subfolders):
        yield from _listed(place, pattern)


def _listed(folder: Path, pattern: str) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.glob(pattern))
    return []


def _matching(incomplete: str, paths: Iterable[Path]) -> list[str]:
    names = (f"./{path}" if incomplete.startswith("./") else str(path) for path in paths)
    return [name for name in names if name.startswith(incomplete)]
