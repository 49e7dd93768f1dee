# SPDX-License-Identifier: Apache-2.0
"""``strata list layers``: the keys, abilities and needs of each layer."""

from __future__ import annotations

from typing import Annotated

from strata.cli.list.sheets import chosen, print_head, print_keys
from strata.cli.output import print_json, stdout
from strata.cli.parameters import AsJson, argument
from strata.plan.catalogue import catalogue
from strata.plan.sheets import LayerSheet, grouped, layer_sheet
from strata.report.table import Cell, facts, terminal


def layers(
    name: Annotated[str | None, argument("A layer. Default: all, in a line each.", "LAYER")] = None,
    as_json: AsJson = False,
) -> None:
    """List the layers of stacks, or show one with its keys.

    Examples:
        strata list layers
        strata list layers md
        strata list layers vm --json | jq -r '.layers[].keys[].name'
    """
    sheets = [layer_sheet(each) for each in chosen("layer", name, catalogue().layers)]
    if as_json:
        print_json(layers=sheets)
    elif name:
        _print_sheet(sheets[0])
    else:
        width = max(len(sheet.name) for sheet in sheets)
        for family, members in grouped(sheets).items():
            rows = [(Cell(each.name.ljust(width), tone="strong"), each.summary) for each in members]
            stdout().print(f"[bold]{family}[/bold]")
            stdout().print(terminal(facts(rows), indent=2))
        stdout().print("\n[dim]`strata list layers NAME` shows what one stands on, its keys and needs.[/dim]")


def _print_sheet(sheet: LayerSheet) -> None:
    print_head(sheet.name, sheet.summary, sheet.description)
    known = [
        ("family", sheet.family),
        ("stands on", sheet.stands_on),
        ("gives", sheet.gives),
        ("can try", ", ".join(sheet.can_try)),
        ("programs", ", ".join(sheet.tools)),
        ("kernel", ", ".join(sheet.kernel)),
    ]
    stdout().print(terminal(facts(known)))
    print_keys(sheet.keys, sheet.allowed)
