# SPDX-License-Identifier: Apache-2.0
"""The templates of every page, with the style sheet that they share."""

from __future__ import annotations

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from strata.report.palette import ALL


def page_templates(package: str = "strata.report") -> Environment:
    """The templates of ``package``, and the report's."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "strata.report"))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page_style(templates: Environment) -> Markup:
    """The style sheet of every page."""
    return Markup(templates.get_template("report.css").render(palette=ALL))  # noqa: S704 - our own
