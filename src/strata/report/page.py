# SPDX-License-Identifier: Apache-2.0
"""The report: a study's results as one HTML page.

Results in virtual time give the same bytes wherever and whenever they were measured, because nothing of real
time enters the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup

from strata.advice.asked import advise_on_all, the_answer
from strata.advice.model import Advice
from strata.report.advice_tables import is_said, ranking
from strata.report.advice_text import headline, lead, reasons
from strata.report.answer import check_reportable, objections, overall
from strata.report.capability_table import capability_table
from strata.report.data import raw_values
from strata.report.effects import curves, effects_views
from strata.report.findings import sensitivity_sentences
from strata.report.heat_map import cells_view
from strata.report.origin import command, declared_seeds, options, origin, precision_notes, seeds_words
from strata.report.palette import GAINS, ON_GAINS, PARTS, stack_colours
from strata.report.sections import section
from strata.report.stack import stack_views, study_of
from strata.report.stack_facts import SOURCES, facts_of, facts_table
from strata.report.survival import TITLE as SURVIVAL_TITLE
from strata.report.survival import survival_tables
from strata.report.table import Cell, Table, columns
from strata.report.templates import in_script, page_style, page_templates
from strata.report.wording import SIGNS, coded, covered_words
from strata.results.capabilities import Capabilities
from strata.results.findings import Finding, findings_of, read_capabilities
from strata.results.store import ResultsFolder
from strata.statistics.interval import CONFIDENCE, PRACTICAL_ZONE
from strata.statistics.study import StudyResults, gather
from strata.units import format_duration, format_share, format_value, times
from strata.words import sentence_case
from strata.working import working

_TRIALS_MAX: Final = 400  # with up to this many trials, the page lists their hashes


def page_of(folder: ResultsFolder, reference: str | None = None) -> str:
    """The page of a results folder with its capabilities and advice. Raises ResultError as `render`."""
    results = gather(folder)
    capabilities = read_capabilities(folder)
    tipping = findings_of(folder, "sensitivity")
    with working("writing the report"):
        return render(results, capabilities, advise_on_all(results, capabilities), reference, tipping)


def render(
    results: StudyResults,
    capabilities: Capabilities | None = None,
    advice: Sequence[Advice] = (),
    reference: str | None = None,
    tipping: Mapping[str, Finding] | None = None,
) -> str:
    """The whole page, its heat map against ``reference`` or the first stack. Raises ResultError."""
    check_reportable(results, reference)
    environment = _templates()
    mark = _marker(results.stacks)
    asked = the_answer(advice)
    against = objections(asked)
    sections = [section(results, workload, mark, against) for workload in results.workloads]
    study = study_of(results.snapshot)
    page = environment.get_template("report.html.j2").render(
        style=page_style(environment),
        study=results.snapshot,
        sections=sections,
        lead="" if asked is None else lead(asked),
        overall=overall([each["answer"] for each in sections], mark, against),
        mark=mark,
        parts=PARTS,
        cells=cells_view(results, reference),
        effects=[(view, curves(results, view)) for view in effects_views(results)],
        gains=list(zip(GAINS, ON_GAINS, strict=True)),
        signs=SIGNS,
        stacks=stack_views(results.snapshot, study),
        facts=None if study is None else facts_table(facts_of(study, capabilities)),
        sources=SOURCES,
        capabilities=capabilities,
        survival=survival_tables(capabilities, results),
        survival_title=SURVIVAL_TITLE,
        advice=[each for each in advice if is_said(each)],
        tipping=_tipping(advice, tipping),
        unadvised=[each.use.title for each in advice if not is_said(each)],
        raw=raw_values(results),
        command=command(results.snapshot),
        options=options(results.snapshot.described),
        origin=origin(results),
        covered=covered_words(results.snapshot.described),
        zone=f"±{format_share(PRACTICAL_ZONE)}".replace(" ", "\u00a0"),
        confidence=format_share(CONFIDENCE).replace(" ", "\u00a0"),
        trials=_trials(results),
        readings=results.readings,
        trials_max=_TRIALS_MAX,
        seeds=declared_seeds(results.snapshot),
        precision=precision_notes(results.snapshot),
    )
    return page.rstrip() + "\n"


def _tipping(advice: Sequence[Advice], tipping: Mapping[str, Finding] | None) -> dict[str, list[str]]:
    """The sentences under the answers that they are of: other needs or uses may have chosen another stack."""
    uses = tipping or {}
    return {
        each.use.name: sensitivity_sentences(found)
        for each in advice
        if (found := uses.get(each.use.name)) is not None and {*found.leaders} <= {*each.leaders}
    }


def _templates() -> Environment:
    environment = page_templates()
    environment.globals.update(
        times=times,
        sentence_case=sentence_case,
        duration=format_duration,
        value=format_value,
        in_script=in_script,
        coded=coded,
        reasons=reasons,
        advised_headline=headline,
        ranking=ranking,
        capability_table=capability_table,
        seeds_words=seeds_words,
    )
    return environment


def _marker(stacks: list[str]) -> Any:
    """A function that sets a stack's name with its colour, for which the style sheet has a class."""
    marks = {
        stack: Markup('<b class="stack s{}">{}</b>').format(colour.variable.removeprefix("stack-"), stack)
        for stack, colour in stack_colours(stacks).items()
    }
    return marks.__getitem__


def _trials(results: StudyResults) -> Table:
    rows: list[tuple[Any, ...]] = []
    for each in results.readings:
        if each.record is None:
            rows.append((each.trial_id, each.problem, ""))
        else:
            hashes = (each.record.spec_sha256[:16], each.record_sha256)
            rows.append((each.trial_id, *(Cell(text, tone="code") for text in hashes)))
    return Table(columns("trial", "specification", "result"), rows)
