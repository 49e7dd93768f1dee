# SPDX-License-Identifier: Apache-2.0
"""``strata compare``: one set of results against another."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final

import typer

from strata.cli.output import print_json, print_text, refuse_both, stdout
from strata.cli.parameters import AsJson, AsMarkdown, argument, option, results_path
from strata.printable import printable
from strata.report.comparison import pair_blocks
from strata.report.document import Document, markdown_of
from strata.results.capabilities import Capabilities
from strata.results.findings import read_capabilities
from strata.results.store import ResultsFolder
from strata.statistics.alarms import Alarm, FailOn, alarms
from strata.statistics.pair import ComparisonOptions, compare_sets
from strata.statistics.pairing import Side
from strata.statistics.study import StudyResults, gather
from strata.units import parse_share

BAD_VERDICT_EXIT: Final = 1
ZONE: Final = "3%"
# A wider zone would call half the speed equal.
_ZONE_MAX: Final = 0.5
_NAMED_MAX: Final = 5


A = Annotated[str, argument("The baseline, A: a results folder; or RESULTS:STACK, one stack.", "RESULTS")]
B = Annotated[str, argument("What is compared with it, B: likewise.", "RESULTS")]
Globs = list[str] | None
Renamed = Annotated[
    list[str] | None,
    option("A stack or workload called OLD in A and NEW in B; may be repeated.", "--map", "OLD=NEW"),
]
Threshold = Annotated[str, option("The practical zone: a difference below it counts as equal.", "PERCENT")]
Failing = Annotated[
    list[FailOn] | None,
    option(
        "Exit with 1 if a cell is worse; is undecided, doubtful, without a rank or of too few seeds; is "
        "missing; or if any metric or count per operation has changed. May be repeated.",
        "VERDICT",
    ),
]


def compare(  # noqa: PLR0917  typer makes options of them
    first: A,
    second: B,
    renamed: Renamed = None,
    stack: Annotated[Globs, option("Only these stacks; may be repeated.", "GLOB")] = None,
    workload: Annotated[Globs, option("Only these workloads; may be repeated.", "GLOB")] = None,
    metric: Annotated[Globs, option("These metrics, not the headlines; may be repeated.", "GLOB")] = None,
    all_metrics: Annotated[bool, option("Every metric.", "--all-metrics")] = False,
    threshold: Threshold = ZONE,
    fail_on: Failing = None,
    worst_first: Annotated[bool, option("One table, the worst of B first.", "--worst-first")] = False,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Compare two results: what got better or worse.

    Trials are paired by their seeds. What differs between the two in versions, settings, options and plans is
    named. Results in virtual time and in wall time are never compared. What failures did to the stacks
    (`[survival]`, `strata capabilities`) stands below the speeds.

    Examples:
        strata compare results/before results/after
        strata compare results/before results/after --fail-on worse --threshold 5%
        strata compare results/quickstart:ext4 results/quickstart:xfs
        strata compare results/old results/new --map ext4=ext4-m0 --markdown
        strata compare results/old results/new --all-metrics --worst-first
    """
    refuse_both(json=as_json, markdown=as_markdown)
    options = ComparisonOptions(
        renamed=dict(_renaming(each) for each in renamed or []),
        stacks=stack or [],
        workloads=workload or [],
        metrics=["*"] if all_metrics else metric or [],
        zone=asked_zone(threshold),
    )
    pair = compare_sets(*_sides(first, second), options)
    rows = pair.worst_first() if worst_first else list(pair.rows)
    if as_json:
        print_json(replace(pair, rows=tuple(rows)))
    elif as_markdown:
        print_text(markdown_of(pair_blocks(pair, rows)))
    else:
        console = stdout()
        blocks = pair_blocks(pair, rows, width=console.width, sorted_anew=worst_first)
        console.print(Document(blocks))
    if found := alarms(pair, fail_on or []):
        # Printed with --quiet, too: it is why the command fails.
        print(*map(printable, failures(found)), sep="\n", file=sys.stderr)
        raise typer.Exit(BAD_VERDICT_EXIT)


def _sides(first: str, second: str) -> tuple[Side, Side]:
    read: dict[Path, tuple[StudyResults, Capabilities | None]] = {}
    sides = []
    for word in (first, second):
        path, stack = _named(word)
        if path not in read:
            folder = ResultsFolder.open(path)
            read[path] = gather(folder), read_capabilities(folder)
        sides.append(Side(read[path][0], word, stack, read[path][1]))
    return sides[0], sides[1]


def _named(word: str) -> tuple[Path, str | None]:
    """The folder and the stack of ``RESULTS:STACK``. An existing path with a colon is a folder."""
    folder, colon, stack = word.rpartition(":")
    if not colon or not folder or "/" in stack or Path(word).exists():
        return results_path(word), None
    return results_path(folder), stack


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise typer.BadParameter(f'"{text}" is not OLD=NEW, a name in A and one in B', param_hint="--map")
    return old, new


def asked_zone(text: str) -> float:
    """The zone of ``--threshold``."""
    try:
        zone = parse_share(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--threshold") from None
    if zone > _ZONE_MAX:
        raise typer.BadParameter(
            f"a zone of ±{text} would call nearly everything equal", param_hint="--threshold"
        )
    return zone


def failures(found: Sequence[Alarm]) -> list[str]:
    """The alarms, a line for each reason."""
    groups = ((reason, [*group]) for reason, group in groupby(found, attrgetter("reason")))
    return [
        f"strata: {reason}: {', '.join(map(str, group[:_NAMED_MAX]))}"
        + f" and {len(group) - _NAMED_MAX} more" * (len(group) > _NAMED_MAX)
        for reason, group in groups
    ]
