# SPDX-License-Identifier: Apache-2.0
"""The layers: a table of all, and of each its interfaces, abilities, prerequisites, keys and options."""

from __future__ import annotations

from generated.markdown import allowed_table, codes, prose, table
from generated.study import key_tables
from strata.plan.catalogue import catalogue
from strata.plan.sheets import grouped, layer_sheet


def part() -> str:
    """A table of all, by families, with links to their pages."""
    families = grouped(map(layer_sheet, catalogue().layers))
    sheets = [sheet for members in families.values() for sheet in members]
    rows = [
        (
            each.family,
            f"[`{each.name}`](layers/{each.name}.md)",
            each.stands_on,
            each.gives,
            ", ".join(each.can_try),
        )
        for each in sheets
    ]
    return table(("Family", "Layer", "Stands on", "Gives", "Can try"), rows)


def _link(name: str) -> str:
    return f"[`{name}`](layers/{name}.md)"


def page(name: str) -> str:
    """What the code knows of a layer."""
    sheet = layer_sheet(name)
    facts = [
        ("Stands on", sheet.stands_on),
        ("Gives", sheet.gives),
        ("Can try", ", ".join(sheet.can_try) or "nothing besides"),
        ("Programs", codes(sheet.tools)),
        ("Of the kernel", codes(sheet.kernel)),
    ]
    return (
        f"{prose(sheet.summary)}\n\n{prose(sheet.description)}\n\n"
        + table(("", ""), [fact for fact in facts if fact[1]])
        + key_tables().get(f"layer-{name}", "")
        + "".join(f"## Allowed in `{key}`\n\n{allowed_table(forms)}" for key, forms in sheet.allowed.items())
    )
