# SPDX-License-Identifier: Apache-2.0
"""Trials that other work on the machine disturbed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from strata.errors import ResultError
from strata.results.record import Fingerprint, ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.base import MACHINE_NAME
from strata.spec.trial import TrialKey
from strata.spec.warning import PRECONDITIONED, UNDISTURBED, Check
from strata.units import percent

RETRIES: Final = 2
"""The most times that a disturbed trial is measured again. A judgement: after three disturbed attempts the
machine is busy, and a fourth would not be better."""


def machine_checks(attempt: Path) -> list[Check]:
    """The runner's record of the machine in the measured window, as checks; none without a record.

    Raises:
        ResultError: If the record cannot be read.
    """
    path = attempt / MACHINE_NAME
    try:
        seen = json.loads(path.read_text())
        found, window = list(seen["disturbances"]), seen["window"]
        detail = "; ".join(found) or _quiet(window)
        checks = [Check(name=UNDISTURBED, verdict="no" if found else "yes", detail=detail)]
        if disks := seen["disks"]:
            reached = all(each["reached"] for each in disks.values())
            done = "; ".join(f"{name} ({each['asked']}): {each['detail']}" for name, each in disks.items())
            checks.append(Check(name=PRECONDITIONED, verdict="yes" if reached else "no", detail=done))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"what was seen of the machine cannot be read: {error}", place=str(path)) from error
    return checks


def _quiet(window: dict[str, Any]) -> str:
    used = sum(window["others"].values())
    return (
        f"other processes used {used:.2f} of {window['cpus']} CPUs, and a hypervisor withheld "
        f"{percent(window['steal_share'])} of the processor time"
    )


def disturbance_of(record: ResultRecord) -> str | None:
    """The disturbances of a valid trial, with figures."""
    if not record.validity.valid:
        return None
    denied = (each for each in record.checks if (each.name, each.verdict) == (UNDISTURBED, "no"))
    return next((each.detail for each in denied), None)


def disturbed_attempts(
    folder: ResultsFolder, trial: TrialKey, spec_sha256: str, fingerprint: Fingerprint
) -> int:
    """The number of disturbed attempts at a trial, of this specification and on this machine."""
    records = folder.records(trial)
    return sum(disturbance_of(each) is not None for each in records if each.answers(spec_sha256, fingerprint))
