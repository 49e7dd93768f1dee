# SPDX-License-Identifier: Apache-2.0
"""Searching the highest rate that keeps a target: the probes, their order, and what comes of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from execution_factory import RecordingDisplay, study_in
from results_factory import snapshot_of
from search_studies import TEXT, capacity_runner, highest_rate

from made_results import made_record
from record_hashes import hashes
from strata.advice.advise import advise
from strata.advice.uses import bundled_uses
from strata.experiment.run import RunSummary, run_study
from strata.model.find import Find
from strata.model.study_record import WorkloadRecord
from strata.model.trial import TrialKey
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial
from strata.plan.model import Trial
from strata.printable import plain
from strata.report.data import study_data
from strata.report.knee import search_table
from strata.report.page import page_of
from strata.results.record import ResultRecord
from strata.results.search import searches
from strata.results.store import ResultsFolder
from strata.runners.fake import FakeRunner
from strata.statistics.study import StudyResults, gather
from study_texts import mistakes

RATE_FOUND = "transactions_within_target_per_s"
SCATTER = {1: 1.0, 2: 1.07, 3: 0.95, 4: 1.02, 5: 0.98, 6: 1.04}


def run(folder: Path, runner: FakeRunner, text: str = TEXT, **options: Any) -> RunSummary:
    folder.mkdir(exist_ok=True)
    display = options.pop("display", RecordingDisplay())
    return run_study(study_in(folder, text), folder / "results", runner, display, **{"jobs": 1, **options})


def results(folder: Path) -> StudyResults:
    return gather(ResultsFolder.open(folder / "results"))


def found(folder: Path, stack: str) -> Mapping[int, float]:
    return results(folder).cells[stack, "oltp"].series(RATE_FOUND).values


def test_the_planted_rate_is_found_for_every_stack_and_seed(tmp_path: Path) -> None:
    run(tmp_path, capacity_runner({"ext4": 1000, "xfs": 90}, SCATTER))

    for stack, capacity in (("ext4", 1000), ("xfs", 90)):
        for seed, rate in found(tmp_path, stack).items():
            assert rate == pytest.approx(highest_rate(capacity * SCATTER[seed]), rel=0.05)
        assert set(found(tmp_path, stack)) == {1, 2, 3}


def test_only_the_chosen_search_is_carried_on(tmp_path: Path) -> None:
    done = run(tmp_path, capacity_runner({"ext4": 1000, "xfs": 90}, SCATTER), only="ext4.oltp.s1")

    assert {str(each.search) for each in done.valid} == {"ext4.oltp.s1"}
    assert set(found(tmp_path, "ext4")) == {1}


def test_a_study_interrupted_anywhere_comes_to_the_same_probes(tmp_path: Path) -> None:
    run(tmp_path / "whole", capacity_runner({"ext4": 400, "xfs": 300}, SCATTER))
    whole = hashes(tmp_path / "whole/results")

    for wait in sorted(whole)[::16]:
        folder = tmp_path / wait
        runner = capacity_runner({"ext4": 400, "xfs": 300}, SCATTER, behaviours={wait: "wait"})
        interrupted(folder, runner)
        run(folder, capacity_runner({"ext4": 400, "xfs": 300}, SCATTER))
        assert hashes(folder / "results") == whole


def interrupted(folder: Path, runner: FakeRunner) -> None:
    """Run until the runner waits, and then interrupt: in a thread, where nobody handles signals."""
    stopped = threading.Event()

    class Display(RecordingDisplay):
        def progress(self, trial: Any, progress: Any) -> None:
            if runner.behaviours.get(trial.id) == "wait" and not stopped.is_set():
                stopped.set()
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, runner, display=Display())


def test_a_finished_search_is_not_run_again(tmp_path: Path) -> None:
    run(tmp_path, capacity_runner({"ext4": 400, "xfs": 300}, SCATTER))
    again = capacity_runner({"ext4": 400, "xfs": 300}, SCATTER)

    done = run(tmp_path, again)

    assert again.begun == []
    assert len(done.kept) == len(hashes(tmp_path / "results"))


def test_a_stack_that_keeps_the_target_at_no_rate_has_no_value(tmp_path: Path) -> None:
    run(tmp_path, capacity_runner({"ext4": 400, "xfs": 0.5}, SCATTER))

    assert found(tmp_path, "xfs") == {}
    assert set(found(tmp_path, "ext4")) == {1, 2, 3}
    assert 1 in [each.trial.rate for each in results(tmp_path).readings if each.trial.stack == "xfs"]


def test_a_rate_that_the_load_does_not_reach_is_not_kept(tmp_path: Path) -> None:
    text = TEXT.replace("20ms", "60s")  # the latency never misses it
    run(tmp_path, capacity_runner({"ext4": 400, "xfs": 300}, SCATTER), text)

    for seed, rate in found(tmp_path, "ext4").items():
        assert 390 * SCATTER[seed] < rate < 640 * SCATTER[seed]


def test_a_failed_probe_ends_its_search_alone(tmp_path: Path) -> None:
    runner = capacity_runner({"ext4": 400, "xfs": 300}, SCATTER)
    runner.behaviours["ext4.oltp-rate-200.s1"] = "fail"

    done = run(tmp_path, runner)

    assert list(done.invalid) == [TrialKey("ext4", "oltp", 1, rate=200)]
    assert set(found(tmp_path, "ext4")) == {2, 3}
    assert set(found(tmp_path, "xfs")) == {1, 2, 3}


def test_mistakes_of_a_search_are_found_before_it_runs(tmp_path: Path) -> None:
    for before, after, cause in (
        ("rate = 200\n", "", "the search has no rate to begin at"),
        ("rate = 200\n", "rate = 2.5\n", "a search begins at a whole rate"),
        ("latency_ns_p99", "latency_p99", '"latency_p99" is no time that pgbench measures'),
        ("latency_ns_p99", "transactions_per_s", '"transactions_per_s" is no time'),
        ('"20ms"', '"0s"', "no time is below 0"),
        ('below = "20ms"', "at_most = 20", "the limit of latency_ns_p99 is below, not at_most"),
        (
            "latency_ns_p99",
            "flushes_per_operation",
            "the limit of flushes_per_operation is at_most, not below",
        ),
        ('metric = "latency_ns_p99", below = "20ms"', 'metric = "seeks_per_operation"', "is at_most"),
        ('"20ms" }', '"20ms", within = "0.1%" }', "a rate is found within 0.5 % to 100 %"),
        (
            "[workloads.oltp]",
            '[workloads.oltp-rate-9]\nworkload = "fio"\npreset = "random-read-4k"\nduration = "2s"\n'
            "[workloads.oltp]",
            '"oltp-rate-9" has the name of a probe of oltp',
        ),
    ):
        assert any(cause in each for each in mistakes(tmp_path, TEXT.replace(before, after)).values())


def test_a_rate_is_searched_by_a_count_per_operation() -> None:
    find = Find(metric="flushes_per_operation", at_most=0.5, within="5%")
    snapshot = snapshot_of({"ext4": 344.0}, (1,), ("oltp",)).model_copy(
        update={"workloads": {"oltp": WorkloadRecord(workload="pgbench", find=find)}}
    )

    def flushing(rate: int, share: float) -> ResultRecord:
        made = made_record(Trial.of("knee", TrialKey("ext4", "oltp", 1, rate)))
        operations = made.operations()
        assert operations is not None
        disks = {"disk0": {"flushes": round(operations.value * share)}}
        return made.model_copy(update={"disks": disks})

    [search] = searches(snapshot, [flushing(200, 0.3), flushing(210, 0.7)]).values()

    assert [probe.kept for probe in search.probes] == [True, False]
    assert search.is_ended
    assert 200 < (search.rate_per_s or 0) < 210
    assert search.find.target == "flushes_per_operation at most 0.5"


def test_the_report_draws_the_knee_and_tables_have_the_rates(tmp_path: Path) -> None:
    run(tmp_path, capacity_runner({"ext4": 400, "xfs": 300}, SCATTER))
    found = results(tmp_path)

    page = page_of(ResultsFolder.open(tmp_path / "results"))
    assert "Latency p99 over the rate" in page
    assert "ext4-oltp" not in page
    searches = plain(study_data(found)["searches"])
    assert set(searches) == {f"{stack}.oltp.s{seed}" for stack in ("ext4", "xfs") for seed in (1, 2, 3)}
    for search in searches.values():
        assert search["is_ended"]
        kept = [probe["kept"] for probe in search["probes"]]
        assert kept == sorted(kept, reverse=True)
        below = max(probe["rate"] for probe in search["probes"] if probe["kept"])
        above = min(probe["rate"] for probe in search["probes"] if not probe["kept"])
        assert below < above <= max(below * 1.05, below + 1)
    table = search_table(found, "oltp")
    assert [row[0] for row in table.rows] == ["ext4", "xfs"]
    for *_, met, missed in table.rows:
        assert float(met.split(" to ")[-1].replace(",", "")) < float(
            missed.split(" to ")[-1].replace(",", "")
        )


def test_advice_ranks_stacks_by_the_rate_that_they_carry(tmp_path: Path) -> None:
    run(tmp_path, capacity_runner({"ext4": 400, "xfs": 200}, SCATTER))

    [advice] = advise(results(tmp_path), [bundled_uses(catalogue())["postgresql-server"]], None)

    assert advice.leaders == ("ext4",)
    assert next(part.kind.name for part in advice.parts) == RATE_FOUND


def test_fio_divides_a_rate_among_directions_and_jobs(tmp_path: Path) -> None:
    text = TEXT[: TEXT.index("[workloads")] + (
        '[workloads.mix]\nworkload = "fio"\npreset = "random-mix-4k"\nduration = "2s"\nrate = 400\n'
        "options = { numjobs = 2 }\n"
    )
    plan = compile_trial(study_in(tmp_path, text), "ext4", "mix", 1)

    [load] = [step for step in plan.steps if step.id == "fio-measure"]
    assert "--rate_iops=150,50" in load.argv
    assert "--rate_process=poisson" in load.argv
