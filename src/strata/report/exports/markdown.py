# SPDX-License-Identifier: Apache-2.0
"""The report in short as Markdown: the question, the answer, the tables, how it was measured."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from strata.report.answer import answer, overall
from strata.report.origin import command, origin
from strata.report.wording import format_value, metric_title, sentence_case, significant
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.level import Interval
from strata.statistics.study import StudyResults


def to_markdown(results: StudyResults) -> bytes:
    """The whole report in short, in GitHub's Markdown."""
    return ("\n".join(_lines(results)).rstrip() + "\n").encode()


def _lines(results: StudyResults) -> Iterator[str]:
    snapshot = results.snapshot
    yield f"# {_text(snapshot.question or snapshot.name)}\n"
    answers = [answer(results, workload, _mark) for workload in results.workloads]
    said = overall(answers, _mark)
    if said:
        yield f"{_plain(said)}\n"
    for each in answers:
        yield f"- *{each.workload}*: {_plain(each.sentence)}"
    yield ""
    for each in answers:
        yield from _workload(results, each.workload, [_plain(said) for said in (*each.doubts, *each.others)])
    yield from _origin(results)


def _workload(results: StudyResults, workload: str, remarks: Sequence[str]) -> Iterator[str]:
    choice = next(each for each in results.snapshot.workloads if each.name == workload)
    yield f"## {workload}: {_text(choice.title)}\n"
    if choice.stands_for:
        yield f"{_text(choice.stands_for)}\n"
    if remarks:
        yield from (f"- {remark}" for remark in remarks)
        yield ""
    for kind in results.leading(workload):
        yield from _table(results, workload, kind)
    cautions = [
        f"- {stack}: {_text(each.text)} {_text(sentence_case(each.remedy))}"
        for stack in results.stacks
        for each in results.cautions(stack, workload)
    ]
    if cautions:
        yield "What speaks against these numbers:\n"
        yield from cautions
        yield ""


def _table(results: StudyResults, workload: str, kind: MetricKind) -> Iterator[str]:
    title, more = sentence_case(metric_title(kind.name)), "more" if kind.better == "higher" else "less"
    yield f"{title}; {more} is better.\n"
    yield "| stack | n | estimate | 95 % interval | to the best | 95 % interval | verdict |"
    yield "| :-- | --: | --: | --: | --: | --: | :-- |"
    ranking = results.ranking(workload, kind)
    against = {each.stack: each for each in results.against(ranking[0], {workload: [kind]})}
    for stack in ranking:
        summary = results.summaries(workload, kind.name)[stack]
        cells = (
            stack,
            str(summary.n),
            format_value(summary.estimate, kind.unit),
            _interval(summary.interval, kind.unit),
            *(("1", "", "best") if stack == ranking[0] else _to_best(against.get(stack))),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _to_best(comparison: Comparison | None) -> tuple[str, str, str]:
    if comparison is None:
        return ("–", "–", "not compared")
    interval = comparison.ratio.interval
    ends = f"{significant(interval.low)} – {significant(interval.high)}" if interval else "–"
    return (significant(comparison.ratio.ratio), ends, comparison.verdict)


def _interval(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return "–"
    return f"{format_value(interval.low, unit)} – {format_value(interval.high, unit)}"


def _origin(results: StudyResults) -> Iterator[str]:
    snapshot, found = results.snapshot, origin(results)
    yield "## How it was measured\n"
    if snapshot.time_domain == "virtual":
        yield "In virtual time, on modelled disks: the same study gives the same numbers anywhere.\n"
    else:
        hosts = _text(", ".join(found["hosts"]))
        yield f"In wall time, on {hosts or 'a real machine'}: these numbers hold for it alone.\n"
    seeds = ", ".join(map(str, snapshot.seeds))
    yield f"- {found['valid']} of {found['trials']} trials are valid; seeds {seeds}."
    kernels = ", ".join(sorted(filter(None, found["kernels"])))
    yield f"- Linux {kernels or 'of an unknown version'}; strata {', '.join(sorted(found['strata']))}."
    if found["packages"]:
        yield f"- {'; '.join(f'{name} {versions}' for name, versions in found['packages'].items())}."
    if command(snapshot):
        yield f"- To reproduce it: `{command(snapshot)}`"
    yield "- A verdict compares the ratio's 95 % interval to the zone of ±3 % in which a difference is of no"
    yield "  practical consequence: equal inside, worse outside, undecided across its edge."


def _mark(stack: str) -> Markup:
    return Markup("<strong>{}</strong>").format(stack)


def _plain(said: Markup) -> str:
    """The page's sentences as Markdown: emphasis stays, entities become letters."""
    text = re.sub(r"</?(?:strong|b)\b[^>]*>", "**", str(said))
    text = re.sub(r"</?(?:em|i)\b[^>]*>", "*", text)
    return html.unescape(re.sub(r"<[^>]+>", "", text)).replace("\N{NO-BREAK SPACE}", " ")


def _text(words: str) -> str:
    """A user's words, in which nothing is Markdown's."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(words.split()))
