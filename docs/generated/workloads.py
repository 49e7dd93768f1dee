# SPDX-License-Identifier: Apache-2.0
"""The workloads: a table of all, and of each its rationale, phases, keys, metrics and checks."""

from __future__ import annotations

from generated.markdown import allowed_table, block, code, codes, prose, table
from generated.study import key_tables
from strata.model.layer import INTERFACES
from strata.model.metric import MetricSpec
from strata.plan.catalogue import catalogue
from strata.plan.sheets import workload_sheet


def part() -> str:
    """A table of all, with links to their pages."""
    sheets = [workload_sheet(catalogue(), name) for name in catalogue().workloads]
    rows = [(f"[`{each.name}`](workloads/{each.name}.md)", prose(each.summary)) for each in sheets]
    return table(("Workload", "What it is"), rows)


def page(name: str) -> str:
    """What the code knows of a workload."""
    sheet = workload_sheet(catalogue(), name)
    programs = ["the load generator"] if sheet.uses_load_generator else []
    facts = [
        ("Phases", codes(sheet.phases)),
        ("Runs on", ", ".join(INTERFACES[each] for each in sheet.runs_on)),
        ("Programs", ", ".join([*programs, *map(code, sheet.tools)])),
        ("Reads", codes(sheet.inputs)),
    ]
    text = f"{prose(sheet.summary)} {prose(sheet.rationale)}\n\n"
    text += table(("", ""), [fact for fact in facts if fact[1]]) + block(sheet.example, "toml")
    text += key_tables().get(f"workload-{name}", "")
    text += yields_table(sheet.metric_specs)
    if sheet.check_questions:
        rows = [(code(name), prose(question)) for name, question in sheet.check_questions.items()]
        text += table(("Check of its own", "Question"), rows)
    for key, forms in sheet.allowed.items():
        text += f"What may be given as {key}, by whole names:\n\n{allowed_table(forms)}"
    return text


def yields_table(metric_specs: tuple[MetricSpec, ...]) -> str:
    """Metrics with their units, directions and meanings."""
    rows = [(code(each.names), code(each.unit), each.better, prose(each.meaning)) for each in metric_specs]
    return table(("Metric", "Unit", "Better", "Meaning"), rows)
