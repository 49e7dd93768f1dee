# SPDX-License-Identifier: Apache-2.0
"""The sections of a report, in their order; each is a function that yields none, one or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from strata.advice.model import Advice
from strata.report.advice_tables import advised, answer_text
from strata.report.answer import Answer, overall, surety
from strata.report.capability_table import capabilities
from strata.report.cells import cells
from strata.report.confirm import confirmations
from strata.report.document import (
    WRITTEN,
    Block,
    Bullets,
    Document,
    Drawn,
    Fold,
    Group,
    Heading,
    Item,
    Note,
    Paragraph,
    Section,
    Terms,
    marker,
)
from strata.report.effects import curves, effects_views
from strata.report.findings import rebuilds
from strata.report.methods import data, methods, reproduce
from strata.report.origin import cost_line, precision_notes, seeds_words
from strata.report.palette import stack_colours
from strata.report.report import Report
from strata.report.spans import Text, Toned, WorkloadName, joined, said
from strata.report.stack import stacks
from strata.report.survival import survival
from strata.report.warnings import answer_warnings
from strata.report.workload_section import workloads
from strata.statistics.comparison import Comparison
from strata.units import format_value, times
from strata.words import counted

_MISSING_MAX: Final = 12  # more trials without a result are folded away
_BARS_MAX: Final = 6
_LONGEST: Final = 1.5  # the longest bar, in lengths of the best stack's; an interval may reach further


def answered(report: Report) -> Iterator[Section]:
    """The choice, a picture of it, and how sure it is; then each workload's answer."""
    blocks: list[Block] = []
    if report.asked is not None:
        blocks += [Paragraph(answer_text(report.asked), "lead"), Drawn(_use_bars(report, report.asked))]
    if summary := overall(report.answers, report.objections):
        blocks.append(Paragraph(summary, "" if report.asked else "overall"))
    blocks += [Paragraph(joined(sure), "sure")] if (sure := surety(report.answers)) else []
    rows = [
        (
            (WorkloadName(each.workload), " ", Toned(report.declared(each.workload).title, "dim")),
            Item(each.sentence, [*_remarks(report, each)]),
        )
        for each in report.answers
    ]
    yield Section("answer", "The answer", [*blocks, Group([Terms(rows, "answers")], where=WRITTEN)])


def _remarks(report: Report, answer: Answer) -> Iterator[Block]:
    if (standing := answer.standing) is not None and standing.others:
        summaries = report.results.summaries(answer.workload, standing.kind.name)
        gains: list[tuple[str, Comparison | None]] = [(standing.best, None)]
        gains += [(each.stack, each) for each in standing.others if not each.unranked]
        bars = [
            _Bar(stack, gain, format_value(summaries[stack].estimate, standing.kind.unit))
            for stack, gain in gains
        ]
        yield Drawn(_bars(report.results.stacks, bars, "longer is better"))
    yield from (
        Paragraph(text, "remark warning") for text in answer_warnings(report.results, answer.workload)
    )
    yield from (Paragraph(text, "remark") for text in answer.qualified)


class _Bar(NamedTuple):
    """A stack against the best; None: it is the best."""

    stack: str
    against: Comparison | None
    label: str


def _use_bars(report: Report, advice: Advice) -> Markup:
    bars = [
        _Bar(each.stack, each.score, times(each.score.gain) if each.score else "1 ×")
        for each in advice.standings
    ]
    return _bars(report.results.stacks, bars, "how good each stack is for this use; longer is better")


def _bars(stacks: Sequence[str], bars: Sequence[_Bar], title: str) -> Markup:
    """A bar for each stack, as long as the stack is good, with the interval as a line."""
    if len(bars) < 2:
        return Markup("")
    mark, colours = marker(stacks), stack_colours([*stacks])
    shown = bars[:_BARS_MAX]
    ends = [bar.against.gain_interval.high for bar in shown if bar.against and bar.against.gain_interval]
    longest = min(max(1.0, *ends, *(bar.against.gain for bar in shown if bar.against)), _LONGEST)
    rows = Markup("").join(
        Markup(
            '<div data-stack="{}">{}<span class="track"><i style="width:{:.1f}%;background:var(--{})"></i>{}'
            "</span><small>{}</small></div>\n"
        ).format(
            bar.stack,
            mark(bar.stack),
            min(bar.against.gain if bar.against else 1.0, longest) / longest * 100,
            colours[bar.stack].variable,
            _whisker(bar.against, longest),
            bar.label,
        )
        for bar in shown
    )
    words = "; ".join(f"{bar.stack} {bar.label}" for bar in shown)
    more = f"{title}; {counted(len(bars) - len(shown), 'more stack')} below" if bars[len(shown) :] else title
    return Markup('<div class="bars" role="img" aria-label="Bars, {}: {}">\n{}<p>{}</p></div>\n').format(
        title, words, rows, more
    )


def _whisker(against: Comparison | None, longest: float) -> Markup:
    interval = against.gain_interval if against else None
    if interval is None:
        return Markup("")
    low, high = (min(end, longest) / longest * 100 for end in (interval.low, interval.high))
    return Markup('<b style="left:{:.1f}%;width:{:.1f}%"></b>').format(low, max(high - low, 0.4))


def missing(report: Report) -> Iterator[Section]:
    """The trials that are not in the numbers, and why; trials that were not run share a line."""
    unrun: dict[tuple[str, str], list[int]] = {}
    lines: list[Text] = []
    for reading in report.results.readings:
        if not reading.usable and reading.attempts:
            lines.append(said("{}: {}", Toned(reading.trial_id), reading.problem or ""))
        elif not reading.usable:
            unrun.setdefault((reading.trial.workload, reading.problem or ""), []).append(reading.trial.seed)
    for (workload, problem), seeds in unrun.items():
        found = [*dict.fromkeys(seeds)]
        seed = f"seed{'s' if len(found) > 1 else ''} {seeds_words(found)}"
        lines.append(said("{}, {}: {}", Toned(workload), seed, problem))
    for cell, why in report.results.snapshot.skipped.items():
        lines.append(said("{}: skipped, since {}", Toned(str(cell)), why))
    if lines:
        bullets = Bullets(lines)
        block: Block = bullets
        if len(lines) > _MISSING_MAX:
            block = Fold(f"{len(lines)} trials without a valid result", [bullets], WRITTEN | {"terminal"})
        yield Section("missing", "Not in these numbers", [Note([block])])


def effects(report: Report) -> Iterator[Section]:
    """What each factor of the study's matrix does."""
    blocks: list[Block] = []
    for view in effects_views(report.results):
        blocks += [Heading(f"{view.design.name}: {view.metric}"), Paragraph(view.strongest)]
        blocks += [Group([view.effects], "wide"), *curves(report.results, view)]
        if view.interactions.rows:
            summary = "Interactions: does an effect depend on another factor?"
            blocks.append(Fold(summary, [view.interactions], WRITTEN | {"terminal"}))
    if blocks:
        explained = Paragraph(
            "The study’s matrix varies these keys. An effect is the ratio of two levels of one factor, as "
            "the mean over the combinations of the others that have both, seed by seed. Where factors "
            "interact, the effect depends on the other factor’s level: read the cells."
        )
        yield Section("effects", "What each factor does", [Group([explained], where=WRITTEN), *blocks])


SECTIONS: Final[tuple[Callable[[Report], Iterator[Section]], ...]] = (
    answered,
    missing,
    confirmations,
    lambda report: rebuilds(report.rebuilt.values()),
    advised,
    cells,
    effects,
    workloads,
    stacks,
    survival,
    capabilities,
    methods,
    reproduce,
    data,
)


def sections(report: Report) -> list[Section]:
    return [section for function in SECTIONS for section in function(report)]


def facts(report: Report) -> str:
    """What was measured, and where, in a few words."""
    snapshot, found = report.results.snapshot, report.origin
    declared = [seed for seed in snapshot.seeds if seed not in {*sum(snapshot.added_seeds.values(), ())}]
    further = ", and further seeds where they were needed" if snapshot.added_seeds else ""
    kernels = ", ".join(filter(None, found["kernels"])) or "of an unknown version"
    sizes = " × ".join(
        counted(len(each), noun)
        for each, noun in (
            (snapshot.stacks, "stack"),
            (snapshot.workloads, "workload"),
            (declared, "seed"),
        )
    )
    where = f"Measured in virtual time, on Linux {kernels} with modelled disks."
    if not report.is_virtual:
        hosts = f", {', '.join(found['hosts'])}" if found["hosts"] else ""
        where = f"Measured in wall time, on Linux {kernels}{hosts}, from {found['started']}."
    if not found["valid"]:
        where = "Nothing is measured yet."
    return f"{sizes}{further}. {found['valid']} of {found['trials']} trials are valid. {where}"


def document(report: Report) -> Document:
    """The whole report, for Markdown, a terminal or a notebook."""
    question = report.results.snapshot.question or report.results.snapshot.name
    opening: list[Block] = [Heading(question, 1), Group([Paragraph(facts(report))], where=WRITTEN)]
    lines: list[Block] = [Paragraph(cost_line(report.results), "key"), *_doubts(report)]
    closing = Group(lines, where=frozenset({"terminal"}))
    return Document([*opening, *sections(report), closing], report.results.stacks)


def _doubts(report: Report) -> Iterator[Block]:
    count = report.origin["labs"]
    if count > 1:
        yield Paragraph(
            f"Measured in {count} different labs: `strata run --fresh` makes them alike.", "warning"
        )
    yield from (Paragraph(note, "key") for note in precision_notes(report.results.snapshot))
