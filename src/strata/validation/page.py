# SPDX-License-Identifier: Apache-2.0
"""The validation as one HTML page that needs no network, in the look of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from strata.report.device_plot import draw
from strata.report.spans import Tone
from strata.report.table import Cell, Column, Table, columns, html
from strata.report.templates import page_style, page_templates
from strata.validation.subject import ModelCheck, Section, Verdict, totals

_TITLE: Final = "Do the modelled disks behave like disks?"
_TONES: Final[dict[Verdict, Tone]] = {"passed": "dim", "failed": "bad", "noted": "doubt"}


def check_table(checks: Sequence[ModelCheck], *, has_notes: bool = False) -> Table:
    """The checks of a section; with a column of the basis if figures are published."""
    based = any(check.basis for check in checks)
    heads = [*columns("check", ("model", "figure"), ("expected", "figure"))]
    heads += [Column("figure")] if based else []
    rows = [
        [
            Cell(check.title, remark=check.note if has_notes else ""),
            check.found,
            check.expected,
            *([check.basis] if based else []),
            Cell(check.verdict, tone=_TONES[check.verdict]),
        ]
        for check in checks
    ]
    return Table((*heads, Column("verdict")), rows)


def render(sections: Sequence[Section], *, quick: bool = False) -> str:
    environment = page_templates("strata.validation")
    verdicts = Counter(check.verdict for section in sections for check in section.checks)
    page = environment.get_template("validation.html.j2").render(
        style=page_style(environment),
        title=_TITLE,
        version=version("strata"),
        sections=sections,
        drawings={s.name: [(picture, draw(picture)) for picture in s.pictures] for s in sections},
        counts={**dict.fromkeys(("passed", "failed", "noted"), 0), **verdicts, "all": verdicts.total()},
        totals=totals(sections).splitlines()[1:],
        quick=quick,
        rows=lambda checks: html(check_table(checks, has_notes=True), kind="wrapped", label="Checks"),
    )
    return page.rstrip() + "\n"
