# SPDX-License-Identifier: Apache-2.0
"""The answer in a sentence per workload, made from the numbers and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from strata.report.wording import format_value, interval_words, metric_title, times
from strata.statistics.comparison import MetricKind
from strata.statistics.ratio import Ratio, compare, geometric_mean
from strata.statistics.study import StudyResults

Mark = Callable[[str], Markup]
"""How a stack's name is set in the page."""


@dataclass(frozen=True)
class Answer:
    """What a workload's results say.

    Attributes:
        sentence: The first headline metric: who leads, and by how much.
        remarks: What qualifies it, and the other leading metrics.
    """

    workload: str
    sentence: Markup
    remarks: tuple[Markup, ...]


def answer(results: StudyResults, workload: str, mark: Mark) -> Answer:
    """Say what a workload's results say."""
    kinds = results.leading(workload)
    if not kinds:
        return Answer(workload, Markup("There is no valid result yet."), ())
    sentence, doubts = _compare_stacks(results, workload, kinds[0], mark)
    others = [_compare_stacks(results, workload, kind, mark) for kind in kinds[1:]]
    return Answer(workload, sentence, (*doubts, *(other for other, _ in others)))


def _compare_stacks(
    results: StudyResults, workload: str, kind: MetricKind, mark: Mark
) -> tuple[Markup, list[Markup]]:
    summaries = results.summaries(workload, kind.name)
    ranking = results.ranking(workload, kind)
    best = ranking[0]
    value = _unbroken(format_value(summaries[best].estimate, kind.unit).removesuffix(" /s"))
    title = metric_title(kind.name)
    if len(ranking) == 1:
        return Markup("Only {} has valid results: {}, {}.").format(mark(best), title, value), []
    against = {stack: results.ratio(workload, kind.name, stack, best) for stack in ranking[1:]}
    even = [stack for stack, ratio in against.items() if ratio and ratio.verdict == "even"]
    leaders = [best, *even]
    behind = [stack for stack in ranking if stack not in leaders]
    doubts = [
        Markup("Whether {} differs from {} by more than 3 % is undecided: {} ({}).").format(
            mark(stack), mark(best), _unbroken(times(ratio.ratio)), _unbroken(interval_words(ratio))
        )
        for stack, ratio in against.items()
        if ratio is not None and ratio.verdict == "undecided"
    ]
    if any(ratio is not None and ratio.verdict == "too few seeds" for ratio in against.values()):
        doubts.append(Markup("With fewer than three seeds nothing can be said of how sure this is."))
    leading = _listed([mark(stack) for stack in leaders])
    if not behind:
        within = Markup("{} are even within ±3 %: ").format(leading)
        return within + Markup("{}, {}.").format(title, value), doubts
    ratios = [(stack, _ratio(results, workload, kind, leaders, stack)) for stack in behind]
    clauses = _listed(
        [
            _clause(stack, ratio, kind, mark, first=stack == behind[0])
            for stack, ratio in ratios
            if ratio is not None
        ]
    )
    equal = Markup(", even within ±3 %,") if even else Markup("")
    if kind.better == "higher":
        verb = "reach" if even else "reaches"
        return Markup("{}{} {} {} {}: {}.").format(leading, equal, verb, value, title, clauses), doubts
    verb = "have" if even else "has"
    return Markup("{}{} {} the lowest {}, {}: {}.").format(
        leading, equal, verb, title, value, clauses
    ), doubts


def _clause(stack: str, ratio: Ratio, kind: MetricKind, mark: Mark, *, first: bool) -> Markup:
    how_much = _unbroken(times(ratio.ratio))
    words = interval_words(ratio)
    sure = _unbroken(words if first else words.removeprefix("95 % interval "))
    if kind.better == "higher":
        return Markup("<strong>{}</strong> as many as {} ({})").format(how_much, mark(stack), sure)
    return Markup("that of {} is <strong>{}</strong> as long ({})").format(mark(stack), how_much, sure)


def _unbroken(text: str) -> str:
    """Text in which a number and what belongs to it stay on one line."""
    return re.sub(
        r"(?<=\d) (?=\S)|(?<=%) (?=interval)|(?<=interval) (?=\d)| (?=to \d)|(?<=to) (?=\d)", "\u00a0", text
    )


def _ratio(
    results: StudyResults, workload: str, kind: MetricKind, leaders: list[str], stack: str
) -> Ratio | None:
    """How many times better the leaders are than ``stack``, as a number above 1."""
    each = [results.cells[leader, workload].series(kind.name) for leader in leaders]
    leading = each[0] if len(each) == 1 else geometric_mean(each)
    series = results.cells[stack, workload].series(kind.name)
    return compare(leading, series) if kind.better == "higher" else compare(series, leading)


def _listed(parts: list[Markup]) -> Markup:
    last = parts[-1:]
    return Markup(" and ").join([Markup(", ").join(parts[:-1]), *last] if len(parts) > 1 else last)
