# SPDX-License-Identifier: Apache-2.0
"""The verdict on a claim over the plausible test beds that meet the published level."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from strata.reading.claims import over_range
from strata.results.findings import DROPPED, KEPT, UNTRIED, Compared, Finding, Tried
from strata.statistics.claims import Verdict
from strata.units import format_value, ratio_digits, times
from strata.words import counted

_DECIDED: Final[tuple[Verdict, ...]] = ("reproduced", "direction only", "not reproduced", "reversed")


class AnchoredVerdict(NamedTuple):
    verdict: Verdict
    why: str


def anchored(found: Finding) -> AnchoredVerdict:
    """The verdict that all kept test beds share; ``open`` where they disagree."""
    drawn = [bed for bed in found.tried if bed.verdict in {KEPT, DROPPED}]
    kept = [bed.name for bed in drawn if bed.verdict == KEPT]
    met = f"{len(kept)} of {counted(len(drawn), 'test bed')} meet the published level"
    met += _lacking(found.tried, kept)
    if not kept:
        return AnchoredVerdict("in another regime", f"{met}{_missing(drawn)}")
    judged = [bed for bed in found.tried if bed.verdict in _DECIDED]
    if not judged:
        is_judged = any(bed.verdict not in {KEPT, DROPPED, ""} for bed in found.tried)
        return AnchoredVerdict("undecided", f"{met}, and none {'decides' if is_judged else 'was judged yet'}")
    said = f"{met}; {_spread(judged)} on {len(judged)} of them"
    verdicts = [each for each in _DECIDED if any(bed.verdict == each for bed in judged)]
    if len(verdicts) == 1:
        return AnchoredVerdict(verdicts[0], said)
    return AnchoredVerdict("open", f"{said}: {_turning(judged)}")


def _lacking(tried: Sequence[Tried], kept: Sequence[str]) -> str:
    """The beds that were not drawn or refused; a kept bed's second entry is its judging, and no bed."""
    rest = Counter(bed.note == UNTRIED for bed in tried if not bed.verdict and bed.name not in kept)
    said = [f"{rest[key]} {what}" for key, what in ((True, "not drawn"), (False, "refused")) if rest[key]]
    return f" ({', '.join(said)})" if said else ""


def _spread(judged: Sequence[Tried]) -> str:
    levels = [each.level for bed in judged for each in bed.compared if each.level is not None]
    return f"{ratio_digits(min(levels))} to {ratio_digits(max(levels))} ×"


def _missing(drawn: Sequence[Tried]) -> str:
    """The bed that comes nearest, and how far off it is."""

    def off(bed: Tried) -> float:
        ratios = map(_off_by, bed.compared)
        return max(abs(math.log(ratio)) if ratio else math.inf for ratio in ratios)

    if not drawn:
        return ""
    nearest = min(drawn, key=off)
    said = [
        f"{each.stack} has {format_value(each.level or 0, each.unit)} ({times(_off_by(each))})"
        for each in nearest.compared
    ]
    return f"; the nearest, {nearest.name}: {', '.join(said)}"


def _off_by(each: Compared) -> float:
    return over_range(each.level or 0, each.low or math.inf, each.high or math.inf)


def _turning(judged: Sequence[Tried]) -> str:
    """The part of the test bed whose values divide the verdicts best."""

    def of(bed: Tried) -> dict[str, Any]:
        return {**bed.changes, **bed.values}

    def mistakes(part: str) -> int:
        """The beds that the best division of this part's values puts on the wrong side."""
        known = [(of(bed)[part], bed.verdict) for bed in judged]
        if all(isinstance(value, int | float) for value, _ in known):
            known.sort()
            sides = [[known[:cut], known[cut:]] for cut in range(1, len(known))]
        else:
            sides = [[[each for each in known if each[0] == value] for value in {v for v, _ in known}]]
        return min(
            sum(len(side) - max(Counter(v for _, v in side).values()) for side in cut) for cut in sides
        )

    part = min(of(judged[0]), key=mistakes)
    beds = sorted(((of(bed)[part], bed.verdict) for bed in judged), key=str)
    return f"it turns on {part} ({', '.join(f'{value}: {verdict}' for value, verdict in beds)})"
