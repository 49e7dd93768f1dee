# SPDX-License-Identifier: Apache-2.0
"""A trial's record is the same bytes whatever its study, stack and workload are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import head, mix, oltp, run_text, stacks
from rich.console import Console

from strata.execution.display import LineDisplay
from strata.experiment.run import run_study
from strata.lab import Lab
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.results.store import ResultsFolder
from strata.runners.lab import LabRunner

LONG = "somebody-elses-names-which-are-longer-by-far"
FIRST = head("a", [1], "4GiB") + stacks("ext4") + mix(duration="500ms", size="16MiB") + oltp(2)
OTHER = (
    FIRST.replace('name = "a"', f'name = "{LONG}"')
    .replace("[stacks.ext4]", f"[stacks.{LONG}]")
    .replace("[workloads.mix]", f"[workloads.{LONG}]")
    .replace("[workloads.oltp]", "[workloads.w]")
)
WRITTEN = ("plan.json", "bindings.json", "events.jsonl", "console.log", "trace.parquet")


@pytest.mark.lab
def test_two_studies_that_differ_in_all_names_have_records_of_the_same_bytes_and_share_them(
    lab: Lab, tmp_path: Path
) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    run_text(FIRST, first, LabRunner(lab))
    run_text(OTHER, other, LabRunner(lab))

    found = [ResultsFolder.open(each / "results") for each in (first, other)]
    identities = [each.store.identities() for each in found]
    assert identities[0] == identities[1]
    assert len(identities[0]) == 2
    for identity in identities[0]:
        one, two = (each.store.attempts(identity)[0] for each in found)
        for name in WRITTEN:
            assert (one.path / name).read_bytes() == (two.path / name).read_bytes(), name
        inside, again = (each.result_path.read_bytes().partition(b"\n")[2] for each in (one, two))
        assert inside == again

    # The same records, under the names of whoever reads them.
    named = {each.record.trial.id for each in found[1].readings() if each.record}
    assert named == {f"{LONG}.{LONG}.s1", f"{LONG}.w.s1"}

    shared = ResultsFolder(tmp_path / "shared", found[0].store)
    study = load_study(other / "study.toml", catalogue())
    display = LineDisplay(Console(stderr=True), virtual=True)
    done = run_study(study, shared, LabRunner(lab), display)
    assert (len(done.kept), len(done.valid)) == (2, 0)
