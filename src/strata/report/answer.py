# SPDX-License-Identifier: Apache-2.0
"""Which metrics of a workload are shown, and the answer in a sentence per workload and one for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from strata.advice.model import Advice
from strata.errors import ResultError
from strata.model.metric import metric_title
from strata.report.advice_text import lacks_words
from strata.report.spans import (
    Amount,
    StackName,
    Text,
    Times,
    Toned,
    Unbroken,
    WorkloadName,
    joined,
    listing,
    said,
)
from strata.report.wording import interval_words
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.study import StudyResults
from strata.units import times
from strata.words import counted, grouped

TAILS_MAX: Final = 2
"""With more kinds of requests, only the slowest kind's latency is shown."""
_NAMED_MAX: Final = 4  # of more stacks behind the leader, a sentence names the next and the last


def chosen_metrics(results: StudyResults, workload: str, names: Sequence[str] = ()) -> list[MetricKind]:
    """The workload's metrics of these names, or its leading ones. Raises ResultError for an unknown name.

    Where each kind of request has a tail of its own, the slowest kind's stands for all. In a page the others
    are among the other metrics, and their distributions are folded away.
    """
    if names:
        return _named(results, workload, names)
    leading = results.leading(workload)
    tails = [kind for kind in leading if not kind.headline]
    if len(tails) <= TAILS_MAX:
        return leading
    slowest = max(tails, key=lambda kind: _typical(results, workload, kind))
    return [kind for kind in leading if kind.headline or kind is slowest]


def _named(results: StudyResults, workload: str, names: Sequence[str]) -> list[MetricKind]:
    known = {kind.name for each in results.workloads for kind in results.kinds(each)}
    for name in names:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none, for lack of results"
            raise ResultError(
                f'no workload has the metric "{name}"', place="--metric", remedy=f"there are: {listed}"
            )
    return [kind for kind in results.kinds(workload) if kind.name in names]


def _typical(results: StudyResults, workload: str, kind: MetricKind) -> float:
    found = [results.cells[stack, workload].series(kind.name).values.values() for stack in results.stacks]
    return float(np.median([value for values in found for value in values]))


@dataclass(frozen=True)
class MetricStanding:
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

    @property
    def open(self) -> list[Comparison]:
        """The stacks of which it is not decided whether they are as good."""
        return self.those("undecided", "marginal", "better")


@dataclass(frozen=True)
class Answer:
    """A workload's results in words.

    Attributes:
        sentence: By the first headline metric: who leads, and by how much.
        qualified: The qualifications of that sentence.
        others: The other leading metrics, a sentence each.
        standing: By the first headline metric; None without results.
    """

    workload: str
    sentence: Text
    qualified: tuple[Text, ...] = ()
    others: tuple[Text, ...] = ()
    standing: MetricStanding | None = None

    @property
    def leaders(self) -> tuple[str, ...]:
        """The best stack and its equals; empty without results."""
        found = self.standing
        return (found.best, *(each.stack for each in found.those("equal"))) if found and found.best else ()

    @property
    def is_compared(self) -> bool:
        """Whether more than one stack has results."""
        return self.standing is not None and bool(self.standing.others)


def standings(
    results: StudyResults, workload: str, kinds: Sequence[MetricKind] | None = None
) -> list[MetricStanding]:
    """The stacks' standings by metrics of a workload, by default its leading ones; empty without results."""
    chosen = results.leading(workload) if kinds is None else kinds
    found = []
    for kind in chosen:
        best, *rest = results.ranking(workload, kind) or [""]
        against = {each.stack: each for each in results.against(best, {workload: [kind]})} if best else {}
        out = {stack: results.unranked(stack, workload) for stack in results.summaries(workload, kind.name)}
        unranked = {stack: why for stack, why in out.items() if why}
        others = tuple(against[stack] for stack in rest if stack in against)
        found.append(MetricStanding(kind, best, others, unranked))
    return found


def answer(
    results: StudyResults, workload: str, found: Sequence[MetricStanding], against: Mapping[str, str] = {}
) -> Answer:
    """A workload's results in words; ``against`` has what speaks against stacks (`objections`)."""
    if not found:
        return Answer(workload, "There is no valid result yet.")
    first, rest = found[0], found[1:]
    if not first.best:
        return Answer(workload, joined(_unranked(first)), standing=first)
    return Answer(
        workload,
        _sentence(results, first, workload, against),
        tuple(_qualifications(first)),
        tuple(
            joined([_sentence(results, each, workload, against), *_qualifications(each)])
            for each in rest
            if each.best
        ),
        first,
    )


def objections(advice: Advice | None) -> dict[str, str]:
    """What speaks against stacks by the answer to what the study asks, in a few words by stack."""
    out = advice.ruled_out if advice is not None else {}
    return {stack: f"ruled out: {lacks_words(each)}" for stack, each in out.items()}


def overall(answers: Sequence[Answer], against: Mapping[str, str] = {}) -> Text:
    """Which stacks lead where, in a sentence; empty where one workload alone was answered."""
    answered = [each for each in answers if each.is_compared]
    if len(answered) < 2:
        return ""
    names = {stack: StackName(stack, against.get(stack, "")) for each in answered for stack in each.leaders}
    everywhere = [stack for stack in names if all(stack in each.leaders for each in answered)]
    if everywhere:
        verb = "is" if len(everywhere) == 1 else "are"
        level = any(len(each.leaders) > 1 for each in answered) and len(everywhere) == 1
        best = "the best, or equal to the best," if level else "the best"
        every = "both" if len(answered) == 2 else f"all {len(answered)}"
        stacks = listing([names[stack] for stack in everywhere])
        return said(f"{{}} {verb} {best} under {every} workloads.", stacks)
    under = grouped((tuple(sorted(each.leaders)), each.workload) for each in answered)
    groups = sorted(under.items(), key=lambda group: -len(group[1]))
    clauses = [
        said("{}{} under {}", listing([names[stack] for stack in leaders]), verb, workload_names(workloads))
        for (leaders, workloads), verb in zip(
            groups[:_NAMED_MAX], (" lead" if len(groups[0][0]) > 1 else " leads", "", "", ""), strict=False
        )
    ]
    if left := sum(len(workloads) for _, workloads in groups[_NAMED_MAX:]):
        clauses.append((f"others under {counted(left, 'more workload')}",))
    return said("No stack is best everywhere: {}.", joined(clauses, "; "))


def workload_names(names: Sequence[str]) -> Text:
    return f"{len(names)} workloads" if len(names) > 6 else listing([WorkloadName(name) for name in names])


def surety(answers: Sequence[Answer]) -> list[Text]:
    """How sure the leads are, in a sentence for each kind of certainty."""
    kinds: dict[str, list[str]] = {"clear": [], "open": [], "doubtful": [], "few": []}
    for answer in answers:
        found = answer.standing
        if found is None or not found.others:
            continue
        few, doubtful = found.those("too few seeds"), found.those("doubtful")
        kind = "few" if few else "doubtful" if doubtful else "open" if found.open else "clear"
        kinds[kind].append(answer.workload)
    sentences = {
        "clear": "Under {} the differences are clear: other seeds would hardly change who leads.",
        "open": "Under {} these seeds do not tell whether another stack is as good as the leader.",
        "doubtful": "Under {} the numbers are in doubt: a check says why.",
        "few": "Under {} nothing can be said of how sure this is: it takes three seeds, and not all alike.",
    }
    return [said(sentences[kind], workload_names(found)) for kind, found in kinds.items() if found]


def _sentence(
    results: StudyResults, standing: MetricStanding, workload: str, against: Mapping[str, str]
) -> Text:
    def leads(stack: str) -> StackName:
        return StackName(stack, against.get(stack, ""))

    kind, best, title = standing.kind, standing.best, metric_title(standing.kind)
    value = Amount(results.summaries(workload, kind.name)[best].estimate, kind.unit.replace("1/s", "1"))
    if not standing.others:
        only = "Only {} has a rank: {}, {}." if standing.unranked else "Only {} has valid results: {}, {}."
        return said(only, leads(best), title, value)
    equal, behind = standing.those("equal"), standing.those("worse", "doubtful", "too few seeds")
    leading = listing([leads(stack) for stack in (best, *(each.stack for each in equal))])
    if not behind and not standing.open:
        return said("{} are even within ±3 %: {}, {}.", leading, title, value)
    even = ", even within ±3 %," if equal else ""
    if kind.better == "higher":
        start = said("{}{} {} {} {}", leading, even, "reach" if equal else "reaches", value, title)
    else:
        verb = "have" if equal else "has"
        start = said("{}{} {} the lowest {}, {}", leading, even, verb, title, value)
    return said("{}: {}.", start, listing(_clauses(behind, kind))) if behind else said("{}.", start)


def _clauses(behind: Sequence[Comparison], kind: MetricKind) -> list[Text]:
    if len(behind) <= _NAMED_MAX:
        return [_clause(each, kind, "", first=not index) for index, each in enumerate(behind)]
    return [
        _clause(behind[0], kind, "the next", first=True),
        _clause(behind[-1], kind, f"the last of {len(behind)}", first=False),
    ]


def _clause(each: Comparison, kind: MetricKind, place: str, *, first: bool) -> Text:
    lead = Times.over(each)
    how_much = Toned(times(lead.ratio))
    words = interval_words(lead.interval) if lead.interval or first else ""
    words = words if first else words.removeprefix("95 % interval ")
    noted = "; ".join(filter(None, (place, words)))
    sure = (" (", Unbroken(noted), ")") if noted else ""
    if kind.better == "higher":
        many = "many" if kind.unit in {"1/s", "1"} else "much"
        return said("{} as {} as {}{}", how_much, many, StackName(each.stack), sure)
    long = "long" if kind.unit == "ns" else "much"
    return said("that of {} is {} as {}{}", StackName(each.stack), how_much, long, sure)


def _qualifications(standing: MetricStanding) -> list[Text]:
    sentences = _unranked(standing)
    rivals: list[Text] = [
        said(
            "{} ({}, {})",
            StackName(each.stack),
            Times(Times.over(each).ratio),
            Unbroken(interval_words(Times.over(each).interval)),
        )
        for each in standing.open[:_NAMED_MAX]
    ]
    if len(standing.open) > _NAMED_MAX:
        rivals.append(f"{len(standing.open) - _NAMED_MAX} others")
    if rivals:
        text = "Whether {} differs by more than 3 % from {} is undecided."
        sentences.append(said(text, StackName(standing.best), listing(rivals)))
    doubts = dict.fromkeys(each.doubt for each in standing.those("doubtful"))
    if doubts:
        whys = "; ".join(dict.fromkeys("; ".join(doubts).split("; ")))
        sentences.append(f"A number behind this comparison is doubtful: {whys}.")
    if standing.those("too few seeds"):
        sentences.append(
            "Too few seeds, or seeds that are all alike: nothing can be said of how sure this is."
        )
    return sentences


def _unranked(standing: MetricStanding) -> list[Text]:
    stacks = grouped((why, StackName(stack)) for stack, why in standing.unranked.items())
    return [
        said("{} {} no rank: {}.", listing(names), "has" if len(names) == 1 else "have", why)
        for why, names in stacks.items()
    ]
