# SPDX-License-Identifier: Apache-2.0
"""Every workload on this machine's kernel, on a loop device, as far as the machine has its programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_factory import head, on_host, public_folder, records, stacks, strata

from small_loads import SMALL, small_load
from strata.disks.machine import mounts_under
from strata.lab import Lab
from strata.runners.assembled import loops_under

pytestmark = [pytest.mark.lab, pytest.mark.root]

# `tree`, `load`, `fill-and-fragment`, test_host.py and `sql-suite` run the same programs, and the lab runs
# these, too.
SLOW = ("filesystem-life", "blog", "file-storm", "pgbench", "sysbench-oltp")
TOO_FAST = "shorter than half a second"


@pytest.fixture(scope="module")
def ground(lab: Lab) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root, for loop devices")
    with public_folder() as path:
        loads = (f"\n[workloads.{name}]\n{small_load(name)}" for name in SMALL)
        (path / "study.toml").write_text(head("host", [1], "8GiB") + stacks("ext4") + "".join(loads))
        (path / "scratch").mkdir(mode=0o755)
        yield path
        assert loops_under(path) == {}
        assert mounts_under(path) == []


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.slow] * (each in SLOW)) for each in sorted(SMALL)]
)
def test_a_workload_runs_on_this_kernel_and_leaves_nothing(ground: Path, name: str) -> None:
    results, scratch = ground / f"results-{name}", ground / "scratch"
    where = on_host(scratch, results)

    done = strata(
        *("run", str(ground / "study.toml"), "--trial", f"ext4.{name}.*", *where),
        env=os.environ,  # the machine's own cache: unpacking the kernel's source anew takes a minute
        cwd=ground,
        check=False,
    )

    reasons = [line for line in done.stderr.splitlines() if "skipped:" in line or TOO_FAST in line]
    if reasons:
        pytest.skip(reasons[0])
    assert done.returncode == 0, done.stderr
    (record,) = records(results).values()
    assert record.validity.valid
    assert record.time_domain == "wall"
    assert all(metric.value > 0 for metric in record.metrics if metric.headline)
    assert list(scratch.iterdir()) == []
