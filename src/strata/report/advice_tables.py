# SPDX-License-Identifier: Apache-2.0
"""An advice as tables, in a terminal and in Markdown, and as JSON types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from strata.advice.model import Advice, Conclusion, Part, Settling, Standing, Worse
from strata.advice.uses import Use
from strata.model.metric_title import metric_title
from strata.printable import plain
from strata.report.advice_text import ability, headline, lacks_words, lead, reasons
from strata.report.spans import Tone
from strata.report.table import Cell, Column, Table, columns, facts, markdown, objects, terminal
from strata.report.wording import ends_plain, gain_cells, picked
from strata.statistics.comparison import Comparison
from strata.units import percent
from strata.words import listed, sentence_case

_STYLES: Final[dict[Conclusion, str]] = {
    "clear": "bold green",
    "even": "bold yellow",
    "undecided": "bold yellow",
    "the means disagree": "bold yellow",
}
_TONES: Final[dict[str, Tone]] = {"worse": "worse", "better": "better"}
_STACK: Final = Column("stack", "stack")
_SCORE: Final = columns(("to the leader", "ratio"), ("95 % interval", "figure"), "verdict")
LEGEND: Final = (
    "waiting: the weighted arithmetic mean of the times of all metrics, each relative to the baseline's · to "
    "the leader: how many times as good, below 1 is worse, by the waiting or by a metric; geometric: by the "
    "geometric mean of the same times · verdict: of the zone of ±3 % · leads in: share of the bootstrap's "
    "resamples of the seeds"
)


def ranking(advice: Advice) -> Table:
    """A row per ranked stack, the least waiting first."""
    rows = [
        (each.stack, each.waiting, *_score(each.score), *_score(each.geometric), each.best_share)
        for each in advice.standings
    ]
    means = columns(
        (f"waiting, {advice.baseline} = 1", "ratio"),
        *(("to the leader", "ratio"), ("95 % interval", "figure"), "verdict"),
        *(("geometric mean", "ratio"), ("its interval", "figure"), "its verdict"),
        ("leads in", "share"),
    )
    title, note = (
        f"Ranking: {advice.use.title}",
        "by the time that the use waits; below 1 is worse",
    )
    return Table((_STACK, *means), rows, title, note)


def _narrow_ranking(advice: Advice) -> Table:
    """The ranking in 80 columns, without the geometric mean's interval; two verdicts where they differ."""
    rows = []
    for each in advice.standings:
        ratio, ends, verdict = _score(each.score)
        geometric, _, other = _score(each.geometric)
        if other != verdict:
            verdict = Cell(f"{verdict.value} / {other.value}")
        rows.append((each.stack, each.waiting, ratio, ends, verdict, geometric, each.best_share))
    figures = columns(
        *(("waiting", "ratio"), ("to the leader", "ratio"), ("95 % interval", "figure"), "verdict"),
        *(("geometric", "ratio"), ("leads in", "share")),
    )
    return Table((_STACK, *figures), rows)


def evidence(advice: Advice) -> Iterator[Table]:
    """A table for each part: a row per ranked stack."""
    compared = {
        (each.workload, each.kind.name, standing.stack): each
        for standing in advice.standings
        for each in standing.evidence
    }
    for part, measured in zip(advice.parts, advice.measured, strict=True):
        rows = []
        for standing in advice.standings:
            score = compared.get((part.workload, part.kind.name, standing.stack))
            against = _score(score) if score else ("", "", "")
            rows.append((standing.stack, measured[standing.stack].estimate, *against))
        title = f"{metric_title(part.kind)} in {part.workload}"
        title += f": {percent(part.share)} of the score, for {part.weight}"
        yield Table((_STACK, Column("measured", part.kind.unit), *_SCORE), rows, sentence_case(title))


def coverage(advice: Advice) -> Table:
    """A row per weight: its name, its share, the workloads measured for it."""
    rows = []
    for each in advice.coverage:
        lacking = f"no results: {', '.join(each.lacking)}" if each.lacking else "not measured"
        rows.append((each.weight.name, each.share, ", ".join(each.workloads) or lacking))
    return Table(columns("weight", ("share", "share"), "measured by"), rows)


def _score(score: Comparison | None) -> tuple[Any, ...]:
    if score is None:
        return ("", "", Cell("leads", tone="best"))
    return (*gain_cells(score), Cell(score.verdict, tone=_TONES.get(score.verdict, "")))


def advices_view(advices: Sequence[Advice], *, in_full: bool) -> RenderableType:
    """The advice on several uses, in a terminal; uses without enough evidence share a line."""
    whole = in_full or len(advices) == 1
    shown = [each for each in advices if whole or is_said(each)]
    parts = [_whole(each) if in_full else _decision(each) for each in shown]
    if silent := [each.use.title for each in advices if each not in shown]:
        missing = f"Too little was measured to say anything about {listed(silent)}."
        parts.append(Text(f"{missing} `--use NAME` says what is missing."))
    elif shown and not in_full:
        parts.append(Text("`--evidence` shows every figure, every warning, and what to measure next.", "dim"))
    return Group(*parts)


def is_said(advice: Advice) -> bool:
    """Whether it is shown in full: it chooses between stacks, or answers what the study asks."""
    return bool(advice.standings) or advice.use.is_asked


def lead_text(advice: Advice) -> Text:
    """The answer with which every view begins, in a terminal."""
    return Text(lead(advice), _STYLES.get(advice.conclusion, "bold"))


def _heading(advice: Advice) -> Text:
    style = _STYLES.get(advice.conclusion, "bold")
    said = Text.assemble((advice.use.title, "bold"), "  ", (headline(advice), style))
    return lead_text(advice) if advice.use.is_asked else said


def _decision(advice: Advice) -> RenderableType:
    """The decision alone; where it is open, the first thing that would settle it."""
    is_settled = advice.conclusion == "clear" or advice.take_either
    next_one = [] if is_settled else [*_settling(advice.settling[:1])]
    return Group(_heading(advice), terminal(facts(reasons(advice)), indent=2), *next_one, Text())


def _whole(advice: Advice) -> RenderableType:
    """The decision, every metric behind the ranking, every warning, and all that would settle more."""
    parts: list[RenderableType] = [_heading(advice), terminal(facts(reasons(advice)), indent=2)]
    if advice.leaders:
        tables = (_narrow_ranking(advice), *evidence(advice))
        parts += [terminal(table, indent=2) for table in tables]
    parts.append(_indented(Text.assemble(("Weights", "bold"), f": {advice.use.source}")))
    parts.append(terminal(coverage(advice), indent=2))
    parts += [Text("  Warnings", style="bold")] if advice.warnings else []
    for each in advice.warnings:
        parts.append(_indented(Text.assemble((f"{each.stack}.{each.workload} ", "bold"), each.text)))
        parts.append(_indented(Text(each.remedy, style="dim"), 4))
    if advice.settling:
        parts += [Text("  What would settle more", style="bold"), *_settling(advice.settling)]
    return Group(*parts, Text())


def uses_view(uses: Sequence[Use]) -> RenderableType:
    parts: list[RenderableType] = []
    for use in uses:
        parts += [Text.assemble((use.name, "bold"), "  ", use.title), _indented(Text(use.about))]
        weights = [(each.name, each.weight / use.total, each.why) for each in use.weights]
        needs = [(ability(each.capability), each.level, each.why) for each in use.needs]
        for table in (
            Table(columns("weight", ("share", "share"), "why"), weights, is_headed=False),
            Table(columns("capability", "level", "why"), needs, is_headed=False),
        ):
            parts += [terminal(table, indent=2)] if table.rows else []
        parts += [_indented(Text(f"Weights: {use.source}", style="dim")), Text()]
    return Group(*parts)


def _settling(settling: Iterable[Settling]) -> Iterator[RenderableType]:
    for each in settling:
        yield _indented(Text(each.text))
        for text in (each.toml.rstrip(), "\n".join(each.commands)):
            if text:
                yield _indented(Text(text, style="cyan"), 6)


def _indented(part: RenderableType, by: int = 2) -> RenderableType:
    return Padding(part, (0, 0, 0, by))


def _untitled(table: Table) -> Table:
    return Table(table.columns, table.rows)


def advice_markdown(advices: Sequence[Advice]) -> str:
    """The advice on every use in Markdown, a section each, for an article or a ticket."""
    return "\n\n".join(block for advice in advices for block in _section(advice)) + "\n"


def in_short(advices: Sequence[Advice]) -> Iterator[str]:
    """For a report in Markdown: the decision and the ranking for each use with enough evidence."""
    for advice in advices:
        if is_said(advice):
            yield f"### {_decided(advice)}\n"
            yield markdown(_untitled(ranking(advice)))
    if left := listed([each.use.title for each in advices if not is_said(each)]):
        yield f"Too little was measured to say anything about {left}.\n"


def _decided(advice: Advice) -> str:
    said = "\n".join(f"- **{title}**: {text}" for title, text in reasons(advice))
    heading = f"{advice.use.title}: {headline(advice)}"
    return f"{lead(advice) if advice.use.is_asked else heading}\n\n{said}"


def _section(advice: Advice) -> Iterator[str]:
    yield f"## {_decided(advice)}"
    if advice.leaders:
        yield markdown(_untitled(ranking(advice))).rstrip()
        for table in evidence(advice):
            yield f"**{table.title}**\n\n{markdown(_untitled(table)).rstrip()}"
    yield markdown(coverage(advice)).rstrip()
    if advice.warnings:
        yield "Warnings:\n\n" + "\n".join(
            f"- {each.stack}, {each.workload}: {each.text} {each.remedy}" for each in advice.warnings
        )
    if advice.settling:
        yield "What would settle more:"
    for settling in advice.settling:
        text = f"- {settling.text}"
        for language, code in (("toml", settling.toml), ("sh", "\n".join(settling.commands))):
            if code:
                fenced = (f"```{language}", *code.rstrip().splitlines(), "```")
                text += "\n\n" + "\n".join(f"  {line}".rstrip() for line in fenced)
        yield text
    yield f"*Weights: {advice.use.source}.*"


def advice_plain(advice: Advice) -> dict[str, Any]:
    parts = []
    for part, measured in zip(advice.parts, advice.measured, strict=True):
        values = {
            stack: {"estimate": each.estimate, **ends_plain(each.interval), "seeds": each.n}
            for stack, each in measured.items()
        }
        parts.append({**_part_plain(part), "measured": values})
    lacks = [
        {**picked(each, "stack", "capability", "title", "verdict"), "held_by": list(each.held_by)}
        | {"asked_for": each.need.level if each.need is not None else None}
        for each in advice.missing
    ]
    weights = columns("weight", "share", "workloads", "without_results")
    covered = [
        (each.weight.name, each.share, list(each.workloads), list(each.lacking)) for each in advice.coverage
    ]
    return {
        "use": use_plain(advice.use),
        **picked(advice, "study", "time_domain", "conclusion", "candidates", "leaders", "take_either"),
        "headline": headline(advice),
        "lead": lead(advice),
        "reasons": dict(reasons(advice)),
        "baseline": advice.baseline,
        "ranking": [_standing_plain(each, advice) for each in advice.standings],
        "out": [
            {**plain(picked(each, "stack", "why", "text", "capability")), "price": _time_plain(each.price)}
            for each in advice.out
        ],
        "covered": advice.covered,
        "coverage": objects(Table(weights, covered)),
        "parts": parts,
        "seeds": list(advice.seeds),
        "lacks": lacks,
        "worse": [*map(_worse_plain, advice.worse)],
        "apart": [*map(_worse_plain, advice.apart)],
        "not_probed": plain(advice.unprobed),
        "durability": dict(advice.durability),
        "power_cuts": dict(advice.power_cuts),
        "failures": dict(advice.failures),
        "weightings": dict(advice.weightings),
        **plain(picked(advice, "warnings", "settling")),
    }


def _standing_plain(standing: Standing, advice: Advice) -> dict[str, Any]:
    return {
        "stack": standing.stack,
        "in_front": standing.stack in advice.leaders,
        "best_share": standing.best_share,
        "waiting": standing.waiting,
        "score": _time_plain(standing.score),
        "geometric_mean": _time_plain(standing.geometric),
        "evidence": [
            {"workload": each.workload, "metric": each.kind.name, **_comparison_plain(each)}
            for each in standing.evidence
        ],
    }


def use_plain(use: Use) -> dict[str, Any]:
    weights = {
        each.name: {
            **picked(each, "weight", "why"),
            "fits": [dict(pattern.declared) for pattern in each.fits],
            "metrics": dict(each.metrics),
        }
        for each in use.weights
    }
    about = picked(use, "name", "title", "about", "source")
    return {**about, "weights": weights, "needs": plain(use.needs), "adjusted": list(use.adjusted)}


def answer_plain(advice: Advice | None) -> dict[str, Any] | None:
    """The answer to what the study asks, in short."""
    if advice is None:
        return None
    return {
        "lead": lead(advice),
        "use": advice.use.name,
        "requires": list(advice.use.required),
        **plain(picked(advice, "conclusion", "candidates", "leaders", "take_either")),
        "ruled_out": {stack: lacks_words(each) for stack, each in advice.ruled_out.items()},
    }


def _worse_plain(each: Worse) -> dict[str, Any]:
    part, found = _part_plain(each.part), _comparison_plain(each.comparison)
    return {"stack": each.comparison.stack, **part, **found}


def _comparison_plain(score: Comparison) -> dict[str, Any]:
    """Above 1 is better, whatever the metric's direction."""
    return {
        "against": score.baseline,
        "gain": score.gain,
        **ends_plain(score.gain_interval),
        "seeds": score.ratio.n,
        "verdict": score.verdict,
    }


def _time_plain(score: Comparison | None) -> dict[str, Any] | None:
    """The waiting against the leader's; above 1 is worse."""
    if score is None:
        return None
    ratio = {"ratio": score.ratio.ratio, **ends_plain(score.ratio.interval)}
    return {"against": score.baseline, **ratio, "seeds": score.ratio.n, "verdict": score.verdict}


def _part_plain(part: Part) -> dict[str, Any]:
    kind = {"metric": part.kind.name, **picked(part.kind, "unit", "better")}
    return {**picked(part, "weight", "workload"), **kind, "share": part.share}
