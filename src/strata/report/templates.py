# SPDX-License-Identifier: Apache-2.0
"""The templates of every page, with the style sheet that they share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from strata.report.document import Block, html_of
from strata.report.palette import ALL
from strata.report.spans import Text, as_html
from strata.report.table import html


def page_templates(package: str = "strata.report") -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "strata.report"))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["html"] = html
    return environment


def page_style(templates: Environment) -> Markup:
    return Markup(templates.get_template("report.css").render(palette=ALL))  # noqa: S704 - our own


def document_page(
    title: str,
    *,
    kicker: str,
    heading: str,
    facts: Text,
    blocks: Iterable[Block],
    made: Text = "Made by Strata.",
) -> str:
    """A page of blocks, in the look of the report, that needs no other file."""
    environment = page_templates()
    page = environment.get_template("document.html.j2").render(
        style=page_style(environment),
        title=title,
        kicker=kicker,
        heading=heading,
        facts=as_html(facts),
        body=html_of(blocks, escape),
        made=as_html(made),
    )
    return page.rstrip() + "\n"


def in_script(value: Any) -> Markup:
    """JSON that can stand in a script element, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - no "<" is left
