# SPDX-License-Identifier: Apache-2.0
"""All metrics that there can be, all checks, and all warnings."""

from __future__ import annotations

import re

from generated.markdown import code, prose, table
from generated.workloads import yields_table
from strata.model.metric import COMMON
from strata.model.warning import QUESTIONS, WARNINGS
from strata.plan.catalogue import catalogue


def part() -> str:
    """The metrics by name with the workloads that have them, and the metrics of common keys."""
    named: dict[tuple[str, str, str], list[str]] = {}
    for name, workload in catalogue().workloads.items():
        for each in workload.metric_specs:
            named.setdefault((each.names, each.unit, each.better), []).append(name)
    rows = [
        (code(names), code(unit), better, ", ".join(f"[`{each}`](workloads/{each}.md)" for each in workloads))
        for (names, unit, better), workloads in sorted(named.items())
    ]
    text = table(("Metric", "Unit", "Better", "Of"), rows)
    return text + "## Of every workload\n\n" + yields_table(COMMON)


def checks() -> str:
    """The questions that each trial answers."""
    rows = [(code(name), prose(question), "every trial") for name, question in QUESTIONS.items()]
    for name, workload in catalogue().workloads.items():
        rows += [
            (code(check), prose(question), f"[`{name}`](workloads/{name}.md)")
            for check, question in workload.check_questions.items()
        ]
    return table(("Check", "Question", "Of"), rows)


def warnings() -> str:
    """Every reason to doubt a number."""
    rows = []
    for each in WARNINGS.values():
        answered = code(each.check) if each.check else ""
        remedy = re.sub(r"{(\w+)}", lambda found: found[1], each.remedy)
        rows.append((code(each.code), prose(each.question), prose(each.denial), prose(remedy), answered))
    return table(("Code", "Question", "A no means", "Remedy", "Check"), rows)
