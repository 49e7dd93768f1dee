# SPDX-License-Identifier: Apache-2.0
"""Warnings and checks of a workload, as the report, the terminal and Markdown show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from strata.model.warning import Check, ResultWarning
from strata.report.document import WRITTEN, Block, Bullets, Fold, Item, Note
from strata.report.spans import StackName, Toned, listing, said
from strata.report.table import Column, Table, columns
from strata.statistics.study import StudyResults
from strata.statistics.warnings import check_warnings
from strata.words import grouped, listed, sentence_case


def answer_warnings(results: StudyResults, workload: str) -> list[str]:
    """The warnings beside a workload's answer, a line each: numbers that are unsteady or cached."""
    lines = grouped(
        (each.denial, stack + (f" ({each.share})" if each.share else ""))
        for stack in results.stacks
        for each in check_warnings(results.cells[stack, workload])
        if each.grave and each.denial
    )
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
    every = (each for stack in results.stacks for each in results.warnings(stack, workload))
    found = grouped(((each.code, each.remedy), each) for each in every)
    count = len(results.stacks)
    return [
        WarningGroup(tuple(group), everywhere=len({each.stack for each in group}) == count)
        for group in found.values()
    ]


def warning_blocks(results: StudyResults, workload: str) -> Iterator[Block]:
    """The warnings of a workload: the grave ones, which a reader must know, and then the others."""
    groups = grouped_warnings(results, workload)
    grave = [_item(group) for group in groups if group.grave]
    lesser = [group for group in groups if not group.grave]
    if grave:
        yield Note([Bullets(grave, "warnings")], "Before you trust these numbers")
    if lesser:
        many = f"{len(lesser)} more things" if len(lesser) > 1 else "One more thing" if grave else "One thing"
        about = "them" if len(lesser) > 1 else "it"
        summary = f"{many} to know of these numbers, and what to do about {about}"
        yield Fold(summary, [Bullets([_item(group) for group in lesser], "warnings")], WRITTEN)


def denials(results: StudyResults, workload: str) -> list[Item]:
    """The other warnings of failed checks; an undecided check says nothing against the numbers."""
    groups = [group for group in grouped_warnings(results, workload) if not group.grave]
    return [_item(group) for group in groups if any(each.denial for each in group.warnings)]


def _item(group: WarningGroup) -> Item:
    """The stacks, the warning and its remedy; below them the warnings of each stack, where they differ."""
    named = listing([StackName(stack) for stack in group.stacks])
    stacks = Toned("All stacks") if group.everywhere and len(group.stacks) > 1 else named
    remedy = Toned(f"{sentence_case(group.remedy)}.", "dim")
    if len(group.texts) < 2:
        return Item(said("{}: {}. {}", stacks, group.text, remedy))
    first = said("{}; on {}: {}. {}", stacks, StackName(group.stacks[0]), group.text, remedy)
    lines = [said("{}: {}", StackName(stack), text) for stack, text in group.texts]
    return Item(first, [Fold("Stack by stack", [Bullets(lines)], WRITTEN)])


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
