# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import io
import os
import pty
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from execution_factory import TEXT, TRIALS, RecordingDisplay, fake_runner, run_tiny, study_in

from made_results import trial_key
from strata.console import Terminal
from strata.errors import LabError, ResultError, RunError
from strata.execution.display import display_for
from strata.execution.pool import worker_cpus
from strata.execution.schedule import plan_study
from strata.experiment.run import run_study
from strata.model.trial import TrialKey
from strata.plan.model import Plan
from strata.results.declared import declared_study
from strata.results.store import ResultsFolder
from strata.runners.base import Task
from strata.runners.fake import FakeRunner


def attempts(folder: Path) -> dict[TrialKey, int]:
    results = ResultsFolder.open(folder / "results")
    counts = {trial: len(results.attempts(trial)) for trial in results.study().trials}
    return {trial: count for trial, count in counts.items() if count}


def test_every_trial_is_run_once_and_has_a_valid_result(tmp_path: Path) -> None:
    runner = fake_runner()

    summary = run_tiny(tmp_path, runner)

    assert set(map(trial_key, runner.begun)) == TRIALS
    assert [trial[-2:] for trial in runner.begun] == ["s1", "s1", "s2", "s2"], "a whole block comes first"
    assert set(summary.valid) == TRIALS
    assert (summary.invalid, summary.unrun, summary.kept) == ({}, (), ())
    assert summary.exit_code == 0
    assert all(reading.usable for reading in ResultsFolder.open(tmp_path / "results").readings())


def test_what_has_a_result_is_skipped_and_said_so(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner())
    again = fake_runner()

    summary = run_tiny(tmp_path, again)

    assert again.begun == []
    assert set(summary.kept) == TRIALS
    assert summary.exit_code == 0


def test_fresh_runs_everything_again_and_keeps_what_was_there(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner())

    run_tiny(tmp_path, fake_runner(), fresh=True)

    assert set(attempts(tmp_path).values()) == {2}


def test_a_changed_stack_is_run_again_and_the_other_is_kept(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner())
    again = fake_runner()

    run_tiny(tmp_path, again, text=TEXT.replace("noatime", "nodiratime"))

    assert set(again.begun) == {"xfs.mix.s1", "xfs.mix.s2"}


def test_another_lab_or_setting_has_everything_run_again(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner())
    other, charged, changed = fake_runner(), fake_runner(), fake_runner()
    other.identity = type(other.identity)("9" * 64, "2" * 64, "3" * 64)
    charged.identity = dataclasses.replace(charged.identity, setting_sha256="4" * 64)
    changed.identity = charged.identity
    changed.settings = {"disks": ["seek_curve_ns=1"]}

    for runner in (other, charged, changed):
        run_tiny(tmp_path, runner)
        assert set(map(trial_key, runner.begun)) == TRIALS
    assert set(run_tiny(tmp_path, changed).kept) == TRIALS


def test_a_result_without_a_trace_is_no_reason_to_skip_a_trial_that_wants_one(tmp_path: Path) -> None:
    runner = fake_runner()
    runner.settings = {"bindings": {}}
    with_trace = study_in(tmp_path)
    without = dataclasses.replace(with_trace, trace=False)

    specified = {each.key: each.spec_sha256 for each in plan_study(with_trace, runner)[0]}
    bare = {each.key: each.spec_sha256 for each in plan_study(without, runner)[0]}

    assert set(specified) == set(bare)
    assert all(specified[trial] != bare[trial] for trial in specified)


def test_what_another_run_finishes_until_the_folder_is_free_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = ResultsFolder.lock

    @contextmanager
    def lock_after_another_run(folder: ResultsFolder) -> Iterator[None]:
        monkeypatch.setattr(ResultsFolder, "lock", free)
        run_tiny(tmp_path, fake_runner())
        with free(folder):
            yield

    monkeypatch.setattr(ResultsFolder, "lock", lock_after_another_run)
    late = fake_runner()

    summary = run_tiny(tmp_path, late)

    assert late.begun == []
    assert set(summary.kept) == TRIALS


def test_a_reason_in_a_record_does_not_say_where_the_results_lie(tmp_path: Path) -> None:
    class Silent(FakeRunner):
        def run(self, task: Task) -> None:
            super().run(task)
            (task.folder / "events.jsonl").write_text("{\n{\n")

    summary = run_tiny(tmp_path, Silent(), only="ext4.mix.s1")

    reason = summary.invalid[TrialKey("ext4", "mix", 1)][0]
    assert reason.startswith("events.jsonl")
    assert str(tmp_path) not in reason


def test_only_the_trials_asked_for_are_run_and_there_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no trial matches") as error:
        run_tiny(tmp_path, fake_runner(), only="zfs.*")

    assert any(str(trial) in (error.value.remedy or "") for trial in TRIALS)
    assert not (tmp_path / "results").exists()
    runner = fake_runner()
    summary = run_tiny(tmp_path, runner, only="ext4.*")
    assert (set(runner.begun), summary.unrun) == ({"ext4.mix.s1", "ext4.mix.s2"}, ())


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("fail", "failed with exit code 1"),
        ("die", "ended before its agent was done"),
        ("stall", "stood still"),
    ],
)
def test_a_trial_that_fails_is_recorded_and_the_others_go_on(
    tmp_path: Path, behaviour: str, said: str
) -> None:
    summary = run_tiny(tmp_path, fake_runner(xfs__mix__s1=behaviour))

    assert set(summary.valid) == TRIALS - {TrialKey("xfs", "mix", 1)}
    assert said in " ".join(summary.invalid[TrialKey("xfs", "mix", 1)])
    assert summary.exit_code == RunError.exit_code
    reading = ResultsFolder.open(tmp_path / "results").read_trial(TrialKey("xfs", "mix", 1))
    assert reading.record is not None
    assert not reading.usable
    again = fake_runner()
    assert run_tiny(tmp_path, again).exit_code == 0
    assert again.begun == ["xfs.mix.s1"]


def test_a_workload_without_its_output_makes_an_invalid_result(tmp_path: Path) -> None:
    summary = run_tiny(tmp_path, FakeRunner())

    assert set(summary.invalid) == TRIALS
    assert "fio's output is not its JSON" in summary.invalid[TrialKey("xfs", "mix", 1)][0]


def test_a_result_is_on_disk_before_the_next_trial_begins(tmp_path: Path) -> None:
    class Checking(FakeRunner):
        def run(self, task: Task) -> None:
            for earlier in self.begun:
                folder = ResultsFolder(tmp_path / "results")
                assert folder.attempts(trial_key(earlier))[-1].read_result().validity.valid
            super().run(task)

    runner = Checking(output=fake_runner().output)

    assert len(run_tiny(tmp_path, runner).valid) == 4


def test_what_a_killed_run_left_unfinished_is_removed(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner(), only="ext4.*")
    results = ResultsFolder.open(tmp_path / "results")
    half = results.store.begin(results.study().trials[TrialKey("xfs", "mix", 1)])
    half.write("plan.json", b"{}")

    run_tiny(tmp_path, fake_runner())

    assert attempts(tmp_path) == dict.fromkeys(TRIALS, 1)


def interrupted(tmp_path: Path, runner: FakeRunner, act: Callable[[], None]) -> tuple[list[str], int]:
    """Run the study; once a trial waits, act. Returns the display's events and the exit code."""
    display = RecordingDisplay()

    def when_waiting() -> None:
        runner.waiting.wait(30)
        act()

    actor = threading.Thread(target=when_waiting)
    actor.start()
    summary = run_tiny(tmp_path, runner, display=display)
    actor.join()
    return display.events, summary.exit_code


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_which_goes_on_where_it_stopped(tmp_path: Path, number: signal.Signals) -> None:
    before, order = signal.getsignal(number), _order(tmp_path)
    runner = FakeRunner(output=fake_runner().output, behaviours={order[2]: "wait"})

    events, exit_code = interrupted(tmp_path, runner, lambda: os.kill(os.getpid(), number))

    assert exit_code == 128 + number
    assert f"abandoned {order[2]}" in events
    assert events[-1] == "end"
    assert signal.getsignal(number) is before
    results = ResultsFolder.open(tmp_path / "results")
    assert sum(reading.usable for reading in results.readings()) == 2
    assert results.attempts(trial_key(order[2])) == []
    again = fake_runner()
    assert run_tiny(tmp_path, again).kept == tuple(map(trial_key, order[:2]))
    assert again.begun == order[2:]


def test_a_run_that_nohup_has_started_goes_on_when_its_terminal_goes_away(tmp_path: Path) -> None:
    class HangingUp(FakeRunner):
        def run(self, task: Task) -> None:
            os.kill(os.getpid(), signal.SIGHUP)
            super().run(task)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as stream:
            console = Terminal(file=stream, force_terminal=True)
            display = display_for(console, virtual=True)
            os.close(ours)
            summary = run_tiny(tmp_path, HangingUp(output=fake_runner().output), display=display)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)

    assert summary.exit_code == 0
    assert summary.unrun == ()


def test_the_display_is_drawn_and_written_to_under_one_lock() -> None:
    """Else a refresh waits for a line that a worker writes, which waits for the refresh."""
    console = Terminal(file=io.StringIO())
    display, taken = display_for(console, virtual=True), list[bool]()

    class Drawn:
        def __rich_console__(self, *_: object) -> Iterator[str]:
            worker = threading.Thread(target=lambda: taken.append(display.lock.acquire(blocking=False)))
            worker.start()
            worker.join()
            yield ""

    console.render_lines(Drawn())

    assert taken == [False]


def _order(folder: Path) -> list[str]:
    runner = fake_runner()
    (folder / "other").mkdir()
    run_tiny(folder / "other", runner)
    return runner.begun


def test_a_lab_that_cannot_be_started_ends_the_run(tmp_path: Path) -> None:
    class Broken(FakeRunner):
        def run(self, task: Task) -> None:
            raise LabError("no space for the lab")

    with pytest.raises(LabError, match="no space"):
        run_tiny(tmp_path, Broken())

    assert attempts(tmp_path) == {}


def test_a_results_folder_that_cannot_be_written_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    runner = fake_runner()

    with pytest.raises(ResultError):
        run_tiny(tmp_path, runner)

    assert runner.begun == []


def test_two_runs_into_one_folder_do_not_mix(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner())
    runner = fake_runner()

    with ResultsFolder.open(tmp_path / "results").lock(), pytest.raises(ResultError, match="running a study"):
        run_study(study_in(tmp_path), tmp_path / "results", runner, RecordingDisplay(), fresh=True)

    assert runner.begun == []


def test_several_workers_share_the_trials(tmp_path: Path) -> None:
    runner = fake_runner()

    summary = run_tiny(tmp_path, runner, jobs=3)

    assert sorted(map(trial_key, runner.begun)) == sorted(TRIALS)
    assert set(summary.valid) == TRIALS


def test_each_lab_has_a_cpu_of_its_own_and_a_host_runs_one_trial_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Wall(FakeRunner):
        time_domain = "wall"

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 0, 2})
    monkeypatch.setattr(os, "getpid", lambda: 301)

    found = [worker_cpus(fake_runner(), count) for count in (2, 3, 5)]

    assert found == [[2, 5], [0, 2, 5], [0, 2, 5, 0, 2]]
    assert worker_cpus(Wall(), 8) == [None]


def test_the_study_is_described_for_the_report(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner())

    study = ResultsFolder.open(tmp_path / "results").study()
    assert [*study.stacks] == ["ext4", "xfs"]
    assert "noatime" in study.stacks["xfs"].title
    assert "wd-re4-500gb" in study.stacks["ext4"].title
    assert study.stacks["xfs"].layers[0].stated == {"mount": "noatime"}
    assert "random-mix-4k" in study.workloads["mix"].title
    assert study.text == TEXT
    assert declared_study(study).describe() == study_in(tmp_path).describe()
    assert set(study.trials) == TRIALS


def test_plans_are_checked_before_the_first_is_carried_out(tmp_path: Path) -> None:
    seen: list[int] = []

    class Refusing(FakeRunner):
        def check(self, plans: list[Plan]) -> None:
            seen.append(len(plans))
            raise RunError("not here")

    with pytest.raises(RunError, match="not here"):
        run_tiny(tmp_path, Refusing())

    assert seen == [2], "a plan of each cell"
    assert attempts(tmp_path) == {}


def test_a_damaged_result_is_measured_again_and_the_others_are_kept(tmp_path: Path) -> None:
    run_tiny(tmp_path, fake_runner())
    damaged = ResultsFolder.open(tmp_path / "results").attempts(TrialKey("xfs", "mix", 2))[-1].result_path
    damaged.write_text(damaged.read_text().replace("102.0", "999.0"))
    again = fake_runner()

    summary = run_tiny(tmp_path, again)

    assert again.begun == ["xfs.mix.s2"]
    assert set(summary.kept) == TRIALS - {TrialKey("xfs", "mix", 2)}


def test_only_the_trials_that_are_asked_for_are_provided_with_what_they_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, runner = study_in(tmp_path), fake_runner()
    provided: list[TrialKey] = []
    monkeypatch.setattr(runner, "provide", lambda plan, files: provided.append(plan.trial.key))
    every = [each.key for each in plan_study(study, runner)[0]]
    wanted = every[-1]
    provided.clear()

    planned, _ = plan_study(study, runner, {wanted})

    assert [each.key for each in planned] == every, "study.json names all of them"
    assert provided == [wanted]
