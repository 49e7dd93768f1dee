# SPDX-License-Identifier: Apache-2.0
"""What the checks of the trials say against a cell's numbers, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strata.results.record import ResultRecord
from strata.spec.check import DID_IO_IN_WINDOW, STEADY, Check
from strata.statistics.study import StudyResults
from strata.words import listed, sentence_case

_WARNED: Final = (DID_IO_IN_WINDOW, STEADY)
"""What a report warns of where it gives the answer; the others stand with the numbers."""


@dataclass(frozen=True)
class Doubt:
    """A check that says "no" in some trials of a stack under a workload.

    Attributes:
        warned: Whether whoever reads the answer must know it: numbers that are not steady, or cached.
        count: In how many of the ``total`` valid trials.
        detail: Of the first of them.
    """

    stack: str
    warned: bool
    negation: str
    count: int
    total: int
    detail: str

    @property
    def text(self) -> str:
        """What it says, in a line, without the stack."""
        share = "" if self.count == self.total else f" in {self.count} of {self.total} seeds"
        return f"{self.negation}{share}: {self.detail}"


def doubts(results: StudyResults, stack: str, workload: str) -> list[Doubt]:
    """What speaks against the numbers of a cell; checks that cannot tell say nothing against them."""
    records = list(results.cells[stack, workload].records.values())
    found: dict[tuple[str, str | None], list[Check]] = {}
    for record in records:
        for check in record.checks:
            if check.verdict == "no":
                found.setdefault((check.name, check.tenant), []).append(check)
    return [
        Doubt(stack, name in _WARNED, checks[0].negation, len(checks), len(records), checks[0].detail)
        for (name, _), checks in found.items()
    ]


def warnings(results: StudyResults, workload: str) -> list[str]:
    """What a reader of a workload's answer must know, a line each: which numbers are unsteady or cached."""
    lines: dict[str, list[str]] = {}
    for stack in results.stacks:
        for doubt in doubts(results, stack, workload):
            if doubt.warned:
                share = "" if doubt.count == doubt.total else f" ({doubt.count} of {doubt.total} seeds)"
                lines.setdefault(doubt.negation, []).append(f"{stack}{share}")
    return [f"Careful: {negation} on {listed(stacks)}." for negation, stacks in lines.items()]


@dataclass(frozen=True)
class Concern:
    """A reason to doubt some stacks' numbers under a workload, with what to do about it.

    Attributes:
        text: Of the first of the stacks.
        texts: Of each stack where they differ; empty where all say the same.
        warned: Whether whoever reads the answer must know it.
        everywhere: Whether it is about all stacks of the study.
    """

    stacks: tuple[str, ...]
    text: str
    remedy: str
    texts: tuple[tuple[str, str], ...] = ()
    warned: bool = False
    everywhere: bool = False


def concerns(results: StudyResults, workload: str) -> list[Concern]:
    """The cautions of a workload's cells, one for each kind with the stacks that it is about."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    grave = set()
    for stack in results.stacks:
        for each in results.cautions(stack, workload):
            found.setdefault((each.code, each.remedy), []).append((stack, each.text))
            if each.warned:
                grave.add(each.code)
    return [
        Concern(
            stacks=tuple(dict.fromkeys(stack for stack, _ in said)),
            text=said[0][1],
            remedy=remedy,
            texts=tuple(said) if len({text for _, text in said}) > 1 else (),
            warned=code in grave,
            everywhere=len({stack for stack, _ in said}) == len(results.stacks),
        )
        for (code, remedy), said in found.items()
    ]


@dataclass(frozen=True)
class Checks:
    """What the checks of a workload's trials say.

    Attributes:
        passed: The questions that every trial of every stack answers with yes.
        rows: A row per stack and other question: the question, how often it was answered how, and why in
            the first seed that does not say yes.
    """

    passed: list[str]
    rows: list[tuple[str, str, str, str]]


def checks_of(results: StudyResults, workload: str) -> Checks:
    """All checks of a workload's trials."""
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
            _worst(checks).detail,
        )
        for stack in results.stacks
        for question, stacks in asked.items()
        if question not in passed and (checks := stacks.get(stack))
    ]
    return Checks(passed, rows)


def _worst(checks: Sequence[Check]) -> Check:
    """The first that does not say yes."""
    return next((check for check in checks if check.verdict != "yes"), checks[0])


def _verdicts(checks: Sequence[Check]) -> str:
    counts = {each.verdict: 0 for each in checks}
    for each in checks:
        counts[each.verdict] += 1
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{verdict} {count}" for verdict, count in counts.items())


def check_lines(record: ResultRecord) -> list[tuple[str, str, str]]:
    """One trial's checks: the question, the answer, why."""
    return [
        (each.question if each.tenant else sentence_case(each.question), each.verdict, each.detail)
        for each in record.checks
    ]
