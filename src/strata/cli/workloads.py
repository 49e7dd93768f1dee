# SPDX-License-Identifier: Apache-2.0
"""``strata workloads``: the purpose, metrics and needs of each workload."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from strata.cli.output import print_json, stdout
from strata.cli.parameters import AsJson, argument
from strata.errors import StudyError
from strata.plan.catalogue import catalogue
from strata.plan.workload_sheet import WorkloadSheet, workload_sheet
from strata.report.table import Cell, facts, terminal
from strata.report.wording import ARROWS
from strata.spec.metric import COMMON
from strata.spec.names import nearest
from strata.spec.warning import QUESTIONS


def workloads(
    name: Annotated[str | None, argument("A workload. Default: all, in a line each.", "WORKLOAD")] = None,
    as_json: AsJson = False,
) -> None:
    """List the workloads, or say what one measures and needs.

    Examples:
        strata workloads
        strata workloads pgbench
        strata workloads fio --json | jq '.metrics[].names'
    """
    known = catalogue()
    if name is not None and name not in known.workloads:
        raise StudyError(
            f'there is no workload "{name}"', place="WORKLOAD", remedy=nearest(name, known.workloads)
        )
    sheets = [workload_sheet(known, each) for each in ([name] if name else known.workloads)]
    if as_json:
        plain = [_plain(sheet) for sheet in sheets]
        print_json(plain[0] if name else plain)
    elif name:
        _print_sheet(sheets[0])
    else:
        rows = [(Cell(sheet.name, tone="strong"), sheet.summary) for sheet in sheets]
        stdout().print(terminal(facts(rows)))
        stdout().print("\n[dim]`strata workloads NAME` says what one stands for, measures and needs.[/dim]")


def _plain(sheet: WorkloadSheet) -> dict[str, Any]:
    found = asdict(sheet)
    found["metrics"] = found.pop("metric_specs")
    found["common_metrics"] = [asdict(each) for each in COMMON]
    found["checks"] = found.pop("check_questions")
    found["common_checks"] = QUESTIONS
    return found


def _print_sheet(sheet: WorkloadSheet) -> None:
    console = stdout()
    console.print(Text.assemble((sheet.name, "bold"), f"  {sheet.summary}\n"))
    console.print(Padding(Text(sheet.rationale), (0, 0, 1, 2)))
    generator = ["the load generator"] if sheet.uses_load_generator else []
    parts = ["the programs of its parts"] if sheet.is_compound else []
    known = [
        ("phases", ", ".join(sheet.phases)),
        ("runs on", ", ".join(_GROUNDS[each] for each in sheet.runs_on)),
        ("programs", ", ".join([*generator, *sheet.tools, *parts]) or "none"),
        ("reads", ", ".join(sheet.inputs)),
    ]
    console.print(terminal(facts(known)))
    console.print("\n[bold]metrics[/bold]")
    for each in sheet.metric_specs:
        _print_entry(console, f"  {each.names} ", f"{each.unit} {ARROWS[each.better]}", each.meaning)
    if sheet.is_compound:
        console.print(Padding(Text(_OF_TENANTS), (0, 0, 0, 2)))
    console.print("\n[bold]checks[/bold]")
    questions = {**sheet.check_questions, **QUESTIONS}
    rows = [(Cell(name, tone="strong"), Cell(question, tone="dim")) for name, question in questions.items()]
    console.print(terminal(facts(rows), indent=2))
    console.print("\n[bold]keys[/bold]")
    for key in sheet.keys:
        default = "must be given" if key.default is None else f"default: {key.default}"
        _print_entry(console, f"  {key.name}  ", default, key.description)
    for title, forms in sheet.allowed.items():
        console.print(f"\n[bold]what may be given as {escape(title)}[/bold]")
        for meaning, names in forms.items():
            console.print(Padding(Text(", ".join(names)), (0, 0, 0, 2)))
            console.print(Padding(Text(meaning, "dim"), (0, 0, 0, 6)))
    common = ", ".join(key.name for key in sheet.common_keys)
    console.print(Text(f"\nevery workload has besides: {common}", "dim"))
    console.print("\n[bold]example[/bold]")
    for line in sheet.example.splitlines():
        console.print(Text(f"  {line}"), soft_wrap=True)


_OF_TENANTS = (
    "The metrics of its parts, each after the tenant's name: the transactions_per_s of a tenant db is "
    "db_transactions_per_s, of the second of several db_2_transactions_per_s. Before them the rate of all "
    "together, and its fairness; docs/reference/study-file.md lists these."
)
_GROUNDS = {"filesystem": "a mounted filesystem", "block": "a block device", "pool": "a pool"}


def _print_entry(console: Console, name: str, detail: str, meaning: str) -> None:
    console.print(Text.assemble(name, (detail, "dim")), soft_wrap=True)
    console.print(Padding(Text(meaning, "dim"), (0, 0, 0, 6)))
