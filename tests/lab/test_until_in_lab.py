# SPDX-License-Identifier: Apache-2.0
"""A window that ends once its result is known, in the real lab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lab_factory import run_text

from strata.lab import Lab
from strata.runners.base import EVENTS_NAME
from strata.runners.lab import LabRunner

STUDY = """\
[study]
name = "until"
question = "When is enough known?"
seeds = [1]
memory = "256MiB"

[devices.disk0]
model = "wd-re4-500gb"
capacity = "8GiB"

[stacks.ext4]
layers = [{ layer = "ext4" }]

[workloads.mail]
workload = "load"
personality = "varmail"
files = 100
threads = 2
rate = 20
warmup = "2s"
duration = "400s"
deletes = "next"
until = "SHARE"
"""


def events(lab: Lab, folder: Path, share: str) -> list[str]:
    run_text(STUDY.replace("SHARE", share), folder, LabRunner(lab), jobs=1)
    [found] = folder.glob(f"results/records/*/attempt-*/{EVENTS_NAME}")
    return found.read_text().splitlines()


def of_kind(lines: list[str], kind: str) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, lines) if event["type"] == kind]


@pytest.mark.slow
def test_an_ended_trial_is_the_beginning_of_the_whole_one_and_the_same_twice(
    lab: Lab, tmp_path: Path
) -> None:
    ended, again, whole = (
        events(lab, tmp_path / name, share)
        # Plans of one length, which take the same time to read: 0.255 and 0.001.
        for name, share in (("ended", "25.5%"), ("again", "25.5%"), ("whole", "0.1%"))
    )

    assert ended == again
    [early], [late] = of_kind(ended, "precision"), of_kind(whole, "precision")
    assert (early["known"], late["known"]) == (True, False)
    assert 200 <= early["look"]["intervals"] < late["look"]["intervals"]
    end = next(at for at, line in enumerate(ended) if '"precision"' in line)
    same = [at for at, (one, other) in enumerate(zip(ended, whole, strict=False)) if one == other]
    # All but the first event, which names the plan, until the load has received the signal.
    assert len(same) >= end - 4, [ended[at] for at in range(end) if at not in same][:4]
