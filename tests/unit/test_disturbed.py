# SPDX-License-Identifier: Apache-2.0
"""Disturbed trials are measured again, with a runner that says what was disturbed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from execution_factory import RecordingDisplay, fake_runner, run_tiny

from command_line import shown
from strata.model.trial import TrialKey
from strata.model.warning import UNDISTURBED
from strata.results.store import ResultsFolder
from strata.runners.fake import FakeRunner
from strata.statistics.study import gather
from strata.statistics.warnings import warnings_of

KEY = TrialKey("ext4", "mix", 1)
TRIAL = str(KEY)


def disturbed_runner(**counts: int) -> FakeRunner:
    runner = fake_runner()
    runner.disturbed = {TRIAL: counts.get("times", 1)}
    return runner


def verdicts(folder: Path) -> list[str]:
    """Each attempt's verdict on whether the machine was undisturbed, oldest first."""
    records = [each.read_result() for each in ResultsFolder(folder / "results").attempts(KEY)]
    return [
        next((check.verdict for check in record.checks if check.name == UNDISTURBED), "none")
        for record in records
    ]


def test_a_disturbed_trial_is_measured_again_and_the_quiet_attempt_counts(tmp_path: Path) -> None:
    display = RecordingDisplay()

    summary = run_tiny(tmp_path, disturbed_runner(), display=display, only=TRIAL)

    assert verdicts(tmp_path) == ["no", "yes"]
    assert summary.valid == (KEY,)
    reading = ResultsFolder(tmp_path / "results").read_trial(KEY)
    assert reading.attempt is not None
    assert reading.attempt.number == 2
    said = [each for each in display.events if each.startswith("say")]
    assert len(said) == 1
    assert f"{TRIAL} was disturbed: other processes used 0.98 of 2 CPUs" in said[0]
    assert "measured again (2 of at most 3)" in said[0]
    assert display.events.count(f"finished {TRIAL}") == 1


def test_where_it_is_never_quiet_the_last_attempt_counts_with_a_warning(tmp_path: Path) -> None:
    summary = run_tiny(tmp_path, disturbed_runner(times=9), only=TRIAL)

    assert verdicts(tmp_path) == ["no", "no", "no"]
    assert summary.valid == (KEY,)
    folder = ResultsFolder.open(tmp_path / "results")
    found = [each for each in warnings_of(gather(folder), "ext4", "mix") if each.code == "disturbed"]
    assert [each.grave for each in found] == [True]
    assert "other processes used 0.98 of 2 CPUs" in found[0].text
    assert "neighbour 0.98" in " ".join(shown("show", folder.path, "--trial", TRIAL).split())


def test_what_was_disturbed_to_the_end_is_not_measured_by_every_further_run(tmp_path: Path) -> None:
    run_tiny(tmp_path, disturbed_runner(times=9), only=TRIAL)
    again = disturbed_runner(times=9)

    summary = run_tiny(tmp_path, again, only=TRIAL)

    assert summary.kept == (KEY,)
    assert again.begun == []


@dataclass
class Restless(FakeRunner):
    """The run is ended while it waits for the machine to become quiet."""

    def settle(self, cancel: threading.Event) -> None:
        cancel.set()


def test_a_run_that_ended_between_two_attempts_goes_on_with_the_next(tmp_path: Path) -> None:
    runner = Restless(output=fake_runner().output, disturbed={TRIAL: 1})
    first = run_tiny(tmp_path, runner, only=TRIAL)
    assert (first.valid, first.unrun) == ((), (KEY,))
    assert verdicts(tmp_path) == ["no"]

    second = run_tiny(tmp_path, disturbed_runner(times=1), only=TRIAL)

    # The new runner disturbs its first attempt as well: the third is the last that there may be.
    assert second.valid == (KEY,)
    assert verdicts(tmp_path) == ["no", "no", "yes"]
