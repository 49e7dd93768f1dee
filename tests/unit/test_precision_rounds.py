# SPDX-License-Identifier: Apache-2.0
"""Studies that go on until they are precise: which seeds are added, when they stop, and how they resume."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from execution_factory import TEXT, RecordingDisplay, fake_runner, fio_output, study_in

from record_hashes import forget, hashes
from strata.errors import RunError
from strata.experiment.run import RunSummary, run_study
from strata.experiment.strategies.precision import with_more_seeds
from strata.model.step import Step
from strata.model.trial import CellKey, TrialKey
from strata.plan.model import Plan
from strata.runners.fake import FakeRunner, Output
from strata.seeds import derive_seed
from study_texts import mistakes

KEYS = 'precision = "2.5%"\nseeds_max = 12\n'
ASKED = TEXT.replace("seeds = [1, 2]\n", f"seeds = [1, 2]\n{KEYS}")
OTHER = '[workloads.other]\nworkload = "fio"\npreset = "random-read-4k"\nduration = "2s"\n'
BOTH = ASKED + "\n" + OTHER


def noisy(spread: Mapping[str, float]) -> FakeRunner:
    """Every trial's rate scatters by as much as its workload's share says, by stack and seed."""

    def output(plan: Plan, step: Step) -> Output:
        if step.id != "fio-measure":
            return fio_output(plan, step)
        trial = plan.trial
        draw = random.Random(derive_seed(trial.seed, trial.stack, trial.workload))
        rate = 100.0 * (1 + spread.get(trial.workload, 0.0) * (2 * draw.random() - 1))
        latency = {"N": 100, "mean": 8e6, "max": 9_000_000, "bins": {"8000000": 100}}
        part = {"total_ios": 100, "iops": rate, "bw_bytes": rate * 4096, "lat_ns": latency}
        return json.dumps({"jobs": [{"read": part, "write": part}]}), {}

    return FakeRunner(output=output)


def run(folder: Path, runner: FakeRunner, text: str = ASKED, **options: Any) -> RunSummary:
    display = options.pop("display", RecordingDisplay())
    return run_study(study_in(folder, text), folder / "results", runner, display, **{"jobs": 1, **options})


def snapshot(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results" / "study.json").read_text())
    return found


def test_seeds_are_added_to_the_workload_that_needs_them_as_whole_blocks(tmp_path: Path) -> None:
    done = run(tmp_path, noisy({"mix": 0.04}), BOTH)

    assert done.added_seeds["other"] == (3, 4, 5, 6)
    more = done.added_seeds["mix"]
    assert more == tuple(range(3, 3 + len(more)))
    assert 4 < len(more) < 10
    for seed in more:
        assert {TrialKey("ext4", "mix", seed), TrialKey("xfs", "mix", seed)} <= set(done.valid)
    assert done.not_converged == {}


def test_what_stays_too_wide_ends_at_the_cap_and_is_said_not_to_have_converged(tmp_path: Path) -> None:
    done = run(tmp_path, noisy({"mix": 0.5}), BOTH)

    assert done.added_seeds == {"mix": tuple(range(3, 13)), "other": (3, 4, 5, 6)}
    assert set(done.not_converged) == {("ext4", "mix"), ("xfs", "mix")}
    assert min(done.not_converged.values()) > 0.025
    assert done.exit_code == 0
    kept = snapshot(tmp_path)
    assert set(kept["not_converged"]) == {"ext4.mix", "xfs.mix"}
    assert kept["added_seeds"] == {"mix": list(range(3, 13)), "other": [3, 4, 5, 6]}
    assert kept["seeds"] == list(range(1, 13))
    assert len(kept["trials"]) == 2 * 12 + 2 * 6


def test_the_same_study_comes_to_the_same_seeds_however_many_run_at_once(tmp_path: Path) -> None:
    found = []
    for jobs in (1, 3):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        done = run(folder, noisy({"mix": 0.04, "other": 0.1}), BOTH, jobs=jobs)
        found.append((dict(done.added_seeds), snapshot(folder)["trials"], hashes(folder / "results")))

    assert found[0] == found[1]


@dataclass
class Stopping(RecordingDisplay):
    """Ends the run, as a signal would, after ``remaining`` more trials."""

    remaining: int = 0

    def finished(self, trial: Any, record: Any) -> None:
        super().finished(trial, record)
        self.remaining -= 1
        if not self.remaining:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [4, 9, -1])
def test_an_interrupted_run_comes_to_the_same_results(tmp_path: Path, after: int) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    expected = run(whole, noisy({"mix": 0.04}), BOTH)
    after %= len(expected.valid)  # -1: within the last block that was added

    with pytest.raises(KeyboardInterrupt):
        run(parts, noisy({"mix": 0.04}), BOTH, display=Stopping(remaining=after))
    before = len(hashes(parts / "results"))
    resumed = run(parts, noisy({"mix": 0.04}), BOTH)

    assert len(resumed.kept) == before == after
    assert len(resumed.valid) == len(expected.valid) - after
    assert resumed.added_seeds == expected.added_seeds
    assert hashes(parts / "results") == hashes(whole / "results")
    assert snapshot(parts)["trials"] == snapshot(whole)["trials"]


def test_a_finished_study_is_taken_up_without_running_anything(tmp_path: Path) -> None:
    first = run(tmp_path, noisy({"mix": 0.5}))
    before = snapshot(tmp_path)

    runner = noisy({"mix": 0.5})
    again = run(tmp_path, runner)

    assert runner.begun == []
    assert (again.valid, again.added_seeds) == ((), first.added_seeds)
    assert snapshot(tmp_path) == before


def test_a_trial_of_an_added_seed_can_be_run_alone_and_the_others_stay_part_of_the_study(
    tmp_path: Path,
) -> None:
    run(tmp_path, noisy({"mix": 0.5}))
    before = snapshot(tmp_path)
    forget(tmp_path / "results", "xfs.mix.s12")

    runner = noisy({"mix": 0.5})
    done = run(tmp_path, runner, only="xfs.mix.s12")

    assert runner.begun == ["xfs.mix.s12"]
    assert done.valid == (TrialKey("xfs", "mix", 12),)
    assert snapshot(tmp_path)["trials"] == before["trials"]


def test_running_some_trials_adds_no_seeds(tmp_path: Path) -> None:
    done = run(tmp_path, noisy({"mix": 0.5}), only="*.s1")

    assert set(done.valid) == {TrialKey("ext4", "mix", 1), TrialKey("xfs", "mix", 1)}
    assert done.added_seeds == {}


def test_a_seed_that_was_not_added_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no trial matches"):
        run(tmp_path, noisy({}), only="*.s9")
    with pytest.raises(RunError, match="no trial matches"):
        run(tmp_path, noisy({}), only="*.s99")


def test_where_a_trial_fails_no_seeds_are_added_for_it(tmp_path: Path) -> None:
    runner = noisy({"mix": 0.5})
    for seed in (1, 2):
        runner.behaviours[f"xfs.mix.s{seed}"] = "fail"
        runner.behaviours[f"ext4.mix.s{seed}"] = "fail"

    done = run(tmp_path, runner)

    assert done.added_seeds == {}
    assert len(done.invalid) == 4
    assert set(done.not_converged) == {("ext4", "mix"), ("xfs", "mix")}
    assert snapshot(tmp_path)["not_converged"] == {"ext4.mix": None, "xfs.mix": None}


def test_a_failed_trial_is_tried_once_a_run_however_many_rounds_there_are(tmp_path: Path) -> None:
    runner = noisy({"mix": 0.5})
    runner.behaviours["xfs.mix.s1"] = "fail"

    done = run(tmp_path, runner)

    assert runner.begun.count("xfs.mix.s1") == 1
    assert len(done.added_seeds["mix"]) == 10


def test_nothing_is_asked_of_the_rule_once_the_run_is_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata.experiment.run.gather", lambda folder: pytest.fail("it was asked"))

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, fake_runner(), display=Stopping(remaining=1))


@pytest.mark.parametrize(
    ("keys", "key", "said"),
    [
        ("seeds_max = 10", "seeds_max", "nothing asks for more seeds"),
        ('precision = "2.5%"\nseeds_max = 5', "seeds_max", "fewer than 6"),
        ('precision = "0%"', "precision", "from 0.1 % to 50 %"),
        ("precision = 0.025", "precision", 'such as "2.5%"'),
        ('order = "random"', "order", "not valid here"),
    ],
)
def test_keys_that_cannot_be_meant_so_are_refused(tmp_path: Path, keys: str, key: str, said: str) -> None:
    found = mistakes(tmp_path, TEXT.replace("seeds = [1, 2]\n", f"seeds = [1, 2]\n{keys}\n"))

    assert list(found) == [f"study.{key}"]
    assert said in found[f"study.{key}"]


def test_the_next_seeds_are_whole_numbers_that_the_study_has_not(tmp_path: Path) -> None:
    text = ASKED.replace("seeds = [1, 2]", "seeds = [7, 3, 9223372036854775807]")
    study = study_in(tmp_path, text)

    grown = with_more_seeds(study, [CellKey("ext4", "mix")])

    assert grown is not None
    assert grown.added_seeds == {"mix": (0, 1, 2)}
