# SPDX-License-Identifier: Apache-2.0
"""Lists of calls: one hand-over to the lab's kernel gives what single calls give."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import head, stacks, valid_record

from strata.lab import Lab
from strata.runners.lab import LabRunner

LOAD = """
[workloads.pages]
workload = "load"
personality = "webserver"
threads = 20
duration = "200ms"
"""


def test_a_web_server_by_lists_is_that_by_single_calls(lab: Lab, tmp_path: Path) -> None:
    study = head("lists", [1]).replace("time_limit", "cpus = 4\ntime_limit") + stacks("ext4") + LOAD
    found = []
    for name, more in {"single": "", "lists": "lists = true\n"}.items():
        record = valid_record(study + more, tmp_path / name, LabRunner(lab))
        found.append({each.name: each.value for each in record.metrics})

    single, lists = found
    sure = [name for name in single if name.endswith(("_per_s", "_p50"))]
    assert len(sure) > 6
    assert [lists[name] for name in sure] == pytest.approx([single[name] for name in sure], rel=0.02)
