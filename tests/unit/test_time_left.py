# SPDX-License-Identifier: Apache-2.0
"""The time left for a study: estimated from virtual time, and shown readably."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest
from execution_factory import fake_runner, run_tiny
from rich.console import Console

from strata.execution.display import LineDisplay, LiveDisplay, TableSoFar
from strata.execution.forecast import Countdown, Forecast, TrialDuration
from strata.model.trial import CellKey, TrialKey
from strata.plan.model import Trial
from strata.results.record import ResultRecord, Validity
from strata.results.store import ResultsFolder
from strata.runners.base import Progress
from strata.units import NS_PER_S
from strata.words import time_left


@dataclass
class FakeClock:
    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


def forecast_of(**took: tuple[float, float]) -> Forecast:
    """Of cells such as ``ext4__oltp``: virtual seconds and real seconds of one trial."""
    return Forecast(
        {
            CellKey(*name.split("__")): TrialDuration(virtual_s * NS_PER_S, real_s)
            for name, (virtual_s, real_s) in took.items()
        }
    )


def trial_of(stack: str, workload: str, seed: int) -> Trial:
    return Trial(study="s", stack=stack, workload=workload, seed=seed, id=f"{stack}.{workload}.s{seed}")


@pytest.fixture
def record(tmp_path_factory: pytest.TempPathFactory) -> ResultRecord:
    """A valid one, of which tests change what they are about."""
    folder = tmp_path_factory.mktemp("results")
    run_tiny(folder, fake_runner(), only="ext4.mix.s1")
    found = ResultsFolder.open(folder / "results").read_trial(TrialKey("ext4", "mix", 1)).record
    assert found is not None
    return found


def made(record: ResultRecord, trial: Trial, *, virtual_s: float, real_s: float) -> ResultRecord:
    real = record.real_time.model_copy(update={"duration_s": real_s, "virtual_per_real": virtual_s / real_s})
    return record.model_copy(update={"trial": trial, "real_time": real})


def test_nothing_is_known_before_the_first_trial_is_done() -> None:
    cell = CellKey("ext4", "oltp")

    assert Forecast().expected_ns(cell) is None
    assert Forecast().left_s(cell) is None
    assert Forecast().study_left_s([(cell, 5.0)], [], 1) is None
    assert time_left(None) == ""


def test_a_trial_takes_what_its_cell_its_workload_or_everything_took() -> None:
    forecast = forecast_of(ext4__oltp=(100, 20), xfs__oltp=(100, 50), ext4__files=(10, 1))

    for stack, load, done_s, left_s in (
        ("ext4", "oltp", 75, 5),
        ("xfs", "oltp", 75, 12.5),
        ("btrfs", "files", 0, 1),
        ("btrfs", "mail", 0, (20 + 50 + 1) / 3),
        ("ext4", "oltp", 500, 0),  # longer than expected: about to end, and not done
    ):
        assert forecast.left_s(CellKey(stack, load), done_s * NS_PER_S) == pytest.approx(left_s)
    assert forecast.share(CellKey("ext4", "oltp"), 500 * NS_PER_S) < 1


def test_a_record_says_its_virtual_time_and_on_a_host_its_real_one(record: ResultRecord) -> None:
    trial = trial_of("ext4", "oltp", 1)

    took = TrialDuration.of(made(record, trial, virtual_s=90, real_s=30))
    assert took.trial_ns == pytest.approx(90 * NS_PER_S)
    assert took.real_s == 30
    host = record.real_time.model_copy(update={"duration_s": 30.0, "virtual_per_real": None})
    assert TrialDuration.of(record.model_copy(update={"real_time": host})) == TrialDuration(30 * NS_PER_S, 30)


def test_trials_are_spread_over_the_workers_in_their_order() -> None:
    forecast = forecast_of(ext4__long=(100, 100), ext4__short=(10, 10))
    long, short = CellKey("ext4", "long"), CellKey("ext4", "short")

    assert forecast.study_left_s([], [long, short, short], 1) == pytest.approx(120)
    assert forecast.study_left_s([], [long, short, short], 2) == pytest.approx(100)
    assert forecast.study_left_s([], [short, short, long], 2) == pytest.approx(110)
    assert forecast.study_left_s([(long, 40 * NS_PER_S)], [short], 2) == pytest.approx(60)
    assert forecast.study_left_s([], [], 2) == 0


def test_the_time_left_runs_down_and_does_not_jump_with_every_estimate() -> None:
    countdown = Countdown()

    shown = [countdown.left_s(estimate, now) for now, estimate in ((0, 600), (10, 620), (20, 560), (30, 600))]

    assert shown == [600, 590, 580, 570]


def test_an_estimate_is_said_as_exactly_as_it_is_known() -> None:
    for left_s, words in (
        (0, "a few seconds left"),
        (6, "about 10 s left"),
        (44, "about 40 s left"),
        (89, "about 90 s left"),
        (112, "about 110 s left"),
        (119, "about 2 min left"),
        (12.2 * 60, "about 12 min left"),
        (33 * 60, "about 35 min left"),
        (58 * 60, "about 1 h left"),
        (125 * 60, "about 2 h left"),
        (130 * 60, "about 2 h 10 min left"),
        (179 * 60, "about 3 h left"),
    ):
        assert time_left(left_s) == words


def test_a_log_has_a_line_per_trial_with_the_time_left_where_that_has_changed(record: ResultRecord) -> None:
    written, clock = io.StringIO(), FakeClock()
    display = LineDisplay(Console(file=written, width=200), virtual=True, clock=clock)
    trials = [trial_of("ext4", "oltp", seed) for seed in range(1, 5)]

    display.begin(trials, 0, 1)
    for trial in trials:
        display.started(trial)
        clock.now_s += 180
        display.finished(trial, made(record, trial, virtual_s=90, real_s=180))

    ends = [line.split("(", 1)[1] for line in written.getvalue().splitlines()]
    assert ends == [
        "3 min 00 s, 0.50 × real time); about 9 min left",
        "3 min 00 s, 0.50 × real time); about 6 min left",
        "3 min 00 s, 0.50 × real time); about 3 min left",
        "3 min 00 s, 0.50 × real time)",
    ]


def test_the_first_table_appears_when_the_first_block_is_complete(record: ResultRecord) -> None:
    written, clock = io.StringIO(), FakeClock()
    display = LineDisplay(Console(file=written, width=200), virtual=True, clock=clock)
    trials = [trial_of(stack, "oltp", seed) for seed in (1, 2) for stack in ("ext4", "xfs")]
    display.begin(trials, 0, 1)

    tables = []
    for trial in trials:
        display.started(trial)
        display.finished(trial, made(record, trial, virtual_s=90, real_s=180))
        tables.append(written.getvalue().count("1 seed so far"))

    assert tables == [0, 1, 1, 1], "once; the final table follows"
    assert "ext4" in written.getvalue().partition("1 seed so far")[2].splitlines()[1]


def test_only_whole_blocks_are_compared_before_the_end(record: ResultRecord) -> None:
    """After an interruption the first block lacks a stack; another loses one to an invalid trial."""
    found = TableSoFar()
    first, *others = [trial_of(stack, "oltp", seed) for seed in (1, 2, 3) for stack in ("ext4", "xfs")]
    broken = record.model_copy(update={"validity": Validity(valid=False, reasons=("it broke",))})
    found.expect(others)

    counted = [found.take(each, broken if each.id == "xfs.oltp.s2" else record) for each in others]

    assert first.id == "ext4.oltp.s1", "which an earlier run has measured"
    assert counted == [False, False, False, False, True]
    assert found.blocks == 1


def live(display: LiveDisplay) -> str:
    console = Console(file=io.StringIO(), width=140, record=True)
    console.print(display)
    return console.export_text()


def test_a_terminal_shows_the_virtual_time_done_and_expected_and_the_time_left(record: ResultRecord) -> None:
    clock = FakeClock()
    console = Console(file=io.StringIO(), force_terminal=True, width=140)
    display = LiveDisplay(console, virtual=True, clock=clock)
    trials = [trial_of("ext4", "oltp", seed) for seed in range(1, 5)]
    display.begin(trials, 0, 1)
    display.started(trials[0])
    display.progress(trials[0], Progress("Fill", "prepare", 30 * NS_PER_S))
    before = live(display)
    display.finished(trials[0], made(record, trials[0], virtual_s=90, real_s=180))
    display.started(trials[1])
    clock.now_s += 90
    display.progress(trials[1], Progress("Measure", "measure", 45 * NS_PER_S))
    after = live(display)
    display.end()

    assert "left" not in before
    assert "30 s" in before
    assert "45 s of about 90 s" in after
    assert "about 8 min left" in after  # 1.5 of this trial, and twice 3
    assert "0.50 × real time" in after
    assert "1/4 trials" in after
