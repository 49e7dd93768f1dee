# SPDX-License-Identifier: Apache-2.0
"""The uses that Strata has, and the keys of a file of uses."""

from __future__ import annotations

from collections.abc import Iterable

from generated.markdown import code, keys_table, prose, table
from strata.advice.uses import Need, Use, UseTable, WeightTable, WorkloadPattern, bundled_uses
from strata.plan.catalogue import catalogue
from strata.report.advice_text import ability


def part() -> str:
    """A section for each use."""
    return "".join(_section(use) for use in bundled_uses(catalogue()).values())


def keys() -> str:
    """The keys of each table of a file of uses."""
    tables = (
        ("`[uses.NAME]`", UseTable),
        ("`[uses.NAME.weights.WEIGHT]`", WeightTable),
        ("`[[uses.NAME.needs]]`", Need),
    )
    return "".join(f"### {title}\n\n{keys_table(model)}" for title, model in tables)


def _section(use: Use) -> str:
    weights = []
    for each in use.weights:
        metrics = ", ".join(f"{code(name)} {share:g}" for name, share in each.metrics.items())
        weights.append((code(each.name), f"{each.weight:g}", prose(each.why), _fits(each.fits), metrics))
    needs = [
        (prose(ability(each.capability)), code(each.capability), each.level, prose(each.why))
        for each in use.needs
    ]
    return (
        f"### {use.title}\n\n{code(use.name)}: {prose(use.about)} Weights: {prose(use.source)}.\n\n"
        + table(("Weight", "Counts", "For", "Measured by", "Metrics"), weights)
        + table(("Needs", "Probe", "Level", "For"), needs)
    )


def _fits(patterns: Iterable[WorkloadPattern]) -> str:
    shown = []
    for pattern in patterns:
        declared = dict(pattern.declared)
        kind = declared.pop("workload")
        keys = ", ".join(f"{key} {_value(value)}" for key, value in declared.items())
        shown.append(f"[`{kind}`](workloads/{kind}.md)" + (f" with {keys}" if keys else ""))
    return "; ".join(shown)


def _value(value: object) -> str:
    values = value if isinstance(value, list) else [value]
    return " or ".join(code(str(each).lower() if isinstance(each, bool) else each) for each in values)
