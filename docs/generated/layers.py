# SPDX-License-Identifier: Apache-2.0
"""Every layer: its interfaces, abilities, prerequisites and options."""

from __future__ import annotations

from generated.markdown import allowed_table, codes, prose, table
from strata.plan.catalogue import catalogue
from strata.plan.sheets import LayerSheet, grouped, layer_sheet


def part() -> str:
    """A table of all, by families, then a section for each."""
    families = grouped(map(layer_sheet, catalogue().layers))
    sheets = [sheet for members in families.values() for sheet in members]
    rows = [
        (each.family, f"[`{each.name}`](#{each.name})", each.stands_on, each.gives, ", ".join(each.can_try))
        for each in sheets
    ]
    text = table(("Family", "Layer", "Stands on", "Gives", "Can try"), rows)
    return text + "".join(map(_section, sheets))


def _section(sheet: LayerSheet) -> str:
    facts = [
        ("Stands on", sheet.stands_on),
        ("Gives", sheet.gives),
        ("Can try", ", ".join(sheet.can_try) or "nothing besides"),
        ("Programs", codes(sheet.tools)),
        ("Of the kernel", codes(sheet.kernel)),
    ]
    return (
        f"## `{sheet.name}`\n\n{prose(sheet.summary)}\n\n{prose(sheet.description)}\n\n"
        + table(("", ""), [fact for fact in facts if fact[1]])
        + "".join(
            f"### Allowed in `{key}` of `{sheet.name}`\n\n{allowed_table(forms)}"
            for key, forms in sheet.allowed.items()
        )
        + f"Its keys: [study file](study-file.md#{sheet.name}).\n\n"
    )
