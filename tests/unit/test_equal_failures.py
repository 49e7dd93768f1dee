# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from execution_factory import TEXT, fake_runner, run_tiny

from strata.model.trial import TrialKey
from strata.results.store import ResultsFolder

SIX_SEEDS = TEXT.replace("seeds = [1, 2]", "seeds = [1, 2, 3, 4, 5, 6]")


@pytest.mark.parametrize("behaviour", ["stall", "fail", "die"])
def test_two_equal_failures_end_the_further_seeds_of_a_stack_with_the_reason(
    tmp_path: Path, behaviour: str
) -> None:
    runner = fake_runner(**{f"xfs__mix__s{seed}": behaviour for seed in range(2, 7)})

    summary = run_tiny(tmp_path, runner, text=SIX_SEEDS)

    xfs = [TrialKey("xfs", "mix", seed) for seed in range(1, 7)]
    assert [trial for trial in runner.begun if trial.startswith("xfs")] == [str(each) for each in xfs[:3]]
    assert xfs[0] in summary.valid
    assert list(summary.invalid) == xfs[1:3]
    assert set(summary.unrun) == set(xfs[3:])
    assert len(summary.valid) == 7
    reason = summary.given_up[xfs[0].cell]
    readings = {each.trial: each for each in ResultsFolder.open(tmp_path / "results").readings()}
    assert readings[xfs[0]].usable
    assert {readings[each].problem for each in xfs[3:]} == {
        f"not run, since two trials failed alike: {reason}"
    }


def test_what_equal_failures_left_out_is_tried_again_by_the_next_run(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner(**{f"xfs__mix__s{seed}": "stall" for seed in (1, 2)}), text=SIX_SEEDS)
    again = fake_runner()

    summary = run_tiny(tmp_path, again, text=SIX_SEEDS)

    assert sorted(again.begun) == [f"xfs.mix.s{seed}" for seed in range(1, 7)]
    assert (summary.exit_code, summary.given_up) == (0, {})
    assert all(
        reading.problem is None or reading.usable
        for reading in ResultsFolder.open(tmp_path / "results").readings()
    )


def test_two_different_failures_do_not_end_the_further_seeds(tmp_path: Path) -> None:
    runner = fake_runner(xfs__mix__s1="stall", xfs__mix__s2="die", ext4__mix__s3="stall")

    summary = run_tiny(tmp_path, runner, text=SIX_SEEDS)

    assert len(runner.begun) == 12
    assert (summary.given_up, summary.unrun) == ({}, ())
