# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.errors import RunError
from strata.model.step import Step, Window
from strata.model.workload import Outputs, StepOutput, WorkloadContext
from strata.workloads.generator.blog import Blog

RECORDED = Path(__file__).parents[1] / "golden" / "outputs" / "load"
# As printed in the lab, on btrfs: 10 readers, which paused for 10 ms, 3 intervals of 1 s.
STDOUT = (RECORDED / "0.1-btrfs-blog-measure.json").read_text()
RECORDED_KEYS = {"readers": 10, "intervals": 3, "interval": "1s", "reader_pause": "10ms"}


def blog(**keys: object) -> Blog:
    return Blog.model_validate({**RECORDED_KEYS, **keys})


def outputs(stdout: str = STDOUT) -> Outputs:
    return Outputs({"blog-measure": StepOutput(stdout=stdout)})


def step(workload: Blog, *, window: Window = "") -> Step:
    (only,) = workload.steps(WorkloadContext(name="blogs", seed=1, window=window))
    return only


def test_only_pausing_readers_set_the_pace() -> None:
    assert blog().is_paced
    assert not blog(reader_pause="0s").is_paced


def test_a_window_without_a_completed_blog_is_reported() -> None:
    none = STDOUT.replace('"score_writes":106', '"score_writes":0')

    assert [check.verdict for check in blog().checks(outputs())] == ["yes"]
    assert [check.verdict for check in blog().checks(outputs(none))] == ["no"]


def test_another_output_is_an_error_that_shows_it() -> None:
    with pytest.raises(RunError, match="not its JSON"):
        blog().metrics(outputs("strata-load: killed"))
    with pytest.raises(RunError, match="not 1 of blog"):
        blog().metrics(outputs('{"load": "storm-create", "result_version": 1}'))
