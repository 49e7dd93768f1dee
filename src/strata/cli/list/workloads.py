# SPDX-License-Identifier: Apache-2.0
"""``strata list workloads``: the purpose, metrics and needs of each workload."""

from __future__ import annotations

from typing import Annotated

from rich.padding import Padding
from rich.text import Text

from strata.cli.list.sheets import chosen, print_entry, print_head, print_keys
from strata.cli.output import print_json, stdout
from strata.cli.parameters import AsJson, argument
from strata.model.layer import INTERFACES
from strata.model.metric import COMMON
from strata.model.warning import QUESTIONS
from strata.plan.catalogue import catalogue
from strata.plan.sheets import WorkloadSheet, workload_sheet
from strata.report.table import Cell, facts, terminal
from strata.report.wording import ARROWS


def workloads(
    name: Annotated[str | None, argument("A workload. Default: all, in a line each.", "WORKLOAD")] = None,
    as_json: AsJson = False,
) -> None:
    """List the workloads, or say what one measures and needs.

    Examples:
        strata list workloads
        strata list workloads pgbench
        strata list workloads fio --json | jq '.workloads[].metric_specs[].names'
    """
    known = catalogue()
    sheets = [workload_sheet(known, each) for each in chosen("workload", name, known.workloads)]
    if as_json:
        print_json(workloads=sheets, common_metrics=COMMON, common_checks=QUESTIONS)
    elif name:
        _print_sheet(sheets[0])
    else:
        rows = [(Cell(sheet.name, tone="strong"), sheet.summary) for sheet in sheets]
        stdout().print(terminal(facts(rows)))
        stdout().print("\n[dim]`strata list workloads NAME` shows what one stands for and measures.[/dim]")


def _print_sheet(sheet: WorkloadSheet) -> None:
    console = stdout()
    print_head(sheet.name, sheet.summary, sheet.rationale)
    generator = ["the load generator"] if sheet.uses_load_generator else []
    parts = ["the programs of its parts"] if sheet.is_compound else []
    known = [
        ("phases", ", ".join(sheet.phases)),
        ("runs on", ", ".join(INTERFACES[each] for each in sheet.runs_on)),
        ("programs", ", ".join([*generator, *sheet.tools, *parts]) or "none"),
        ("reads", ", ".join(sheet.inputs)),
    ]
    console.print(terminal(facts(known)))
    console.print("\n[bold]metrics[/bold]")
    for each in sheet.metric_specs:
        print_entry(f"  {each.names} ", f"{each.unit} {ARROWS[each.better]}", each.meaning)
    if sheet.is_compound:
        console.print(Padding(Text(_OF_TENANTS), (0, 0, 0, 2)))
    console.print("\n[bold]checks[/bold]")
    questions = {**sheet.check_questions, **QUESTIONS}
    rows = [(Cell(name, tone="strong"), Cell(question, tone="dim")) for name, question in questions.items()]
    console.print(terminal(facts(rows), indent=2))
    print_keys(sheet.keys, sheet.allowed)
    common = ", ".join(key.name for key in sheet.common_keys)
    console.print(Text(f"\nevery workload has besides: {common}", "dim"))
    console.print("\n[bold]example[/bold]")
    for line in sheet.example.splitlines():
        console.print(Text(f"  {line}"), soft_wrap=True)


_OF_TENANTS = (
    "The metrics of its parts, each after the tenant's name: the transactions_per_s of a tenant db is "
    "db_transactions_per_s, of the second of several db_2_transactions_per_s. Before them the rate of all "
    "together, and its fairness; docs/reference/workloads/tenants.md lists these."
)
