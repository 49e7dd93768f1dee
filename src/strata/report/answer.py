# SPDX-License-Identifier: Apache-2.0
"""Which metrics of a workload are shown, and the answer in a sentence per workload and one for all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from markupsafe import Markup

from strata.advice.model import Advice
from strata.errors import ResultError
from strata.model.metric import metric_title
from strata.report.advice_text import lacks_words
from strata.report.wording import interval_words
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.interval import Interval
from strata.statistics.study import StudyResults
from strata.units import format_value, times
from strata.words import listed

TAILS_MAX: Final = 2
"""With more kinds of requests, only the slowest kind's latency is shown."""


def check_reportable(results: StudyResults, reference: str | None = None) -> None:
    """Raise ResultError if there is no valid result, or no stack named ``reference``."""
    if not results.records:
        raise ResultError(
            "there is no valid result to report",
            place=results.snapshot.name,
            remedy="`strata show RESULTS` says of each trial what is wrong with it",
        )
    if reference is not None and reference not in results.stacks:
        raise ResultError(
            f'the study has no stack "{reference}"',
            place="--reference",
            remedy=f"there are: {', '.join(results.stacks)}",
        )


def chosen_metrics(results: StudyResults, workload: str, names: Sequence[str]) -> list[MetricKind]:
    """The workload's metrics of these names, or its default ones. Raises ResultError for an unknown name."""
    known = {kind.name for each in results.workloads for kind in results.kinds(each)}
    for name in names:
        if name not in known:
            listing = ", ".join(sorted(known)) or "none, for lack of results"
            raise ResultError(
                f'no workload has the metric "{name}"', place="--metric", remedy=f"there are: {listing}"
            )
    if not names:
        return shown_kinds(results, workload)
    return [kind for kind in results.kinds(workload) if kind.name in names]


def shown_kinds(results: StudyResults, workload: str) -> list[MetricKind]:
    """The leading metrics, with one tail where each kind of request has its own: that of the slowest kind.

    In a page the others are among the other metrics, and their distributions are folded away.
    """
    leading = results.leading(workload)
    tails = [kind for kind in leading if not kind.headline]
    if len(tails) <= TAILS_MAX:
        return leading
    slowest = max(tails, key=lambda kind: _typical(results, workload, kind))
    return [kind for kind in leading if kind.headline or kind is slowest]


def _typical(results: StudyResults, workload: str, kind: MetricKind) -> float:
    found = [results.cells[stack, workload].series(kind.name).values.values() for stack in results.stacks]
    return float(np.median([value for values in found for value in values]))


Mark = Callable[[str], Markup]
"""The form of a stack's name in the page."""

_NAMED_MAX: Final = 4  # of more stacks behind the leader, a sentence names the next and the last


@dataclass(frozen=True)
class Answer:
    """A workload's results in words."""

    workload: str
    sentence: Markup  # the first headline metric: who leads, and by how much
    qualified: tuple[Markup, ...] = ()  # its qualifications
    others: tuple[Markup, ...] = ()  # the other leading metrics, a sentence each
    leaders: tuple[str, ...] = ()  # the best stack and its equals; empty without results
    compared: bool = False  # whether more than one stack has results
    sure: bool = True  # whether all of them have seeds enough for an interval
    contested: bool = False  # whether another stack is not clearly behind


@dataclass(frozen=True)
class Standing:
    """One metric of a workload: the best stack, and all others against it, best first.

    Attributes:
        best: Empty if no stack has a rank.
        unranked: The stacks without a rank, with the reason in a few words.
    """

    kind: MetricKind
    best: str
    others: tuple[Comparison, ...]
    unranked: Mapping[str, str] = field(default_factory=dict)

    def those(self, *verdicts: str) -> list[Comparison]:
        return [each for each in self.others if each.verdict in verdicts]


def standings(
    results: StudyResults, workload: str, kinds: Sequence[MetricKind] | None = None
) -> list[Standing]:
    """The stacks' standings by metrics of a workload, by default its leading ones; empty without results."""
    chosen = results.leading(workload) if kinds is None else kinds
    found = []
    for kind in chosen:
        best, *rest = results.ranking(workload, kind) or [""]
        against = {each.stack: each for each in results.against(best, {workload: [kind]})} if best else {}
        out = {stack: results.unranked(stack, workload) for stack in results.summaries(workload, kind.name)}
        unranked = {stack: why for stack, why in out.items() if why}
        others = tuple(against[stack] for stack in rest if stack in against)
        found.append(Standing(kind, best, others, unranked))
    return found


def answer(
    results: StudyResults,
    workload: str,
    mark: Mark,
    found: Sequence[Standing] | None = None,
    against: Mapping[str, str] = {},
) -> Answer:
    """A workload's results in words.

    ``found`` are its ``standings``, if they are known; ``against`` has what speaks against stacks, which
    stands beside each of them that leads (`objections`).
    """
    known = standings(results, workload) if found is None else found
    if not known:
        return Answer(workload, Markup("There is no valid result yet."))
    first, rest = known[0], known[1:]
    if not first.best:
        return Answer(workload, Markup(" ").join(_unranked(first, mark)))
    leading = _with_objections(mark, against)

    def sentence(of: Standing) -> Markup:
        return _sentence(results, of, workload, mark, leading)

    return Answer(
        workload,
        sentence(first),
        tuple(_qualifications(first, mark)),
        tuple(Markup(" ").join((sentence(each), *_qualifications(each, mark))) for each in rest),
        (first.best, *(each.stack for each in first.those("equal"))),
        compared=bool(first.others),
        sure=not first.those("too few seeds"),
        contested=bool(first.those("undecided", "marginal", "better")),
    )


def objections(advice: Advice | None) -> dict[str, str]:
    """What speaks against stacks by the answer to what the study asks, in a few words by stack."""
    out = advice.ruled_out if advice is not None else {}
    return {stack: f"ruled out: {lacks_words(each)}" for stack, each in out.items()}


def _with_objections(mark: Mark, against: Mapping[str, str]) -> Mark:
    def marked(stack: str) -> Markup:
        said = against.get(stack)
        return mark(stack) if said is None else Markup("{} ({})").format(mark(stack), said)

    return marked


def overall(answers: Sequence[Answer], mark: Mark, against: Mapping[str, str] = {}) -> Markup:
    """Which stacks lead where, in a sentence; empty where one workload alone was answered."""
    mark = _with_objections(mark, against)
    answered = [each for each in answers if each.compared]
    if len(answered) < 2:
        return Markup("")
    unsure = " Some of this rests on fewer than three seeds, which do not tell how sure it is."
    contested = [each.workload for each in answered if each.contested]
    rivals = Markup(" Under {} another stack is not clearly behind.").format(_workloads(contested))
    said = _overall(answered, mark) + (rivals if contested else "")
    return said + ("" if all(each.sure for each in answered) else unsure)


def _overall(answered: Sequence[Answer], mark: Mark) -> Markup:
    everywhere = [stack for stack in answered[0].leaders if all(stack in each.leaders for each in answered)]
    if everywhere:
        verb = "is" if len(everywhere) == 1 else "are"
        level = any(len(each.leaders) > 1 for each in answered) and len(everywhere) == 1
        best = "the best, or equal to the best," if level else "the best"
        every = "both" if len(answered) == 2 else f"all {len(answered)}"
        return Markup("{} {} {} under {} workloads.").format(
            listed([mark(stack) for stack in everywhere]), verb, best, every
        )
    under: dict[str, list[str]] = {}
    for each in answered:
        for stack in each.leaders:
            under.setdefault(stack, []).append(each.workload)
    ranked = sorted(under, key=lambda stack: -len(under[stack]))
    clauses = [
        Markup("{} leads, or equals the leader, under {}").format(mark(stack), _workloads(under[stack]))
        if number == 0
        else Markup("{} under {}").format(mark(stack), _workloads(under[stack]))
        for number, stack in enumerate(ranked[:_NAMED_MAX])
    ]
    return Markup("No stack is best everywhere: {}.").format(Markup("; ").join(clauses))


def _workloads(names: Sequence[str]) -> Markup:
    if len(names) > 6:
        return Markup("{} workloads").format(len(names))
    return listed([Markup("<em>{}</em>").format(name) for name in names])


def _sentence(results: StudyResults, standing: Standing, workload: str, mark: Mark, leads: Mark) -> Markup:
    """The first sentence of a metric; ``leads`` is the form of a leading stack's name."""
    kind, best = standing.kind, standing.best
    estimate = results.summaries(workload, kind.name)[best].estimate
    value = _unbroken(format_value(estimate, kind.unit).removesuffix(" /s"))
    title = metric_title(kind)
    if not standing.others and standing.unranked:
        return Markup("Only {} has a rank: {}, {}.").format(leads(best), title, value)
    if not standing.others:
        return Markup("Only {} has valid results: {}, {}.").format(leads(best), title, value)
    equal, behind = standing.those("equal"), standing.those("worse", "doubtful", "too few seeds")
    leading = listed([leads(stack) for stack in (best, *(each.stack for each in equal))])
    if not behind and not standing.those("undecided", "marginal", "better"):
        return Markup("{} are even within ±3 %: {}, {}.").format(leading, title, value)
    even = Markup(", even within ±3 %,") if equal else Markup("")
    if kind.better == "higher":
        said = Markup("{}{} {} {} {}").format(leading, even, "reach" if equal else "reaches", value, title)
    else:
        verb = "have" if equal else "has"
        said = Markup("{}{} {} the lowest {}, {}").format(leading, even, verb, title, value)
    clauses = _clauses(behind, kind, mark)
    return said + (Markup(": {}.").format(listed(clauses)) if clauses else Markup("."))


def _clauses(behind: Sequence[Comparison], kind: MetricKind, mark: Mark) -> list[Markup]:
    if len(behind) <= _NAMED_MAX:
        return [_clause(each, kind, mark, "", first=not index) for index, each in enumerate(behind)]
    return [
        _clause(behind[0], kind, mark, "the next", first=True),
        _clause(behind[-1], kind, mark, f"the last of {len(behind)}", first=False),
    ]


def _clause(each: Comparison, kind: MetricKind, mark: Mark, place: str, *, first: bool) -> Markup:
    how_much = _unbroken(times(1 / each.gain))
    lead = _lead(each)
    words = interval_words(lead) if lead or first else ""
    words = words if first else words.removeprefix("95 % interval ")
    noted = "; ".join(filter(None, (place, _unbroken(words))))
    sure = Markup(" ({})").format(noted) if noted else Markup("")
    if kind.better == "higher":
        many = "many" if kind.unit in {"1/s", "1"} else "much"
        return Markup("<strong>{}</strong> as {} as {}").format(how_much, many, mark(each.stack)) + sure
    long = "long" if kind.unit == "ns" else "much"
    return Markup("that of {} is <strong>{}</strong> as {}").format(mark(each.stack), how_much, long) + sure


def _qualifications(standing: Standing, mark: Mark) -> list[Markup]:
    said, rivals = _unranked(standing, mark), []
    undecided = standing.those("undecided", "marginal", "better")
    for each in undecided[:_NAMED_MAX]:
        ratio, interval = _unbroken(times(1 / each.gain)), _unbroken(interval_words(_lead(each)))
        rivals.append(Markup("{} ({}, {})").format(mark(each.stack), ratio, interval))
    if len(undecided) > _NAMED_MAX:
        rivals.append(Markup("{} others").format(len(undecided) - _NAMED_MAX))
    if rivals:
        text = Markup("Whether {} differs by more than 3 % from {} is undecided.")
        said.append(text.format(mark(standing.best), listed(rivals)))
    doubts = dict.fromkeys(each.doubt for each in standing.those("doubtful"))
    if doubts:
        whys = "; ".join(dict.fromkeys("; ".join(doubts).split("; ")))
        said.append(Markup("A number behind this comparison is doubtful: {}.").format(whys))
    if standing.those("too few seeds"):
        said.append(
            Markup("Too few seeds, or seeds that are all alike: nothing can be said of how sure this is.")
        )
    return said


def _unranked(standing: Standing, mark: Mark) -> list[Markup]:
    stacks: dict[str, list[Markup]] = {}
    for stack, why in standing.unranked.items():
        stacks.setdefault(why, []).append(mark(stack))
    return [
        Markup("{} {} no rank: {}.").format(listed(names), "has" if len(names) == 1 else "have", why)
        for why, names in stacks.items()
    ]


def _lead(each: Comparison) -> Interval | None:
    """The interval of the baseline's gain over the stack: the stack's gain, turned over."""
    gain = each.gain_interval
    return Interval(1 / gain.high, 1 / gain.low) if gain else None


def _unbroken(text: str) -> str:
    """Text with no-break spaces around its numbers."""
    return re.sub(
        r"(?<=\d) (?=\S)|(?<=%) (?=interval)|(?<=interval) (?=\d)| (?=to \d)|(?<=to) (?=\d)", "\u00a0", text
    )
