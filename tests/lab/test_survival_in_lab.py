# SPDX-License-Identifier: Apache-2.0
"""``[survival]`` in the lab: stacks that do not keep their word lose what they acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.capabilities.survey import Survey
from strata.lab import Lab
from strata.plan.catalogue import catalogue
from strata.results.capabilities import PowerCutFinding, lost_words
from strata.runners.lab import LabRunner
from strata.spec.load import load_study

pytestmark = pytest.mark.lab

STUDY = """\
[study]
name = "survival"
question = "Which stack keeps what it acknowledges?"
seeds = [1]
[devices.disk0]
model = "wd-re4-500gb"
capacity = "4GiB"
[devices.liar]
model = "wd-re4-500gb"
capacity = "4GiB"
faults = [{ fault = "ignores-flush" }]
[stacks.honest]
devices = ["disk0"]
layers = [{ layer = "ext4" }]
[stacks.no-fsync]
devices = ["disk0"]
layers = [{ layer = "ext4" }]
settings = { postgresql = { fsync = false } }
[stacks.lying-drive]
devices = ["liar"]
layers = [{ layer = "ext4" }]
[workloads.oltp]
workload = "pgbench"
scale = 1
clients = 4
warmup = "1s"
duration = "2s"
[survival]
power_cuts = 1
"""


def cut(lab: Lab, folder: Path) -> dict[str, PowerCutFinding]:
    file = folder / "study.toml"
    file.write_text(STUDY)
    study = load_study(file, catalogue())
    assert study.survival is not None
    survey = Survey(study, LabRunner(lab), folder / "found")
    return {each.stack: each for each in survey.cut(study.survival, jobs=1, finished=lambda found: None)}


def test_only_the_stack_that_keeps_its_word_has_everything_and_findings_are_kept(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = cut(lab, tmp_path)

    honest = found["honest"]
    assert (honest.verdict, honest.lost) == ("sound", 0)
    assert (honest.acknowledged or 0) > 50
    assert honest.recovery_ns
    for name in ("no-fsync", "lying-drive"):
        assert (found[name].acknowledged or 0) > 50, found[name]
        assert (found[name].lost or 0) > 0, found[name]
        assert "acknowledged operations lost" in lost_words([found[name]])
    assert found["lying-drive"].lost_by_disks > 0

    def again(*arguments: object) -> None:
        raise AssertionError("a finding that is kept was made again")

    monkeypatch.setattr("strata.capabilities.power_cuts.cut_and_recover", again)
    assert cut(lab, tmp_path) == found
