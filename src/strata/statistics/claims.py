# SPDX-License-Identifier: Apache-2.0
"""Claims judged against a study's results, by intervals over the stacks that a claim names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from strata.model.metric import COMMON
from strata.model.study import reduced, unlike
from strata.model.trial import CellKey
from strata.model.workload import Workload
from strata.printable import in_json
from strata.reading.claims import Claim, ClaimSubject, Expectation, PublishedLevel, Yield
from strata.results.declared import declared_study
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.comparison import Verdict as Compared
from strata.statistics.interval import PRACTICAL_ZONE, SEEDS_MIN, Interval, half_width
from strata.statistics.levels import beside
from strata.statistics.study import StudyResults

Verdict = Literal[
    "reproduced",
    "direction only",
    "not reproduced",
    "reversed",
    "in another regime",
    "open",
    "undecided",
    "not testable",
    "testable",
]
"""``open``: plausible test beds disagree. ``in another regime``: the stack that is compared with is far from
its published level, so that the ratio answers another question. ``testable`` is said of a study without
results, everything else of results."""
# The first of these that one of its comparisons has is a claim's, because a claim needs all of them.
_WEAKEST: Final[tuple[Verdict, ...]] = (
    "reversed",
    "not reproduced",
    "in another regime",
    "undecided",
    "direction only",
    "reproduced",
    "testable",
    "not testable",
)
_UNDECIDED: Final[Mapping[Compared, str]] = {
    "undecided": "the interval reaches across the edge of the practical zone: add seeds",
    "marginal": "the difference is about as large as the practical zone",
    "too few seeds": "no interval: fewer than three seeds, or all alike",
}


@dataclass(frozen=True)
class ClaimFinding:
    """One stack against one other, or one value, beside what the claim expects.

    Attributes:
        against: None for a value.
        why: The reason for a verdict that says nothing; empty for the others.
        seeds: The number of seeds that count.
        level: The ratio, or the value in the metric's unit; None without one.
    """

    expectation: Expectation
    stack: str
    against: str | None
    verdict: Verdict
    why: str = ""
    seeds: int = 0
    level: float | None = None
    interval: Interval | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Judgement:
    """A claim with all its comparisons, in the order of the file and of the study's stacks.

    Attributes:
        anchored: The verdict over the test beds that meet the published level, with the reason; None if
            nobody asked for it.
    """

    claim: Claim
    findings: Sequence[ClaimFinding] = ()
    anchored: tuple[Verdict, str] | None = None

    @property
    @in_json
    def verdict(self) -> Verdict:
        return self.unanchored if self.anchored is None else self.anchored[0]

    @property
    @in_json
    def unanchored(self) -> Verdict:
        """The verdict by the study as it is."""
        found = {each.verdict for each in self.findings}
        return next((verdict for verdict in _WEAKEST if verdict in found), "not testable")

    @property
    def deciding(self) -> list[ClaimFinding]:
        """The comparisons that have the verdict of the study as it is."""
        return [each for each in self.findings if each.verdict == self.unanchored]

    @property
    @in_json
    def why(self) -> str:
        """The reason for a verdict that says nothing, or rests on test beds; empty for the others."""
        if self.anchored is not None:
            return self.anchored[1]
        return self.claim.untestable or next((each.why for each in self.deciding), "")


def results_subject(results: StudyResults, kinds: Mapping[str, type[Workload]]) -> ClaimSubject:
    """The stacks, workloads and metrics of results that claims may name; ``kinds`` are those of workloads.

    A metric that a stack without results yet would yield, such as its fragmentation, is known by its kind.
    """
    found = {}
    for name in results.workloads:
        kind = kinds.get(results.snapshot.workloads[name].workload)
        units = {each.name: each.unit for each in results.kinds(name)}
        of_kind = (*kind.metric_specs, *COMMON) if kind else ()
        found[name] = Yield(units, of_kind if units else (), of_kind)
    snapshot, scale = results.snapshot, results.snapshot.scale
    if scale == 1:
        return ClaimSubject(results.stacks, found, snapshot.skipped)
    full = declared_study(snapshot, has_inputs=False, full=True)
    return ClaimSubject(
        results.stacks,
        found,
        snapshot.skipped,
        unlike(full, scale, snapshot.memory_bytes),
        reduced(full, scale),
    )


def testable(claims: Sequence[Claim], subject: ClaimSubject) -> list[Judgement]:
    """Claims about a study without results: which of them a run could judge."""

    def of(_: Claim, each: Expectation, stack: str, against: str | None) -> ClaimFinding:
        return _of_subject(subject, each, stack, against)

    return _judged(claims, subject, of)


def judge(
    claims: Sequence[Claim],
    results: StudyResults,
    subject: ClaimSubject,
    levels: Sequence[PublishedLevel] = (),
) -> list[Judgement]:
    """Claims judged by results; ``levels`` are the published ones."""
    regimes = {each.key: each.other_regime for each in beside(levels, results, subject)}

    def of(claim: Claim, each: Expectation, stack: str, against: str | None) -> ClaimFinding:
        blank = _of_subject(subject, each, stack, against)
        if blank.verdict == "not testable":
            return blank
        regime = regimes.get((f"{against}", each.other_workload, each.metric), "")
        return _found(results, blank, _compared_with(claim, each, results.stacks), regime)

    return _judged(claims, subject, of)


def _of_subject(subject: ClaimSubject, each: Expectation, stack: str, against: str | None) -> ClaimFinding:
    """A comparison before it is made: whether it can be."""
    why = subject.untestable(each, _cells(each, stack, against))
    unit = subject.workloads[each.workload].unit(each.metric)
    return ClaimFinding(each, stack, against, "not testable" if why else "testable", why, unit=unit)


def _judged(
    claims: Sequence[Claim],
    subject: ClaimSubject,
    of: Callable[[Claim, Expectation, str, str | None], ClaimFinding],
) -> list[Judgement]:
    return [
        Judgement(
            claim, [of(claim, each, *pair) for each in claim.expect for pair in each.pairs(subject.stacks)]
        )
        for claim in claims
    ]


def _compared_with(claim: Claim, each: Expectation, stacks: Sequence[str]) -> frozenset[str]:
    """The stacks that a claim compares by the same metric of the same workload: intervals hold over these."""
    alike = (
        other for other in claim.expect if (other.workload, other.metric) == (each.workload, each.metric)
    )
    return frozenset(name for other in alike for pair in other.pairs(stacks) for name in pair if name)


def cells_of(finding: ClaimFinding) -> list[CellKey]:
    """The cells that a comparison is of."""
    return _cells(finding.expectation, finding.stack, finding.against)


def _cells(each: Expectation, stack: str, against: str | None) -> list[CellKey]:
    own = CellKey(stack, each.workload)
    return [own] if against is None else [own, CellKey(against, each.other_workload)]


def _found(results: StudyResults, blank: ClaimFinding, among: frozenset[str], regime: str) -> ClaimFinding:
    each, blank = blank.expectation, replace(blank, verdict="undecided")
    for cell in cells_of(blank):
        if not results.cells[cell].series(each.metric).values:
            return replace(blank, why=f"{cell}: {results.lacking(*cell) or 'no such metric'}")
    kind = next(kind for kind in results.kinds(each.workload) if kind.name == each.metric)
    if blank.against is None:
        return _of_value(results, blank, kind)
    zone = each.within or PRACTICAL_ZONE
    comparison = results.compared(kind, *cells_of(blank), among=among, cached=each.cached, zone=zone)
    if comparison is None:
        return replace(blank, why="no ratio: a value is not above 0")
    ratio = comparison.ratio
    verdict, why = _verdict(each, comparison, regime)
    return replace(blank, verdict=verdict, why=why, seeds=ratio.n, level=ratio.ratio, interval=ratio.interval)


def _verdict(each: Expectation, comparison: Comparison, regime: str) -> tuple[Verdict, str]:
    """The verdict on a comparison, and the reason if it says nothing; ``regime``: why it is in another."""
    compared = comparison.verdict
    if compared == "not ranked":
        return "undecided", f"not ranked: {comparison.unranked}"
    if comparison.doubt and compared in {"doubtful", *_UNDECIDED}:
        return "undecided", comparison.doubt
    if regime:
        return "in another regime", regime
    if each.ratio is not None:
        return _of_ratio(each.ratio, comparison)
    return _of_direction(each.direction, comparison)


def _of_direction(expected: str | None, comparison: Comparison) -> tuple[Verdict, str]:
    """Whether a stack is better, equal or worse. An interval that misses the claimed side refutes it."""
    compared, gain, edge = comparison.verdict, comparison.gain_interval, 1 + comparison.zone
    if compared == expected:
        return "reproduced", ""
    if compared not in _UNDECIDED:
        return ("not reproduced" if "equal" in {compared, expected} else "reversed"), ""
    if gain is not None and (
        (expected == "better" and gain.high <= edge) or (expected == "worse" and gain.low >= 1 / edge)
    ):
        return "not reproduced", ""
    return "undecided", _UNDECIDED[compared]


def _of_ratio(expected: Sequence[float], comparison: Comparison) -> tuple[Verdict, str]:
    """Whether a ratio lies in the expected range as its interval can say, or only on its side of 1."""
    low, high = expected
    compared, interval = comparison.verdict, comparison.ratio.interval
    if interval is None:
        return "undecided", _UNDECIDED[compared]
    side = _side(low, high, PRACTICAL_ZONE)
    if side == 0:
        return _of_range(low, high, interval, is_narrow=half_width(interval) <= comparison.precision)
    reaches = interval.low <= high and low <= interval.high
    if compared in _UNDECIDED and reaches:
        return "undecided", _UNDECIDED[compared]
    if compared == "equal" or compared in _UNDECIDED:
        return "not reproduced", ""
    if _side(interval.low, interval.high) != side:
        return "reversed", ""
    return ("reproduced" if reaches else "direction only"), ""


def _of_range(low: float, high: float, interval: Interval, *, is_narrow: bool = False) -> tuple[Verdict, str]:
    """Whether an interval lies within a range; a narrow one need only reach it."""
    if interval.high < low or interval.low > high:
        return "not reproduced", ""
    if is_narrow or (low <= interval.low and interval.high <= high):
        return "reproduced", ""
    return "undecided", "the interval reaches across an end of the range: add seeds"


def _side(low: float, high: float, zone: float = 0.0) -> int:
    """Where a range of ratios lies: 1 above the zone around 1, -1 below it, 0 neither."""
    return 1 if low > 1 + zone else -1 if high < 1 / (1 + zone) else 0


def _of_value(results: StudyResults, blank: ClaimFinding, kind: MetricKind) -> ClaimFinding:
    each = blank.expectation
    assert each.value is not None
    low, high = each.value
    summary = results.summaries(each.workload, each.metric)[blank.stack]
    interval = summary.interval
    if interval is None and summary.n >= SEEDS_MIN and summary.minimum == summary.maximum:
        # A value that no seed changes, such as one piece per file, is known exactly.
        interval = Interval(summary.estimate, summary.estimate)
    found = replace(blank, seeds=summary.n, level=summary.estimate, interval=interval)
    cell = results.series(CellKey(blank.stack, each.workload), kind, cached=each.cached)
    if cell.unranked:
        return replace(found, why=f"not ranked: {cell.unranked}")
    if cell.doubt:
        return replace(found, why=cell.doubt)
    if interval is None:
        return replace(found, why=_UNDECIDED["too few seeds"])
    verdict, why = _of_range(low, high, interval)
    return replace(found, verdict=verdict, why=why)
