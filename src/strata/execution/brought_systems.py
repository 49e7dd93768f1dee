# SPDX-License-Identifier: Apache-2.0
"""The systems of virtual machines from users' images, as they name themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from strata.execution.validity_checks import FinishedTrial
from strata.model.warning import KNOWN_SYSTEM, Check

# os-release(5), which FreeBSD has, too.
_NAME = re.compile(r'^PRETTY_NAME=["\']?([^"\'\n]*)', re.MULTILINE)


def systems(trial: FinishedTrial) -> dict[str, str]:
    """The release and kernel of each such machine, by ``system of`` and its layer."""
    found: dict[str, str] = {}
    for step in trial.plan.steps_for("machine-system"):
        if step.purpose is not None and (said := trial.events.output(step.id)):
            name = _NAME.search(said)
            release = [name[1]] if name else []
            found[f"system of {step.purpose.layer}"] = ", ".join([*release, said.splitlines()[0]])
    return found


def system_checks(trial: FinishedTrial) -> Iterator[Check]:
    """That nobody but the user knows these systems; nothing without such machines."""
    if found := systems(trial):
        named = "; ".join(f"{place}: {system}" for place, system in found.items())
        detail = f"{named}. Its kernel's log, its settings and what else ran in it were not looked at"
        yield Check(name=KNOWN_SYSTEM, verdict="no", detail=detail)
