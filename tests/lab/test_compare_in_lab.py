# SPDX-License-Identifier: Apache-2.0
"""`strata compare` finds a slower disk, and nothing where nothing differs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lab_factory import run_text
from typer.testing import CliRunner

from strata.cli import app
from strata.devices.device import device_folder
from strata.lab import Lab
from strata.runners.lab import LabRunner

# A volume in the network serves what its rate allows: with a rate lower by 5 % it is as much slower.
VOLUME = "aws-ebs-gp3"
RATE_PER_S, SLOWER_RATE_PER_S = 3000, 2850
STUDY = """\
[study]
cpu = "free"  # another word on a command line takes a priced processor some nanoseconds
name = "pair"
question = "Is it still as fast?"
seeds = {seeds}
drives = "exact"
phases = "fixed"
trace = false

[devices.disk0]
model = "./{model}.toml"
capacity = "2GiB"

[stacks.ext4]
layers = [{{ layer = "ext4"{options} }}]

[workloads.mix]
workload = "fio"
preset = "random-mix-4k"
size = "16MiB"
duration = "500ms"
"""


def run(lab: Lab, folder: Path, *, seeds: list[int], model: str = "volume", options: str = "") -> str:
    """The folder of a study's results; the device files stand beside it."""
    folder.mkdir()
    text = (device_folder() / f"{VOLUME}.toml").read_text()
    quiet = 'slow_share = { value = 0, unit = "%", source = "quiet", estimate = false }'
    text = re.sub(r"slow_share = .*", quiet, text)
    slower, count = re.subn(rf"(default|minimum) = {RATE_PER_S},", rf"\g<1> = {SLOWER_RATE_PER_S},", text)
    assert count == 2
    (folder / "volume.toml").write_text(text)
    (folder / "slower.toml").write_text(slower)
    study = STUDY.format(seeds=seeds, model=model, options=options)
    assert run_text(study, folder, LabRunner(lab), jobs=1).exit_code == 0
    return str(folder / "results")


@pytest.fixture(scope="module")
def before(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(lab, tmp_path_factory.mktemp("pair") / "before", seeds=[1, 2, 3])


def compared(*words: str, exit_code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["compare", *words, "--json"], catch_exceptions=False)
    assert done.exit_code == exit_code, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_disk_that_is_5_percent_slower_is_found_and_named(lab: Lab, before: str, tmp_path: Path) -> None:
    after = run(lab, tmp_path / "after", seeds=[1, 2, 3], model="slower")

    found = compared(before, after, "--fail-on", "worse", exit_code=1)

    (rate,) = (row["comparison"] for row in found["rows"])
    ratio = rate["ratio"]
    assert (rate["kind"]["name"], rate["verdict"], ratio["n"]) == ("operations_per_s", "worse", 3)
    assert ratio["ratio"] == pytest.approx(SLOWER_RATE_PER_S / RATE_PER_S, abs=0.01)
    title = "Amazon EBS gp3 volume: 2 GiB, {} IOPS, 125 MiB/s"
    keys = ("title", title), ("parameters.operation_rate", "{} 1/s")
    assert {(each["name"], each["first"], each["second"]) for each in found["differences"]} == {
        ("disk0.model", "volume", "slower"),
        *(
            (f"disk0.{key}", *(text.format(rate) for rate in (RATE_PER_S, SLOWER_RATE_PER_S)))
            for key, text in keys
        ),
    }


def test_two_runs_of_one_study_are_identical_byte_for_byte(lab: Lab, before: str, tmp_path: Path) -> None:
    again = run(lab, tmp_path / "again", seeds=[1])

    found = compared(before, again, "--all-metrics")

    assert found["likenesses"] == {"identical": 1, "the same numbers": 0, "different": 0}
    assert {each["comparison"]["ratio"]["ratio"] for each in found["rows"]} == {1.0}
    assert [each["name"] for each in found["differences"]] == ["seeds"]


def test_an_option_that_makes_no_difference_gives_a_ratio_of_exactly_1(
    lab: Lab, before: str, tmp_path: Path
) -> None:
    unreserved = run(lab, tmp_path / "unreserved", seeds=[1], options=', mkfs = ["-m", "0"]')

    found = compared(before, unreserved, "--all-metrics")

    assert {each["comparison"]["ratio"]["ratio"] for each in found["rows"]} == {1.0}
    assert found["likenesses"] == {"identical": 0, "the same numbers": 1, "different": 0}
    assert {(each["area"], each["first"], each["second"]) for each in found["differences"]} == {
        ("study", "[1, 2, 3]", "[1]"),
        ("stacks", "[]", '["-m", "0"]'),
        ("plans", None, "-m 0"),
    }
