# SPDX-License-Identifier: Apache-2.0
"""The validation as blocks, and as one HTML page that needs no network, in the look of the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from markupsafe import Markup

from strata import __version__
from strata.report.device_plot import draw
from strata.report.document import Block, Figure, Fold, Group, Paragraph, Section, Terms
from strata.report.spans import Link, Mono, Tone, Toned
from strata.report.table import Cell, Column, Table, columns
from strata.report.templates import document_page
from strata.validation.subject import ExaminedSubject, ModelCheck, Verdict, totals
from strata.words import sentence_case

_TITLE: Final = "Do the modelled disks behave like disks?"
_TONES: Final[dict[Verdict, Tone]] = {"passed": "dim", "failed": "bad", "noted": "doubt"}
_SHOWN_MAX: Final = 40  # checks of a subject; of more the departures are shown, and all are folded away
_TERMS: Final = (
    (
        "passed, failed",
        "The model’s value lies within the stated bounds, or it does not; one failure makes `strata lab "
        "validate` fail.",
    ),
    (
        "noted",
        "A difference beyond the bounds that proves nothing, because the expected value is an estimate or "
        "only recalled. Of a published figure the bound is 10 %.",
    ),
    (
        "read, recalled, input",
        "Where a published figure is from: it was read somewhere; it was recalled or is an estimate; or it "
        "is a parameter of the model itself, so that agreement says only that the model keeps to it.",
    ),
    (
        "model",
        "The C files of `kernel/disk`, the same ones that the lab’s kernel is made of, run in a library with "
        "fixed seeds. The page is the same wherever it is made.",
    ),
)


def check_table(checks: Sequence[ModelCheck], *, has_notes: bool = False) -> Table:
    """The checks of a subject; with a column of the basis if figures are published."""
    based = any(check.basis for check in checks)
    heads = [*columns("check", ("model", "figure"), ("expected", "figure"))]
    heads += [Column("figure")] if based else []
    rows = [
        [
            Cell(check.title, remark=check.note if has_notes else ""),
            check.found,
            check.expected,
            *([check.basis] if based else []),
            Cell(check.verdict, tone=_TONES[check.verdict]),
        ]
        for check in checks
    ]
    return Table((*heads, Column("verdict")), rows)


def render(subjects: Sequence[ExaminedSubject], *, quick: bool = False) -> str:
    facts = [sentence_case(line) for line in totals(subjects).splitlines()]
    if quick:
        facts.append("With `--quick`: fewer I/Os, so that figures are some per cent off, and fewer checks")
    command = Mono(f"strata lab validate{' --quick' * quick}")
    return document_page(
        _TITLE,
        kicker="validation",
        heading=_TITLE,
        facts=". ".join([*facts, ""]),
        blocks=[
            Group(map(_summary, subjects), "answers"),
            *(Section(subject.name, subject.title, _blocks(subject)) for subject in subjects),
            Section("terms", "Terms", [Terms(_TERMS)]),
        ],
        made=(f"Made by Strata {__version__} with ", command, "."),
    )


def _summary(subject: ExaminedSubject) -> Block:
    """A subject's verdict, with its failures."""
    failed = [check for check in subject.checks if check.verdict == "failed"]
    count = f"{len(failed)} of {len(subject.checks)} checks failed"
    said = Toned(count, "bad") if failed else f"{len(subject.checks)} checks, none failed"
    remarks = (f"{check.title}: {check.found}, expected {check.expected}" for check in failed)
    name = Group([Paragraph(Link(subject.title, f"#{subject.name}"))], "of")
    lines = [Paragraph(said, "lead"), *(Paragraph(remark, "remark") for remark in remarks)]
    return Group([name, Group(lines)], "answer")


def _blocks(subject: ExaminedSubject) -> Iterator[Block]:
    yield Paragraph(Markup(subject.text))  # noqa: S704 - our own
    if subject.pictures:
        figures = (
            Figure(f"{subject.name}-{number}", picture.title, "", draw(picture))
            for number, picture in enumerate(subject.pictures)
        )
        yield Group(figures, "pair")
    every = Group([check_table(subject.checks, has_notes=True)], "wrapped")
    if len(subject.checks) <= _SHOWN_MAX:
        yield every
        return
    if departures := [check for check in subject.checks if check.verdict != "passed"]:
        yield Group([check_table(departures, has_notes=True)], "wrapped")
    yield Fold(f"All {len(subject.checks)} checks", [every])
