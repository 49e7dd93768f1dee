# SPDX-License-Identifier: Apache-2.0
"""`strata gate` on real kernels: a planted flush and 5 % more computing are red, the same again is green.

`STRATA_GATE_RUNS=20` tries each twenty times, with other seeds every time.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from planted_tree import planted_tree
from strata.bundled import project_root
from strata.cli import app
from strata.lab import Lab
from strata.lab.cache import Cache, cache_root
from strata.model.kernel import DEFAULT_VERSION

pytestmark = pytest.mark.slow  # two kernels are compiled

RUNS = int(os.environ.get("STRATA_GATE_RUNS", "1"))
SEEDS = 3
# A drive with a volatile cache: one without takes no flushes from the kernel.
STUDY = """\
[study]
name = "gate"
question = "Is it still as fast?"
seeds = {seeds}
drives = "exact"
phases = "fixed"
trace = false
memory = "192MiB"
{changed}

[devices.disk0]
model = "samsung-970-pro-1tb"
capacity = "1GiB"

[stacks.ext4]
layers = [{{ layer = "ext4" }}]

[workloads.sync]
workload = "fio"
preset = "fsync-write-4k"
size = "8MiB"
warmup = "100ms"
duration = "2s"
"""


def strata(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="module")
def flush(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of Linux whose ext4 flushes twice for each fsync."""
    wanted = f"linux-source-{DEFAULT_VERSION}"
    sources = [
        each for each in Cache(cache_root()).entries("source") if each.inputs.wanted.get("package") == wanted
    ]
    if not sources:
        pytest.skip("the cache has no kernel source: the lab was built elsewhere")
    tree = tmp_path_factory.mktemp("planted") / "linux"
    planted_tree(sources[0].path / "linux", tree, commits=1, at=1)
    return tree


def slower_processor(folder: Path) -> str:
    """The default processor with longer times: an fsync then takes 5 % more of it.

    Half of the processor's time of so short a load is that of fio's calibration of its clock, which spins
    for a fixed time.
    """
    text = (project_root() / "cpus" / "generic-server-2024.toml").read_text()
    changed, count = re.subn(
        r"^(?!processors)(\w+ = \{ value = )([\d.]+)",
        lambda found: f"{found[1]}{float(found[2]) * 1.107:g}",
        text,
        flags=re.MULTILINE,
    )
    assert count > 10
    (folder / "slower.toml").write_text(changed)
    return 'cpu = "./slower.toml"'


def test_a_planted_flush_and_5_percent_of_computing_are_red_and_the_same_again_is_green(
    flush: Path, tmp_path: Path
) -> None:
    planted = {
        "before": "",
        "flush": f'kernel = "{flush}@main"',
        "computing": slower_processor(tmp_path),
    }
    red: dict[str, list[int]] = {"again": [], "others": [], **{name: [] for name in planted}}
    why: dict[str, set[str]] = {name: set() for name in red}
    for run in range(RUNS):
        seeds = [run * SEEDS + each for each in range(1, SEEDS + 1)]
        first, before = (tmp_path / f"before-{each}" for each in (0, run))
        # The same once more: with the same seeds, and against other seeds.
        pairs = {"others": (first, before)} if run else {"again": (first, tmp_path / "again")}
        for name, changed in planted.items():
            _measure(tmp_path / f"{name}.toml", tmp_path / f"{name}-{run}", seeds, changed)
            pairs[name] = before, tmp_path / f"{name}-{run}"
        if not run:
            _measure(tmp_path / "again.toml", tmp_path / "again", seeds, "")
        for name, folders in pairs.items():
            judged = strata("gate", *folders, "--threshold", "2.5%")
            assert judged.exception is None or isinstance(judged.exception, SystemExit), judged.exception
            red[name].append(judged.exit_code)
            why[name] |= set(re.findall(r"(\w+: \S+ under \S+ \(\w+)", judged.stderr))
            print(run, name, judged.exit_code, judged.stderr.strip(), flush=True)

    green = {"again": [0], "others": [0] * (RUNS - 1), "before": [0] * RUNS}
    assert red == {**green, "flush": [1] * RUNS, "computing": [1] * RUNS}
    assert "changed: ext4 under sync (flushes_per_operation" in why["flush"]
    assert "worse: ext4 under sync (processor_time_ns_per_operation" in why["computing"]


def _measure(study: Path, results: Path, seeds: list[int], changed: str) -> None:
    study.write_text(STUDY.format(seeds=seeds, changed=changed))
    ran = strata("run", study, "--results", results, "--allow-kernel-source", "--jobs", 1)
    assert ran.exit_code == 0, ran.output
