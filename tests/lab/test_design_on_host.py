# SPDX-License-Identifier: Apache-2.0
"""On a host trials follow one another as the design says, each on a filesystem that was aged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from lab_factory import head, host_ground, mix, on_host, records, stacks, strata

from record_hashes import attempt_of
from strata.lab import Lab
from strata.plan.catalogue import catalogue
from strata.plan.compile import trials
from strata.reading.load import load_study

pytestmark = pytest.mark.root

DESIGN = 'question = "Which?"\norder = "abba"\nage = { fill = "20%", overwrites = 1 }'
FOLDER = '\n[stacks.folder]\nlayers = [{ layer = "ext4" }, { layer = "directory" }]\n'
STUDY = (
    head("design", [1, 2], "256MiB").replace('question = "Which?"', DESIGN) + stacks("ext4") + FOLDER + mix()
)


@pytest.fixture
def ground(lab: Lab) -> Iterator[Path]:
    with host_ground(STUDY) as path:
        yield path


def span(results: Path, trial_id: str) -> tuple[int, int]:
    """When a trial began and ended, by the machine's own clock."""
    events = attempt_of(results, trial_id) / "events.jsonl"
    times = [json.loads(line)["monotonic_ns"] for line in events.read_text().splitlines()]
    return min(times), max(times)


@pytest.mark.slow
def test_trials_are_interleaved_as_planned_one_at_a_time(ground: Path) -> None:
    results = ground / "results"
    where = on_host(ground / "scratch", results)

    done = strata("run", str(ground / "study.toml"), *where, env=os.environ, cwd=ground, check=False)

    reasons = [line for line in done.stderr.splitlines() if "skipped:" in line]
    if reasons:
        pytest.skip(reasons[0])
    assert done.returncode == 0, done.stderr
    planned = [trial.id for trial in trials(load_study(ground / "study.toml", catalogue()))]
    spans = {trial_id: span(results, trial_id) for trial_id in planned}
    assert sorted(spans, key=lambda each: spans[each]) == planned
    assert all(spans[one][1] <= spans[other][0] for one, other in pairwise(planned))
    stacks_in_order = [each.split(".")[0] for each in planned]
    assert stacks_in_order == [*stacks_in_order[:2], *stacks_in_order[1::-1]]
    for record in records(results).values():
        verdicts = {check.name: check.verdict for check in record.checks}
        assert (record.validity.valid, verdicts["aged"]) == (True, "yes")
