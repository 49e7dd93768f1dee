# SPDX-License-Identifier: Apache-2.0
"""``strata gate``: may this change pass?"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from strata.actions.gate import Gate
from strata.cli.compare import BAD_VERDICT_EXIT, ZONE, Globs, asked_zone, failures
from strata.cli.output import print_json, print_text, refuse_both, stdout
from strata.cli.parameters import AsJson, AsMarkdown, argument, option, results_path
from strata.files import write_page
from strata.printable import printable
from strata.report.comparison import pair_blocks
from strata.report.document import Block, Document, markdown_of
from strata.report.gate import code_quality, junit, sight_blocks, verdict_blocks, workflow_commands
from strata.results.counts import PROCESSOR_TIME
from strata.statistics.alarms import FailOn
from strata.statistics.pair import ComparisonOptions
from strata.units import parse_share

_REASONS: Final = (FailOn.WORSE, FailOn.CHANGED, FailOn.MISSING)

Baseline = Annotated[Path, argument("The results of the last good state.", "RESULTS", parser=results_path)]
Candidate = Annotated[
    Path | None,
    argument(
        "The results of the change. Without them: what the gate could see.", "RESULTS", parser=results_path
    ),
]
See = Annotated[
    str | None, option("Refuse a gate that cannot see this difference in each cell.", "--see", "PERCENT")
]
Threshold = Annotated[
    str | None,
    option("A difference below it counts as equal. Default: half of --see, or 3 %.", "PERCENT"),
]
Failing = Annotated[
    list[FailOn] | None,
    option(
        "See `compare`; `changed` means a count of the disks here. Default: worse, changed, missing.",
        "VERDICT",
    ),
]
Place = Annotated[
    str | None, option("The study's path in the repository, for annotations.", "--study", "FILE")
]
Junit = Annotated[Path | None, option("Write JUnit's XML.", "--junit", "FILE")]
Quality = Annotated[Path | None, option("Write GitLab's code quality report.", "--code-quality", "FILE")]


def gate(  # noqa: PLR0917  typer makes options of them
    baseline: Baseline,
    candidate: Candidate = None,
    see: See = None,
    threshold: Threshold = None,
    fail_on: Failing = None,
    stack: Annotated[Globs, option("Only these stacks; may be repeated.", "GLOB")] = None,
    workload: Annotated[Globs, option("Only these workloads; may be repeated.", "GLOB")] = None,
    study: Place = None,
    junit_xml: Junit = None,
    quality: Quality = None,
    github: Annotated[bool, option("Print GitHub's annotations to standard error.", "--github")] = False,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Decide whether a change may pass, for CI.

    First the gate says which difference it can see in each cell, from the baseline's seeds and their spread,
    and refuses what it cannot (exit code 2). It is red (exit code 1) if a headline or the processor's time
    per operation is surely worse, if a count of the disks has surely changed (flushes, writes, bytes per
    operation), or if a cell is missing.

    Examples:
        strata gate results/baseline --see 5%      # before the change is measured
        strata gate results/baseline results/candidate --see 5%
        strata gate results/baseline results/candidate --github --markdown >> "$GITHUB_STEP_SUMMARY"
        strata gate results/baseline results/candidate --junit gate.xml --code-quality gl-code-quality.json
    """
    refuse_both(json=as_json, markdown=as_markdown)
    asked, zone = _differences(see, threshold)
    _require_change(candidate, junit_xml, quality, github, fail_on)
    options = ComparisonOptions(
        stacks=stack or [], workloads=workload or [], also=[PROCESSOR_TIME], zone=zone
    )
    found = Gate.at(baseline, options)
    is_plain = not (as_json or as_markdown)
    if is_plain:
        stdout().print(Document(sight_blocks(found.seen)))
    if asked is not None:
        found.refuse_blind(asked)
    if candidate is None:
        _print([] if is_plain else sight_blocks(found.seen), as_json=as_json, sights=found.seen)
        return
    pair, alarms = found.judge(candidate, fail_on or _REASONS)
    at = study or found.file
    _write({junit_xml: junit(pair, alarms), quality: code_quality(pair, alarms, at)})
    answer, details = verdict_blocks(pair, alarms), pair_blocks(pair, pair.rows, width=stdout().width)
    if is_plain:
        stdout().print(Document([*details, *answer]))
    blocks = [] if is_plain else [*answer, *details, *sight_blocks(found.seen)]
    _print(blocks, as_json=as_json, sights=found.seen, alarms=alarms, comparison=pair)
    if alarms:
        lines = workflow_commands(alarms, at) if github else map(printable, failures(alarms))
        print(*lines, sep="\n", file=sys.stderr)
        raise typer.Exit(BAD_VERDICT_EXIT)


def _require_change(candidate: Path | None, *outputs: object) -> None:
    """Options about a verdict are a mistake without one: a server would wait for their files."""
    if candidate is None and any(outputs):
        what = "--junit, --code-quality, --github and --fail-on need the results of a change"
        raise typer.BadParameter(what, param_hint="RESULTS")


def _write(files: Mapping[Path | None, str | bytes]) -> None:
    for path, written in files.items():
        if path is not None:
            write_page(path, written)


def _print(blocks: Sequence[Block], *, as_json: bool, **records: object) -> None:
    """The records as JSON, or blocks, if there are any, as Markdown."""
    if as_json:
        print_json(**records)
    elif blocks:
        print_text(markdown_of(blocks))


def _differences(see: str | None, threshold: str | None) -> tuple[float | None, float]:
    """What ``--see`` asks for, and the zone."""
    try:
        asked = None if see is None else parse_share(see)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--see") from None
    if asked == 0:
        raise typer.BadParameter("no gate sees a difference of nothing", param_hint="--see")
    if threshold is not None or asked is None:
        return asked, asked_zone(threshold or ZONE)
    return asked, asked / 2
