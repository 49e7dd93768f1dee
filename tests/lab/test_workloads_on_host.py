# SPDX-License-Identifier: Apache-2.0
"""Every workload on this machine's kernel, on a loop device, as far as the machine has its programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import head, host_ground, records, run_text, stacks

from small_loads import LOWEST, SMALL, small_load
from strata.lab import Lab
from strata.runners.host import HostRunner

pytestmark = pytest.mark.root

# `load`, `fill-and-fragment`, `os-installation`, `sql-suite`, test_host.py and test_trace_in_lab.py run the
# same programs, or the lab runs these, too.
SLOW = (
    *("bonnie", "tree", "filesystem-life", "blog", "file-storm", "pgbench", "sysbench-oltp", "dd", "fio"),
    *("sysbench-fileio", "trace", "calls"),
)
TOO_FAST = "shorter than half a second"


@pytest.fixture(scope="module")
def ground(lab: Lab) -> Iterator[Path]:
    with host_ground() as path:
        yield path


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] * (each in SLOW)) for each in sorted(SMALL.keys() - LOWEST)],
)
def test_a_workload_runs_on_this_kernel_and_leaves_nothing(lab: Lab, ground: Path, name: str) -> None:
    folder, scratch = ground / name, ground / "scratch"
    folder.mkdir()
    text = head("host", [1], "8GiB") + stacks("ext4") + f"\n[workloads.{name}]\n{small_load(name)}"
    runner = HostRunner(lab.agent, scratch=scratch, journal=folder / "results", load=lab.load)

    done = run_text(text, folder, runner, retries=0)

    failures = (reason for reasons in done.invalid.values() for reason in reasons)
    if why := [*done.skipped.values(), *(each for each in failures if TOO_FAST in each)]:
        pytest.skip(why[0])
    (record,) = records(folder / "results").values()
    assert record.validity.valid, record.validity.reasons
    assert record.time_domain == "wall"
    assert all(metric.value > 0 for metric in record.metrics if metric.headline)
    assert list(scratch.iterdir()) == []
