# SPDX-License-Identifier: Apache-2.0
"""The tables of a study's results, for `strata query`, `strata export` and ``--json``."""

from __future__ import annotations

from generated.markdown import code, prose, table
from strata.report.data import TABLES


def part() -> str:
    """A section for each table with its columns."""
    parts = []
    for name, declared in TABLES.items():
        rows = [(code(each.key), each.sql_type, prose(each.meaning)) for each in declared.columns]
        where = "" if declared.is_exported else " Only `strata query` has it."
        parts.append(
            f"## {name}\n\nA row is {declared.about}.{where}\n\n{table(('Column', 'Type', 'Meaning'), rows)}"
        )
    return "".join(parts)
