# SPDX-License-Identifier: Apache-2.0
"""The raw values that the page carries, for its reader to take along as CSV or JSON."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

from strata.statistics.study import StudyResults


def raw_values(results: StudyResults) -> dict[str, Any]:
    """Every value of every usable trial: by workload and metric, a row per stack, a value per seed."""
    return {
        "study": results.snapshot.name,
        "time_domain": results.snapshot.time_domain,
        "seeds": list(results.snapshot.seeds),
        "stacks": results.stacks,
        "workloads": [
            {
                "workload": workload,
                "metrics": [
                    {
                        "metric": kind.name,
                        "unit": kind.unit,
                        "better": kind.better,
                        "headline": kind.headline,
                        "values": _values(results, workload, kind.name),
                    }
                    for kind in results.metrics(workload)
                ],
            }
            for workload in results.workloads
        ],
    }


def _values(results: StudyResults, workload: str, metric: str) -> list[list[float | None]]:
    rows = []
    for stack in results.stacks:
        records = results.cells[stack, workload].records
        row: list[float | None] = []
        for seed in results.snapshot.seeds:
            found = records[seed].metric(metric) if seed in records else None
            row.append(_short(found.value) if found else None)
        rows.append(row)
    return rows


def _short(value: float) -> float:
    """Whole numbers without a point."""
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def in_script(value: Any) -> Markup:
    """JSON that can stand in a script element, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - no "<" is left
