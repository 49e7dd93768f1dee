# SPDX-License-Identifier: Apache-2.0
"""A planted tipping point between two modelled disks, found by real trials."""

from __future__ import annotations

import json

from lab_factory import environment, public_folder, shared_lab, strata, write_two_disks

from strata.lab import Lab

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


def test_the_planted_tipping_point_is_found_by_real_trials(lab: Lab) -> None:
    with public_folder() as folder:
        overheads = {
            "one": f"value = {STATED_MS}, low = 0.1, high = {END_MS}, estimate = true",
            "two": f"value = {PLANTED_MS}, low = {PLANTED_MS}, high = {PLANTED_MS}, estimate = true",
        }
        write_two_disks(folder, 'size = "256MiB"\nduration = "2s"\n', overheads)
        (folder / "uses.toml").write_text(USES)
        env = environment(folder / "cache", shared_lab(lab, folder / "shared"), HOME="/root")
        strata("run", "study.toml", "--results", "results", env=env, cwd=folder)
        asked = ("sensitivity", "results", "--use", "disk", "--uses", "uses.toml", "--study", "study.toml")
        # One seed for each value: the drives are exact, so that seeds differ by the spindles' angles alone.
        words = (*asked, "--parameter", "one.command_overhead", "--seeds", "1", "--json")

        [found] = json.loads(strata(*words, env=env, cwd=folder).stdout)["findings"]

        assert found["leaders"] == ["one"]
        [above] = [each for each in found["points"] if each["end"] == END_MS]
        assert above["outcome"] == "flips"
        assert above["rival"] == "two"
        # The search stops within 5 %; the two spindles stand at other angles, which moves the point a little.
        assert above["between"][0] * 0.95 <= PLANTED_MS <= above["between"][1] * 1.05
        [below] = [each for each in found["points"] if each["end"] == 0.1]
        assert below["outcome"] == "stays"
        before = sorted((folder / "results" / "records").glob("*/attempt-*"))

        assert json.loads(strata(*words, env=env, cwd=folder).stdout)["findings"] == [found]
        after = sorted((folder / "results" / "records").glob("*/attempt-*"))
        assert after == before
