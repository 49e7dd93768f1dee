# SPDX-License-Identifier: Apache-2.0
"""Asking a person at a terminal for what no option says."""

from __future__ import annotations

import sys

import typer

from strata.actions.new_study import TEMPLATES, THIS_MACHINE, Answers, StudyUse
from strata.diagnostics.names import nearest
from strata.errors import StudyError


def answered_by_person(use: StudyUse | None, answers: Answers) -> tuple[StudyUse, Answers]:
    """The use and the answers, asked for if no use is named; without a terminal that raises StudyError."""
    if use is not None:
        return use, answers
    if not sys.stdin.isatty():
        raise StudyError("no use is named", place="--use", remedy=f"one of {', '.join(StudyUse)}")
    question = f"What are the disks for ({', '.join(StudyUse)})"
    named = typer.prompt(question, default=StudyUse.HOME_SERVER.value, err=True).strip()
    if named not in [*StudyUse]:
        raise StudyError(f'there is no use "{named}"', place="--use", remedy=nearest(named, StudyUse))
    template = TEMPLATES[StudyUse(named)]

    def answer(given: str | None, question: str, default: str) -> str:
        return given or typer.prompt(question, default=default, err=True)

    known = f"see `strata list devices`; or {THIS_MACHINE}"
    question = f"The models of its disks, one or {template.disks[0]}, {known}"
    disks = answer(" ".join(answers.disks or []), question, template.model).split()
    memory = answer(answers.memory, "The machine's memory", template.memory)
    data = answer(answers.data, "The data in use", template.data)
    return StudyUse(named), Answers(disks, answers.prices, memory, data)
