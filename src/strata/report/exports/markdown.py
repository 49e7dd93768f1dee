# SPDX-License-Identifier: Apache-2.0
"""The report in short as Markdown: the question, the answer, the advice, the tables, how it was measured."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from strata.advice.model import Advice
from strata.report.advice_tables import in_short
from strata.report.answer import Answer, answer, overall, standings
from strata.report.capability_table import capability_table
from strata.report.origin import command, declared_seeds, origin, precision_notes, seeds_words
from strata.report.sections import comparison_table
from strata.report.selection import shown_kinds
from strata.report.table import escaped, markdown
from strata.report.warnings import grouped_warnings
from strata.results.capabilities import Capabilities
from strata.statistics.study import StudyResults
from strata.words import sentence_case


def to_markdown(
    results: StudyResults, capabilities: Capabilities | None = None, advice: Sequence[Advice] = ()
) -> bytes:
    """The whole report in short, in GitHub's Markdown."""
    return ("\n".join(_lines(results, capabilities, advice)).rstrip() + "\n").encode()


def _lines(
    results: StudyResults, capabilities: Capabilities | None, advice: Sequence[Advice]
) -> Iterator[str]:
    snapshot = results.snapshot
    yield f"# {escaped(snapshot.question or snapshot.name)}\n"
    answers = [_answer(results, workload) for workload in results.workloads]
    if said := overall(answers, _mark):
        yield f"{_plain(said)}\n"
    for each in answers:
        yield f"- *{each.workload}*: {_plain(each.sentence)}"
    yield ""
    if any(each.standings for each in advice):
        yield "## Which stack for which use\n"
        yield "By weights that `strata advise` shows and lets you change.\n"
        yield from in_short(advice)
    for each in answers:
        yield from _workload(
            results, each.workload, [_plain(said) for said in (*each.qualified, *each.others)]
        )
    if capabilities is not None:
        yield from _capabilities(capabilities)
    yield from _origin(results)


def _answer(results: StudyResults, workload: str) -> Answer:
    found = standings(results, workload, shown_kinds(results, workload))
    return answer(results, workload, _mark, found)


def _workload(results: StudyResults, workload: str, remarks: Sequence[str]) -> Iterator[str]:
    choice = next(each for each in results.snapshot.workloads if each.name == workload)
    yield f"## {workload}: {escaped(choice.title)}\n"
    if choice.rationale:
        yield f"{escaped(choice.rationale)}\n"
    if remarks:
        yield from (f"- {remark}" for remark in remarks)
        yield ""
    for standing in standings(results, workload, shown_kinds(results, workload)):
        yield markdown(comparison_table(results, workload, standing))
    if warnings := list(_warnings(results, workload)):
        yield "Warnings:\n"
        yield from warnings
        yield ""


def _warnings(results: StudyResults, workload: str) -> Iterator[str]:
    """The warnings, each with its stacks and its remedy."""
    for each in grouped_warnings(results, workload):
        stacks = "All stacks" if each.everywhere and len(each.stacks) > 1 else ", ".join(each.stacks)
        remedy = f"{escaped(sentence_case(each.remedy))}."
        if not each.texts:
            yield f"- {stacks}: {escaped(each.text)}. {remedy}"
            continue
        yield f"- {stacks}. {remedy}"
        yield from (f"  - {stack}: {escaped(text)}" for stack, text in each.texts)


def _capabilities(found: Capabilities) -> Iterator[str]:
    yield "## What the stacks can do\n"
    yield "Found out by doing it in the lab; the times are virtual.\n"
    yield markdown(capability_table(found, has_questions=False))
    for cell in found.cells:
        if cell.note:
            yield f"- {cell.stack}, {escaped(found.title(cell.probe))}: {escaped(cell.note)}"
    yield ""


def _origin(results: StudyResults) -> Iterator[str]:
    snapshot, found = results.snapshot, origin(results)
    yield "## How it was measured\n"
    if snapshot.time_domain == "virtual":
        yield "In virtual time, on modelled disks: the same study gives the same numbers anywhere.\n"
    else:
        hosts = escaped(", ".join(found["hosts"]))
        yield f"In wall time, on {hosts or 'a real machine'}: these numbers hold for it alone.\n"
    seeds = declared_seeds(snapshot)
    named = f"{'seeds' if len(seeds) > 1 else 'seed'} {seeds_words(seeds)}"
    yield f"- {found['valid']} of {found['trials']} trials are valid; {named}."
    yield from (f"- {escaped(said)}" for said in precision_notes(snapshot))
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
