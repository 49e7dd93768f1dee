# SPDX-License-Identifier: Apache-2.0
"""The cluster's own cost: trials of the fake runner, in which nothing takes time, on workers of this machine.

    .venv/bin/python -m bench.cluster 100 1000 10000 [--workers 2]

For each number of trials: real time and the CPU time of client, scheduler and workers a trial, beside those
of one thread without a cluster (0 workers), and the most memory that the client took. On a busy machine only
the CPU time means something, and with TMPDIR=/dev/shm the disk has no part in it. Each number runs in a
process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from strata.execution.cluster.connection import Cluster
from strata.execution.display import LineDisplay
from strata.execution.pool import Labs
from strata.experiment.run import run_study
from strata.model.step import Step
from strata.plan.catalogue import catalogue
from strata.plan.model import Plan
from strata.reading.load import load_study
from strata.runners.fake import FakeRunner

_STACKS = 10
_STUDY = """\
[study]
name = "scale"
question = "What does the cluster itself cost?"
seeds = {seeds}
[devices.disk0]
model = "wd-re4-500gb"
{stacks}
[workloads.mix]
workload = "fio"
preset = "random-mix-4k"
size = "1GiB"
warmup = "1s"
duration = "2s"
"""


def _output(plan: Plan, step: Step) -> tuple[str, dict[str, str]]:
    if step.id != "fio-measure":
        return "", {}
    latency = {"N": 100, "mean": 8e6, "max": 9_000_000, "bins": {"8000000": 100}}
    part = {"total_ios": 100, "iops": 100.0 + plan.trial.seed, "bw_bytes": 409_600, "lat_ns": latency}
    return json.dumps({"jobs": [{"read": part, "write": part}]}), {}


def _cpu_s() -> float:
    """The CPU time of this process and of all workers."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def _measure(trials: int, workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["STRATA_CACHE"] = f"{folder}/cache"  # of the workers
        stacks = "\n".join(
            f'[stacks.s{n}]\nlayers = [{{ layer = "ext4", mount = ["commit={n + 1}"] }}]'
            for n in range(_STACKS)
        )
        file = Path(folder) / "scale.toml"
        file.write_text(_STUDY.format(seeds=list(range(1, trials // _STACKS + 1)), stacks=stacks))
        study = load_study(file, catalogue())
        cluster = Cluster(f"local:{workers}") if workers else None
        labs: Labs = cluster or 1
        if cluster is not None:
            cluster.client  # noqa: B018  starting the workers is no cost of a trial
        display = LineDisplay(Console(quiet=True), virtual=True)
        began_s, cpu_s = time.monotonic(), _cpu_s()
        done = run_study(study, Path(folder) / "results", FakeRunner(_output), display, jobs=labs)
        took_s = time.monotonic() - began_s
        assert len(done.valid) == trials, next(iter(done.invalid.values()))
        return {
            "trials": trials,
            "workers": workers,
            "real_ms": took_s / trials * 1e3,
            "cpu_ms": (_cpu_s() - cpu_s) / trials * 1e3,
            "client_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", nargs="+", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--one", action="store_true", help="measure in this process, and print JSON")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(_measure(asked.trials[0], asked.workers)))
        return
    print(f"{'trials':>8} {'workers':>8} {'real ms':>9} {'CPU ms':>9} {'client MiB':>11}")
    for trials in asked.trials:
        for workers in (0, asked.workers):
            argv = (sys.executable, "-m", "bench.cluster", "--one", "--workers", str(workers), str(trials))
            found = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
            figures = f"{found['real_ms']:>9.2f} {found['cpu_ms']:>9.2f} {found['client_mib']:>11.0f}"
            print(f"{trials:>8} {workers:>8} {figures}", flush=True)


if __name__ == "__main__":
    main()
