# SPDX-License-Identifier: Apache-2.0
"""A gate: what it can see, whether that suffices, and what it finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.actions.sharing import as_given
from strata.errors import ResultError, StudyError
from strata.results.findings import read_capabilities
from strata.results.store import ResultsFolder
from strata.statistics.alarms import Alarm, FailOn, alarms
from strata.statistics.interval import SEEDS_MIN
from strata.statistics.pair import ComparisonOptions, Pair, compare_sets
from strata.statistics.pairing import Side
from strata.statistics.power import Sight, sights
from strata.statistics.study import gather
from strata.units import format_share, percent
from strata.words import counted, listed


def side_of(path: Path) -> Side:
    """A results folder as one side of a comparison. Raises ResultError."""
    folder = ResultsFolder.open(path)
    return Side(gather(folder), as_given(path), None, read_capabilities(folder))


@dataclass(frozen=True)
class Gate:
    """A gate with its baseline; ``seen`` has the smallest difference of each cell's metrics."""

    before: Side
    options: ComparisonOptions
    seen: tuple[Sight, ...]

    @classmethod
    def at(cls, baseline: Path, options: ComparisonOptions) -> Gate:
        """Raises ResultError if no chosen cell has a valid result."""
        before = side_of(baseline)
        seen = tuple(sights(before.results, options))
        if not seen:
            names = (listed(each) for each in (before.results.stacks, before.results.workloads))
            remedy = f"it has {' under '.join(names)}; `strata show` says why a trial has no result"
            raise ResultError("no chosen cell has a valid result", place=before.name, remedy=remedy)
        return cls(before, options, seen)

    @property
    def file(self) -> str:
        """The study file's name."""
        return self.before.results.snapshot.file or f"{self.before.study}.toml"

    def refuse_blind(self, asked: float) -> None:
        """Raise StudyError if a cell does not show a difference, with the number of seeds that would."""
        blind = [each for each in self.seen if each.smallest is None or each.smallest > asked]
        if not blind:
            return
        worst = max(blind, key=lambda each: each.smallest or math.inf)
        least = f"sees {percent(worst.smallest)}" if worst.smallest else f"sees none: {worst.blind}"
        more = f", and {len(blind) - 1} more do not see it either" if len(blind) > 1 else ""
        needed = [each.seeds_to_see(asked, self.options.zone) for each in blind]
        remedy = "lengthen the measured window, or ask for less"
        if worst.n < SEEDS_MIN:
            remedy = f"measure the baseline with {SEEDS_MIN} seeds or more"
        elif all(needed) and not worst.blind:
            most = max(filter(None, needed))
            remedy = f"measure the baseline with {counted(most, 'seed')}, or ask for less"
        raise StudyError(f"{worst.title} {least}{more}", place=f"--see {format_share(asked)}", remedy=remedy)

    def judge(self, candidate: Path, reasons: Sequence[FailOn]) -> tuple[Pair, list[Alarm]]:
        """The comparison with a change's results, and the alarms. Raises ResultError."""
        pair = compare_sets(self.before, side_of(candidate), self.options)
        return pair, alarms(pair, reasons, counts_alone=True)
