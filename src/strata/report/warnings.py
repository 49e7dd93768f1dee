# SPDX-License-Identifier: Apache-2.0
"""Warnings and checks of a workload, as the report, the terminal and Markdown show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strata.model.warning import Check, ResultWarning
from strata.report.table import Column, Table, columns
from strata.results.record import ResultRecord
from strata.statistics.study import StudyResults
from strata.statistics.warnings import check_warnings
from strata.words import listed, sentence_case


def answer_warnings(results: StudyResults, workload: str) -> list[str]:
    """The warnings beside a workload's answer, a line each: numbers that are unsteady or cached."""
    lines: dict[str, list[str]] = {}
    for stack in results.stacks:
        for each in check_warnings(results.cells[stack, workload]):
            if each.grave and each.denial:
                share = f" ({each.share})" if each.share else ""
                lines.setdefault(each.denial, []).append(f"{stack}{share}")
    return [f"Warning: {denial} on {listed(stacks)}." for denial, stacks in lines.items()]


@dataclass(frozen=True)
class WarningGroup:
    """Warnings of one kind under a workload, with one remedy."""

    warnings: tuple[ResultWarning, ...]  # in the study's order of stacks; a stack can have several
    everywhere: bool  # whether they concern all stacks of the study

    @property
    def stacks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.stack for each in self.warnings))

    @property
    def text(self) -> str:
        return self.warnings[0].text

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Each stack with its text; empty where all are alike."""
        differ = len({each.text for each in self.warnings}) > 1
        return tuple((each.stack, each.text) for each in self.warnings) if differ else ()

    @property
    def remedy(self) -> str:
        return self.warnings[0].remedy

    @property
    def grave(self) -> bool:
        """Whether one of them must stand beside the answer."""
        return any(each.grave for each in self.warnings)


def grouped_warnings(results: StudyResults, workload: str) -> list[WarningGroup]:
    """The warnings of a workload's cells, one group for each kind and remedy."""
    found: dict[tuple[str, str], list[ResultWarning]] = {}
    for stack in results.stacks:
        for each in results.warnings(stack, workload):
            found.setdefault((each.code, each.remedy), []).append(each)
    count = len(results.stacks)
    return [
        WarningGroup(tuple(group), everywhere=len({each.stack for each in group}) == count)
        for group in found.values()
    ]


_CHECKS: Final = (Column("stack", "stack"), *columns("check", "answer", "why"))


def checks_of(results: StudyResults, workload: str) -> tuple[list[str], Table]:
    """The checks of a workload's trials.

    First the questions that every trial of every stack answers with yes, then a row per stack and other
    question: the counts of its answers, and the reason in the first seed that does not say yes.
    """
    asked: dict[str, dict[str, list[Check]]] = {}
    for stack in results.stacks:
        for record in results.cells[stack, workload].records.values():
            for check in record.checks:
                asked.setdefault(check.question, {}).setdefault(stack, []).append(check)
    passed = [
        question
        for question, stacks in asked.items()
        if all(check.verdict == "yes" for checks in stacks.values() for check in checks)
    ]
    rows = [
        (
            stack,
            question,
            _verdicts(checks),
            next((each for each in checks if each.verdict != "yes"), checks[0]).detail,
        )
        for stack in results.stacks
        for question, stacks in asked.items()
        if question not in passed and (checks := stacks.get(stack))
    ]
    return passed, Table(_CHECKS, rows)


def _verdicts(checks: Sequence[Check]) -> str:
    counts = Counter(each.verdict for each in checks)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{each} {counts[each]}" for each in counts)


def check_lines(record: ResultRecord) -> list[tuple[str, str, str]]:
    """One trial's checks: the question, the answer, why."""
    return [
        (each.question if each.tenant else sentence_case(each.question), each.verdict, each.detail)
        for each in record.checks
    ]
