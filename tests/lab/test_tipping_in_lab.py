# SPDX-License-Identifier: Apache-2.0
"""A planted tipping point between two modelled disks, found by real trials."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lab_factory import environment, hashes, public_folder, shared_lab, strata

from strata.lab import Lab

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
STUDY = """\
[study]
name = "disks"
question = "Which disk for random reads?"
seeds = [1, 2, 3]
drives = "exact"
phases = "fixed"
cpu = "free"
[devices.one]
model = "one.toml"
[devices.two]
model = "two.toml"
[stacks.one]
devices = ["one"]
layers = []
[stacks.two]
devices = ["two"]
layers = []
[workloads.reads]
workload = "fio"
size = "256MiB"
duration = "2s"
options = { rw = "randread", bs = "4k", ioengine = "psync", direct = 1 }
"""
USES = """\
[uses.disk]
title = "Random reads"
about = "Nothing but random reads."
source = "a test"
[uses.disk.weights.reads]
weight = 1
why = "nothing else is done"
fits = [{ workload = "fio" }]
"""
STATED_MS, PLANTED_MS, END_MS = 0.2, 2.0, 4.0


def write(folder: Path) -> None:
    """Two drives alike but for the time of a command: that of the first is uncertain, the other's exact."""
    plain = (ROOT / "devices/wd-re4-500gb.toml").read_text()
    line = re.compile(r"^command_overhead = .*$", re.MULTILINE)
    both = {
        "one": f"value = {STATED_MS}, low = 0.1, high = {END_MS}",
        "two": f"value = {PLANTED_MS}, low = {PLANTED_MS}, high = {PLANTED_MS}",
    }
    for name, values in both.items():
        stated = f'command_overhead = {{ {values}, unit = "ms", source = "a test", estimate = true }}'
        (folder / f"{name}.toml").write_text(line.sub(stated, plain))
    (folder / "study.toml").write_text(STUDY)
    (folder / "uses.toml").write_text(USES)


def test_the_planted_tipping_point_is_found_by_real_trials(lab: Lab) -> None:
    with public_folder() as folder:
        write(folder)
        env = environment(folder / "cache", shared_lab(lab, folder / "shared"), HOME="/root")
        strata("run", "study.toml", "--results", "results", env=env, cwd=folder)
        asked = ("tipping", "results", "--use", "disk", "--uses", "uses.toml", "--study", "study.toml")
        # One seed for each value: the drives are exact, so that seeds differ by the spindles' angles alone.
        words = (*asked, "--parameter", "one.command_overhead", "--seeds", "1", "--json")

        [found] = json.loads(strata(*words, env=env, cwd=folder).stdout)

        assert found["leaders"] == ["one"]
        [above] = [each for each in found["points"] if each["end"] == END_MS]
        assert above["outcome"] == "tips"
        assert above["rival"] == "two"
        # The search stops within 5 %; the two spindles stand at other angles, which moves the point a little.
        assert above["between"][0] * 0.95 <= PLANTED_MS <= above["between"][1] * 1.05
        [below] = [each for each in found["points"] if each["end"] == 0.1]
        assert below["outcome"] == "stays"
        before = {path.name: hashes(path) for path in (folder / "results" / "tipping").iterdir()}

        assert json.loads(strata(*words, env=env, cwd=folder).stdout) == [found]
        after = {path.name: hashes(path) for path in (folder / "results" / "tipping").iterdir()}
        assert after == before
