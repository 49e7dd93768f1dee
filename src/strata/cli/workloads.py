# SPDX-License-Identifier: Apache-2.0
"""``strata workloads``: what each workload stands for, measures and needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from strata.cli.application import examples
from strata.cli.output import print_json
from strata.console import Terminal
from strata.errors import StudyError
from strata.plan.catalogue import catalogue
from strata.plan.workload_sheet import Key, WorkloadSheet, workload_sheet
from strata.report.table import Cell, facts, terminal
from strata.spec.metric_spec import COMMON, MetricSpec
from strata.spec.names import nearest
from strata.spec.warning import QUESTIONS


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "workloads",
        epilog=examples(
            "strata workloads",
            "strata workloads pgbench",
            "strata workloads fio --json | jq '.metrics[].names'",
        ),
    )(workloads)


def workloads(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A workload; without it, all of them in a line each.",
            metavar="WORKLOAD",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """List the workloads, or say what one measures and needs."""
    known = catalogue()
    if name is not None and name not in known.workloads:
        raise StudyError(
            f'there is no workload "{name}"', place="WORKLOAD", remedy=nearest(name, known.workloads)
        )
    if name is None:
        sheets = [workload_sheet(known, each) for each in known.workloads]
        if as_json:
            print_json([_plain(sheet) for sheet in sheets])
        else:
            _print_list(sheets)
        return
    sheet = workload_sheet(known, name)
    if as_json:
        print_json(_plain(sheet))
    else:
        _print_sheet(sheet)


def _plain(sheet: WorkloadSheet) -> dict[str, Any]:
    found = asdict(sheet)
    found["metrics"] = found.pop("metric_specs")
    found["common_metrics"] = [asdict(each) for each in COMMON]
    found["checks"] = found.pop("check_questions")
    found["common_checks"] = QUESTIONS
    return found


def _print_list(sheets: Iterable[WorkloadSheet]) -> None:
    console = Terminal(highlight=False)
    rows = [(Cell(sheet.name, tone="strong"), sheet.summary) for sheet in sheets]
    console.print(terminal(facts(rows)))
    console.print("\n[dim]`strata workloads NAME` says what one stands for, measures and needs.[/dim]")


def _print_sheet(sheet: WorkloadSheet) -> None:
    console = Terminal(highlight=False)
    console.print(Text.assemble((sheet.name, "bold"), f"  {sheet.summary}\n"))
    console.print(Padding(Text(sheet.rationale), (0, 0, 1, 2)))
    generator = ["the load generator"] if sheet.uses_load_generator else []
    parts = ["those of its parts"] if sheet.is_compound else []
    known = [
        ("phases", ", ".join(sheet.phases)),
        ("runs on", ", ".join(_GROUNDS[each] for each in sheet.runs_on)),
        ("programs", ", ".join([*generator, *sheet.tools, *parts]) or "none"),
        ("reads", ", ".join(sheet.inputs)),
    ]
    console.print(terminal(facts(known)))
    console.print("\n[bold]metrics[/bold]")
    _print_metrics(console, sheet.metric_specs)
    if sheet.is_compound:
        console.print(Padding(Text(_OF_TENANTS), (0, 0, 0, 2)))
    console.print("\n[bold]checks[/bold]")
    questions = {**sheet.check_questions, **QUESTIONS}
    rows = [(Cell(name, tone="strong"), Cell(question, tone="dim")) for name, question in questions.items()]
    console.print(terminal(facts(rows), indent=2))
    console.print("\n[bold]keys[/bold]")
    _print_keys(console, sheet.keys)
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
    "Those of its parts, each with the tenant's name before it: the transactions_per_s of a tenant db is "
    "db_transactions_per_s, that of the second of several db_2_transactions_per_s. Before them what says how "
    "fast all were together, and how fair that was; docs/reference/study-file.md lists these."
)
_GROUNDS = {"filesystem": "a mounted filesystem", "block": "a block device", "pool": "a pool"}


def _print_metrics(console: Console, metric_specs: Iterable[MetricSpec]) -> None:
    for each in metric_specs:
        arrow = "↑" if each.better == "higher" else "↓"
        console.print(Text.assemble(f"  {each.names} ", (f"{each.unit} {arrow}", "dim")), soft_wrap=True)
        console.print(Padding(Text(each.meaning, "dim"), (0, 0, 0, 6)))


def _print_keys(console: Console, keys: Iterable[Key]) -> None:
    for key in keys:
        default = "must be given" if key.default is None else f"default: {key.default}"
        console.print(Text.assemble(f"  {key.name}  ", (default, "dim")), soft_wrap=True)
        console.print(Padding(Text(key.description, "dim"), (0, 0, 0, 6)))
