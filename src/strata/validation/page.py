# SPDX-License-Identifier: Apache-2.0
"""The validation as one HTML page that needs no network, in the look of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version

from strata.report.device_plot import draw
from strata.report.templates import page_style, page_templates
from strata.validation.check import Section, totals

_TITLE = "Do the modelled disks behave like disks?"


def render(sections: Sequence[Section], *, quick: bool = False) -> str:
    """The whole page."""
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
    )
    return page.rstrip() + "\n"
