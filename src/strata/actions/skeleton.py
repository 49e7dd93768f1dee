# SPDX-License-Identifier: Apache-2.0
"""The templates of `strata new`."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(template: str, name: str, **values: object) -> str:
    templates = Environment(  # noqa: S701  it makes Python, in which nothing is escaped
        loader=PackageLoader("strata.actions", "skeletons"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    names = {
        "name": name,
        "class_name": "".join(word.capitalize() for word in name.split("-")),
        "identifier": name.replace("-", "_"),
    }
    return templates.get_template(template).render(names, **values)
