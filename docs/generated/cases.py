# SPDX-License-Identifier: Apache-2.0
"""The table of public cases: what was reported beside what the lab found, from kept judgements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from generated.markdown import code, table
from strata.report.claims import level_text

KEPT: Final = Path(__file__).parents[1] / "published" / "cases.jsonl"
"""A line for each study of studies/cases, which scripts/cases.py writes."""


def part() -> str:
    """A row for each case, and what was tried to explain an outcome."""
    kept = [json.loads(line) for line in KEPT.read_text().splitlines()]
    rows = [
        (code(each["case"]), f"{each['claim']} ({each['source']})", _found(each), each["verdict"])
        for each in kept
    ]
    tried = [
        f"- {code(each['case'])}: {one['what']}: {one['outcome']}.\n"
        for each in kept
        for one in each["tried"]
    ]
    return f"{table(('Case', 'Reported', 'Found', 'Outcome'), rows)}\n## Why\n\n{''.join(tried)}"


def _found(case: dict[str, Any]) -> str:
    return "; ".join(_figure(each) for each in case["found"]) or "–"


def _figure(found: dict[str, Any]) -> str:
    """Such as: rebuild_ns, onto-smr against onto-cmr: 1.20 × (1.10 to 1.30)."""
    sides = " against ".join(filter(None, (found["stack"], found["against"])))
    ends = found["interval"] or (None, None)
    level = level_text(found["level"], ends, found["unit"], is_ratio=found["against"] is not None)
    return f"{code(found['metric'])}, {sides}: {level}"
