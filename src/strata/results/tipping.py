# SPDX-License-Identifier: Apache-2.0
"""tipping.json: the values of uncertain quantities at which another stack becomes best for a use.

The trials behind it are results folders of their own, in the folder ``tipping`` beside it.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from pydantic import Field

from strata.plan.model import canonical_json, sha256_hex
from strata.results.reading import read_findings, write_model
from strata.results.record import Frozen, StudySnapshot
from strata.results.store import ResultsFolder
from strata.units import format_size, percent

TIPPING_VERSION: Final = 1
TIPPING_NAME: Final = "tipping.json"
TRIALS_NAME: Final = "tipping"
"""The folder of the trials, a results folder for each value that was tried."""
SEEDS: Final = 3
"""The seeds of a value by default: the fewest with an interval."""

Kind = Literal["disk", "memory", "workload", "weight"]
Outcome = Literal["tips", "stays", "cannot say"]
Range = Literal["published", "estimated", "chosen"]
"""Where a range comes from: a device's published data, an estimate in its file, or Strata's judgement."""


class Tried(Frozen):
    """What was found at one value.

    Attributes:
        seeds: Their number; 0: computed from the results.
        leader: Of the stacks that lead by the study's results, the one that the use waits least on here.
        rival: Of the other stacks, likewise.
        ratio: The time that the use waits on the rival, over that on the leader: below 1 the rival is best.
        low: Of the ratio's 95 % interval; null without one. So is ``high``.
    """

    value: float
    seeds: int
    leader: str
    rival: str
    ratio: float
    low: float | None = None
    high: float | None = None


class Uncertain(Frozen):
    """A quantity that an answer rests on, with the range of its values.

    Attributes:
        quantity: Its id: ``MODEL.PARAMETER``, ``memory``, ``WORKLOAD.KEY`` or ``weights.NAME``.
        words: Its meaning.
        unit: As in the device's file; ``B``, ``share`` or ``1``.
        stated: The value that the answer assumes.
        low: Of the range of its values. So is ``high``.
        known: What kind of range that is; ``source`` says more.
    """

    quantity: str
    kind: Kind
    words: str
    unit: str
    stated: float
    low: float
    high: float
    known: Range
    source: str

    def shown(self, value: float) -> str:
        """One of its values: ``2.1 ms``, ``512 MiB``, ``34 %``."""
        if self.unit == "share":
            return percent(value)
        if self.unit == "B":
            return format_size(value)
        return f"{value:,.4g} {self.unit}".removesuffix(" 1").rstrip()


class TippingPoint(Uncertain):
    """What becomes of the answer between the stated value of a quantity and one end of its range.

    Attributes:
        end: The end of the range that was tried.
        outcome: ``cannot say``: it was not tried, or a trial failed; ``note`` says why.
        tried: In the order of trying.
    """

    end: float
    outcome: Outcome
    note: str = ""
    tried: tuple[Tried, ...] = ()

    @property
    def is_above(self) -> bool:
        return self.end > self.stated

    @property
    def between(self) -> tuple[float, float] | None:
        """The value nearest to the stated one at which another stack is best, and the last before it."""
        tipped = [each.value for each in self.tried if each.ratio < 1]
        if self.outcome != "tips" or not tipped:
            return None
        first = min(tipped, key=lambda value: abs(value - self.stated))
        nearer = [
            each.value
            for each in self.tried
            if each.ratio >= 1 and abs(each.value - self.stated) < abs(first - self.stated)
        ]
        return max(nearer, key=lambda value: abs(value - self.stated), default=self.stated), first

    @property
    def at(self) -> float | None:
        """About where the answer changes: the middle of the two."""
        ends = self.between
        if ends is None:
            return None
        return math.sqrt(ends[0] * ends[1]) if min(ends) > 0 else sum(ends) / 2

    @property
    def rival(self) -> str | None:
        """The stack that becomes best."""
        ends = self.between
        return next((each.rival for each in self.tried if ends and each.value == ends[1]), None)

    @property
    def is_shown(self) -> bool:
        """Whether an interval shows the other stack to be better somewhere beyond the point."""
        return any(each.high is not None and each.high < 1 for each in self.tried)

    @property
    def distance(self) -> float:
        """How far the point lies, as the logarithm of the ratio to the stated value; infinite without one."""
        at = self.at
        if at is None or min(at, self.stated) <= 0:
            return math.inf if at is None else abs(at - self.stated)
        return abs(math.log(at / self.stated))

    @property
    def nearest_ratio(self) -> float:
        return min((each.ratio for each in self.tried), default=math.inf)


class UseTipping(Frozen):
    """The tipping points of the answer for a use, the nearest first.

    Attributes:
        leaders: The stacks that lead by the study's results.
        conclusion: How sure that was, as of an advice.
        results_sha256: Of the trials of these results; others have another answer.
        whole: Whether everything that was asked for was tried; otherwise the budget ended, or the user.
    """

    leaders: tuple[str, ...]
    conclusion: str
    results_sha256: str
    whole: bool
    points: tuple[TippingPoint, ...]


class Tipping(Frozen):
    """The content of tipping.json, by the uses' names."""

    tipping_version: Literal[1] = TIPPING_VERSION
    study: str
    uses: dict[str, UseTipping] = Field(default={})


def sorted_points(points: list[TippingPoint]) -> tuple[TippingPoint, ...]:
    """The nearest tipping point first, then by how near the rival came, and last what nobody can say."""
    rank = {"tips": 0, "stays": 1, "cannot say": 2}
    return tuple(sorted(points, key=lambda each: (rank[each.outcome], each.distance, each.nearest_ratio)))


def identity_of(snapshot: StudySnapshot) -> str:
    """The results that tipping points belong to: those of these specifications."""
    return sha256_hex(canonical_json({str(trial): sha256 for trial, sha256 in snapshot.trials.items()}))


def read_tipping(folder: ResultsFolder) -> Tipping | None:
    """The tipping points of a results folder, without those of earlier specifications; None if none is left.

    Raises ResultError if the file is damaged or of another version.
    """
    version = ("tipping_version", TIPPING_VERSION)
    found = read_findings(Tipping, folder.path / TIPPING_NAME, version, "strata tipping")
    if found is None:
        return None
    present = identity_of(folder.study())
    uses = {name: each for name, each in found.uses.items() if each.results_sha256 == present}
    return found.model_copy(update={"uses": uses}) if uses else None


def write_tipping(folder: ResultsFolder, use: str, found: UseTipping) -> None:
    """Keep the tipping points of a use, beside those of other uses of the same results."""
    folder.refuse_unsafe()
    before = read_tipping(folder)
    uses = {**(before.uses if before else {}), use: found}
    content = Tipping(study=folder.study().name, uses=uses)
    write_model(folder.path / TIPPING_NAME, content)
