# SPDX-License-Identifier: Apache-2.0
"""Why a comparison fails: what is worse, undecided, missing or changed in the second set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from strata.statistics.comparison import Verdict
from strata.statistics.pair import Pair
from strata.units import format_value


class FailOn(StrEnum):
    WORSE = "worse"
    UNDECIDED = "undecided"
    MISSING = "missing"
    CHANGED = "changed"


@dataclass(frozen=True)
class Alarm:
    """One reason for which a comparison fails.

    Attributes:
        what: A cell, a stack, or another thing that is compared.
        metric: The metric that it is of; empty: of none.
        found: The figures behind it.
    """

    reason: FailOn
    what: str
    metric: str = ""
    found: str = ""

    def __str__(self) -> str:
        return (
            f"{self.what} ({self.metric}{f' {self.found}' * bool(self.found)})" if self.metric else self.what
        )


def alarms(pair: Pair, reasons: Iterable[FailOn], *, counts_alone: bool = False) -> list[Alarm]:
    """The alarms of these reasons; ``counts_alone``: changed are counts of disks that surely differ."""
    return [each for reason in dict.fromkeys(reasons) for each in _of(pair, reason, counts_alone)]


def _of(pair: Pair, reason: FailOn, counts_alone: bool) -> Iterator[Alarm]:
    if reason is FailOn.MISSING:
        yield from (Alarm(reason, absent.what, found=absent.why) for absent in pair.absent)
    elif reason is FailOn.CHANGED:
        for each in pair.changes:
            if not counts_alone or each.is_sure(pair.zone):
                ends = ("–" if level is None else f"{level:.6g}" for level in (each.first, each.second))
                yield Alarm(reason, each.cell.title, each.kind.name, " → ".join(ends))
    elif reason is FailOn.WORSE:
        yield from _of_rows(pair, reason, {"worse"})
        for lost in pair.survival:
            if lost.verdict == "worse":
                yield Alarm(reason, " under ".join(filter(None, (lost.stack, lost.workload))), lost.what)
    else:
        yield from _of_rows(pair, reason, {*get_args(Verdict)} - {"better", "equal", "worse"})


def _of_rows(pair: Pair, reason: FailOn, verdicts: Set[Verdict]) -> Iterator[Alarm]:
    for row in pair.rows:
        if row.comparison.verdict in verdicts:
            kind = row.comparison.kind
            ends = (format_value(level, kind.unit) for level in (row.first, row.second))
            yield Alarm(reason, row.cell.title, kind.name, " → ".join(ends))
