# SPDX-License-Identifier: Apache-2.0
"""The templates of every page, with the style sheet that they share."""

from __future__ import annotations

import json
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from strata.report.palette import ALL
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


def in_script(value: Any) -> Markup:
    """JSON that can stand in a script element, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - no "<" is left
