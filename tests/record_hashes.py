# SPDX-License-Identifier: Apache-2.0
"""The records of a results folder by the names of its trials."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

from strata.results.store import ResultsFolder


def hashes(results: Path) -> dict[str, str]:
    """The stated hash of every trial's newest record."""
    readings = ResultsFolder.open(results).readings()
    found = {each.trial_id: each.record_sha256 for each in readings if each.record_sha256 is not None}
    return dict(sorted(found.items()))


def place_of(results: Path, trial: str) -> Path:
    """The folder of a trial's attempts."""
    identities = {str(key): identity for key, identity in ResultsFolder.open(results).study().trials.items()}
    return results / "records" / identities[trial]


def attempt_of(results: Path, trial: str) -> Path:
    """The folder of a trial's newest attempt."""
    return max(place_of(results, trial).glob("attempt-*"))


def forget(results: Path, *trials: str) -> None:
    """Remove everything that was measured of these trials."""
    for trial in trials:
        rmtree(place_of(results, trial))
