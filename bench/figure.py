# SPDX-License-Identifier: Apache-2.0
"""What a measurement yields, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured figure and what it should be at least (or at most)."""

    name: str
    value: float
    unit: str
    aim: str


def show(figures: Sequence[Figure], title: str, *, as_json: bool) -> None:
    """Print the figures as a table, or as JSON."""
    if as_json:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
        return
    table = Table("figure", "measured", "unit", "aim", title=title)
    for figure in figures:
        value = f"{figure.value:,.3g}" if figure.value < 1000 else f"{figure.value:,.0f}"
        table.add_row(figure.name, value, figure.unit, figure.aim)
    Console().print(table)
