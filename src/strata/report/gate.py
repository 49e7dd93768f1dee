# SPDX-License-Identifier: Apache-2.0
"""What a gate can see and what it found, as blocks and in the formats of CI servers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree as Xml

from strata.model.metric import metric_title
from strata.printable import json_text, printable
from strata.report.document import Block, Bullets, Paragraph
from strata.report.table import Cell, Column, Table, columns
from strata.statistics.alarms import Alarm, FailOn
from strata.statistics.pair import Pair
from strata.statistics.power import Sight
from strata.units import percent
from strata.words import counted

_SEVERITIES: Final = {
    FailOn.WORSE: "major",
    FailOn.MISSING: "major",
    FailOn.CHANGED: "minor",
    FailOn.UNDECIDED: "info",
}
# Of a property GitHub takes two more characters for its own.
_ESCAPES: Final = {"%": "%25"}
_OF_PROPERTIES: Final = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def sight_blocks(sights: Sequence[Sight]) -> list[Block]:
    """The smallest difference that each cell can show."""
    rows = [
        (
            *(each.cell.workload, each.cell.stack, metric_title(each.kind), each.n),
            "" if each.spread in {0, float("inf")} else percent(each.spread),
            Cell("none", tone="doubt", remark=each.blind)
            if each.smallest is None
            else percent(each.smallest),
        )
        for each in sights
    ]
    heads = columns("workload", "stack", "metric", ("seeds", "count"), ("spread", "figure"))
    key = (
        "sees: the difference that nine of ten gates find if the change leaves the spread as it is. The "
        "spread is that of ratios by seed, as far as the baseline alone tells it."
    )
    return [Table((*heads, Column("sees", "figure")), rows, "What the gate can see"), Paragraph(key, "key")]


def verdict_blocks(pair: Pair, found: Sequence[Alarm]) -> list[Block]:
    """The answer, and each alarm."""
    if not found:
        cells = counted(len(pair.cells), "cell")
        return [
            Paragraph(f"The gate is green: {cells} of {pair.second.name} against {pair.first.name}.", "lead")
        ]
    heading = f"The gate is red: {counted(len(found), 'alarm')} in {pair.second.name}."
    return [Paragraph(heading, "lead"), Bullets([f"{each.reason}: {each}" for each in found])]


def junit(pair: Pair, found: Sequence[Alarm]) -> bytes:
    """A test for each metric of a cell, for its counts, and for what could not be compared."""
    tests: dict[tuple[str, str], list[Alarm]] = {}
    for row in pair.rows:
        tests[row.cell.title, row.comparison.kind.name] = []
    for cell in pair.cells:
        tests[cell.title, "counts"] = []
    for each in found:
        metric = "counts" if each.reason is FailOn.CHANGED else each.metric
        tests.setdefault((each.what, metric), []).append(each)
    failed = sum(bool(each) for each in tests.values())
    suite = Xml.Element("testsuite", name=pair.first.study, tests=f"{len(tests)}", failures=f"{failed}")
    for (what, metric), its in tests.items():
        case = Xml.SubElement(
            suite, "testcase", classname=printable(what), name=printable(metric or "compared")
        )
        for each in its[:1]:  # a test fails once
            message = "; ".join(f"{alarm.reason}: {alarm}" for alarm in its)
            Xml.SubElement(
                case, "failure", type=each.reason.value, message=printable(message)
            ).text = each.found
    whole = Xml.Element("testsuites")
    whole.append(suite)
    Xml.indent(whole)
    return bytes(Xml.tostring(whole, encoding="utf-8", xml_declaration=True)) + b"\n"


def workflow_commands(found: Sequence[Alarm], file: str) -> Iterator[str]:
    """GitHub's workflow commands, a line each; the runner reads them from standard output or error."""
    for each in found:
        title, place = (_escaped(text, _OF_PROPERTIES) for text in (f"strata: {each.reason}", file))
        yield f"::error file={place},line=1,title={title}::{_escaped(str(each), _ESCAPES)}"


def code_quality(pair: Pair, found: Sequence[Alarm], file: str) -> str:
    """GitLab's code quality report; the fingerprint of an alarm stays the same from run to run."""
    issues = [
        {
            "description": f"{each.reason}: {each}",
            "check_name": f"strata-{each.reason}",
            "fingerprint": hashlib.sha256(
                "\0".join((pair.first.study, each.reason, each.what, each.metric)).encode()
            ).hexdigest(),
            "severity": _SEVERITIES[each.reason],
            "location": {"path": file, "lines": {"begin": 1}},
        }
        for each in found
    ]
    return f"{json_text(issues, indent=1)}\n"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(letter, letter) for letter in printable(text))
