# SPDX-License-Identifier: Apache-2.0
"""A thousand seeded power cuts: ``make power-cuts``, or with another number ``make power-cuts CUTS=100``.

First what must survive; then, with fewer cuts, what may be damaged by a torn block; last what must be seen
damaged. Exits with 1 if the first or the last is not so.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from power_cut_subjects import FILESYSTEMS, Subject, sound_subjects, torn_subjects, unsound_subjects
from power_cuts import Chain, Outcome, Rack, chains, run_chains
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from strata.lab.folder import run_root
from strata.lab.lab import require_lab
from strata.runners.lab import LabRunner
from strata.units import NS_PER_S

_COLUMNS = (
    *("filesystem", "work", "drive", "instead of the usual", "cuts", "survived", "damaged"),
    *("in recovery", "operations verified", "writes lost", "torn", "though acknowledged", "virtual s"),
)


def run(rack: Rack, wanted: Sequence[Chain], cpus: Sequence[int], console: Console) -> dict[Subject, Outcome]:
    """Run chains behind a bar, and say at once what is damaged that must not be."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=2) as progress:
        bar = progress.add_task("power cuts", total=sum(chain.cuts for chain in wanted))

        def finished(chain: Chain, outcome: Outcome) -> None:
            console.print(f"{chain.name}: {outcome.survived} of {outcome.cuts} survived", markup=False)
            shown = [*(outcome.damage if chain.subject.expected != "damaged" else outcome.damage[:1])]
            for line in (*shown, *outcome.different, *outcome.remarks):
                console.print(f"  {line}", markup=False)

        return run_chains(rack, wanted, cpus, lambda chain: progress.advance(bar), finished)


def table_of(outcomes: dict[Subject, Outcome]) -> Table:
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    rows = list(outcomes.items())
    for subject, outcome in rows:
        table.add_row(*_cells(subject, outcome))
    if len(rows) > 1:
        total = Outcome()
        for _, outcome in rows:
            total.add(outcome)
        table.add_row("all", "", "", "", *_counts(total), style="bold")
    return table


def _cells(subject: Subject, outcome: Outcome) -> tuple[str, ...]:
    return (subject.filesystem, subject.content, subject.drive, subject.condition, *_counts(outcome))


def _counts(outcome: Outcome) -> tuple[str, ...]:
    counts = (outcome.cuts, outcome.survived, outcome.damaged, outcome.in_recovery, outcome.operations)
    more = (outcome.lost, outcome.torn, outcome.lost_acknowledged, outcome.virtual_ns // NS_PER_S)
    return tuple(f"{count:,}" for count in (*counts, *more))


def failures(outcomes: dict[Subject, Outcome]) -> list[str]:
    """Differences between expected and found results."""
    found = []
    for subject, outcome in outcomes.items():
        found += outcome.different
        if subject.expected == "sound" and outcome.damage:
            found.append(f"{subject.name} is damaged after {outcome.damaged} of {outcome.cuts} cuts")
        if subject.expected == "damaged" and not outcome.damage:
            found.append(f"{subject.name} shows no damage after {outcome.cuts} cuts: the test cannot fail")
        if outcome.remarks and subject.filesystem != "btrfs":
            found.append(f"{subject.name}: {outcome.remarks[0]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=1000, help="of what must survive")
    parser.add_argument("--torn-cuts", type=int, default=100, help="of what a torn block may damage")
    parser.add_argument("--unsound-cuts", type=int, default=200, help="of what must be seen damaged")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, help="labs at once; default: one for each CPU")
    parser.add_argument("--filesystem", choices=FILESYSTEMS, help="only this one")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    cpus = cpus[-options.jobs :] if options.jobs else cpus
    console = Console(width=None if sys.stdout.isatty() else 220)
    parts = [
        (sound_subjects(), options.cuts),
        (torn_subjects(), options.torn_cuts),
        (unsound_subjects(), options.unsound_cuts),
    ]
    run_root().mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    outcomes: dict[Subject, Outcome] = {}
    with (
        tempfile.TemporaryDirectory(dir=run_root().parent, prefix="power-cuts-") as folder,
        Rack(LabRunner(require_lab()), Path(folder)) as rack,
    ):
        for every, cuts in parts:
            subjects = [each for each in every if options.filesystem in {None, each.filesystem}]
            part = run(rack, chains(subjects, cuts, options.seed), cpus, console) if subjects else {}
            console.print(table_of(part), f"{time.monotonic() - started_s:.0f} s of real time so far\n")
            outcomes |= part
    found = failures(outcomes)
    for line in found:
        console.print(f"FAILED: {line}", markup=False)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
