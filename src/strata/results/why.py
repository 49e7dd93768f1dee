# SPDX-License-Identifier: Apache-2.0
"""why.json: for a claim, which change of the study turns its verdict.

The trials behind it are results folders of their own, in the folder ``why`` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from strata.diagnostics.names import to_kebab
from strata.plan.model import canonical_json, sha256_hex
from strata.results.reading import read_findings, write_model
from strata.results.record import Frozen
from strata.results.store import ResultsFolder
from strata.results.tipping import identity_of

WHY_VERSION: Final = 1
WHY_NAME: Final = "why.json"
WHY_TRIALS_NAME: Final = "why"
AS_MEASURED: Final = "as measured"
REPRODUCED: Final = "reproduced"


class Variation(Frozen):
    """One thing that is changed.

    Attributes:
        name: Such as ``precondition = steady``.
        changes: The values by their key paths; none: the study as it is.
        why: Why it is tried.
    """

    name: str
    changes: dict[str, Any]
    why: str

    @property
    def folder(self) -> str:
        """The name of the folder of its trials, the same whichever claim asks."""
        digest = sha256_hex(canonical_json(self.changes))[:8]
        return f"{(to_kebab(self.name) or 'change')[:60]}-{digest}"


class Compared(Frozen):
    """A comparison of the claim under a variation; ``level`` is the ratio, or the value in ``unit``."""

    workload: str
    metric: str
    stack: str
    against: str | None
    verdict: str
    unit: str = "1"
    level: float | None = None
    low: float | None = None
    high: float | None = None


class Outcome(Variation):
    """The claim's verdict under a variation.

    Attributes:
        verdict: Empty where there is none; ``note`` says why.
        seeds: Their number.
    """

    verdict: str = ""
    note: str = ""
    seeds: int = 0
    compared: tuple[Compared, ...] = ()


class ClaimWhy(Frozen):
    """The variations of one claim, of which the first is the study as it is.

    Attributes:
        results_sha256: Of the trials of these results; others have another reason.
        whole: Whether everything was tried; otherwise the budget ended, or the user.
    """

    results_sha256: str
    whole: bool
    outcomes: tuple[Outcome, ...] = Field(min_length=1)

    @property
    def as_measured(self) -> Outcome:
        return self.outcomes[0]

    @property
    def turning(self) -> list[Outcome]:
        """The variations with which the claim is reproduced though it is not without them."""
        if self.as_measured.verdict == REPRODUCED:
            return []
        return [each for each in self.outcomes[1:] if each.verdict == REPRODUCED]

    @property
    def changing(self) -> list[Outcome]:
        """The variations with another verdict than the study as it is."""
        return [each for each in self.outcomes[1:] if each.verdict not in ("", self.as_measured.verdict)]


class Whys(Frozen):
    """The content of why.json, by the claims' ids."""

    why_version: Literal[1] = WHY_VERSION
    study: str
    claims: dict[str, ClaimWhy] = Field(default={})


def read_whys(folder: ResultsFolder) -> Mapping[str, ClaimWhy]:
    """The reasons that were found for claims, without those of earlier specifications.

    Raises ResultError if the file is damaged or of another version.
    """
    version = ("why_version", WHY_VERSION)
    found = read_findings(Whys, folder.path / WHY_NAME, version, "strata claims --why ID")
    present = identity_of(folder.study()) if found else ""
    claims = found.claims if found else {}
    return {name: each for name, each in claims.items() if each.results_sha256 == present}


def write_why(folder: ResultsFolder, claim: str, found: ClaimWhy) -> None:
    """Keep the findings for a claim, beside those for other claims."""
    folder.refuse_unsafe()
    content = Whys(study=folder.study().name, claims={**read_whys(folder), claim: found})
    write_model(folder.path / WHY_NAME, content)
