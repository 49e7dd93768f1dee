# SPDX-License-Identifier: Apache-2.0
"""The report: a study's results as one HTML page.

Results in virtual time give the same bytes wherever and whenever they were measured, because nothing of real
time enters the page.
"""

from __future__ import annotations

from strata.report.document import html_of, marker
from strata.report.palette import GAINS, ON_GAINS
from strata.report.report import Report, check_reportable
from strata.report.sections import facts, sections
from strata.report.templates import page_style, page_templates
from strata.report.wording import SIGNS
from strata.results.store import ResultsFolder
from strata.working import working


def page_of(folder: ResultsFolder, reference: str | None = None) -> str:
    """The page of a results folder with its capabilities and advice. Raises ResultError as `render`."""
    report = Report.read(folder, reference)
    with working("writing the report"):
        return render(report)


def render(report: Report) -> str:
    """The whole page. Raises ResultError if there is no valid result, or no such reference."""
    check_reportable(report.results, report.reference)
    environment = page_templates()
    shown, mark = sections(report), marker(report.results.stacks)
    page = environment.get_template("report.html.j2").render(
        style=page_style(environment),
        study=report.results.snapshot,
        facts=facts(report),
        sections=shown,
        body=html_of(shown, mark),
        mark=mark,
        gains=list(zip(GAINS, ON_GAINS, strict=True)),
        signs=SIGNS,
        strata=", ".join(report.origin["strata"]),
        trials=report.origin["trials"],
    )
    return page.rstrip() + "\n"
