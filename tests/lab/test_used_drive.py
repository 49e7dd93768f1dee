# SPDX-License-Identifier: Apache-2.0
"""A study on flash drives of different ages, in the lab."""

from __future__ import annotations

from pathlib import Path

from lab_factory import records, run_text

from record_hashes import hashes
from strata.lab import Lab
from strata.runners.lab import LabRunner

STUDY = """
[study]
name = "ages"
question = "What does the age of a drive cost?"
seeds = [1]

[devices.used]
model = "sandisk-readycache-32gb"
capacity = "512MiB"

[devices.fresh]
model = "sandisk-readycache-32gb"
capacity = "512MiB"
precondition = "fresh"

[devices.steady]
model = "sandisk-readycache-32gb"
capacity = "512MiB"
precondition = "steady"

[stacks]
used = { devices = ["used"], layers = [{ layer = "ext4" }] }
fresh = { devices = ["fresh"], layers = [{ layer = "ext4" }] }
steady = { devices = ["steady"], layers = [{ layer = "ext4" }] }

[workloads.dd]
workload = "dd"
size = "128MiB"
content = "random"
"""


def test_a_used_drive_lies_between_a_fresh_and_a_steady_one_and_is_the_same_again(
    lab: Lab, tmp_path: Path
) -> None:
    folders = tmp_path / "first", tmp_path / "second"
    run_text(STUDY, folders[0], LabRunner(lab))
    only_used = STUDY.partition("fresh = {")[0] + STUDY[STUDY.index("\n[workloads") :]
    run_text(only_used, folders[1], LabRunner(lab))
    found = records(folders[0] / "results")

    assert {trial: record.validity.reasons for trial, record in found.items()} == dict.fromkeys(found, ())
    (again,) = hashes(folders[1] / "results").items()
    assert again in hashes(folders[0] / "results").items()
    metrics = {each.trial.stack: each.metric("write_sync_bytes_per_s") for each in found.values()}
    rates = {stack: metric.value for stack, metric in metrics.items() if metric is not None}
    assert rates["steady"] < 0.5 * rates["used"] < 0.5 * rates["fresh"]
